//! Fields in which things that there are get chosen: never typed whole.

use crate::browser::{Browser, signed_in};
use crate::support::{Answer, Running, birth, id_of, now};
use culvert_ids::{ActorId, GroupId};
use culvert_store::{Actor, ActorKind, Author, Entity, Group, Mutation, Role, Stamp};
use serde_json::{Value, json};

/// The bound of a page, in bytes.
const MAX_PAGE_BYTES: usize = 150_000;

async fn made(running: &Running, path: &str, body: Value) -> String {
    let mut owner = running.owner().await;
    id_of(&owner.post(path, body).await.expect(201).json())
}

async fn write(running: &Running, rows: impl Iterator<Item = Entity>) {
    let rows = rows.map(Mutation::Create).collect();
    let write = running
        .store
        .write(running.account(), Author::PORTAL, now(), rows);
    write.await.unwrap();
}

fn group(name: String) -> Entity {
    let (born, random) = birth();
    let (id, stamp) = (GroupId::new(born, random), Stamp::default());
    Group { id, name, stamp }.into()
}

fn actor(name: String) -> Entity {
    let (born, random) = birth();
    Actor {
        id: ActorId::new(born, random),
        kind: ActorKind::User,
        name,
        disabled: false,
        sign_in: None,
        stamp: Stamp::default(),
    }
    .into()
}

/// A resource of a site of its own.
async fn resource(running: &Running, name: &str) -> String {
    let site = made(
        running,
        "/api/v1/sites",
        json!({ "name": format!("site of {name}") }),
    )
    .await;
    let resource = json!({
        "name": name, "site": site, "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    made(running, "/api/v1/resources", resource).await
}

/// The element with this tag that a field has.
pub(crate) fn element<'t>(page: &'t Answer, tag: &str, name: &str) -> Option<&'t str> {
    let (opening, closing) = (format!("<{tag} "), format!("</{tag}>"));
    let mut elements = page.text.split(&*opening).skip(1);
    let element = elements.find(|element| {
        let opening = element.split('>').next().unwrap();
        opening.contains(&format!("name=\"{name}\""))
    })?;
    element.split(&*closing).next()
}

