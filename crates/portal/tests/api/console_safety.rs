//! The console against those who mean harm, and those who may not.

use crate::browser::{Browser, PASSWORD, encode, person, signed_in};
use crate::console_routes::{forms, is_before_signing_in, pages};
use crate::support::{Running, enrol_client, enrol_client_as, enrol_gateway, make_actor};
use culvert_store::{ActorKind, Role, Seq};
use serde_json::json;

/// Forms of who has not signed in, and of the own sign-in.
fn is_own(form: &str) -> bool {
    form.starts_with("/me")
        || form.starts_with("/device/")
        || form.starts_with("/confirm/")
        || is_before_signing_in(form)
        || form == "/sign-out"
}

async fn seq(running: &Running) -> Seq {
    running.store.snapshot(running.account()).await.unwrap().seq
}

/// The portal's own scripts, where a page has them.
const SCRIPTS: [&str; 3] = [
    "<script src=\"/assets/console.js\" defer></script>",
    "<script src=\"/assets/forms.js\" defer></script>",
    "<script src=\"/assets/wireguard.js\" defer></script>",
];

fn without_scripts(text: &str) -> String {
    SCRIPTS
        .iter()
        .fold(text.to_owned(), |text, script| text.replace(script, ""))
}

#[tokio::test]
async fn pages_load_nothing_from_elsewhere_and_run_no_script_but_the_portals() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    for path in pages() {
        let page = browser.get(&path).await.expect(200);
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"));
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
        assert_eq!(page.header("cache-control"), "no-store");
        assert_eq!(page.header("x-content-type-options"), "nosniff");
        let text = without_scripts(&page.text);
        for (at, _) in text.match_indices("src=") {
            assert!(text[at..].starts_with("src=\"/assets/"), "{path}");
        }
        let is_scripted = text.len() < page.text.len();
        for part in ["<script", "style=", " onclick", "http://"] {
            assert!(!text.contains(part), "{path} has {part}");
        }
        let allowed = "script-src 'self'; connect-src 'self'";
        assert_eq!(policy.contains(allowed), is_scripted, "{path}: {policy}");
        assert_eq!(policy.contains("script-src"), is_scripted, "{path}");
        assert_eq!(policy.contains("trusted-types 'none'"), is_scripted);
        assert!(page.text.contains("<html lang=\"en\">"), "{path}");
        assert!(page.text.contains("href=\"#content\""), "{path}");
        for (at, _) in page.text.match_indices("<label for=\"") {
            let id = page.text[at + 12..].split('"').next().unwrap();
            assert!(page.text.contains(&format!("id=\"{id}\"")), "{path}: {id}");
        }
    }
    let style = browser.get("/assets/style.css").await.expect(200);
    assert_eq!(style.header("content-type"), "text/css; charset=utf-8");
    for (at, _) in style.text.match_indices("url(") {
        let own = "url(\"/assets/";
        assert!(style.text[at..].starts_with(own), "it loads from elsewhere");
    }
    for path in [
        "/assets/console.js",
        "/assets/forms.js",
        "/assets/wireguard.js",
    ] {
        let script = browser.get(path).await.expect(200);
        assert_eq!(
            script.header("content-type"),
            "text/javascript; charset=utf-8"
        );
        for part in [
            "eval",
            "Function(",
            "innerHTML",
            "insertAdjacent",
            "document.write",
            "http",
        ] {
            assert!(!script.text.contains(part), "the script has {part}");
        }
    }
}

