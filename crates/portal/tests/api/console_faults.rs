//! Refused forms of the console: each wrong field is named at once, and the first of them has the focus.

use crate::browser::signed_in;
use crate::console::version_on;
use crate::support::{Answer, Running};
use culvert_store::Role;
use serde_json::json;

/// A path, the form that is sent there, and its fields that are wrong.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);

/// The fields that a page marks as wrong, in its order.
pub(crate) fn marked(page: &Answer) -> Vec<String> {
    let inputs = page
        .text
        .split('<')
        .filter(|tag| tag.contains("aria-invalid=\"true\""));
    let name = |tag: &str| {
        tag.split(" name=\"")
            .nth(1)?
            .split('"')
            .next()
            .map(str::to_owned)
    };
    inputs.filter_map(name).collect()
}

/// The field that has the focus when the page opens.
fn focused(page: &Answer) -> String {
    let tags: Vec<&str> = page
        .text
        .split('<')
        .filter(|tag| tag.contains(" autofocus"))
        .collect();
    assert_eq!(tags.len(), 1, "{tags:?}");
    let name = tags[0].split(" name=\"").nth(1).unwrap_or("none=\"");
    name.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_policy_with_six_wrong_fields_is_told_all_six_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let fields = [
        ("name", ""),
        ("group", "nobody"),
        ("resource", "nothing"),
        ("time", "sometimes"),
        ("from_address", "203.0.113.0/33"),
        ("country", "XX"),
        ("expires", "soon"),
    ];
    let refused = browser.submit("/policies", &fields).await.expect(422);
    let wrong = marked(&refused);
    for (field, _) in fields {
        assert!(wrong.iter().any(|name| name == field), "{field}: {wrong:?}");
    }
    assert_eq!(focused(&refused), wrong[0]);
    // Each says why, and the page keeps what was written.
    assert_eq!(
        refused.text.matches("class=\"wrong\"").count(),
        fields.len()
    );
    assert!(refused.text.contains("value=\"soon\""), "{}", refused.text);
}

#[tokio::test]
async fn a_policy_that_is_changed_to_something_wrong_is_told_all_of_it_and_stays() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner
        .post("/api/v1/sites", json!({"name": "hq"}))
        .await
        .expect(201)
        .json();
    let resource = json!({
        "name": "wiki", "site": site["id"], "kind": "address", "address": "10.0.0.1", "filters": []
    });
    let resource = owner
        .post("/api/v1/resources", resource)
        .await
        .expect(201)
        .json();
    let group = owner
        .post("/api/v1/groups", json!({"name": "staff"}))
        .await
        .expect(201)
        .json();
    let policy = json!({"name": "staff to wiki", "group": group["id"], "resource": resource["id"]});
    let policy = owner
        .post("/api/v1/policies", policy)
        .await
        .expect(201)
        .json();
    let path = format!("/policies/{}", policy["id"].as_str().unwrap());
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get(&path).await.expect(200);
    let (_, form) = page.text.split_once(&format!("action=\"{path}\"")).unwrap();
    let fields = [
        ("version", &*version_on(form)),
        ("name", "  "),
        ("group", "staff"),
        ("resource", "wikis"),
        ("country", "XX"),
        ("expires", "soon"),
    ];
    let refused = browser.submit(&path, &fields).await.expect(422);
    let mut wrong = marked(&refused);
    assert_eq!(focused(&refused), wrong[0]);
    wrong.sort();
    assert_eq!(wrong, ["country", "expires", "name", "resource"]);
    let now = owner
        .get(&format!("/api/v1{path}"))
        .await
        .expect(200)
        .json();
    assert_eq!(now["name"], "staff to wiki");
}

#[tokio::test]
async fn a_resource_is_told_all_that_is_wrong_with_it_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let fields = [
        ("name", ""),
        ("site", "nowhere"),
        ("address", "10.90.0.300"),
        ("filters", "tcp:0"),
        ("within", "10.0.0.0/40"),
        ("applications", "sometimes"),
    ];
    let refused = browser.submit("/resources/new", &fields).await.expect(422);
    assert_eq!(marked(&refused), fields.map(|(name, _)| name));
    assert_eq!(focused(&refused), "name");
}

