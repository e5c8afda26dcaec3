//! The pages on which somebody adds a plain WireGuard device, sees its file, and gives it another key. The private key and the
//! picture are the browser's (`tests/lab/tests/browser/wireguard.rs`).

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::support::{Answer, Running, enrol_client, enrol_gateway, fresh_key};
use crate::things::{Things, make_things};
use culvert_ids::{ClientId, GatewayId};
use culvert_store::{Client, Role, StoreExt};
use serde_json::json;

const NEW: &str = "/wireguard/new";

/// 32 bytes in Base64.
const SEAL: &str = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

const PLACEHOLDER: &str = "PrivateKey = REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE";

async fn allow_own_devices(running: &Running) {
    let mut owner = running.owner().await;
    let body = json!({"own_devices": true});
    owner.patch("/api/v1/account", "*", body).await.expect(200);
}

/// The fields of a form for this gateway and key.
fn filled(gateway: GatewayId, key: &str) -> Vec<(String, String)> {
    vec![
        (format!("gateways.{gateway}"), "yes".to_owned()),
        (
            format!("endpoints.{gateway}"),
            "vpn.example.com:51820".to_owned(),
        ),
        ("public_key".to_owned(), key.to_owned()),
    ]
}

async fn send(
    browser: &mut Browser,
    path: &str,
    filled: &[(String, String)],
    more: &[(&str, &str)],
) -> Answer {
    let filled = filled.iter().map(|(name, value)| (&**name, &**value));
    let fields: Vec<(&str, &str)> = filled.chain(more.iter().copied()).collect();
    browser.submit(path, &fields).await
}

/// The device that a page with a file is about.
fn device_of(page: &Answer) -> ClientId {
    let (_, rest) = page.text.split_once("href=\"/clients/cli_").unwrap();
    let id = rest.split('"').next().unwrap();
    format!("cli_{id}").parse().unwrap()
}

async fn stored(running: &Running, id: ClientId) -> Client {
    let (store, account) = (running.store.as_ref(), running.account());
    store.get_as(account, id).await.unwrap()
}

fn owner_named(things: &Things) -> String {
    format!("actor {}", things.member)
}

