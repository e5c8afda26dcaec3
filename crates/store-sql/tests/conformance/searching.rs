//! Logs are searched for a text: what a person would type, taken as it stands.

use super::Fixture;
use super::world::{NOW, World, delete, grant_id, later, membership, update};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId};
use culvert_store::{
    AccessEntry, AccessFilter, AccessSeq, Actor, Author, ChangeFilter, Decision, FlowBatch,
    FlowEntry, FlowFilter, MAX_BATCH, PageLimit, Resource, Seq,
};
use culvert_wire::messages::FlowEnd;

/// Rows that a page of a search looks at (`SEARCHED_ROWS` of the SQLite store).
const SEARCHED_ROWS: usize = 50_000;

struct Scene {
    world: World,
    ada: Actor,
    laptop: ClientId,
    web: Resource,
    grant: GrantId,
}

impl Scene {
    async fn new(factory: impl AsyncFn() -> Fixture) -> Self {
        let world = World::new(factory().await).await;
        let ada = world.actor("Ada Lovelace <ada@Exämple.org>").await;
        let key = world.client_key(ada.id).await;
        let laptop = world.enrol(&key, "laptop-7", 1).await.unwrap().id;
        let site = world.site("office").await;
        let web = world.resource(site.id, "100% web_server").await;
        Self {
            world,
            ada,
            laptop,
            web,
            grant: grant_id(),
        }
    }

    fn access(&self, number: u64, reason: &str) -> AccessEntry {
        AccessEntry {
            at: later(number),
            client: ClientId::from_bytes([1; 16]),
            actor: None,
            resource: ResourceId::from_bytes([2; 16]),
            gateway: None,
            policy: None,
            grant: None,
            decision: Decision::Denied,
            reason: reason.to_owned(),
        }
    }

    fn flow(&self, address: &str, port: u16) -> FlowEntry {
        FlowEntry {
            at: NOW,
            started: NOW,
            client: ClientId::from_bytes([1; 16]),
            actor: None,
            resource: ResourceId::from_bytes([2; 16]),
            grant: GrantId::from_bytes([3; 16]),
            protocol: 6,
            address: address.parse().unwrap(),
            inbound: false,
            port,
            application: None,
            path: None,
            relay: None,
            sent_bytes: 1,
            sent_packets: 1,
            received_bytes: 1,
            received_packets: 1,
            end: FlowEnd::Closed,
        }
    }

    /// The places of what is found in the access log.
    async fn access_with(&self, text: &str) -> Vec<u64> {
        let filter = AccessFilter {
            search: Some(text.parse().unwrap()),
            ..AccessFilter::default()
        };
        let (store, account) = (&self.world.store, self.world.account);
        let page = store.access_log(account, &filter, None, PageLimit::MAX);
        let found = page.await.unwrap().items;
        found.iter().map(|row| row.seq.0).collect()
    }

    async fn flows_with(&self, text: &str) -> Vec<u64> {
        let filter = FlowFilter {
            search: Some(text.parse().unwrap()),
            ..FlowFilter::default()
        };
        let (store, account) = (&self.world.store, self.world.account);
        let page = store.flow_log(account, &filter, None, PageLimit::MAX);
        let found = page.await.unwrap().items;
        found.iter().map(|row| row.seq.0).collect()
    }

    async fn changes_with(&self, text: &str) -> Vec<u64> {
        let filter = ChangeFilter {
            search: Some(text.parse().unwrap()),
            ..ChangeFilter::default()
        };
        let (store, account) = (&self.world.store, self.world.account);
        let page = store.change_log(account, &filter, None, PageLimit::MAX);
        let found = page.await.unwrap().items;
        found.iter().map(|row| row.seq.0).collect()
    }

    async fn last_change(&self) -> u64 {
        let ends = self.world.store.log_ends(self.world.account).await.unwrap();
        ends[&culvert_wire::model::Log::Changes]
    }
}

pub(crate) async fn the_access_log_is_searched_by_names_ids_and_reasons(
    factory: impl AsyncFn() -> Fixture,
) {
    let scene = Scene::new(factory).await;
    let mut of_ada = scene.access(1, "granted by policy \"staff\"");
    of_ada.client = scene.laptop;
    of_ada.actor = Some(scene.ada.id);
    of_ada.grant = Some(scene.grant);
    let mut of_web = scene.access(2, "no policy 100%_sure for 192.0.2.7");
    of_web.resource = scene.web.id;
    let other = scene.access(3, "denied \\ 'quoted' -- 100 sure");
    let entries = vec![of_ada, of_web, other];
    let (store, account) = (&scene.world.store, scene.world.account);
    store.append_access_log(account, entries).await.unwrap();
    let none: [u64; 0] = [];
    for (text, found) in [
        ("lovelace", &[1_u64] as &[u64]),
        ("ADA@EXÄMPLE.ORG", &[1]),
        ("laptop", &[1]),
        ("STAFF", &[1]),
        ("web_server", &[2]),
        ("192.0.2.7", &[2]),
        // No character stands for another one.
        ("100%", &[2]),
        ("100%_s", &[2]),
        ("1_0", &none),
        ("%", &[2]),
        ("*", &none),
        ("\\", &[3]),
        ("'quoted' --", &[3]),
        ("\"staff\"", &[1]),
        (&scene.laptop.to_string(), &[1]),
        (&scene.ada.id.to_string(), &[1]),
        (&scene.web.id.to_string(), &[2]),
        (&scene.grant.to_string(), &[1]),
        ("nowhere", &none),
    ] {
        assert_eq!(scene.access_with(text).await, found, "{text}");
    }
    // The other filters hold as well, and nothing of another account is found.
    let filter = AccessFilter {
        search: Some("100".parse().unwrap()),
        from: Some(later(3)),
        ..AccessFilter::default()
    };
    let page = store.access_log(account, &filter, None, PageLimit::MAX);
    assert_eq!(page.await.unwrap().items.len(), 1);
    let beside = World::beside(store).await;
    let page = store.access_log(beside.account, &filter, None, PageLimit::MAX);
    assert_eq!(page.await.unwrap().items.len(), 0);
}