#[tokio::test]
async fn tokens_providers_and_sinks_are_told_all_that_is_wrong_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let token = [
        ("name", ""),
        ("kind", "gateway"),
        ("site", "nowhere"),
        ("uses", "many"),
        ("expires", "soon"),
    ];
    let provider = [
        ("name", ""),
        ("issuer", "http://id.example"),
        ("client_id", ""),
        ("scopes", "a\"b"),
        ("groups", "staff=nobody\nnothing"),
        ("unknown_people", "refuse"),
        ("ca", "none"),
    ];
    let sink = [
        ("name", "Not plain"),
        ("logs", "access"),
        ("kind", "file"),
        ("file", "log"),
        ("max_mib", "none"),
        ("keep", "0"),
    ];
    let cases: [Case<'_>; 3] = [
        ("/settings/tokens", &token, &["name", "site", "expires"]),
        (
            "/settings/providers",
            &provider,
            &["name", "issuer", "client_id", "scopes", "groups", "ca"],
        ),
        ("/settings/sinks", &sink, &["name", "max_mib", "keep"]),
    ];
    for (path, fields, wrong) in cases {
        let refused = browser.submit(path, fields).await.expect(422);
        assert_eq!(marked(&refused), wrong, "{path}");
        assert_eq!(focused(&refused), wrong[0], "{path}");
    }
}

#[tokio::test]
async fn the_first_resource_is_told_all_that_is_wrong_with_it_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let site = [("step", "site"), ("site", "office")];
    browser.submit("/first-steps", &site).await.expect(303);
    let fields = [
        ("step", "resource"),
        ("name", ""),
        ("address", "10.90.0.300"),
        ("filters", "tcp:none"),
        ("group", "everyone"),
    ];
    let refused = browser.submit("/first-steps", &fields).await.expect(422);
    assert_eq!(marked(&refused), ["name", "address", "filters"]);
    assert_eq!(focused(&refused), "name");
}

#[tokio::test]
async fn settings_are_told_all_that_is_wrong_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let account = [
        ("name", ""),
        ("grant_lifetime_s", "59"),
        ("range4", "10.0.0.0"),
        ("range6", "fd00::/130"),
        ("applications", "sometimes"),
    ];
    let dns = [
        ("search", "a..b\ngood.example\n-"),
        ("domains", "corp.example nowhere\nb..c 10.0.0.1"),
    ];
    let retention = [
        ("flow_log", "no"),
        ("access_days", "0"),
        ("access_entries", "many"),
        ("flows_days", "4000"),
        ("flows_entries", "1"),
        ("change_days", "-1"),
    ];
    let cases: [Case<'_>; 3] = [
        (
            "/settings/account",
            &account,
            &[
                "name",
                "grant_lifetime_s",
                "range4",
                "range6",
                "applications",
            ],
        ),
        ("/dns", &dns, &["search", "domains"]),
        (
            "/settings/retention",
            &retention,
            &[
                "access_days",
                "access_entries",
                "flows_days",
                "flows_entries",
                "change_days",
            ],
        ),
    ];
    for (path, fields, wrong) in cases {
        let mut fields = fields.to_vec();
        fields.push(("version", "1"));
        let refused = browser.submit(path, &fields).await.expect(422);
        assert_eq!(marked(&refused), wrong, "{path}");
        assert_eq!(focused(&refused), wrong[0], "{path}");
        // Of a text of many lines, each wrong one is named.
        if path == "/dns" {
            for line in ["line 1: ", "line 2: ", "line 3: "] {
                assert!(refused.text.contains(line), "{line}{}", refused.text);
            }
        }
    }
}

#[tokio::test]
async fn the_api_names_all_wrong_fields_at_once() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner
        .post("/api/v1/sites", json!({"name": "hq"}))
        .await
        .expect(201)
        .json();
    let resource = json!({
        "name": "", "site": site["id"], "kind": "address", "address": "127.0.0.1",
        "filters": [{"protocol": "tcp", "ports": [0]}]
    });
    let refused = owner
        .post("/api/v1/resources", resource)
        .await
        .expect(422)
        .json();
    let fields: Vec<&str> = refused["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| error["field"].as_str().unwrap())
        .collect();
    assert_eq!(fields, ["name", "address", "filters[0]"], "{refused}");
}