#[tokio::test]
async fn an_administrator_adds_a_device_by_its_public_key_without_a_script() {
    let running = Running::start().await;
    let things = make_things(running.store.as_ref(), running.account()).await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get(NEW).await.expect(200);
    for part in [
        "<h1>Add a WireGuard device</h1>",
        &format!("name=\"gateways.{}\"", things.gateway),
        "<script src=\"/assets/wireguard.js\" defer></script>",
        "culvert admin plain-client add",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let key = fresh_key().to_string();
    let owner = owner_named(&things);
    let more = [("name", "Ada's phone"), ("actor", &*owner)];
    let fields = filled(things.gateway, &key);
    let page = send(&mut browser, NEW, &fields, &more).await.expect(200);
    let client = stored(&running, device_of(&page)).await;
    assert_eq!(client.public_key.to_string(), key);
    assert_eq!(client.actor, things.member);
    assert_eq!(client.gateways, [things.gateway]);
    for part in [
        "WireGuard device Ada&#39;s phone added.",
        PLACEHOLDER,
        "Endpoint = vpn.example.com:51820",
        "data-file=\"Ada-s-phone.conf\"",
        "data-seal=\"\"",
        "Limits of this device",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    // There is no private key to make a picture of.
    assert!(!page.text.contains("Scan this"), "{}", page.text);

    // Lists and pages say what it is.
    let list = browser.get("/clients").await.expect(200);
    assert!(list.text.contains("WireGuard device"), "{}", list.text);
    let page = browser.get(&format!("/clients/{}", client.id)).await;
    let page = page.expect(200).text;
    let file = format!("href=\"/wireguard/{}\"", client.id);
    for part in [
        &*file,
        ">New key</a>",
        "Limits of this device",
        "can be added again",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("not heard yet"), "{page}");
    assert!(page.contains("Last seen"), "{page}");
    assert!(!page.contains("Heard by gateways"), "{page}");
}

#[tokio::test]
async fn the_key_that_opens_the_private_key_comes_back_once_and_no_other_text_does() {
    let running = Running::start().await;
    let things = make_things(running.store.as_ref(), running.account()).await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let owner = owner_named(&things);
    let mut device = None;
    for (name, how, seal, expected) in [
        ("made", "made", SEAL, SEAL),
        ("own", "own", SEAL, ""),
        ("short", "made", "AQ==", ""),
        (
            "a script",
            "made",
            "\"><script>AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "",
        ),
    ] {
        let fields = filled(things.gateway, &fresh_key().to_string());
        let more = [
            ("name", name),
            ("actor", &*owner),
            ("key", how),
            ("seal", seal),
        ];
        let page = send(&mut browser, NEW, &fields, &more).await.expect(200);
        let part = format!("data-seal=\"{expected}\"");
        assert!(page.text.contains(&part), "{name}: {}", page.text);
        let has_picture = page.text.contains("Scan this with the WireGuard app");
        assert_eq!(has_picture, !expected.is_empty(), "{name}");
        device = Some(device_of(&page));
    }
    let again = format!("/wireguard/{}", device.unwrap());
    let page = browser.get(&again).await.expect(200);
    assert!(page.text.contains("data-seal=\"\""), "{}", page.text);
    assert!(page.text.contains(PLACEHOLDER), "{}", page.text);
}

#[tokio::test]
async fn a_refused_form_keeps_its_input_and_names_all_wrong_fields() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let more = [("name", ""), ("actor", "nobody"), ("public_key", "phone")];
    let page = browser.submit(NEW, &more).await.expect(422);
    assert_eq!(page.text.matches("class=\"wrong\"").count(), 4, "{page:?}");

    let owner = owner_named(&things);
    let more = [("name", "phone"), ("actor", &*owner), ("key", "own")];
    let key = fresh_key().to_string();
    let mut fields = filled(things.gateway, &key);
    "vpn.example.com".clone_into(&mut fields[1].1);
    let page = send(&mut browser, NEW, &fields, &more).await.expect(422);
    for part in [
        "expected HOST:PORT",
        "value=\"vpn.example.com\"",
        &format!("name=\"gateways.{}\" value=\"yes\" checked", things.gateway),
        &format!("value=\"{key}\""),
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }

    // Two gateways of one site lead to the same networks.
    let (other, _) = enrol_gateway(store, account, things.site).await;
    let mut fields = filled(things.gateway, &key);
    fields.push((format!("gateways.{other}"), "yes".to_owned()));
    let page = send(&mut browser, NEW, &fields, &more).await.expect(422);
    assert!(page.text.contains("are of one site"), "{}", page.text);

    // A key that another device has.
    let fields = filled(things.gateway, &key);
    send(&mut browser, NEW, &fields, &more).await.expect(200);
    let more = [("name", "tablet"), ("actor", &*owner), ("key", "own")];
    let page = send(&mut browser, NEW, &fields, &more).await.expect(409);
    assert!(page.text.contains("value=\"tablet\""), "{}", page.text);
    // The browser's key is made anew each time.
    let more = [("name", "tablet"), ("actor", &*owner), ("key", "made")];
    let page = send(&mut browser, NEW, &fields, &more).await.expect(409);
    assert!(!page.text.contains(&key), "{}", page.text);
}

#[tokio::test]
async fn people_add_devices_of_their_own_where_the_account_lets_them() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let (actor, name) = person(&running, Role::User).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let fields = filled(things.gateway, &fresh_key().to_string());
    let more = [("name", "phone")];
    browser.get(NEW).await.expect(403);
    send(&mut browser, NEW, &fields, &more).await.expect(403);
    let access = browser.get("/me/access").await.expect(200);
    assert!(!access.text.contains(NEW), "{}", access.text);

    allow_own_devices(&running).await;
    let access = browser.get("/me/access").await.expect(200);
    assert!(access.text.contains(NEW), "{}", access.text);
    let page = browser.get(NEW).await.expect(200);
    assert!(!page.text.contains("name=\"actor\""), "{}", page.text);
    // An owner in the form counts for nothing.
    let other = owner_named(&things);
    let more = [("name", "phone"), ("actor", &*other)];
    let page = send(&mut browser, NEW, &fields, &more).await.expect(200);
    let id = device_of(&page);
    let before = stored(&running, id).await;
    assert_eq!(before.actor, actor);

    let at = format!("/wireguard/{id}");
    let page = browser.get(&at).await.expect(200);
    assert!(page.text.contains("Replace the key"), "{}", page.text);
    let key = fresh_key().to_string();
    let version = before.stamp.version.to_string();
    let fields = filled(things.gateway, &key);
    let more = [("version", &*version), ("key", "made"), ("seal", SEAL)];
    let path = format!("{at}/key");
    let page = send(&mut browser, &path, &fields, &more).await.expect(200);
    assert!(page.text.contains("has a new key."), "{}", page.text);
    assert!(page.text.contains(SEAL), "{}", page.text);
    let after = stored(&running, id).await;
    assert_eq!(after.public_key.to_string(), key);
    // The page was of the earlier version.
    let fields = filled(things.gateway, &fresh_key().to_string());
    send(&mut browser, &path, &fields, &more).await.expect(412);

    // Another's is not there, and their own is renamed and deleted.
    let foreign = format!("/wireguard/{}", things.plain);
    browser.get(&foreign).await.expect(404);
    let foreign = format!("{foreign}/key");
    send(&mut browser, &foreign, &fields, &more)
        .await
        .expect(404);
    let version = after.stamp.version.to_string();
    let rename = [("version", &*version), ("name", "tablet")];
    let at = format!("/clients/{id}");
    browser
        .submit(&format!("{at}/name"), &rename)
        .await
        .expect(303);
    let renamed = stored(&running, id).await;
    assert_eq!(renamed.name, "tablet");
    let page = browser.get(&at).await.expect(200);
    assert!(page.text.contains("/delete\""), "{}", page.text);
    let version = renamed.stamp.version.to_string();
    let delete = [("version", &*version)];
    browser
        .submit(&format!("{at}/delete"), &delete)
        .await
        .expect(303);
    browser.get(&at).await.expect(404);
}

