//! Pages of things answer questions: who may use it, what was denied and why, how much it was used.

use crate::browser::signed_in;
use crate::console_explain::{World, href};
use crate::live_machines;
use crate::support::{enrol_client, enrol_gateway, make_actor, now};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, ResourceId};
use culvert_store::{AccessEntry, ActorKind, Decision, FlowBatch, FlowEntry, Role};
use culvert_wire::messages::FlowEnd;
use serde_json::json;

const WHY: &str = "denied: policy \"office hours\" of group \"staff\": the client is not verified";

impl World {
    fn entry(&self, client: ClientId, decision: Decision, reason: &str) -> AccessEntry {
        AccessEntry {
            at: now(),
            client,
            actor: Some(self.actor),
            resource: self.resource.parse().unwrap(),
            gateway: None,
            policy: None,
            grant: None,
            decision,
            reason: reason.to_owned(),
        }
    }

    async fn log(&self, entries: Vec<AccessEntry>) {
        let store = self.running.store.as_ref();
        let account = self.running.account();
        store.append_access_log(account, entries).await.unwrap();
    }

    async fn page(&self, role: Role, path: &str) -> String {
        let mut browser = signed_in(&self.running, role).await;
        browser.get(path).await.expect(200).text
    }
}

/// The part of a page below this heading.
fn part<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("<h2>{title}</h2>"))
        .unwrap_or_else(|| panic!("{title}: {page}"));
    rest.split("<h2>").next().unwrap()
}

fn fact(name: &str, value: impl std::fmt::Display) -> String {
    format!("<dt>{name}</dt><dd>{value}</dd>")
}

#[tokio::test]
async fn a_resource_tells_who_may_use_it_and_how_many_they_are() {
    let world = World::make().await;
    world.join().await;
    let other = make_actor(
        world.running.store.as_ref(),
        world.running.account(),
        ActorKind::User,
    )
    .await;
    let members = format!("/api/v1/groups/{}/members", world.group);
    let mut owner = world.running.owner().await;
    let body = json!({ "actor": other });
    owner.post(&members, body).await.expect(201);
    let at = format!("/resources/{}", world.resource);
    let page = world.page(Role::Auditor, &at).await;
    let who = part(&page, "Who may use it");
    assert!(who.contains("Nobody: no policy"), "{who}");
    let policy = world
        .policy("office hours", json!([{"kind": "verified"}]))
        .await;
    let page = world.page(Role::Auditor, &at).await;
    let who = part(&page, "Who may use it");
    for cell in [
        format!(
            "<td><a href=\"/groups/{}\">staff</a></td><td>2</td>",
            world.group
        ),
        format!("<a href=\"/policies/{policy}\">office hours</a>"),
        "verified".to_owned(),
    ] {
        assert!(who.contains(&cell), "{cell}: {who}");
    }
    assert!(page.contains(&format!("<a href=\"/sites/{}\">office</a>", world.site)));
    assert!(!page.contains("All 1 "), "{page}");
}