#[tokio::test]
async fn who_has_not_signed_in_sees_no_page_and_sends_no_form() {
    let running = Running::start().await;
    person(&running, Role::Owner).await;
    let before = seq(&running).await;
    for cookie in [
        None,
        Some("__Host-culvert=nonsense".to_owned()),
        Some(format!("__Host-culvert={}", running.setup_token())),
    ] {
        let mut browser = Browser::open(&running).await;
        for path in pages() {
            browser.cookie.clone_from(&cookie);
            let answer = browser.get(&path).await.expect(303);
            assert!(answer.header("location").starts_with("/sign-in"), "{path}");
        }
        for form in forms().iter().filter(|form| !is_before_signing_in(form)) {
            browser.cookie.clone_from(&cookie);
            let answer = browser.submit_with(form, "", &[]).await.expect(303);
            // A browser with a session is told that it has ended.
            let had_session = cookie.is_some() && !matches!(&**form, "/theme" | "/sign-out");
            let to = match had_session {
                true => "/sign-in?next=%2F&form=gone",
                false => "/sign-in",
            };
            assert_eq!(answer.header("location"), to, "{form}");
        }
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

/// An API token is no session, and a session no API token.
#[tokio::test]
async fn a_session_is_good_for_the_console_alone() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let session = browser.cookie.clone().unwrap();
    let session = session.split_once('=').unwrap().1.to_owned();
    let mut api = running.client().await.with(&session);
    api.get("/api/v1/account").await.problem(401);
    browser.client.set_token(Some(&session));
    browser.cookie = None;
    browser.get("/").await.expect(303);
}

#[tokio::test]
async fn a_form_that_no_page_of_this_session_sent_changes_nothing() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let mut other = signed_in(&running, Role::Owner).await;
    let (own, foreign) = (browser.form_token().await, other.form_token().await);
    let before = seq(&running).await;
    let strange: [&[(&str, &str)]; 6] = [
        &[],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://localhost")],
        &[("sec-fetch-site", "cross-site")],
        &[
            ("origin", "https://localhost"),
            ("sec-fetch-site", "same-site"),
        ],
    ];
    for form in forms() {
        browser.move_on(&running).await;
        for headers in strange {
            let body = encode(&own, &[("name", "x"), ("version", "1")]);
            let answer = browser.send("POST", &form, headers, Some(body)).await;
            assert_eq!(answer.status, 403, "{form} {headers:?}");
        }
        if is_before_signing_in(&form) {
            continue;
        }
        for token in ["", "wrong", &foreign] {
            let fields = [("name", "x"), ("version", "1")];
            let answer = browser.submit_with(&form, token, &fields).await;
            assert_eq!(answer.status, 403, "{form} {token}");
        }
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn a_session_that_someone_else_chose_is_never_taken_over() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let attacker = signed_in(&running, Role::Auditor).await;
    let mut victim = Browser::open(&running).await;
    victim.cookie.clone_from(&attacker.cookie);
    victim.sign_in(&name, PASSWORD).await.expect(303);
    assert_ne!(victim.cookie, attacker.cookie);
    let mut victim_then = Browser::open(&running).await;
    victim_then.cookie.clone_from(&attacker.cookie);
    victim_then.get("/").await.expect(303);
}

#[tokio::test]
async fn signing_in_leads_to_no_other_site() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    for (next, to) in [
        ("/resources", "/resources"),
        ("//evil.example", "/"),
        ("https://evil.example/", "/"),
        ("/\\evil.example", "/"),
        ("/resources@evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/sign-out", "/"),
        ("", "/"),
    ] {
        let mut browser = Browser::open(&running).await;
        let fields = [("name", &*name), ("password", PASSWORD), ("next", next)];
        let answer = browser.submit("/sign-in", &fields).await.expect(303);
        assert_eq!(answer.header("location"), to, "{next}");
    }
}

#[tokio::test]
async fn a_name_that_is_not_the_portals_gets_no_page() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let before = seq(&running).await;
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
    ] {
        host.clone_into(&mut browser.client.host);
        for path in ["/", "/sign-in", "/people"] {
            browser.get(path).await.expect(421);
        }
        let answer = browser.submit_with("/sites", "", &[("name", "x")]).await;
        answer.expect(421);
    }
    let own = running.portal.whereabouts().url;
    browser.client.host = own.trim_start_matches("https://").to_owned();
    browser.get("/").await.expect(200);
    assert_eq!(seq(&running).await, before);
}

