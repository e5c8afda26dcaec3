//! Identity providers and log sinks that are tried out before they are saved.

use crate::browser::{Browser, signed_in};
use crate::console_faults::marked;
use crate::logs::answer;
use crate::openid_provider::{CLIENT_ID, CLIENT_SECRET, Kind, OpenIdProvider};
use crate::support::{Answer, Running};
use culvert_store::Role;
use serde_json::json;
use tokio::net::TcpListener;

const PROVIDERS: &str = "/settings/providers";
const SINKS: &str = "/settings/sinks";

/// The fields of the form, filled in right, with another value of one of them.
fn provider<'a>(openid: &'a OpenIdProvider, other: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    let fields = [
        ("name", "Example"),
        ("issuer", &*openid.issuer),
        ("client_id", CLIENT_ID),
        ("client_secret", CLIENT_SECRET),
        ("scopes", "profile email"),
        ("ca", &*openid.ca),
        ("unknown_people", "refuse"),
        ("act", "test"),
    ];
    let fields = fields.into_iter();
    fields
        .map(|(name, value)| match name == other.0 {
            true => other,
            false => (name, value),
        })
        .collect()
}

async fn are_there(running: &Running, path: &str) -> usize {
    let mut owner = running.owner().await;
    let all = owner.get(path).await.expect(200).json();
    all["items"].as_array().unwrap().len()
}

/// The refusal of a test, which is about this field.
async fn refused(
    browser: &mut Browser,
    path: &str,
    fields: &[(&str, &str)],
    field: &str,
) -> Answer {
    let refused = browser.submit(path, fields).await.expect(422);
    assert_eq!(marked(&refused), [field], "{}", refused.text);
    refused
}

#[tokio::test]
async fn the_form_of_a_provider_shows_the_redirect_uri_and_fills_in_common_issuers() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get("/settings/providers/new").await.expect(200);
    let uri = format!("{}/sign-in/callback", running.portal.whereabouts().url);
    assert!(page.text.contains(&uri), "{}", page.text);
    for (word, issuer) in [
        ("google", "https://accounts.google.com"),
        ("entra", "https://login.microsoftonline.com/TENANT-ID/v2.0"),
        ("okta", "https://YOUR-ORG.okta.com"),
        ("keycloak", "https://KEYCLOAK-HOST/realms/REALM"),
        (
            "authentik",
            "https://AUTHENTIK-HOST/application/o/APPLICATION/",
        ),
    ] {
        let path = format!("/settings/providers/new?template={word}");
        assert!(page.text.contains(&format!("href=\"{path}\"")), "{word}");
        let filled = browser.get(&path).await.expect(200);
        let value = format!("value=\"{issuer}\"");
        assert!(filled.text.contains(&value), "{}", filled.text);
    }
    let unknown = browser
        .get("/settings/providers/new?template=%3Cb%3E")
        .await;
    assert!(!unknown.expect(200).text.contains("<b>"));
}

#[tokio::test]
async fn a_provider_is_tested_and_what_was_typed_stays_but_for_the_secret() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let openid = OpenIdProvider::start(&running, &Kind::default());
    let page = browser
        .submit(PROVIDERS, &provider(&openid, ("", "")))
        .await;
    let page = page.expect(200);
    for shown in [
        "Tested, and not saved yet",
        "accepted",
        "value=\"Example\"",
        &format!("value=\"{}\"", openid.issuer),
        "-----BEGIN CERTIFICATE-----",
        "Type it again: no page shows a secret.",
    ] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    assert!(!page.text.contains("of the test"), "{}", page.text);
    assert_eq!(are_there(&running, "/api/v1/providers").await, 0);
    // The same form without the word creates it.
    let made = provider(&openid, ("act", ""));
    browser.submit(PROVIDERS, &made).await.expect(303);
    assert_eq!(are_there(&running, "/api/v1/providers").await, 1);
}

#[tokio::test]
async fn a_test_of_a_provider_says_which_field_is_wrong_and_writes_nothing() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let openid = OpenIdProvider::start(&running, &Kind::default());
    let nowhere = format!("{}/nowhere", openid.issuer);
    for (field, value, marked, told) in [
        (
            "client_secret",
            "another",
            "client_id",
            "refuses the client id or its secret",
        ),
        (
            "client_id",
            "stranger",
            "client_id",
            "refuses the client id or its secret",
        ),
        ("ca", "", "ca", "certificate"),
        ("issuer", &*nowhere, "issuer", "answers 404"),
        ("issuer", "https://127.0.0.1:1", "issuer", "127.0.0.1:1"),
        ("issuer", "http://id.example", "issuer", "it is a URL like"),
        (
            "issuer",
            "https://id.ex\u{200b}ample",
            "issuer",
            "it must not contain",
        ),
    ] {
        let fields = provider(&openid, (field, value));
        let page = refused(&mut browser, PROVIDERS, &fields, marked).await;
        assert!(page.text.contains(told), "{field} {value}: {}", page.text);
        assert!(page.text.contains("value=\"Example\""));
        assert!(!page.text.contains("of the test"), "{}", page.text);
    }
    assert_eq!(are_there(&running, "/api/v1/providers").await, 0);
    let mut auditor = signed_in(&running, Role::Auditor).await;
    let fields = provider(&openid, ("", ""));
    auditor.submit(PROVIDERS, &fields).await.expect(403);
}