#[tokio::test]
async fn a_resource_tells_what_was_denied_in_a_day_by_cause_and_how_much_it_was_used() {
    let world = World::make().await;
    let (store, account) = (world.running.store.as_ref(), world.running.account());
    let (second, _) = enrol_client(store, account, world.actor).await;
    let mut old = world.entry(world.client, Decision::Denied, "it was long ago");
    old.at = culvert_wire::Timestamp::from_unix_ms(now().unix_ms() - 25 * 3_600_000);
    world
        .log(vec![
            old,
            world.entry(world.client, Decision::Granted, "allowed"),
            world.entry(world.client, Decision::Denied, WHY),
            world.entry(second, Decision::Denied, WHY),
            world.entry(second, Decision::Denied, "no gateway"),
        ])
        .await;
    let at = format!("/resources/{}", world.resource);
    let page = world.page(Role::Auditor, &at).await;
    let used = part(&page, "Last 24 hours");
    for fact in [
        fact("Grants", 1),
        fact("People", 1),
        fact("Clients", 1),
        fact("Denials", 3),
    ] {
        assert!(used.contains(&fact), "{fact}: {used}");
    }
    // Nobody has asked for a log of flows.
    assert!(!used.contains("Traffic"), "{used}");
    let denied = part(&page, "Denials of the last 24 hours");
    let rows: Vec<&str> = denied.split("<tr>").skip(2).collect();
    let [first, other] = rows[..] else {
        panic!("{denied}");
    };
    assert!(first.contains("the client is not verified"), "{first}");
    assert!(first.contains("<td>2</td>"), "{first}");
    let why = href(first, "Explain").unwrap().replace("&#38;", "&");
    let explain = format!("/explain?client={second}&resource={}", world.resource);
    assert_eq!(why, explain);
    assert!(other.contains("no gateway"), "{other}");
    let all = href(&page, "All 3 denials").unwrap().replace("&#38;", "&");
    assert_eq!(all, "/log/access?decision=denied&resource=web&from=24h");
    let log = world.page(Role::Auditor, &all).await;
    assert_eq!(log.matches(">Explain</a></td>").count(), 3, "{log}");

    let mut owner = world.running.owner().await;
    let on = json!({"flow_log": true});
    owner.patch("/api/v1/retention", "*", on).await.expect(200);
    let flow = FlowEntry {
        at: now(),
        started: now(),
        client: world.client,
        actor: Some(world.actor),
        resource: world.resource.parse().unwrap(),
        grant: GrantId::from_bytes([5; 16]),
        protocol: 6,
        address: "10.0.0.1".parse().unwrap(),
        inbound: false,
        port: 443,
        application: None,
        path: None,
        relay: None,
        sent_bytes: 2_000_000,
        sent_packets: 1,
        received_bytes: 3_000_000,
        received_packets: 1,
        end: FlowEnd::Closed,
    };
    let batch = FlowBatch {
        gateway: GatewayId::from_bytes([2; 16]),
        run: 1,
        batch: 1,
        lost: 0,
        flows: vec![flow],
    };
    store.append_flows(account, vec![batch]).await.unwrap();
    let page = world.page(Role::Auditor, &at).await;
    let used = part(&page, "Last 24 hours");
    assert!(used.contains(&fact("Flows", 1)), "{used}");
    assert!(used.contains(">5.0 MB</dd>"), "{used}");
}

#[tokio::test]
async fn a_resource_names_the_gateways_that_lead_there_and_asks_to_explain() {
    let world = World::make().await;
    let at = format!("/resources/{}", world.resource);
    let page = world.page(Role::Admin, &at).await;
    let gateways = part(&page, "Gateways that lead there");
    assert!(gateways.contains("nobody can reach it"), "{gateways}");
    let (store, account) = (world.running.store.as_ref(), world.running.account());
    let site = world.site.parse().unwrap();
    let (gateway, _) = enrol_gateway(store, account, site).await;
    let page = world.page(Role::Admin, &at).await;
    let gateways = part(&page, "Gateways that lead there");
    assert!(
        gateways.contains(&format!("href=\"/gateways/{gateway}\"")),
        "{gateways}"
    );
    assert!(gateways.contains("not connected"), "{gateways}");
    let panel = part(&page, "May a client use this resource now?");
    for input in [
        "name=\"resource\" value=\"web\"",
        "name=\"client\"",
        "name=\"port\"",
    ] {
        assert!(panel.contains(input), "{input}: {panel}");
    }
}

#[tokio::test]
async fn a_person_s_page_has_groups_machines_resources_and_denials() {
    let world = World::make().await;
    let at = format!("/people/{}", world.actor);
    let page = world.page(Role::Auditor, &at).await;
    assert!(part(&page, "Groups").contains("They are in no group."));
    world.join().await;
    let policy = world.policy("staff use web", json!([])).await;
    world
        .log(vec![world.entry(world.client, Decision::Denied, WHY)])
        .await;
    let page = world.page(Role::Auditor, &at).await;
    let chip = format!("<li><a href=\"/groups/{}\">staff</a></li>", world.group);
    assert!(part(&page, "Groups").contains(&chip), "{page}");
    let machines = part(&page, "Machines");
    assert!(
        machines.contains(&format!("href=\"/clients/{}\"", world.client)),
        "{machines}"
    );
    assert!(machines.contains("away"), "{machines}");
    let may = part(&page, "Resources that they may use");
    for link in [
        format!("<a href=\"/resources/{}\">web</a>", world.resource),
        format!("<a href=\"/policies/{policy}\">staff use web</a>"),
        format!("<a href=\"/groups/{}\">staff</a>", world.group),
    ] {
        assert!(may.contains(&link), "{link}: {may}");
    }
    let denied = part(&page, "Denials of the last 24 hours");
    assert!(denied.contains("the client is not verified"), "{denied}");
    let option = format!("<option value=\"client {}\"", world.client);
    assert!(page.contains(&option), "{page}");
}