#[tokio::test]
async fn what_people_write_is_text_on_every_page() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let mut owner = running.owner().await;
    let evil = |at: usize| format!("<script>alert({at})</script>\"'&<b>");
    let made = |answer: crate::support::Answer| crate::support::id_of(&answer.expect(201).json());
    let site = made(owner.post("/api/v1/sites", json!({"name": evil(1)})).await);
    let group = made(owner.post("/api/v1/groups", json!({"name": evil(2)})).await);
    let actor = json!({"name": evil(3), "kind": "user"});
    let actor = made(owner.post("/api/v1/actors", actor).await);
    let resource = json!({
        "site": site, "name": evil(4), "kind": "address", "address": "10.0.0.1",
        "filters": [{"protocol": "any"}],
    });
    let resource = made(owner.post("/api/v1/resources", resource).await);
    let policy = json!({"name": evil(5), "group": group, "resource": resource});
    let policy = made(owner.post("/api/v1/policies", policy).await);
    let provider = json!({"name": evil(10), "issuer": "https://id.example", "client_id": evil(11)});
    let provider = made(owner.post("/api/v1/providers", provider).await);
    let identity = json!({"provider": provider, "subject": evil(12), "actor": actor});
    made(owner.post("/api/v1/identities", identity).await);
    let token = json!({"name": evil(6), "kind": "client", "actor": actor});
    owner.post("/api/v1/tokens", token).await.expect(201);
    let member = json!({ "actor": actor });
    let path = format!("/api/v1/groups/{group}/members");
    owner.post(&path, member).await.expect(201);
    let parsed = actor.parse().unwrap();
    let (store, account) = (running.store.as_ref(), running.account());
    // An administrator did not write the text that a machine sends about itself.
    let (client, _) = enrol_client_as(store, account, parsed, &evil(13)).await;
    let (gateway, _) = enrol_gateway(store, account, site.parse().unwrap()).await;
    for (path, name) in [
        (format!("/api/v1/clients/{client}"), evil(7)),
        (format!("/api/v1/gateways/{gateway}"), evil(14)),
    ] {
        let patch = json!({ "name": name });
        owner.patch(&path, "*", patch).await.expect(200);
    }
    owner
        .patch("/api/v1/account", "*", json!({"name": evil(8)}))
        .await
        .expect(200);

    let mut pages: Vec<String> = pages();
    pages.extend([
        format!("/sites/{site}"),
        format!("/groups/{group}"),
        format!("/people/{actor}"),
        format!("/resources/{resource}"),
        format!("/policies/{policy}"),
        format!("/clients/{client}"),
        format!("/gateways/{gateway}"),
        format!("/settings/providers/{provider}"),
        "/resources?search=%3Cscript%3E%22".to_owned(),
        "/explain?client=%3Cscript%3E%22&resource=%3Cscript%3E".to_owned(),
        "/sign-in?next=%22%3E%3Cscript%3E".to_owned(),
        "/resources?done=%3Cscript%3E".to_owned(),
        "/log/changes?entity=%22%3E%3Cscript%3E".to_owned(),
    ]);
    let mut shown = String::new();
    for path in &pages {
        let page = browser.get(path).await;
        assert!(
            page.status == 200 || page.status == 422,
            "{path} {}",
            page.status
        );
        let text = without_scripts(&page.text);
        for (at, _) in text.match_indices("src=") {
            assert!(text[at..].starts_with("src=\"/assets/"), "{path}");
        }
        for part in ["<script", "<b>", "\"'&<"] {
            assert!(!text.contains(part), "{path} has {part}");
        }
        shown.push_str(&page.text);
    }
    // 9 is of the forms below.
    for planted in (1..=14).filter(|planted| *planted != 9) {
        let text = format!("&#60;script&#62;alert({planted})");
        assert!(shown.contains(&text), "{planted} is shown, as text");
    }
    for (form, fields) in [
        ("/sites", vec![("name", evil(1))]),
        ("/people", vec![("name", evil(3)), ("kind", evil(9))]),
        (
            "/resources/new",
            vec![("name", evil(9)), ("filters", evil(9)), ("site", evil(9))],
        ),
        (
            "/sign-in",
            vec![("name", evil(9)), ("password", evil(9)), ("next", evil(9))],
        ),
        (
            "/set-up",
            vec![("owner", evil(9)), ("account", evil(9)), ("token", evil(9))],
        ),
    ] {
        let fields: Vec<_> = fields
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let page = browser.submit(form, &fields).await;
        assert!(page.status.is_client_error(), "{form} {}", page.status);
        assert!(!without_scripts(&page.text).contains("<script"), "{form}");
    }
}

