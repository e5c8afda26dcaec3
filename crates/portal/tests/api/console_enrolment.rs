//! From "New gateway" and "New client" to a machine that is connected.

use crate::browser::{Browser, person, signed_in};
use crate::live_machines::{client_with, gateway_with};
use crate::support::{Answer, Running};
use culvert_store::{Role, Site};
use culvert_wire::token::{Token, TokenKind};
use serde_json::json;

/// The bearer of the token that the page shows, as a machine presents it, and the path of the token's page.
fn issued(page: &Answer) -> (String, String) {
    let (_, token) = page.text.split_once("data-copy=\"The token\">").unwrap();
    let token: Token = token.split('<').next().unwrap().parse().unwrap();
    let (_, path) = page.text.split_once("data-path=\"").unwrap();
    let path = path.split('"').next().unwrap();
    (token.bearer.expose().to_string(), path.to_owned())
}

async fn sites(running: &Running) -> Vec<Site> {
    let snapshot = running.store.snapshot(running.account()).await.unwrap();
    snapshot.sites
}

/// A token for a gateway of a new site.
async fn new_gateway(browser: &mut Browser, site: &str) -> Answer {
    let fields = [("new_site", site), ("name", "first"), ("uses", "one")];
    browser.submit("/gateways/new", &fields).await.expect(200)
}

#[tokio::test]
async fn three_clicks_from_the_overview_there_is_a_site_with_a_token_and_the_commands() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    for (page, next) in [("/", "/gateways"), ("/gateways", "/gateways/new")] {
        let page = browser.get(page).await.expect(200);
        assert!(page.text.contains(&format!("href=\"{next}\"")), "{next}");
    }
    let form = browser.get("/gateways/new").await.expect(200);
    assert!(form.text.contains("value=\"office\""), "{}", form.text);
    let shown = new_gateway(&mut browser, "office").await;
    let sites = sites(&running).await;
    assert_eq!(sites.len(), 1);
    assert_eq!(sites[0].name, "office");
    for text in [
        "culvert-gateway_*.deb",
        "/etc/culvert/gateway-token",
        "systemctl enable --now culvert-gateway",
        "docker run",
        "sudo culvert gateway run --enable-forwarding --token-file gateway.token",
        "Waiting for the gateway to connect",
        "for gateways of the site office",
        "Look again",
    ] {
        assert!(shown.text.contains(text), "{text}: {}", shown.text);
    }
    // One of the ways is open, all of them stay while the page follows.
    assert_eq!(shown.text.matches("type=\"radio\"").count(), 3);
    assert_eq!(shown.text.matches("\" checked>").count(), 1);
    assert_eq!(shown.text.matches("<section data-stay>").count(), 2);
    let (_, path) = issued(&shown);
    let again = browser.get(&path).await.expect(200);
    assert!(!again.text.contains("cv_gateway_"), "it is shown once");
}

#[tokio::test]
async fn the_wait_for_a_gateway_ends_with_that_of_the_token_and_not_with_another() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let (token, path) = issued(&new_gateway(&mut browser, "office").await);
    let site = sites(&running).await[0].id;
    let other = crate::live_machines::gateway(&running, site).await;
    let waits = browser.get(&path).await.expect(200).text;
    assert!(
        waits.contains("Waiting for the gateway to connect"),
        "{waits}"
    );
    drop(other);

    let mut browser = signed_in(&running, Role::Auditor).await;
    let _gateway = gateway_with(&running, &token).await;
    let page = browser.get(&path).await.expect(200).text;
    assert!(page.contains("gateway is connected."), "{page}");
    assert!(page.contains("href=\"/gateways/gw_"), "{page}");
    assert!(!page.contains("Waiting"), "{page}");
    assert!(!page.contains("is verified"), "{page}");
}

#[tokio::test]
async fn where_gateways_have_to_be_verified_the_wait_ends_with_that() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let required = json!({"require_verified_gateways": true});
    let account = owner.patch("/api/v1/account", "*", required).await;
    account.expect(200);
    let mut browser = signed_in(&running, Role::Admin).await;
    let (token, path) = issued(&new_gateway(&mut browser, "office").await);
    let _gateway = gateway_with(&running, &token).await;
    let page = browser.get(&path).await.expect(200).text;
    assert!(page.contains("The gateway is verified"), "{page}");
    assert!(page.contains(">Verify it</a>"), "{page}");
}