#[tokio::test]
async fn a_client_s_page_has_what_it_may_use_and_what_it_was_denied() {
    let world = World::make().await;
    world.join().await;
    world.policy("staff use web", json!([])).await;
    world
        .log(vec![world.entry(world.client, Decision::Denied, WHY)])
        .await;
    let at = format!("/clients/{}", world.client);
    let page = world.page(Role::Auditor, &at).await;
    let may = part(&page, "Resources that they may use");
    assert!(may.contains("staff use web"), "{may}");
    let denied = part(&page, "Denials of the last 24 hours");
    let why = href(denied, "Explain").unwrap().replace("&#38;", "&");
    assert_eq!(why, world.question());
    let preset = format!("name=\"client\" value=\"client {}\"", world.client);
    assert!(page.contains(&preset), "{page}");
}

#[tokio::test]
async fn a_user_s_own_client_has_no_part_that_only_administrators_read() {
    let world = World::make().await;
    let (actor, name) = crate::browser::person(&world.running, Role::User).await;
    let (store, account) = (world.running.store.as_ref(), world.running.account());
    let (client, _) = enrol_client(store, account, actor).await;
    let mut browser = crate::browser::Browser::open(&world.running).await;
    let password = crate::browser::PASSWORD;
    browser.sign_in(&name, password).await.expect(303);
    let own = browser.get(&format!("/clients/{client}")).await.expect(200);
    for title in ["Explain", "Last 24 hours", "Resources that they may use"] {
        assert!(!own.text.contains(title), "{title}: {}", own.text);
    }
    for path in [
        format!("/resources/{}", world.resource),
        format!("/people/{actor}"),
        format!("/groups/{}", world.group),
    ] {
        browser.get(&path).await.expect(403);
    }
}

#[tokio::test]
async fn a_group_s_page_counts_its_members_and_names_its_resources() {
    let world = World::make().await;
    world.join().await;
    let at = format!("/groups/{}", world.group);
    let page = world.page(Role::Auditor, &at).await;
    assert!(page.contains(&fact("Members", 1)), "{page}");
    let may = part(&page, "Resources that its members may use");
    assert!(may.contains("None: no policy"), "{may}");
    let policy = world.policy("staff use web", json!([])).await;
    let page = world.page(Role::Auditor, &at).await;
    let may = part(&page, "Resources that its members may use");
    for link in [
        format!("<a href=\"/resources/{}\">web</a>", world.resource),
        format!("<a href=\"/policies/{policy}\">staff use web</a>"),
    ] {
        assert!(may.contains(&link), "{link}: {may}");
    }
}

#[tokio::test]
async fn a_part_of_a_page_has_ten_rows_and_leads_to_all() {
    let world = World::make().await;
    world.join().await;
    for number in 0..12 {
        world
            .policy(&format!("policy {number:02}"), json!([]))
            .await;
    }
    // Another group has one for the same resource.
    let others = world
        .post("/api/v1/groups", json!({"name": "others"}))
        .await;
    let policy = json!({"name": "of others", "group": others, "resource": world.resource});
    world.post("/api/v1/policies", policy).await;
    let at = format!("/people/{}", world.actor);
    let page = world.page(Role::Auditor, &at).await;
    let may = part(&page, "Resources that they may use");
    assert_eq!(may.matches("href=\"/policies/pol_").count(), 10, "{may}");
    let all = href(&page, "All 12 policies").unwrap().to_owned();
    assert_eq!(all, format!("/policies?person={}", world.actor));
    let list = world.page(Role::Auditor, &all).await;
    assert_eq!(list.matches("href=\"/policies/pol_").count(), 12, "{list}");
    assert!(!list.contains("of others"), "{list}");
    let title = format!("<h1>Policies for actor {}</h1>", world.actor);
    assert!(list.contains(&title), "{list}");
    // A search stays among them.
    let hidden = format!("name=\"person\" value=\"{}\"", world.actor);
    assert!(list.contains(&hidden), "{list}");
    let at = format!("/resources/{}", world.resource);
    let page = world.page(Role::Auditor, &at).await;
    let all = href(&page, "All 13 policies").unwrap().to_owned();
    let list = world.page(Role::Auditor, &all).await;
    assert_eq!(list.matches("href=\"/policies/pol_").count(), 13, "{list}");

    for number in 0..51 {
        let group = json!({"name": format!("group {number}")});
        let group = world.post("/api/v1/groups", group).await;
        let mut owner = world.running.owner().await;
        let members = format!("/api/v1/groups/{group}/members");
        let body = json!({ "actor": world.actor });
        owner.post(&members, body).await.expect(201);
    }
    let at = format!("/people/{}", world.actor);
    let page = world.page(Role::Auditor, &at).await;
    let groups = part(&page, "Groups");
    assert_eq!(groups.matches("href=\"/groups/").count(), 50, "{groups}");
    assert!(groups.contains("<li>and 2 more</li>"), "{groups}");
}

