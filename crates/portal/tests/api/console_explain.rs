//! Explain on the console: every thing that it names is a link, and every reason comes with the change that removes it.

use crate::browser::{Browser, signed_in};
use crate::support::{Running, enrol_client, id_of, make_actor, now};
use culvert_ids::{ActorId, ClientId};
use culvert_store::{AccessEntry, ActorKind, Decision, Role};
use serde_json::{Value, json};

/// A resource `web` of a site without gateways, which no policy is for, and a client of somebody in no group.
pub(crate) struct World {
    pub(crate) running: Running,
    pub(crate) actor: ActorId,
    pub(crate) client: ClientId,
    pub(crate) site: String,
    pub(crate) resource: String,
    pub(crate) group: String,
}

impl World {
    pub(crate) async fn make() -> Self {
        let running = Running::start().await;
        let (store, account) = (running.store.as_ref(), running.account());
        let actor = make_actor(store, account, ActorKind::User).await;
        let (client, _) = enrol_client(store, account, actor).await;
        let mut world = Self {
            actor,
            client,
            site: String::new(),
            resource: String::new(),
            group: String::new(),
            running,
        };
        world.site = world.post("/api/v1/sites", json!({"name": "office"})).await;
        world.group = world.post("/api/v1/groups", json!({"name": "staff"})).await;
        let resource = json!({
            "site": world.site, "name": "web", "kind": "address", "address": "10.0.0.1",
            "filters": [{"protocol": "tcp", "ports": [443]}],
        });
        world.resource = world.post("/api/v1/resources", resource).await;
        world
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> String {
        let mut owner = self.running.owner().await;
        id_of(&owner.post(path, body).await.expect(201).json())
    }

    pub(crate) async fn join(&self) {
        let members = format!("/api/v1/groups/{}/members", self.group);
        let mut owner = self.running.owner().await;
        let body = json!({ "actor": self.actor });
        owner.post(&members, body).await.expect(201);
    }

    pub(crate) async fn policy(&self, name: &str, conditions: Value) -> String {
        let policy = json!({
            "name": name, "group": self.group, "resource": self.resource,
            "conditions": conditions,
        });
        self.post("/api/v1/policies", policy).await
    }

    pub(crate) fn question(&self) -> String {
        format!("/explain?client={}&resource={}", self.client, self.resource)
    }

    async fn explained(&self, browser: &mut Browser) -> String {
        browser.get(&self.question()).await.expect(200).text
    }
}

/// Sends the form of the button with this name, as the browser does.
async fn press(browser: &mut Browser, page: &str, button: &str) -> String {
    let (before, _) = page.split_once(&format!(">{button}</button>")).unwrap();
    let (_, form) = before.rsplit_once("<form method=\"post\" ").unwrap();
    let value = |begin: &str| {
        let (_, rest) = form.split_once(begin).unwrap();
        rest.split('"').next().unwrap().replace("&#38;", "&")
    };
    let path = value("action=\"");
    let version = value("name=\"version\" value=\"");
    let back = value("name=\"back\" value=\"");
    let fields = [("version", &*version), ("back", &*back)];
    let answer = browser.submit(&path, &fields).await.expect(303);
    answer.header("location").to_owned()
}

/// The address that a link with this text leads to.
pub(crate) fn href<'a>(page: &'a str, text: &str) -> Option<&'a str> {
    let (before, _) = page.split_once(&format!("\">{text}</a>"))?;
    Some(before.rsplit_once("href=\"")?.1)
}

#[tokio::test]
async fn an_unverified_client_is_verified_where_its_denial_is_explained() {
    let world = World::make().await;
    world.join().await;
    let policy = world
        .policy("office hours", json!([{"kind": "verified"}]))
        .await;
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let page = world.explained(&mut browser).await;
    assert!(page.contains(">no</span>"), "{page}");
    for (path, name) in [
        (
            format!("/clients/{}", world.client),
            format!("client {}", world.client),
        ),
        (
            format!("/people/{}", world.actor),
            format!("actor {}", world.actor),
        ),
        (format!("/resources/{}", world.resource), "web".to_owned()),
        (format!("/policies/{policy}"), "office hours".to_owned()),
        (format!("/groups/{}", world.group), "staff".to_owned()),
        (
            format!("/sites/{}", world.site),
            "Gateways of site office".to_owned(),
        ),
    ] {
        let link = format!("<a href=\"{path}\">{name}</a>");
        assert!(page.contains(&link), "{link}: {page}");
    }
    let led = press(&mut browser, &page, "Verify this client").await;
    assert_eq!(led, world.question());
    let page = world.explained(&mut browser).await;
    assert!(page.contains(">yes</span>"), "{page}");
    assert!(
        page.contains(&format!("Client client {} verified.", world.client)),
        "{page}"
    );
    assert!(!page.contains("Verify this client"), "{page}");
}

