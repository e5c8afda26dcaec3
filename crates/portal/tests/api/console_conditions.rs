//! The form of a policy's conditions, and the rows of a resource's ports.

use crate::browser::{Browser, signed_in};
use crate::console::version_on;
use crate::support::{Answer, Running, id_of};
use culvert_store::Role;
use serde_json::{Value, json};

async fn made(running: &Running, path: &str, body: Value) -> String {
    let mut owner = running.owner().await;
    id_of(&owner.post(path, body).await.expect(201).json())
}

/// A group `staff` and a resource `wiki`.
async fn scene(running: &Running) -> Browser {
    let site = made(running, "/api/v1/sites", json!({"name": "hq"})).await;
    made(running, "/api/v1/groups", json!({"name": "staff"})).await;
    let wiki = json!({
        "name": "wiki", "site": site, "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    made(running, "/api/v1/resources", wiki).await;
    signed_in(running, Role::Admin).await
}

const PLACE: [(&str, &str); 3] = [("name", "p"), ("group", "staff"), ("resource", "wiki")];

/// Creates a policy with these fields.
async fn create(browser: &mut Browser, fields: &[(&str, &str)]) -> Answer {
    browser
        .submit("/policies", &[&PLACE, fields].concat())
        .await
}

/// The conditions of the only policy.
async fn conditions(running: &Running) -> Value {
    let mut owner = running.owner().await;
    let all = owner.get("/api/v1/policies").await.expect(200).json();
    all["items"][0]["conditions"].clone()
}

/// The field's part of a page.
fn field<'t>(page: &'t Answer, name: &str) -> &'t str {
    let fields = page.text.split("<div class=\"field\">");
    let mut fields = fields.filter(|field| field.contains(&format!("-{name}\"")));
    fields
        .next()
        .unwrap_or_else(|| panic!("{name}: {}", page.text))
}

/// The path of the only policy's page.
async fn policy_page(running: &Running) -> String {
    let mut owner = running.owner().await;
    let all = owner.get("/api/v1/policies").await.expect(200).json();
    format!("/policies/{}", all["items"][0]["id"].as_str().unwrap())
}

#[tokio::test]
async fn days_are_boxes_times_are_fields_and_countries_have_names() {
    let running = Running::start().await;
    let mut browser = scene(&running).await;
    let page = browser.get("/policies/new").await.expect(200);
    for shown in [
        "name=\"days.mon\"",
        "<option value=\"Europe/Berlin\">",
        "<option value=\"Germany\">",
        "type=\"datetime-local\"",
    ] {
        assert!(page.text.contains(shown), "{shown}");
    }
    assert!(page.text.len() < 60_000, "{}", page.text.len());
    let fields = [
        ("days.mon", "yes"),
        ("days.wed", "yes"),
        ("from", "8:00"),
        ("until", "18:00"),
        ("zone", "europe/berlin"),
        ("time", "Sat,Sun 10:00-16:00\nFri 22:00-24:00 Europe/Berlin"),
        ("country", "Germany, south korea"),
    ];
    create(&mut browser, &fields).await.expect(303);
    let made = conditions(&running).await;
    let window = |days: &[&str], from: &str, until: &str| json!({"days": days, "from": from, "until": until});
    let windows = [
        window(&["mon", "wed"], "08:00", "18:00"),
        window(&["sat", "sun"], "10:00", "16:00"),
        window(&["fri"], "22:00", "24:00"),
    ];
    let expected = json!([
        {"kind": "time", "zone": "Europe/Berlin", "windows": windows},
        {"kind": "country", "countries": ["DE", "KR"]},
    ]);
    assert_eq!(made, expected);
    // The page of the policy has the same fields, and sending them as they are changes nothing.
    let path = policy_page(&running).await;
    let page = browser.get(&path).await.expect(200);
    assert!(field(&page, "days").contains("name=\"days.mon\" value=\"yes\" checked"));
    assert!(!field(&page, "days").contains("name=\"days.tue\" value=\"yes\" checked"));
    assert!(field(&page, "from").contains("value=\"08:00\""));
    assert!(field(&page, "zone").contains("value=\"Europe/Berlin\""));
    assert!(field(&page, "country").contains("value=\"Germany, South Korea\""));
    let further = "sat,sun 10:00-16:00 Europe/Berlin\nfri 22:00-24:00 Europe/Berlin";
    assert!(
        field(&page, "time").contains(further),
        "{}",
        field(&page, "time")
    );
    let form = page
        .text
        .split(&format!("action=\"{path}\""))
        .nth(1)
        .unwrap();
    let version = version_on(form);
    let mut same = fields.to_vec();
    same.push(("version", &version));
    let same = [&PLACE, &*same].concat();
    browser.submit(&path, &same).await.expect(303);
    assert_eq!(conditions(&running).await, expected);
}