#[tokio::test]
async fn things_of_which_nothing_is_known_have_pages_all_the_same() {
    let world = World::make().await;
    let (store, account) = (world.running.store.as_ref(), world.running.account());
    let site = world.site.parse().unwrap();
    let (gateway, _) = enrol_gateway(store, account, site).await;
    let nobody = make_actor(store, account, ActorKind::ServiceAccount).await;
    let mut gone = world.entry(ClientId::from_bytes([7; 16]), Decision::Denied, "gone");
    gone.actor = Some(ActorId::from_bytes([7; 16]));
    gone.gateway = Some(gateway);
    let mut gone_resource = gone.clone();
    gone_resource.resource = ResourceId::from_bytes([7; 16]);
    world.log(vec![gone, gone_resource]).await;
    for path in [
        format!("/gateways/{gateway}"),
        format!("/people/{nobody}"),
        format!("/resources/{}", world.resource),
    ] {
        let page = world.page(Role::Admin, &path).await;
        assert!(page.contains("Denials of the last 24 hours"), "{path}");
        assert!(!page.contains("Explain</a></td>"), "{path}: {page}");
    }
}

#[tokio::test]
async fn machines_that_are_connected_are_shown_with_the_grants_in_force() {
    let world = World::make().await;
    world.join().await;
    let policy = world.policy("staff use web", json!([])).await;
    let running = &world.running;
    let mut gateway = live_machines::gateway(running, world.site.parse().unwrap()).await;
    let mut client = live_machines::client(running, world.actor).await;
    let resource = world.resource.parse().unwrap();
    live_machines::grant(&mut client, &mut gateway, resource).await;

    let mut browser = signed_in(running, Role::Auditor).await;
    let at = format!("/resources/{}", world.resource);
    let page = browser.get(&at).await.expect(200).text;
    let gateways = part(&page, "Gateways that lead there");
    assert!(gateways.contains("accepting clients"), "{gateways}");
    let gateway_at = href(gateways, "gateway").unwrap().to_owned();
    let at = format!("/people/{}", world.actor);
    let page = browser.get(&at).await.expect(200).text;
    let machines = part(&page, "Machines");
    assert!(machines.contains(">connected</span>"), "{machines}");
    let client_at = href(machines, "laptop").unwrap().to_owned();

    let page = browser.get(&client_at).await.expect(200).text;
    let of_client = part(&page, "Grants in force");
    let page = browser.get(&gateway_at).await.expect(200).text;
    let of_gateway = part(&page, "Grants in force");
    let same = [
        format!("<a href=\"/resources/{}\">web</a>", world.resource),
        format!("<a href=\"/policies/{policy}\">staff use web</a>"),
    ];
    for link in &same {
        assert!(of_client.contains(link), "{link}: {of_client}");
        assert!(of_gateway.contains(link), "{link}: {of_gateway}");
    }
    assert_eq!(href(of_client, "gateway"), Some(&*gateway_at));
    assert_eq!(href(of_gateway, "laptop"), Some(&*client_at));
    let explain = format!("/explain?client=laptop&resource={}", world.resource);
    let page = browser.get(&explain).await.expect(200).text;
    assert_eq!(href(&page, "gateway"), Some(&*gateway_at));
}