#[tokio::test]
async fn a_new_gateway_with_faults_names_all_of_them_and_makes_no_site() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let wrong = [
        ("new_site", "a\u{202e}b"),
        ("name", ""),
        ("expires", "soon"),
    ];
    let refused = browser.submit("/gateways/new", &wrong).await.expect(422);
    assert_eq!(
        refused.text.matches("aria-invalid").count(),
        3,
        "{}",
        refused.text
    );
    assert!(sites(&running).await.is_empty());
    new_gateway(&mut browser, "office").await;
    // There is a choice now, and none was made. The new site counts if both are filled in.
    let nothing = [("site", ""), ("new_site", ""), ("name", "second")];
    let refused = browser.submit("/gateways/new", &nothing).await.expect(422);
    assert!(refused.text.contains("choose a site, or name a new one"));
    let both = [("site", "office"), ("new_site", "lab"), ("name", "second")];
    browser.submit("/gateways/new", &both).await.expect(200);
    let chosen = [("site", "lab"), ("new_site", ""), ("name", "third")];
    let shown = browser.submit("/gateways/new", &chosen).await.expect(200);
    assert!(shown.text.contains("of the site lab"), "{}", shown.text);
    // A name that there is makes nothing of both.
    let taken = [("new_site", "office"), ("name", "fourth")];
    browser.submit("/gateways/new", &taken).await.expect(409);
    assert_eq!(sites(&running).await.len(), 2);
    let mut auditor = signed_in(&running, Role::Auditor).await;
    auditor.submit("/gateways/new", &both).await.expect(403);
    auditor.get("/gateways/new").await.expect(403);
}

#[tokio::test]
async fn the_page_of_a_site_leads_to_a_new_gateway_there() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    for name in ["office", "the lab"] {
        browser
            .submit("/sites", &[("name", name)])
            .await
            .expect(303);
    }
    let sites = sites(&running).await;
    let lab = sites.iter().find(|site| site.name == "the lab").unwrap();
    let page = browser.get(&format!("/sites/{}", lab.id)).await.expect(200);
    let path = "/gateways/new?site=the+lab";
    assert!(
        page.text.contains(&format!("href=\"{path}\"")),
        "{}",
        page.text
    );
    let form = browser.get(path).await.expect(200).text;
    assert!(
        form.contains("<option value=\"the lab\" selected>"),
        "{form}"
    );
}

#[tokio::test]
async fn a_new_client_is_signed_in_by_its_person_or_comes_with_a_token() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let list = browser.get("/clients").await.expect(200);
    assert!(list.text.contains("href=\"/clients/new\""));
    let page = browser.get("/clients/new").await.expect(200);
    for text in [
        "culvert sign-in --portal",
        "culvert-client_*.deb",
        "/device",
    ] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
    let account = [("name", "printer")];
    browser
        .submit("/service-accounts", &account)
        .await
        .expect(303);
    let fields = |actor| [("actor", actor), ("name", "its token"), ("uses", "one")];
    let refused = browser.submit("/clients/new", &fields("nobody")).await;
    let refused = refused.expect(422);
    assert_eq!(
        refused.text.matches("aria-invalid").count(),
        1,
        "{}",
        refused.text
    );
    let shown = browser.submit("/clients/new", &fields("printer")).await;
    let shown = shown.expect(200);
    for text in [
        "/etc/culvert/token",
        "systemctl enable --now culvert-client",
        "sudo culvert client run --token-file client.token",
        "Waiting for the client to connect",
        "for clients of printer",
    ] {
        assert!(shown.text.contains(text), "{text}: {}", shown.text);
    }
    let (token, path) = issued(&shown);
    let _client = client_with(&running, &token).await;
    let page = browser.get(&path).await.expect(200).text;
    assert!(page.contains("laptop is connected."), "{page}");
}

#[tokio::test]
async fn people_who_see_their_own_clients_alone_learn_how_to_get_one_and_get_no_token() {
    let running = Running::start().await;
    for (role, way) in [(Role::User, Some("/me/access")), (Role::Auditor, None)] {
        let mut browser = signed_in(&running, role).await;
        let list = browser.get("/clients").await.expect(200).text;
        let link = way.map(|way| format!("<a class=\"way main\" href=\"{way}\">"));
        assert_eq!(list.contains("New client"), link.is_some(), "{list}");
        assert!(link.is_none_or(|link| list.contains(&link)), "{list}");
        browser.get("/clients/new").await.expect(403);
        let (_, name) = person(&running, Role::User).await;
        let fields = [("actor", &*name), ("name", "mine"), ("uses", "one")];
        browser.submit("/clients/new", &fields).await.expect(403);
    }
}

#[tokio::test]
async fn a_session_has_no_page_of_a_token() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let snapshot = running.store.snapshot(running.account()).await.unwrap();
    assert!(!snapshot.tokens.is_empty());
    for token in snapshot.tokens {
        let status = match token.scope.kind() {
            TokenKind::Session | TokenKind::Setup => 404,
            TokenKind::Api | TokenKind::Client | TokenKind::Gateway | TokenKind::Relay => 200,
        };
        let path = format!("/tokens/{}", token.id);
        browser.get(&path).await.expect(status);
    }
}