#[tokio::test]
async fn an_auditor_reads_the_reasons_and_sees_no_change() {
    let world = World::make().await;
    world.join().await;
    world
        .policy("office hours", json!([{"kind": "verified"}]))
        .await;
    let mut browser = signed_in(&world.running, Role::Auditor).await;
    let page = world.explained(&mut browser).await;
    assert!(page.contains("is not verified"), "{page}");
    for change in [
        "To let it in",
        "Verify this client",
        "/verify",
        "Edit policy",
    ] {
        assert!(!page.contains(change), "{change}: {page}");
    }
    let mut user = signed_in(&world.running, Role::User).await;
    for path in [&*world.question(), "/explain"] {
        user.get(path).await.expect(403);
    }
}

#[tokio::test]
async fn a_policy_that_is_missing_is_created_from_where_it_is_missed() {
    let world = World::make().await;
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let page = world.explained(&mut browser).await;
    let create = href(&page, "Create a policy for web").unwrap();
    assert!(!create.contains("group="), "{create}");

    world.join().await;
    let page = world.explained(&mut browser).await;
    let create = href(&page, "Create a policy for group staff and web").unwrap();
    let create = create.replace("&#38;", "&");
    let form = browser.get(&create).await.expect(200).text;
    for shown in ["value=\"staff\"", "value=\"web\"", "name=\"back\""] {
        assert!(form.contains(shown), "{shown}: {form}");
    }
    let (_, back) = create.split_once("back=").unwrap();
    let back = form_urlencoded::parse(format!("back={back}").as_bytes())
        .next()
        .unwrap()
        .1
        .into_owned();
    let fields = [
        ("name", "staff use web"),
        ("group", "staff"),
        ("resource", "web"),
        ("verified", "no"),
        ("back", &*back),
    ];
    // A refused form keeps the way back.
    let mut wrong = fields;
    wrong[1] = ("group", "nobody");
    let refused = browser.submit("/policies", &wrong).await.expect(422).text;
    assert!(refused.contains("name=\"back\""), "{refused}");
    let created = browser.submit("/policies", &fields).await.expect(303);
    assert_eq!(created.header("location"), world.question());
    let page = world.explained(&mut browser).await;
    assert!(page.contains(">yes</span>"), "{page}");
    assert!(page.contains("Policy staff use web created."), "{page}");
}

#[tokio::test]
async fn somebody_outside_the_group_of_a_policy_is_added_to_it() {
    let world = World::make().await;
    world.policy("staff use web", json!([])).await;
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let page = world.explained(&mut browser).await;
    let add = format!("Add actor {} to group staff", world.actor);
    let join = href(&page, &add).unwrap().replace("&#38;", "&");
    let form = browser.get(&join).await.expect(200).text;
    let name = format!("actor {}", world.actor);
    let checked = format!("name=\"chosen.{name}\" value=\"yes\" checked");
    assert!(form.contains(&checked), "{form}");
    let chosen = format!("chosen.{name}");
    let fields = [(&*chosen, "yes"), ("back", &*world.question())];
    let at = format!("/groups/{}", world.group);
    let added = browser.submit(&at, &fields).await.expect(303);
    assert_eq!(added.header("location"), world.question());
    assert!(world.explained(&mut browser).await.contains(">yes</span>"));
}

