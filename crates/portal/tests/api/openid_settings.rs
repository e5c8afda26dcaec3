//! The settings of identity providers: who changes them, their bounds, their pages.

use crate::browser::{person, signed_in};
use crate::openid::Scene;
use crate::openid_provider::{CLIENT_SECRET, Kind, own_name};
use crate::support::{Running, id_of};
use culvert_store::{MAX_SECRET_LEN, Role, StoreExt};
use serde_json::json;

#[tokio::test]
async fn a_secret_of_the_portal_at_a_provider_is_never_shown() {
    let mut scene = Scene::new(&Kind::default(), json!({})).await;
    let mut pages = Vec::new();
    for path in ["/api/v1/providers", "/api/v1/log/changes"] {
        pages.push(scene.owner.get(path).await.text);
    }
    let at = format!("/api/v1/providers/{}", scene.id);
    pages.push(scene.owner.get(&at).await.expect(200).text);
    let mut browser = signed_in(&scene.running, Role::Owner).await;
    own_name(&scene.running, &mut browser);
    for path in [
        "/settings/providers".to_owned(),
        format!("/settings/providers/{}", scene.id),
        "/log/changes".to_owned(),
    ] {
        pages.push(browser.get(&path).await.expect(200).text);
    }
    for page in &pages {
        for part in [CLIENT_SECRET, "of the test"] {
            assert!(!page.contains(part), "{page}");
        }
    }
    assert!(pages.iter().any(|page| page.contains("secret_set")));
    let provider = scene.id.parse().unwrap();
    let account = scene.running.account();
    let row: culvert_store::Provider = scene.running.store.get_as(account, provider).await.unwrap();
    assert!(!format!("{row:?}").contains("of the test"));
}

#[tokio::test]
async fn a_provider_that_owners_come_in_by_is_changed_by_owners_alone() {
    let mut scene = Scene::new(&Kind::default(), json!({})).await;
    let (owner, _) = person(&scene.running, Role::Owner).await;
    let mut admin = scene.running.with_role(Role::Admin).await;
    let at = format!("/api/v1/providers/{}", scene.id);
    let other = json!({"client_id": "other"});
    admin.patch(&at, "*", other.clone()).await.expect(200);
    let link = json!({"provider": scene.id, "subject": "s-1", "actor": owner});
    admin.post("/api/v1/identities", link).await.problem(403);
    let linked = scene.link(&owner.to_string(), "s-1").await.expect(201);
    admin.patch(&at, "*", other).await.problem(403);
    admin.delete(&at).await.problem(403);
    let identity = format!("/api/v1/identities/{}", id_of(&linked.json()));
    admin.delete(&identity).await.problem(403);
    let sessions = format!("/api/v1/actors/{owner}/sessions");
    admin.delete(&sessions).await.problem(403);
    scene.owner.delete(&at).await.expect(204);
}

#[tokio::test]
async fn a_provider_that_can_not_be_one_is_refused_by_its_field() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let good = json!({"name": "A", "issuer": "https://id.example", "client_id": "c"});
    for (field, value) in [
        ("name", json!("")),
        ("issuer", json!("http://id.example")),
        ("issuer", json!("https://user@id.example")),
        ("issuer", json!("https://id.example/?a=b")),
        ("issuer", json!("id.example")),
        ("issuer", json!("https://id.test:99999/")),
        ("issuer", json!("https://id.test:0/realm")),
        ("issuer", json!("https://:8443/realm")),
        ("issuer", json!("https://10.0.0.300/realm")),
        ("issuer", json!("https://id.test:/realm")),
        ("issuer", json!("https://id.test:65536/")),
        ("issuer", json!("https://id.test:+443/")),
        ("issuer", json!("https://id.test:44x/")),
        ("issuer", json!("https://id.test:-1/")),
        ("issuer", json!("https://[::1/")),
        ("issuer", json!("https://2001:db8::1/")),
        ("issuer", json!("https://[::1]:99999/")),
        ("client_id", json!("")),
        ("client_secret", json!("x".repeat(1_025))),
        ("ca", json!("no certificate")),
        ("scopes", json!(["two words"])),
        ("scopes", json!(vec!["x"; 17])),
        ("groups_claim", json!("x".repeat(257))),
        (
            "groups",
            json!([{"value": "x", "group": "grp_00000000000000000000000000"}]),
        ),
        ("unknown_people", json!("maybe")),
    ] {
        let mut wrong = good.clone();
        wrong[field] = value.clone();
        let problem = owner.post("/api/v1/providers", wrong).await.problem(422);
        let named = problem["errors"].to_string();
        assert!(named.contains(field), "{field} {value}: {problem}");
    }
    owner
        .post("/api/v1/providers", good.clone())
        .await
        .expect(201);
    owner.post("/api/v1/providers", good).await.problem(409);
    for number in 1..32 {
        let name = format!("more {number}");
        let more = json!({"name": name, "issuer": "https://id.example", "client_id": "c"});
        owner.post("/api/v1/providers", more).await.expect(201);
    }
    let more = json!({"name": "33", "issuer": "https://id.example", "client_id": "c"});
    owner.post("/api/v1/providers", more).await.problem(409);
}

