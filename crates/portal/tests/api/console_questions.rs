//! Questions to the console: Explain and the logs choose things from lists, and days begin where the administrator is.

use crate::browser::{Browser, signed_in};
use crate::console_choices::element;
use crate::console_explain::World;
use crate::console_faults::marked;
use crate::support::{enrol_client, enrol_gateway, id_of, make_actor};
use culvert_store::{AccessEntry, ActorKind, Decision, MAX_NAME_CHARS, Role};
use serde_json::json;

/// A world with a gateway in its site.
async fn world() -> World {
    let world = World::make().await;
    let (store, account) = (world.running.store.as_ref(), world.running.account());
    enrol_gateway(store, account, world.site.parse().unwrap()).await;
    world
}

#[tokio::test]
async fn explain_and_the_logs_choose_from_lists() {
    let world = world().await;
    let mut browser = signed_in(&world.running, Role::Auditor).await;
    let client = format!("client {}", world.client);
    for (path, fields) in [
        ("/explain", &["client", "resource"][..]),
        (
            "/log/access",
            &["actor", "client", "resource", "gateway"][..],
        ),
        (
            "/log/flows",
            &["actor", "client", "resource", "gateway"][..],
        ),
        ("/log/changes", &["actor"][..]),
    ] {
        let page = browser.get(path).await.expect(200);
        for field in fields {
            let list = element(&page, "select", field);
            let list = list.unwrap_or_else(|| panic!("{path}: {field} is no list: {}", page.text));
            let is_question = path == "/explain";
            assert_eq!(list.contains(">all</option>"), !is_question, "{list}");
            assert!(list.matches("<option").count() >= 2, "{path}: {list}");
            if *field == "client" {
                assert!(list.contains(&client), "{path}: {list}");
            }
        }
    }
    // The question on the page of a thing as well.
    let path = format!("/resources/{}", world.resource);
    let page = browser.get(&path).await.expect(200);
    let list = element(&page, "select", "client").unwrap();
    assert!(list.contains(&client), "{list}");
    for path in [
        format!("/clients/{}", world.client),
        format!("/people/{}", world.actor),
    ] {
        let page = browser.get(&path).await.expect(200);
        let list = element(&page, "select", "resource").unwrap();
        assert!(list.contains("value=\"web\""), "{path}: {list}");
    }
}

#[tokio::test]
async fn a_part_of_a_name_is_enough_for_a_question_and_of_several_one_is_chosen() {
    let world = world().await;
    let mut browser = signed_in(&world.running, Role::Auditor).await;
    let part = world.client.to_string()[8..].to_uppercase();
    let path = format!("/explain?client={part}&resource=WE");
    let page = browser.get(&path).await.expect(200);
    assert!(page.text.contains("Would it be let in?"), "{}", page.text);
    let path = format!("/log/access?client={part}&resource=we&from=1h");
    browser.get(&path).await.expect(200);

    let (store, account) = (world.running.store.as_ref(), world.running.account());
    let actor = make_actor(store, account, ActorKind::User).await;
    enrol_client(store, account, actor).await;
    for path in [
        "/explain?client=client&resource=web",
        "/log/access?client=client",
    ] {
        let page = browser.get(path).await.expect(422);
        assert_eq!(marked(&page), ["client"], "{path}");
        let list = element(&page, "select", "client").unwrap();
        assert!(list.contains("None of these"), "{path}: {list}");
    }
    // All wrong fields are named at once.
    let path = "/log/access?client=nobody&actor=nobody&gateway=nowhere&resource=none&until=never";
    let page = browser.get(path).await.expect(422);
    let all = ["actor", "client", "resource", "gateway", "until"];
    assert_eq!(marked(&page), all);
    let page = browser
        .get("/explain?client=nobody&resource=&port=many")
        .await;
    assert_eq!(marked(&page.expect(422)), ["client", "resource", "port"]);
}

#[tokio::test]
async fn the_script_of_a_page_finds_clients_and_gateways_of_thousands() {
    let world = world().await;
    let mut browser = signed_in(&world.running, Role::Auditor).await;
    for (kind, text) in [("client", &*world.client.to_string()), ("gateway", "")] {
        let path = format!("/choices?kind={kind}&text={text}");
        let found = browser.get(&path).await.expect(200).json();
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
    }
}

#[tokio::test]
async fn a_browser_sends_the_filter_of_a_log_without_a_choice() {
    let world = world().await;
    let mut browser = signed_in(&world.running, Role::Auditor).await;
    for log in ["access", "changes", "flows"] {
        let page = browser.get(&format!("/log/{log}")).await.expect(200).text;
        let form = page.split("<form class=\"fields\"").nth(1).unwrap();
        let form = form.split("</form>").next().unwrap();
        assert!(!form.contains(" required"), "{log}: {form}");
    }
}