#[tokio::test]
async fn what_is_disabled_is_enabled_and_what_is_edited_is_led_to() {
    let world = World::make().await;
    world.join().await;
    let off = world.policy("switched off", json!([])).await;
    let over = json!([{"kind": "expires", "at": "2020-01-01T00:00:00Z"}]);
    let over = world.policy("over", over).await;
    let mut owner = world.running.owner().await;
    let patch = |path: String| (path, json!({"disabled": true}));
    for (path, body) in [
        patch(format!("/api/v1/policies/{off}")),
        patch(format!("/api/v1/actors/{}", world.actor)),
    ] {
        owner.patch(&path, "*", body).await.expect(200);
    }
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let page = world.explained(&mut browser).await;
    let edit = href(&page, "Edit policy over").unwrap();
    let edit = edit.replace("&#38;", "&");
    assert!(
        edit.starts_with(&format!("/policies/{over}?back=")),
        "{edit}"
    );
    let form = browser.get(&edit).await.expect(200).text;
    let back = format!("name=\"back\" value=\"{}\"", world.question());
    assert!(form.contains(&back.replace('&', "&#38;")), "{form}");
    let (_, version) = form.split_once("name=\"version\" value=\"").unwrap();
    let version = version.split('"').next().unwrap();
    let mut fields = vec![
        ("name", ""),
        ("group", "staff"),
        ("resource", "web"),
        ("verified", "no"),
        ("expires", "2020-01-01T00:00:00Z"),
        ("version", version),
    ];
    let back = world.question();
    fields.push(("back", &*back));
    let at = format!("/policies/{over}");
    let refused = browser.submit(&at, &fields).await.expect(422).text;
    assert!(refused.contains("name=\"back\""), "{refused}");
    fields[0].1 = "still over";
    let changed = browser.submit(&at, &fields).await.expect(303);
    assert_eq!(changed.header("location"), back);
    let page = world.explained(&mut browser).await;
    assert!(page.contains("Policy still over changed."), "{page}");
    let led = press(&mut browser, &page, "Enable the policy").await;
    assert_eq!(led, world.question());
    let page = world.explained(&mut browser).await;
    assert!(page.contains(">no</span>"), "{page}");
    press(&mut browser, &page, "Enable the owner").await;
    let page = world.explained(&mut browser).await;
    assert!(page.contains(">yes</span>"), "{page}");
    assert!(!page.contains("Edit policy"), "{page}");
}

#[tokio::test]
async fn a_port_passes_the_filters_of_the_resource_or_leads_to_them() {
    let world = World::make().await;
    world.join().await;
    world.policy("staff use web", json!([])).await;
    let mut browser = signed_in(&world.running, Role::Admin).await;
    for (port, passes) in [
        ("443", true),
        ("tcp:443", true),
        ("udp:443", false),
        ("22", false),
    ] {
        let path = format!("{}&port={port}", world.question());
        let page = browser.get(&path).await.expect(200).text;
        assert_eq!(page.contains(">yes</span>"), passes, "{port}: {page}");
        assert_eq!(
            page.contains("Edit resource web"),
            !passes,
            "{port}: {page}"
        );
        assert!(page.contains(&format!("value=\"{port}\"")), "{page}");
    }
    let path = format!("{}&port=http", world.question());
    let page = browser.get(&path).await.expect(422).text;
    assert!(page.contains("tcp:443, udp:53, or 443"), "{page}");
}

#[tokio::test]
async fn a_denial_is_mended_three_clicks_from_the_overview() {
    let world = World::make().await;
    world.join().await;
    world
        .policy("office hours", json!([{"kind": "verified"}]))
        .await;
    let entry = AccessEntry {
        at: now(),
        client: world.client,
        actor: Some(world.actor),
        resource: world.resource.parse().unwrap(),
        gateway: None,
        policy: None,
        grant: None,
        decision: Decision::Denied,
        reason: "denied: the client is not verified".to_owned(),
    };
    let store = world.running.store.as_ref();
    store
        .append_access_log(world.running.account(), vec![entry])
        .await
        .unwrap();
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let overview = browser.get("/").await.expect(200).text;
    let why = href(&overview, "Explain").unwrap().replace("&#38;", "&");
    let page = browser.get(&why).await.expect(200).text;
    let led = press(&mut browser, &page, "Verify this client").await;
    let page = browser.get(&led).await.expect(200).text;
    assert!(page.contains(">yes</span>"), "{page}");
}

#[tokio::test]
async fn a_client_whose_token_is_revoked_needs_another_one() {
    let world = World::make().await;
    world.join().await;
    world.policy("staff use web", json!([])).await;
    let mut owner = world.running.owner().await;
    let path = format!("/api/v1/tokens?actor={}", world.actor);
    let tokens = owner.get(&path).await.expect(200).json();
    for token in tokens["items"].as_array().unwrap() {
        let path = format!("/api/v1/tokens/{}/revoke", id_of(token));
        owner.send("POST", &path, &[], None).await.expect(200);
    }
    let mut browser = signed_in(&world.running, Role::Admin).await;
    let page = world.explained(&mut browser).await;
    assert!(page.contains(">no</span>"), "{page}");
    let create = format!("Create a client token for actor {}", world.actor);
    let at = format!("/people/{}", world.actor);
    assert_eq!(href(&page, &create), Some(&*at), "{page}");
}