fn endpoint(url: &str) -> Vec<(&str, &str)> {
    vec![
        ("name", "siem"),
        ("logs", "access"),
        ("kind", "http"),
        ("url", url),
        ("token", "planted-sink-secret"),
        ("act", "test"),
    ]
}

#[tokio::test]
async fn a_sink_is_tested_by_one_line_before_it_is_saved() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let fields = endpoint(&url);
    for (status, is_taken) in [("204 No Content", true), ("500 Broken", false)] {
        let test = browser.submit(SINKS, &fields);
        let (page, request) = tokio::join!(test, answer(&listener, status));
        assert!(request.contains("Bearer planted-sink-secret"), "{request}");
        assert!(request.contains("\"test\""), "{request}");
        let text = &page.text;
        assert!(text.contains(&format!("value=\"{url}\"")), "{text}");
        assert!(
            text.contains("Type it again: no page shows a token."),
            "{text}"
        );
        assert!(!text.contains("planted-sink-secret"), "{text}");
        match is_taken {
            true => {
                assert_eq!(page.status, 200);
                assert!(
                    text.contains("It took a test line. It is not saved yet."),
                    "{text}"
                );
            }
            false => {
                assert_eq!(
                    (page.status.as_u16(), &*marked(&page)),
                    (422, &["url".to_owned()] as &[_])
                );
                assert!(text.contains("it took no test line"), "{text}");
            }
        }
    }
    drop(listener);
    refused(&mut browser, SINKS, &fields, "url").await;
    assert_eq!(are_there(&running, "/api/v1/sinks").await, 0);
    let mut auditor = signed_in(&running, Role::Auditor).await;
    auditor.submit(SINKS, &fields).await.expect(403);
}

#[tokio::test]
async fn a_sink_that_is_a_file_is_tested_by_a_line_in_it() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let fields = [
        ("name", "archive"),
        ("logs", "access"),
        ("kind", "file"),
        ("file", "archive.jsonl"),
        ("max_mib", "1"),
        ("keep", "1"),
        ("act", "test"),
    ];
    let page = browser.submit(SINKS, &fields).await.expect(200);
    assert!(page.text.contains("It took a test line."), "{}", page.text);
    let file = running.state.join("logs/archive.jsonl");
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 1);
    assert_eq!(are_there(&running, "/api/v1/sinks").await, 0);
}

#[tokio::test]
async fn a_new_sink_has_a_page_of_its_own_and_is_tested_there_before_it_is_saved() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let list = browser.get(SINKS).await.expect(200).text;
    let at = format!("{SINKS}/new");
    assert!(list.contains(&format!("href=\"{at}\"")), "{list}");
    assert!(!list.contains("class=\"fields\""), "{list}");
    let page = browser.get(&at).await.expect(200).text;
    assert!(page.contains("value=\"test\">Test</button>"), "{page}");
    let fields = |act| {
        [
            ("name", "archive"),
            ("logs", "access"),
            ("kind", "file"),
            ("file", "archive.jsonl"),
            ("max_mib", "1"),
            ("keep", "1"),
            ("act", act),
        ]
    };
    let tested = browser.submit(SINKS, &fields("test")).await.expect(200);
    assert!(tested.text.contains("<h1>New log sink</h1>"));
    assert!(tested.text.contains("value=\"archive.jsonl\""));
    browser.submit(SINKS, &fields("")).await.expect(303);
    let list = browser.get(SINKS).await.expect(200).text;
    assert!(list.contains("Log sink archive created."), "{list}");
    let mut auditor = signed_in(&running, Role::Auditor).await;
    let list = auditor.get(SINKS).await.expect(200).text;
    assert!(!list.contains(&at), "{list}");
}

#[tokio::test]
async fn all_that_is_wrong_with_a_sink_is_told_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let fields = [
        ("name", "Not plain"),
        ("logs", "access"),
        ("kind", "file"),
        ("file", "../log"),
        ("max_mib", "0"),
        ("keep", "1001"),
    ];
    let page = browser.submit(SINKS, &fields).await.expect(422);
    assert_eq!(marked(&page), ["name", "file", "max_mib", "keep"]);
    let mut owner = running.owner().await;
    let sink = json!({"sink": {
        "name": "Not plain", "logs": [],
        "target": {"kind": "file", "file": "../log", "max_mib": 0, "keep": 1001},
    }});
    let refused = owner.post("/api/v1/sinks", sink).await.expect(422).json();
    let errors = refused["errors"].as_array().unwrap().iter();
    let fields: Vec<&str> = errors
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(
        fields,
        ["name", "logs", "file", "max_mib", "keep"],
        "{refused}"
    );
    // Both limits of a log as well.
    let retention = json!({"access": {"days": 0, "entries": 1}});
    let refused = owner.patch("/api/v1/retention", "*", retention).await;
    let refused = refused.expect(422).json();
    assert_eq!(refused["errors"].as_array().unwrap().len(), 2, "{refused}");
}