async fn members(running: &Running, group: &str) -> Vec<String> {
    let mut owner = running.owner().await;
    let path = format!("/api/v1/groups/{group}/members");
    let found = owner.get(&path).await.expect(200).json();
    let items = found["items"].as_array().unwrap().iter();
    let mut names: Vec<_> = items
        .map(|item| item["actor_name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_group_and_a_resource_are_chosen_from_lists_where_there_are_few() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let none = browser.get("/policies/new").await.expect(200);
    let list = element(&none, "select", "group").unwrap();
    assert!(list.contains("There is none yet"), "{list}");
    for name in ["staff", "guests <b>&"] {
        made(&running, "/api/v1/groups", json!({ "name": name })).await;
    }
    resource(&running, "wiki").await;
    let page = browser.get("/policies/new").await.expect(200);
    let list = element(&page, "select", "group").unwrap();
    assert!(
        list.contains("<option value=\"staff\">staff</option>"),
        "{list}"
    );
    assert!(list.contains("guests &#60;b&#62;&#38;"), "{list}");
    assert!(
        list.split('>').next().unwrap().contains(" required"),
        "{list}"
    );
    // The only resource is chosen already.
    let list = element(&page, "select", "resource").unwrap();
    assert!(list.contains("value=\"wiki\" selected"), "{list}");
    // The address fills the form in.
    let path = "/policies/new?group=STAFF&resource=wiki&name=staff+to+wiki";
    let page = browser.get(path).await.expect(200);
    let list = element(&page, "select", "group").unwrap();
    assert!(list.contains("value=\"staff\" selected"), "{list}");
    assert!(page.text.contains("value=\"staff to wiki\""));
    // A form that comes back keeps the choice.
    let long = "long".repeat(100);
    let fields = [("name", &*long), ("group", "staff"), ("resource", "wiki")];
    let refused = browser.submit("/policies", &fields).await.expect(422);
    let list = element(&refused, "select", "group").unwrap();
    assert!(list.contains("value=\"staff\" selected"), "{list}");
    // The site of a resource as well.
    let page = browser.get("/resources/new").await.expect(200);
    let list = element(&page, "select", "site").unwrap();
    assert!(list.contains("value=\"site of wiki\" selected"), "{list}");
}

#[tokio::test]
async fn of_many_groups_a_part_of_a_name_is_enough_and_several_are_offered() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    write(
        &running,
        (0..60).map(|number| group(format!("farm {number:02}"))),
    )
    .await;
    resource(&running, "wiki").await;
    let page = browser.get("/policies/new").await.expect(200);
    let field = element(&page, "input", "group").unwrap();
    assert!(field.contains(" list=\"l-new-policy-group\""), "{field}");
    assert!(field.contains(" data-choices=\"group\""), "{field}");
    assert!(page.text.contains("<option value=\"farm 00\">"));
    let policy = page.header("content-security-policy").to_owned();
    assert!(policy.contains("connect-src 'self'"), "{policy}");
    let send = |group| [("name", "p"), ("group", group), ("resource", "wiki")];
    // Several fit: those are a list, and nothing was created.
    let refused = browser
        .submit("/policies", &send("FARM 3"))
        .await
        .expect(422);
    let list = element(&refused, "select", "group").unwrap();
    assert_eq!(list.matches("<option value=\"farm 3").count(), 10, "{list}");
    assert!(list.contains("None of these"), "{list}");
    let told = "10 have &#34;FARM 3&#34; in their names: choose one of them";
    assert!(refused.text.contains(told), "{}", refused.text);
    // More fit than a list shows: it says so.
    let refused = browser.submit("/policies", &send("farm")).await.expect(422);
    let list = element(&refused, "select", "group").unwrap();
    assert_eq!(list.matches("<option value=\"farm ").count(), 50);
    assert!(list.contains("of 10 more"), "{list}");
    // None of these: the form asks for a name again.
    let again = browser.submit("/policies", &send("")).await.expect(422);
    let field = element(&again, "input", "group").unwrap();
    assert!(field.contains("aria-invalid"), "{field}");
    assert!(again.text.contains("choose a group"), "{}", again.text);
    // Nothing fits: the text stays.
    let none = browser.submit("/policies", &send("barn")).await.expect(422);
    let field = element(&none, "input", "group").unwrap();
    assert!(field.contains("value=\"barn\""), "{field}");
    assert!(!browser.get("/policies").await.text.contains(">p</a>"));
    // One thing fits.
    browser.submit("/policies", &send("m 37")).await.expect(303);
    let list = browser.get("/policies").await.expect(200);
    assert!(list.text.contains(">farm 37</a>"), "{}", list.text);
}

#[tokio::test]
async fn a_whole_name_is_taken_although_others_have_it_in_theirs() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    for name in ["dev", "dev ops", "old dev"] {
        made(&running, "/api/v1/groups", json!({ "name": name })).await;
    }
    resource(&running, "wiki").await;
    let fields = [("name", "p"), ("group", "Dev"), ("resource", "wiki")];
    browser.submit("/policies", &fields).await.expect(303);
    let list = browser.get("/policies").await.expect(200);
    assert!(list.text.contains(">dev</a>"), "{}", list.text);
}

async fn choices(browser: &mut Browser, kind: &str, text: &str) -> Answer {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("kind", kind)
        .append_pair("text", text)
        .finish();
    browser.get(&format!("/choices?{query}")).await
}