/// The ends of requests in the access log that a page shows.
async fn shown(browser: &mut Browser, query: &str) -> usize {
    let path = format!("/log/access?{query}");
    let page = browser.get(&path).await.expect(200).text;
    page.matches("<span class=\"badge good\">granted").count()
}

#[tokio::test]
async fn days_of_a_log_begin_at_midnight_in_the_zone_of_its_address() {
    let world = world().await;
    let entry = |at: &str| AccessEntry {
        at: at.parse().unwrap(),
        client: world.client,
        actor: Some(world.actor),
        resource: world.resource.parse().unwrap(),
        gateway: None,
        policy: None,
        grant: None,
        decision: Decision::Granted,
        reason: String::new(),
    };
    // Half an hour before midnight of UTC: the next day in Berlin already.
    let entries = vec![entry("2026-11-21T22:30:00Z"), entry("2026-11-21T23:30:00Z")];
    let store = world.running.store.as_ref();
    let written = store.append_access_log(world.running.account(), entries);
    written.await.unwrap();

    let mut browser = signed_in(&world.running, Role::Auditor).await;
    let day = "from=2026-11-22&until=2026-11-23";
    assert_eq!(shown(&mut browser, day).await, 0);
    assert_eq!(shown(&mut browser, &format!("{day}&zone=")).await, 0);
    let berlin = format!("{day}&zone=Europe/Berlin");
    assert_eq!(shown(&mut browser, &berlin).await, 1);
    let helsinki = format!("{day}&zone=Europe/Helsinki");
    assert_eq!(shown(&mut browser, &helsinki).await, 2);
    let exported = browser
        .get(&format!("/log/access/export/csv?{berlin}"))
        .await;
    assert_eq!(exported.expect(200).text.lines().count(), 2);

    // The page says which zone it is, and keeps it.
    for log in ["access", "changes", "flows"] {
        let page = browser.get(&format!("/log/{log}?zone=Europe/Berlin")).await;
        let page = page.expect(200).text;
        assert!(page.contains("midnight in <span>Europe/Berlin</span>"));
        let retained = "<input type=\"hidden\" name=\"zone\" value=\"Europe/Berlin\">";
        assert!(page.contains(retained), "{page}");
        let today = page.split(">Today<").next().unwrap().rsplit("href=").next();
        assert!(today.unwrap().contains("Europe%2FBerlin"), "{today:?}");
        let page = browser.get(&format!("/log/{log}")).await.expect(200).text;
        assert!(page.contains("midnight in <span data-zone>UTC</span>"));
        let wrong = browser
            .get(&format!("/log/{log}?from=today&zone=Mars/Base"))
            .await;
        let wrong = wrong.expect(422).text;
        assert!(wrong.contains("role=\"alert\""), "{wrong}");
    }
}

#[tokio::test]
async fn a_new_resource_comes_with_the_policy_that_lets_a_group_use_it() {
    let world = world().await;
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let page = browser.get("/resources/new").await.expect(200);
    let list = element(&page, "select", "group").unwrap();
    assert!(list.contains("value=\"staff\""), "{list}");
    let fields = |name, group| {
        [
            ("name", name),
            ("site", "office"),
            ("address", "10.3.2.1"),
            ("protocol.0", "tcp"),
            ("ports.0", "443"),
            ("group", group),
        ]
    };
    let made = browser
        .submit("/resources/new", &fields("gitlab", "STA"))
        .await;
    made.expect(303);
    let mut owner = world.running.owner().await;
    let policies = owner.get("/api/v1/policies").await.expect(200).json();
    let policy = &policies["items"][0];
    assert_eq!(policy["name"], json!("staff may use gitlab"));
    assert_eq!(policy["group"], json!(world.group));
    assert_eq!(policy["conditions"], json!([]));

    // A group that there is not makes nothing, nor does one whose policy would have too long a name.
    let wrong = browser
        .submit("/resources/new", &fields("wiki", "nobody"))
        .await;
    assert_eq!(marked(&wrong.expect(422)), ["group"]);
    let long = "l".repeat(MAX_NAME_CHARS - 10);
    let group = json!({ "name": long });
    id_of(&owner.post("/api/v1/groups", group).await.expect(201).json());
    let name = "w".repeat(MAX_NAME_CHARS - 10);
    let wrong = browser
        .submit("/resources/new", &fields(&name, &long))
        .await;
    let wrong = wrong.expect(422);
    assert_eq!(marked(&wrong), ["group"]);
    assert!(wrong.text.contains("too long"), "{}", wrong.text);
    let resources = owner.get("/api/v1/resources").await.expect(200).json();
    assert_eq!(resources["items"].as_array().unwrap().len(), 2);
    // Without a group it is made alone.
    let made = browser.submit("/resources/new", &fields("wiki", "")).await;
    made.expect(303);
}