#[tokio::test]
async fn an_auditor_sees_every_page_and_sends_no_form() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    let token = browser.form_token().await;
    let before = seq(&running).await;
    for path in pages() {
        let page = browser.get(&path).await;
        // A page that is only a form is refused to a person who may not send it.
        let wanted = if path.ends_with("/new") { 403 } else { 200 };
        let page = page.expect(wanted);
        assert!(
            path == "/me" || !page.text.contains("class=\"grave\""),
            "{path}"
        );
    }
    for form in forms().iter().filter(|form| !is_own(form)) {
        let fields = [
            ("name", "x"),
            ("version", "1"),
            ("role", "user"),
            ("kind", "user"),
        ];
        let answer = browser.submit_with(form, &token, &fields).await;
        // A caller without the right is refused before anything is looked up, or the thing named is
        // not found.
        let refused = [403, 404, 422].contains(&answer.status.as_u16());
        assert!(refused, "{form} {}", answer.status);
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn a_user_sees_and_gives_up_the_own_clients_and_nothing_else() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let (user, name) = person(&running, Role::User).await;
    let (own, _) = enrol_client(store, account, user).await;
    let other = make_actor(store, account, ActorKind::User).await;
    let (foreign, _) = enrol_client(store, account, other).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let token = browser.form_token().await;
    for path in pages() {
        let page = browser.get(&path).await;
        match &*path {
            "/me" | "/me/access" | "/me/second-factor" | "/clients" | "/device" | "/confirm"
            | "/confirm/done" => {
                assert_eq!(page.status, 200);
            }
            "/" => assert_eq!(page.header("location"), "/me/access"),
            _ => assert_eq!(page.status, 403, "{path}"),
        }
        assert!(!page.text.contains(&foreign.to_string()), "{path}");
    }
    let clients = browser.get("/clients").await.expect(200);
    assert!(clients.text.contains(&own.to_string()));
    let before = seq(&running).await;
    let fields = [
        ("name", "x"),
        ("version", "1"),
        ("role", "user"),
        ("kind", "user"),
    ];
    for form in forms().iter().filter(|form| !is_own(form)) {
        let answer = browser.submit_with(form, &token, &fields).await;
        let refused = [403, 404, 422].contains(&answer.status.as_u16());
        assert!(refused, "{form} {}", answer.status);
    }
    for (client, word, status) in [
        (foreign, "revoke", 404),
        (foreign, "verify", 403),
        (own, "verify", 403),
        (own, "unverify", 403),
    ] {
        let path = format!("/clients/{client}/{word}");
        let answer = browser.submit_with(&path, &token, &fields).await;
        assert_eq!(answer.status, status, "{word}");
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
    let path = format!("/clients/{own}/revoke");
    browser
        .submit_with(&path, &token, &fields)
        .await
        .expect(303);
    assert_ne!(seq(&running).await, before);
}

#[tokio::test]
async fn an_admin_gives_nobody_the_ways_of_an_owner() {
    let running = Running::start().await;
    let (owner, _) = person(&running, Role::Owner).await;
    let (admin, _) = person(&running, Role::Admin).await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let before = seq(&running).await;
    let fields = |role| [("role", role), ("password", PASSWORD), ("version", "2")];
    for (actor, role) in [(owner, "admin"), (owner, "owner"), (admin, "owner")] {
        let path = format!("/people/{actor}/sign-in");
        browser.submit(&path, &fields(role)).await.expect(403);
    }
    for word in ["end-sign-in", "reset-second-factor", "disable"] {
        let path = format!("/people/{owner}/{word}");
        browser.submit(&path, &[("version", "2")]).await.expect(403);
    }
    assert_eq!(seq(&running).await, before, "nothing was changed");
}

#[tokio::test]
async fn forms_are_bounded_and_forms_alone() {
    let running = Running::start().await;
    let mut browser = Browser::open(&running).await;
    let origin = [("origin", "https://localhost")];
    let long = format!("name={}", "x".repeat(64 * 1024));
    let answer = browser.send("POST", "/sign-in", &origin, Some(long)).await;
    answer.expect(413);
    // A body that is too long to be read ends the connection.
    let mut browser = Browser::open(&running).await;
    let headers = [
        ("origin", "https://localhost"),
        ("content-type", "application/json"),
    ];
    let body = Some(b"{}".to_vec());
    let answer = browser
        .client
        .send("POST", "/sign-in", &headers, body)
        .await;
    answer.expect(400);
    let twice = Some("name=a&name=b".to_owned());
    let answer = browser.send("POST", "/sign-in", &origin, twice).await;
    answer.expect(400);
}