#[tokio::test]
async fn a_provider_has_a_secret_and_certificates_as_long_as_they_may_be_and_no_longer() {
    const MAX_CA_LEN: usize = 32 * 1024;
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let provider = json!({"name": "A", "issuer": "https://id.example", "client_id": "c"});
    let made = owner.post("/api/v1/providers", provider).await.expect(201);
    let at = format!("/api/v1/providers/{}", id_of(&made.json()));
    let secret = |len: usize| json!({"client_secret": "x".repeat(len)});
    let set = owner.patch(&at, "*", secret(MAX_SECRET_LEN)).await;
    set.expect(200);
    let refused = owner.patch(&at, "*", secret(MAX_SECRET_LEN + 1)).await;
    let problem = refused.problem(422);
    assert_eq!(problem["errors"][0]["field"], "client_secret", "{problem}");

    let authority = rcgen::generate_simple_self_signed(["id.example".to_owned()]).unwrap();
    let pem = authority.cert.pem();
    let pem = pem.trim();
    // Text before a certificate in PEM explains it to people (RFC 7468, section 2).
    let described = |len: usize| {
        let text = "x".repeat(len - pem.len() - 1);
        json!({ "ca": format!("{text}\n{pem}") })
    };
    owner
        .patch(&at, "*", described(MAX_CA_LEN))
        .await
        .expect(200);
    let refused = owner.patch(&at, "*", described(MAX_CA_LEN + 1)).await;
    let problem = refused.problem(422);
    assert_eq!(problem["errors"][0]["field"], "ca", "{problem}");
}

#[tokio::test]
async fn a_provider_is_made_and_changed_by_pages_and_nothing_that_was_written_is_lost() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let group = owner.post("/api/v1/groups", json!({"name": "Staff"})).await;
    group.expect(201);
    let mut browser = signed_in(&running, Role::Admin).await;
    let fields = |name: &'static str, groups: &'static str, version: &'static str| {
        [
            ("name", name),
            ("issuer", "https://id.example"),
            ("client_id", "culvert"),
            ("client_secret", "hush-hush-hush"),
            ("scopes", "profile groups"),
            ("groups_claim", "groups"),
            ("groups", groups),
            ("unknown_people", "make"),
            ("disabled", "no"),
            ("version", version),
        ]
    };
    let at = "/settings/providers";
    let refused = browser
        .submit(at, &fields("Example", "staff", ""))
        .await
        .expect(422);
    assert!(refused.text.contains("is not like") && !refused.text.contains("hush"));
    let refused = browser
        .submit(at, &fields("Example", "a=Nobody", ""))
        .await
        .expect(422);
    assert!(refused.text.contains("a=Nobody"));
    let made = browser
        .submit(at, &fields("Example", "cn=staff=Staff", ""))
        .await
        .expect(303);
    let page = made
        .header("location")
        .split('?')
        .next()
        .unwrap()
        .to_owned();
    let shown = browser.get(&page).await.expect(200);
    assert!(shown.text.contains("cn=staff=Staff") && !shown.text.contains("hush"));
    assert!(shown.text.contains("/sign-in/callback"));
    // Made, and given its secret: that is version 2.
    browser
        .submit(&page, &fields("Renamed", "", "2"))
        .await
        .expect(303);
    let late = browser
        .submit(&page, &fields("Mine", "staff=Staff", "2"))
        .await
        .expect(409);
    assert!(late.text.contains("Renamed") && late.text.contains("value=\"Mine\""));
    let wrong = browser.submit(&page, &fields("", "staff=Staff", "4")).await;
    assert!(wrong.expect(422).text.contains("staff=Staff"));
    let delete = format!("{page}/delete");
    browser
        .submit(&delete, &[("version", "4")])
        .await
        .expect(303);
    browser.get(&page).await.expect(404);
}
