//! Actions of the console: each goes back to the page that it came from, and says once what was done, by name.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::console::version_on;
use crate::support::{Running, enrol_client, make_actor};
use culvert_store::{ActorKind, Role};
use serde_json::json;

#[tokio::test]
async fn an_action_in_a_list_keeps_search_and_page_and_names_the_thing_once() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, actor).await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let path = format!("/clients/{client}");
    let name = browser.get(&path).await.expect(200).text;
    let (_, name) = name.split_once("<h1>").unwrap();
    let name = name.split('<').next().unwrap().to_owned();

    let here = format!("/clients?search={}", &name[..4]);
    let list = browser.get(&here).await.expect(200);
    let form = format!("action=\"{path}/revoke\"");
    let (before, form) = list.text.split_once(&form).unwrap();
    assert!(before.ends_with("<form method=\"post\" "), "it is a form");
    // The button stands behind the question, which names the client.
    let question = before.rsplit("<details class=\"loss\">").next().unwrap();
    assert!(question.contains(&format!("Revoke {name}?")), "{question}");
    let escaped = here.replace('&', "&#38;");
    assert!(form.contains(&format!("name=\"back\" value=\"{escaped}\"")));
    let version = version_on(form);

    let fields = [("version", &*version), ("back", &*here)];
    let revoked = browser.submit(&format!("{path}/revoke"), &fields).await;
    assert_eq!(revoked.expect(303).header("location"), here);
    let notice = format!("Client {name} revoked.");
    let shown = browser.get(&here).await.expect(200);
    assert!(shown.text.contains(&notice), "{}", shown.text);
    let again = browser.get(&here).await.expect(200);
    assert!(!again.text.contains(&notice), "a notice is shown once");
}

#[tokio::test]
async fn no_form_leads_back_to_another_site() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    for (back, to) in [
        ("/clients?search=a", "/clients?search=a"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/sign-out", "/"),
        ("", "/"),
    ] {
        let fields = [("theme", "dark"), ("back", back)];
        let answer = browser.submit("/theme", &fields).await.expect(303);
        assert_eq!(answer.header("location"), to, "{back}");
    }
    // The choice holds, on pages of refusals too.
    for (path, status) in [("/sites", 200), ("/sites/site_1", 404)] {
        let page = browser.get(path).await.expect(status);
        assert!(page.text.contains("data-theme=\"dark\""), "{path}");
    }
    let fields = [("theme", "blue"), ("back", "/")];
    browser.submit("/theme", &fields).await.expect(422);
}

#[tokio::test]
async fn a_notice_is_for_the_person_who_acted_alone() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let made = browser.submit("/groups", &[("name", "secret plans")]).await;
    made.expect(303);
    browser.submit("/sign-out", &[]).await.expect(303);
    let (_, other) = person(&running, Role::User).await;
    browser.sign_in(&other, PASSWORD).await.expect(303);
    let page = browser.get("/clients").await.expect(200);
    assert!(!page.text.contains("secret plans"), "{}", page.text);
}

#[tokio::test]
async fn a_link_into_the_console_leads_there_after_signing_in() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut browser = Browser::open(&running).await;
    let wanted = "/log/access?decision=denied&search=caf%C3%A9";
    let asked = browser.get(wanted).await.expect(303);
    let to = asked.header("location").to_owned();
    let page = browser.get(&to).await.expect(200);
    let (_, next) = page.text.split_once("name=\"next\" value=\"").unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    let fields = [("name", &*name), ("password", PASSWORD), ("next", &*next)];
    let arrived = browser.submit("/sign-in", &fields).await.expect(303);
    assert_eq!(arrived.header("location"), wanted);
}

#[tokio::test]
async fn tokens_and_identity_providers_are_searched_on_their_own_pages() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for name in ["red", "blue"] {
        let site = json!({ "name": format!("{name} site") });
        let site = owner.post("/api/v1/sites", site).await.expect(201).json();
        let token =
            json!({ "name": format!("{name} token"), "kind": "gateway", "site": site["id"] });
        owner.post("/api/v1/tokens", token).await.expect(201);
        let provider = json!({
            "name": format!("{name} provider"), "issuer": format!("https://{name}.example"), "client_id": "culvert"
        });
        owner.post("/api/v1/providers", provider).await.expect(201);
    }
    let mut browser = signed_in(&running, Role::Owner).await;
    for (path, what) in [
        ("/settings/tokens", "token"),
        ("/settings/providers", "provider"),
    ] {
        let page = browser.get(&format!("{path}?search=red")).await.expect(200);
        assert!(page.text.contains(&format!("action=\"{path}\"")), "{path}");
        assert!(page.text.contains(&format!("red {what}")), "{path}");
        assert!(!page.text.contains(&format!("blue {what}")), "{path}");
    }
}

#[tokio::test]
async fn lower_limits_of_the_logs_ask_before_entries_go() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let page = browser.get("/settings/retention").await.expect(200);
    let (_, form) = page
        .text
        .split_once("action=\"/settings/retention\"")
        .unwrap();
    let version = version_on(form);
    let mut fields = vec![
        ("flow_log", "no"),
        ("access_days", "1"),
        ("access_entries", "1000"),
        ("flows_days", "1"),
        ("flows_entries", "1000"),
        ("version", &*version),
    ];
    let asked = browser.submit("/settings/retention", &fields).await;
    assert!(asked.expect(200).text.contains("deleted for good"));
    let page = browser.get("/settings/retention").await.expect(200);
    assert!(
        !page
            .text
            .contains("name=\"access_days\" type=\"text\" value=\"1\"")
    );
    fields.push(("sure", "yes"));
    let changed = browser.submit("/settings/retention", &fields).await;
    changed.expect(303);
    let page = browser.get("/settings/retention").await.expect(200);
    assert!(
        page.text
            .contains("name=\"access_days\" type=\"text\" value=\"1\"")
    );
}