#[tokio::test]
async fn an_auditor_sees_the_file_of_a_device_and_no_form() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let things = make_things(store, account).await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    let at = format!("/wireguard/{}", things.plain);
    let page = browser.get(&at).await.expect(200);
    assert!(page.text.contains(PLACEHOLDER), "{}", page.text);
    assert!(!page.text.contains("Replace the key"), "{}", page.text);
    let page = browser.get(&format!("/clients/{}", things.plain)).await;
    let page = page.expect(200).text;
    assert!(page.contains("Show the file again"), "{page}");
    assert!(!page.contains(">New key</a>"), "{page}");
    browser.get(NEW).await.expect(403);
    // A machine with Culvert has no such file.
    let (laptop, _) = enrol_client(store, account, things.member).await;
    browser
        .get(&format!("/wireguard/{laptop}"))
        .await
        .expect(409);
}

#[tokio::test]
async fn the_account_says_whether_people_add_devices() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let at = "/settings/account";
    for (word, text) in [
        ("yes", "people add their own as well"),
        ("no", "administrators alone add them"),
    ] {
        let account = running.owner().await.get("/api/v1/account").await.json();
        let version = account["version"].to_string();
        let fields = [
            ("version", &*version),
            ("name", "Example"),
            ("grant_lifetime_s", "600"),
            ("own_devices", word),
        ];
        browser.submit(at, &fields).await.expect(303);
        let page = browser.get(at).await.expect(200).text;
        assert!(page.contains(&format!("<dd>{text}</dd>")), "{page}");
        let account = running.owner().await.get("/api/v1/account").await.json();
        assert_eq!(account["own_devices"], word == "yes");
    }
    let fields = [("version", "1"), ("name", "x"), ("own_devices", "some")];
    let page = browser.submit(at, &fields).await.expect(422);
    assert!(page.text.contains("choose one of those"), "{}", page.text);
}