pub(crate) async fn the_flow_log_is_searched_by_addresses_ports_and_applications(
    factory: impl AsyncFn() -> Fixture,
) {
    let scene = Scene::new(factory).await;
    let mut of_ada = scene.flow("192.0.2.44", 443);
    of_ada.actor = Some(scene.ada.id);
    let mut backup = scene.flow("2001:db8::AB", 5432);
    backup.application = Some("backup".to_owned());
    backup.resource = scene.web.id;
    let plain = scene.flow("198.51.100.1", 44);
    let batch = FlowBatch {
        gateway: GatewayId::from_bytes([9; 16]),
        run: 1,
        batch: 1,
        lost: 0,
        flows: vec![of_ada, backup, plain],
    };
    let (store, account) = (&scene.world.store, scene.world.account);
    store.append_flows(account, vec![batch]).await.unwrap();
    let gateway = GatewayId::from_bytes([9; 16]).to_string();
    for (text, found) in [
        ("192.0.2", &[1_u64] as &[u64]),
        ("2001:DB8::ab", &[2]),
        ("5432", &[2]),
        // A port is meant whole; an address may be meant in part.
        ("543", &[]),
        ("44", &[3, 1]),
        ("Backup", &[2]),
        ("ada", &[1]),
        ("web", &[2]),
        (gateway.as_str(), &[3, 2, 1]),
    ] {
        assert_eq!(scene.flows_with(text).await, found, "{text}");
    }
}

pub(crate) async fn the_change_log_is_searched_by_what_was_before_and_after(
    factory: impl AsyncFn() -> Fixture,
) {
    let scene = Scene::new(factory).await;
    let world = &scene.world;
    let mut group = world.group("say \"hello\"").await;
    let made = scene.last_change().await;
    world.create(membership(group.id, scene.ada.id)).await;
    let joined = scene.last_change().await;
    group.name = "Bäcker".to_owned();
    world.write(vec![update(group.clone())]).await.unwrap();
    let renamed = scene.last_change().await;
    assert_eq!(
        scene.changes_with("Say \"hello\"").await,
        [renamed, made],
        "before and after"
    );
    // Under the name that it has now, a thing is found with all that happened to it.
    assert_eq!(scene.changes_with("BÄCKER").await, [renamed, made]);
    let of_group = scene.changes_with(&group.id.to_string()).await;
    assert_eq!(of_group, [renamed, joined, made]);
    // Names of fields are in every row and say nothing.
    assert_eq!(scene.changes_with("row_after").await, [0_u64; 0]);
    assert_eq!(scene.changes_with("disabled").await, [0_u64; 0]);
    let author = Author {
        actor: Some(scene.ada.id),
        token: None,
        role: None,
    };
    let delete = vec![delete(group.id, true)];
    let deleted = world.store.write(world.account, author, NOW, delete).await;
    let deleted: Vec<Seq> = deleted.unwrap().iter().map(|change| change.seq).collect();
    let by_ada = scene.changes_with("lovelace").await;
    for seq in deleted {
        assert!(by_ada.contains(&seq.0), "{by_ada:?}");
    }
}

pub(crate) async fn a_search_goes_on_by_its_cursor_beyond_what_one_page_looks_at(
    factory: impl AsyncFn() -> Fixture,
) {
    let scene = Scene::new(factory).await;
    let (store, account) = (&scene.world.store, scene.world.account);
    let mut left = SEARCHED_ROWS + 5_000;
    let mut first = vec![scene.access(1, "needle"), scene.access(1, "needle")];
    while left > 0 {
        let count = left.min(MAX_BATCH - first.len());
        let entries = (0..count).map(|_| scene.access(2, "hay"));
        let mut entries: Vec<_> = std::mem::take(&mut first)
            .into_iter()
            .chain(entries)
            .collect();
        left -= count;
        if left == 0 {
            entries.push(scene.access(3, "needle"));
        }
        store.append_access_log(account, entries).await.unwrap();
    }
    let filter = AccessFilter {
        search: Some("needle".parse().unwrap()),
        ..AccessFilter::default()
    };
    let mut found = Vec::new();
    let mut pages = 0;
    let mut before = None;
    loop {
        let page = store.access_log(account, &filter, before, PageLimit::new(1));
        let page = page.await.unwrap();
        found.extend(page.items.iter().map(|row| row.seq.0));
        pages += 1;
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let last = SEARCHED_ROWS as u64 + 5_003;
    assert_eq!(found, [last, 2, 1]);
    assert_eq!(pages, 3, "the first ends where it looked at enough");
    // A reader that follows a log asks for the entries since its last one.
    let since = |after| AccessFilter {
        after: Some(AccessSeq(after)),
        ..filter
    };
    for (after, expected) in [(last, 0), (last - 1, 1), (1, 1)] {
        let filter = since(after);
        let page = store.access_log(account, &filter, None, PageLimit::MAX);
        assert_eq!(page.await.unwrap().items.len(), expected, "{after}");
    }
}