#[tokio::test]
async fn the_script_of_a_form_finds_names_and_people_without_the_right_find_none() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    write(
        &running,
        (0..60).map(|number| group(format!("farm {number:02}"))),
    )
    .await;
    let found = choices(&mut browser, "group", "M 5").await.expect(200);
    assert!(found.header("content-type").starts_with("application/json"));
    let names: Vec<String> = (50..60).map(|number| format!("farm {number}")).collect();
    assert_eq!(found.json(), json!(names));
    let first = choices(&mut browser, "group", "").await.expect(200);
    assert_eq!(first.json().as_array().unwrap().len(), 50);
    let long = "x".repeat(1_000);
    for text in [
        "%",
        "_",
        "<b>",
        "\u{202e}farm",
        "fa\u{200b}rm",
        "'; --",
        &long,
    ] {
        let found = choices(&mut browser, "group", text).await.expect(200);
        assert_eq!(found.json(), json!([]), "{text:?}");
    }
    for kind in ["token", "", "groups"] {
        let found = choices(&mut browser, kind, "").await.expect(200);
        assert_eq!(found.json(), json!([]), "{kind}");
    }
    let mut user = signed_in(&running, Role::User).await;
    choices(&mut user, "group", "farm").await.expect(403);
    choices(&mut user, "token", "farm").await.expect(403);
}

#[tokio::test]
async fn members_are_added_to_a_group_several_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let id = made(&running, "/api/v1/groups", json!({"name": "staff"})).await;
    write(
        &running,
        ["clara", "piotr", "yuki"]
            .map(|name| actor(name.to_owned()))
            .into_iter(),
    )
    .await;
    let path = format!("/groups/{id}");
    let page = browser.get(&path).await.expect(200);
    assert!(
        page.text.contains("name=\"chosen.clara\" value=\"yes\">"),
        "{}",
        page.text
    );
    let both = [("chosen.clara", "yes"), ("chosen.yuki", "yes")];
    browser.submit(&path, &both).await.expect(303);
    assert_eq!(members(&running, &id).await, ["clara", "yuki"]);
    let page = browser.get(&path).await.expect(200);
    assert!(
        page.text.contains("clara, yuki added to group staff."),
        "{}",
        page.text
    );
    assert!(
        !page.text.contains("chosen.clara"),
        "it is no choice any more"
    );
    // Nothing is chosen, and something unknown: nothing is added.
    let nothing = browser.submit(&path, &[]).await.expect(422);
    assert!(
        nothing.text.contains("Choose at least one."),
        "{}",
        nothing.text
    );
    let some = [("chosen.piotr", "yes"), ("actors", "nobody\nno one")];
    let refused = browser.submit(&path, &some).await.expect(422);
    for told in [
        "nobody",
        "no one",
        "name=\"chosen.piotr\" value=\"yes\" checked",
    ] {
        assert!(refused.text.contains(told), "{told}: {}", refused.text);
    }
    assert_eq!(members(&running, &id).await, ["clara", "yuki"]);
    // One that is there already changes nothing.
    let again = [("chosen.piotr", "yes"), ("actor", "clara")];
    browser.submit(&path, &again).await.expect(303);
    assert_eq!(members(&running, &id).await, ["clara", "piotr", "yuki"]);
}

#[tokio::test]
async fn of_many_people_members_are_named_on_lines_and_those_that_fit_are_boxes() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let id = made(&running, "/api/v1/groups", json!({"name": "staff"})).await;
    write(
        &running,
        (0..60).map(|number| actor(format!("worker {number:02}"))),
    )
    .await;
    let path = format!("/groups/{id}");
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("data-choices=\"actor\""));
    assert!(!page.text.contains("name=\"chosen."));
    let lines = [("actors", "worker 07\nER 08\nworker 3")];
    let refused = browser.submit(&path, &lines).await.expect(422);
    assert_eq!(refused.text.matches("name=\"chosen.worker 3").count(), 10);
    assert!(
        refused
            .text
            .contains("worker 07\nER 08\nworker 3</textarea>"),
        "{}",
        refused.text
    );
    assert!(members(&running, &id).await.is_empty());
    let lines = [
        ("actor", "ker 01"),
        ("actors", "worker 07\nER 08"),
        ("chosen.worker 31", "yes"),
    ];
    browser.submit(&path, &lines).await.expect(303);
    let there = ["worker 01", "worker 07", "worker 08", "worker 31"];
    assert_eq!(members(&running, &id).await, there);
    let many = vec!["worker 07"; 201].join("\n");
    let refused = browser
        .submit(&path, &[("actors", &many)])
        .await
        .expect(422);
    assert!(refused.text.contains("at most 200"), "{}", refused.text);
}