#[tokio::test]
async fn days_without_times_are_whole_days() {
    let running = Running::start().await;
    let mut browser = scene(&running).await;
    create(&mut browser, &[("days.sun", "yes")])
        .await
        .expect(303);
    let windows = json!([{"days": ["sun"], "from": "00:00", "until": "24:00"}]);
    let expected = json!([{"kind": "time", "zone": "UTC", "windows": windows}]);
    assert_eq!(conditions(&running).await, expected);
}

#[tokio::test]
async fn a_policy_ends_by_words_by_a_day_or_by_a_moment_of_the_calendar() {
    let running = Running::start().await;
    let mut browser = scene(&running).await;
    for (fields, end) in [
        (vec![("expires", "2099-12-31")], "2100-01-01T00:00:00Z"),
        (
            vec![("expires", "2099-12-31 18:00")],
            "2099-12-31T18:00:00Z",
        ),
        (
            vec![("expires", "2099-12-31T18:00:00Z")],
            "2099-12-31T18:00:00Z",
        ),
        (
            vec![("expires", "2099-12-31 18:00"), ("zone", "Europe/Berlin")],
            "2099-12-31T17:00:00Z",
        ),
        (
            vec![("picked", "2099-12-31T18:00"), ("zone", "Europe/Berlin")],
            "2099-12-31T17:00:00Z",
        ),
    ] {
        create(&mut browser, &fields).await.expect(303);
        let made = conditions(&running).await;
        assert_eq!(made, json!([{"kind": "expires", "at": end}]), "{fields:?}");
        let path = policy_page(&running).await;
        let mut owner = running.owner().await;
        owner
            .send(
                "DELETE",
                &format!("/api/v1{path}"),
                &[("if-match", "*")],
                None,
            )
            .await
            .expect(204);
    }
    for words in ["tomorrow", "in 7 days", "4h"] {
        create(&mut browser, &[("expires", words)])
            .await
            .expect(303);
        let path = policy_page(&running).await;
        let mut owner = running.owner().await;
        owner
            .send(
                "DELETE",
                &format!("/api/v1{path}"),
                &[("if-match", "*")],
                None,
            )
            .await
            .expect(204);
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_condition_is_said_at_its_field_and_stays_there() {
    let running = Running::start().await;
    let mut browser = scene(&running).await;
    let long = "9".repeat(10_000);
    for (fields, name, told) in [
        (vec![("from", "8:00")], "days", "choose the days"),
        (
            vec![("days.mon", "yes"), ("from", "25:00")],
            "from",
            "from 00:00 to 24:00",
        ),
        (
            vec![("days.mon", "yes"), ("from", "8")],
            "from",
            "from 00:00 to 24:00",
        ),
        (
            vec![("days.mon", "yes"), ("until", "8:60")],
            "until",
            "from 00:00 to 24:00",
        ),
        (
            vec![("days.mon", "yes"), ("until", &*long)],
            "until",
            "from 00:00 to 24:00",
        ),
        (
            vec![("days.mon", "yes"), ("from", "8:00"), ("until", "08:00")],
            "until",
            "the minute",
        ),
        (
            vec![("days.mon", "yes"), ("from", "24:00"), ("until", "8:00")],
            "time",
            "",
        ),
        (
            vec![("days.mon", "yes"), ("zone", "Mars/Base")],
            "zone",
            "choose a time zone",
        ),
        (vec![("zone", "\u{202e}UTC")], "zone", "choose a time zone"),
        (vec![("zone", "<b>")], "zone", "choose a time zone"),
        (
            vec![("time", "sometimes")],
            "time",
            "it must be DAYS FROM-UNTIL ZONE",
        ),
        (
            vec![("country", "Germany, Atlantis")],
            "country",
            "`Atlantis` is no country",
        ),
        (vec![("country", "German")], "country", "is it Germany?"),
        (
            vec![("country", "Ger\u{200b}many")],
            "country",
            "is no country",
        ),
        (vec![("country", &*long)], "country", "is no country"),
        (
            vec![("expires", "2099-02-30")],
            "expires",
            "the calendar has no 2099-02-30",
        ),
        (
            vec![("expires", "soon")],
            "expires",
            "a day such as tomorrow",
        ),
        (
            vec![("expires", &*long)],
            "expires",
            "a day such as tomorrow",
        ),
        (
            vec![("expires", "tomorrow"), ("picked", "2099-01-01T08:00")],
            "expires",
            "one of the two",
        ),
        (
            vec![("picked", "2027-03-28T02:30"), ("zone", "Europe/Berlin")],
            "picked",
            "the clocks of Europe/Berlin skip that time",
        ),
    ] {
        let refused = create(&mut browser, &fields).await.expect(422);
        let part = field(&refused, name);
        assert!(
            part.contains("class=\"wrong\"") && part.contains(told),
            "{fields:?}: {part}"
        );
        assert_eq!(
            refused.text.matches("class=\"wrong\"").count(),
            1,
            "{fields:?}"
        );
        assert!(!refused.text.contains("<b>"), "{fields:?}");
        assert!(
            refused.text.contains("value=\"staff\" selected"),
            "{fields:?}"
        );
    }
    let boxes = [("days.tue", "yes"), ("from", "25:00")];
    let refused = create(&mut browser, &boxes).await.expect(422);
    assert!(field(&refused, "days").contains("name=\"days.tue\" value=\"yes\" checked"));
    assert!(field(&refused, "from").contains("value=\"25:00\""));
}

#[tokio::test]
async fn protocols_and_ports_of_a_resource_are_rows() {
    let running = Running::start().await;
    let mut browser = scene(&running).await;
    let page = browser.get("/resources/new").await.expect(200);
    let rows = field(&page, "filters");
    assert_eq!(rows.matches("<select ").count(), 3, "{rows}");
    assert!(rows.contains("nobody can use it"), "{rows}");
    let place = [("name", "db"), ("site", "hq"), ("address", "10.0.0.2")];
    let send = |rows: &[(&'static str, &'static str)]| [&place, rows].concat();
    for (rows, told) in [
        (
            vec![("protocol.0", "tcp"), ("ports.0", "70000")],
            "row 1: write ports",
        ),
        (
            vec![("protocol.0", ""), ("ports.0", "80")],
            "row 1: choose a protocol",
        ),
        (vec![("protocol.0", "tcp"), ("ports.0", "0")], "port 0"),
        (
            vec![("protocol.0", "any"), ("ports.0", "80")],
            "only TCP and UDP have ports",
        ),
        (
            vec![("protocol.0", "<b>"), ("ports.0", "80")],
            "choose a protocol of the list",
        ),
    ] {
        let refused = browser
            .submit("/resources/new", &send(&rows))
            .await
            .expect(422);
        let part = field(&refused, "filters");
        assert!(
            part.contains("class=\"wrong\"") && part.contains(told),
            "{rows:?}: {part}"
        );
        assert!(
            part.contains(&format!("value=\"{}\"", rows[1].1)),
            "{rows:?}: {part}"
        );
    }
    let rows = [
        ("protocol.0", "tcp"),
        ("ports.0", "80, 443"),
        ("protocol.2", "icmp"),
        ("ports.2", ""),
    ];
    let made = browser
        .submit("/resources/new", &send(&rows))
        .await
        .expect(303);
    let path = made.header("location").to_owned();
    let page = browser.get(&path).await.expect(200);
    assert!(
        !page.text.contains("It allows no protocol"),
        "{}",
        page.text
    );
    let rows = field(&page, "filters");
    assert!(rows.contains("value=\"80, 443\""), "{rows}");
    assert_eq!(rows.matches(" selected").count(), 3, "{rows}");
    let mut owner = running.owner().await;
    let shown = owner
        .get(&format!("/api/v1{path}"))
        .await
        .expect(200)
        .json();
    let expected = json!([{"protocol": "tcp", "ports": [80, 443]}, {"protocol": "icmp"}]);
    assert_eq!(shown["filters"], expected);
    let none = [("name", "bare"), ("site", "hq"), ("address", "10.0.0.3")];
    let made = browser.submit("/resources/new", &none).await.expect(303);
    let path = made.header("location").to_owned();
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("It allows no protocol"), "{}", page.text);
}