#[tokio::test]
async fn a_person_is_added_to_several_groups_from_their_page() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let groups = ["staff", "admins", "night shift"].map(|name| group(name.to_owned()));
    write(&running, groups.into_iter()).await;
    let clara = json!({"name": "clara", "kind": "user"});
    let id = made(&running, "/api/v1/actors", clara).await;
    let page = browser.get(&format!("/people/{id}")).await.expect(200);
    assert!(
        page.text.contains("name=\"chosen.night shift\""),
        "{}",
        page.text
    );
    let path = format!("/people/{id}/groups");
    let two = [("chosen.staff", "yes"), ("chosen.night shift", "yes")];
    browser.submit(&path, &two).await.expect(303);
    let page = browser.get(&format!("/people/{id}")).await.expect(200);
    assert!(page.text.contains("clara added to "), "{}", page.text);
    assert!(page.text.contains("name=\"chosen.admins\""));
    assert!(!page.text.contains("name=\"chosen.staff\""));
    browser
        .submit(&path, &[("group", "night")])
        .await
        .expect(303);
    browser.submit(&path, &[("group", "<b>")]).await.expect(422);
    let mut auditor = signed_in(&running, Role::Auditor).await;
    auditor.submit(&path, &two).await.expect(403);
}

#[tokio::test]
async fn pages_with_10_000_things_to_choose_from_stay_small() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let name = |number| format!("a name as long as those of people and groups get {number:05}");
    write(&running, (0..10_000).map(|number| group(name(number)))).await;
    write(&running, (0..10_000).map(|number| actor(name(number)))).await;
    let id = resource(&running, "wiki").await;
    let staff = made(&running, "/api/v1/groups", json!({"name": "staff"})).await;
    let clara = json!({"name": "clara", "kind": "user"});
    let clara = made(&running, "/api/v1/actors", clara).await;
    for path in [
        "/policies/new".to_owned(),
        "/policies/new?group=people".to_owned(),
        format!("/resources/{id}"),
        format!("/groups/{staff}"),
        format!("/people/{clara}"),
    ] {
        let page = browser.get(&path).await.expect(200);
        assert!(
            page.text.len() < MAX_PAGE_BYTES,
            "{path}: {}",
            page.text.len()
        );
    }
    let fields = [("name", "p"), ("group", "people"), ("resource", "wiki")];
    let refused = browser.submit("/policies", &fields).await.expect(422);
    assert!(
        refused.text.len() < MAX_PAGE_BYTES,
        "{}",
        refused.text.len()
    );
}

#[tokio::test]
async fn a_new_resource_says_that_nobody_may_use_it_and_leads_to_a_policy_for_it() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    made(&running, "/api/v1/sites", json!({"name": "hq"})).await;
    made(&running, "/api/v1/groups", json!({"name": "staff"})).await;
    let fields = [
        ("name", "wiki & more"),
        ("site", "hq"),
        ("address", "10.0.0.1"),
        ("filters", "tcp:443"),
    ];
    let made = browser.submit("/resources/new", &fields).await.expect(303);
    let page = made.header("location").to_owned();
    assert!(page.starts_with("/resources/res_"), "{page}");
    let shown = browser.get(&page).await.expect(200);
    assert!(
        shown.text.contains("Nobody may use it yet"),
        "{}",
        shown.text
    );
    let link = "href=\"/policies/new?resource=wiki+%26+more\"";
    assert!(shown.text.contains(link), "{}", shown.text);
    let form = browser
        .get("/policies/new?resource=wiki+%26+more")
        .await
        .expect(200);
    let list = element(&form, "select", "resource").unwrap();
    assert!(
        list.contains("value=\"wiki &#38; more\" selected"),
        "{list}"
    );
    let fields = [
        ("name", "p"),
        ("group", "staff"),
        ("resource", "wiki & more"),
    ];
    browser.submit("/policies", &fields).await.expect(303);
    let shown = browser.get(&page).await.expect(200);
    assert!(
        !shown.text.contains("Nobody may use it yet"),
        "{}",
        shown.text
    );
}
