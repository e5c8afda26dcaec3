//! The flow log, what all logs have in common, and sinks.

use super::Fixture;
use super::world::{HOUR_MS, NOW, World, later};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, RelayId, ResourceId};
use culvert_store::{
    AccessEntry, AccessFilter, Activity, ChangeFilter, Decision, FlowBatch, FlowEntry, FlowFilter,
    FlowSeq, LogEntries, MAX_BATCH, MAX_SECRET_LEN, Mutation, PageLimit, SecretBytes, Seq,
    StoreError,
};
use culvert_wire::messages::{FlowEnd, PathKind};
use culvert_wire::model::Log;
use std::collections::BTreeMap;
use std::time::Duration;

const CLIENT: ClientId = ClientId::from_bytes([1; 16]);
const GATEWAY: GatewayId = GatewayId::from_bytes([2; 16]);

fn flow(port: u16) -> FlowEntry {
    FlowEntry {
        at: later(u64::from(port) * 1_000),
        started: NOW,
        client: CLIENT,
        actor: Some(ActorId::from_bytes([3; 16])),
        resource: ResourceId::from_bytes([4; 16]),
        grant: GrantId::from_bytes([5; 16]),
        protocol: 6,
        address: "2001:db8::1".parse().unwrap(),
        inbound: false,
        port,
        application: None,
        path: match port {
            1 => Some(PathKind::RelayedTls),
            2 => Some(PathKind::Direct),
            _ => None,
        },
        relay: (port == 1).then_some(RelayId::from_bytes([6; 16])),
        sent_bytes: 10,
        sent_packets: 1,
        received_bytes: u64::from(u32::MAX) + 1,
        received_packets: 2,
        end: FlowEnd::Closed,
    }
}

fn batch(run: u64, batch: u64, ports: &[u16]) -> FlowBatch {
    FlowBatch {
        gateway: GATEWAY,
        run,
        batch,
        lost: batch,
        flows: ports.iter().copied().map(flow).collect(),
    }
}

async fn ports(world: &World, filter: FlowFilter, before: Option<u64>, rows: u64) -> Vec<u16> {
    let page = world.store.flow_log(
        world.account,
        &filter,
        before.map(FlowSeq),
        PageLimit::new(rows),
    );
    let page = page.await.unwrap();
    page.items.iter().map(|row| row.entry.port).collect()
}

pub(crate) async fn a_report_of_flows_is_in_the_log_once(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let all = FlowFilter::default();
    // The same again, also in one write with the next, and an earlier one that comes late.
    for batches in [
        vec![batch(7, 1, &[1, 2])],
        vec![batch(7, 1, &[1, 2])],
        vec![batch(7, 1, &[1, 2]), batch(7, 2, &[3])],
        vec![batch(7, 1, &[1, 2])],
    ] {
        store.append_flows(account, batches).await.unwrap();
    }
    assert_eq!(ports(&world, all, None, 9).await, [3, 2, 1]);
    // Another run of the gateway begins at 1 again, and another gateway has its own.
    let mut other = batch(8, 1, &[5]);
    other.gateway = GatewayId::from_bytes([9; 16]);
    let batches = vec![batch(8, 1, &[4]), other];
    store.append_flows(account, batches).await.unwrap();
    assert_eq!(ports(&world, all, None, 9).await, [5, 4, 3, 2, 1]);
    assert_eq!(store.flows_lost(account).await.unwrap(), 1 + 2 + 1 + 1);
    let page = store.flow_log(account, &all, None, PageLimit::MAX).await;
    let first = page.unwrap().items.pop().unwrap();
    assert_eq!((first.gateway, first.entry), (GATEWAY, flow(1)));
    let many = FlowBatch {
        flows: vec![flow(1); MAX_BATCH + 1],
        ..batch(9, 1, &[])
    };
    let refused = store.append_flows(account, vec![many]).await;
    assert!(matches!(refused, Err(StoreError::TooMany { .. })));
}

pub(crate) async fn what_comes_late_has_its_place_by_its_time(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let reports = vec![batch(1, 1, &[5, 3]), batch(1, 2, &[6, 4, 3])];
    store.append_flows(account, reports).await.unwrap();
    let all = FlowFilter::default();
    let ordered = [6, 5, 4, 3, 3];
    assert_eq!(ports(&world, all, None, 9).await, ordered);
    // Page by page, each entry comes once.
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = store.flow_log(account, &all, before, PageLimit::new(1));
        let page = page.await.unwrap();
        paged.extend(page.items.iter().map(|row| row.entry.port));
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(paged, ordered);
    // A page of what came after an entry has all of it, the last that came first.
    let after = Some(FlowSeq(2));
    assert_eq!(
        ports(&world, FlowFilter { after, ..all }, None, 9).await,
        [3, 4, 6]
    );
}

pub(crate) async fn the_flow_log_is_filtered_and_paged(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let mut report = batch(1, 1, &[1, 2, 3, 4, 5, 6]);
    report.flows[1].client = ClientId::from_bytes([8; 16]);
    report.flows[2].actor = None;
    report.flows[3].resource = ResourceId::from_bytes([8; 16]);
    report.flows[4].end = FlowEnd::Policy;
    store.append_flows(account, vec![report]).await.unwrap();
    let all = FlowFilter::default();
    assert_eq!(ports(&world, all, None, 2).await, [6, 5]);
    assert_eq!(ports(&world, all, Some(3), 9).await, [2, 1]);
    let cases = [
        (
            FlowFilter {
                client: Some(CLIENT),
                ..all
            },
            vec![6, 5, 4, 3, 1],
        ),
        (
            FlowFilter {
                actor: Some(ActorId::from_bytes([3; 16])),
                ..all
            },
            vec![6, 5, 4, 2, 1],
        ),
        (
            FlowFilter {
                resource: Some(ResourceId::from_bytes([8; 16])),
                ..all
            },
            vec![4],
        ),
        (
            FlowFilter {
                end: Some(FlowEnd::Policy),
                ..all
            },
            vec![5],
        ),
        (
            FlowFilter {
                from: Some(later(2_000)),
                until: Some(later(4_000)),
                ..all
            },
            vec![3, 2],
        ),
        (
            FlowFilter {
                gateway: Some(GatewayId::from_bytes([9; 16])),
                ..all
            },
            vec![],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(ports(&world, filter, None, 9).await, expected, "{filter:?}");
    }
}

fn access(number: u64, decision: Decision) -> AccessEntry {
    AccessEntry {
        at: later(number),
        client: CLIENT,
        actor: Some(ActorId::from_bytes([3; 16])),
        resource: ResourceId::from_bytes([4; 16]),
        gateway: None,
        policy: None,
        grant: None,
        decision,
        reason: String::new(),
    }
}

pub(crate) async fn a_log_is_read_on_from_where_one_was(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let entries = (0..5).map(|number| access(number, Decision::Granted));
    let entries = entries.collect();
    store.append_access_log(account, entries).await.unwrap();
    let report = batch(1, 1, &[1, 2, 3]);
    store.append_flows(account, vec![report]).await.unwrap();
    world.actor("somebody").await;
    let ends = store.log_ends(account).await.unwrap();
    assert_eq!((ends[&Log::Access], ends[&Log::Flows]), (5, 3));
    let read =
        async |log, seq, limit| match store.log_after(account, log, seq, limit).await.unwrap() {
            LogEntries::Access(rows) => rows.iter().map(|row| row.seq.0).collect::<Vec<_>>(),
            LogEntries::Changes(rows) => rows.iter().map(|row| row.seq.0).collect(),
            LogEntries::Flows(rows) => rows.iter().map(|row| row.seq.0).collect(),
        };
    assert_eq!(read(Log::Access, 0, 9).await, [1, 2, 3, 4, 5]);
    assert_eq!(read(Log::Access, 2, 2).await, [3, 4]);
    assert_eq!(read(Log::Flows, 2, 9).await, [3]);
    assert_eq!(read(Log::Flows, 3, 9).await, [0_u64; 0]);
    let last = ends[&Log::Changes];
    assert_eq!(read(Log::Changes, last - 1, 9).await, [last]);
    // An entry says whose client it was, and can be asked for by that.
    let filter = AccessFilter {
        actor: Some(ActorId::from_bytes([3; 16])),
        ..AccessFilter::default()
    };
    let page = store
        .access_log(account, &filter, None, PageLimit::MAX)
        .await;
    assert_eq!(page.unwrap().items.len(), 5);
}

pub(crate) async fn logs_are_pruned_but_for_the_last_change(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let report = batch(1, 1, &[1, 2, 3, 4]);
    store.append_flows(account, vec![report]).await.unwrap();
    let prune = async |log, older, keep| {
        let gone = store.prune_log(account, log, later(older), keep).await;
        gone.unwrap()
    };
    let all = FlowFilter::default();
    assert_eq!(prune(Log::Flows, 2_000, u64::MAX).await, 1);
    assert_eq!(ports(&world, all, None, 9).await, [4, 3, 2]);
    assert_eq!(prune(Log::Flows, 0, 1).await, 2);
    assert_eq!(ports(&world, all, None, 9).await, [4]);
    // A report that has been forgotten is not taken for a new one.
    let report = batch(1, 1, &[1, 2, 3, 4]);
    store.append_flows(account, vec![report]).await.unwrap();
    assert_eq!(ports(&world, all, None, 9).await, [4]);
    for name in ["one", "two", "three"] {
        world.actor(name).await;
    }
    let last = store.log_ends(account).await.unwrap()[&Log::Changes];
    assert!(last > 3);
    assert_eq!(prune(Log::Changes, HOUR_MS * 24, 0).await, last - 1);
    let filter = ChangeFilter::default();
    let page = store
        .change_log(account, &filter, None, PageLimit::MAX)
        .await;
    let stored: Vec<u64> = page.unwrap().items.iter().map(|row| row.seq.0).collect();
    assert_eq!(stored, [last]);
    // The feed goes on from there.
    world.actor("four").await;
    let next = store.changes_after(account, Seq(last), 9).await.unwrap();
    assert_eq!(next[0].seq, Seq(last + 1));
}

pub(crate) async fn what_happened_is_counted_by_the_minute(factory: impl AsyncFn() -> Fixture) {
    const MINUTE_MS: u64 = 60_000;
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let entries = vec![
        access(0, Decision::Granted),
        access(1, Decision::Denied),
        access(2, Decision::Ended),
        access(3 * MINUTE_MS, Decision::Denied),
    ];
    store.append_access_log(account, entries).await.unwrap();
    let traffic = vec![(later(5), 100), (later(MINUTE_MS), 50), (later(6), 1)];
    store.record_traffic(account, traffic).await.unwrap();
    let steps = async |step_ms| {
        let found = store.activity(account, NOW, later(HOUR_MS), Duration::from_millis(step_ms));
        let found = found.await.unwrap();
        let step = |it: &Activity| {
            let minute = (it.at.unix_ms() - NOW.unix_ms()) / MINUTE_MS;
            (minute, it.bytes, it.granted, it.denied)
        };
        found.iter().map(step).collect::<Vec<_>>()
    };
    let by_minute = [(0, 101, 1, 1), (1, 50, 0, 0), (3, 0, 0, 1)];
    assert_eq!(steps(MINUTE_MS).await, by_minute);
    assert_eq!(steps(2 * MINUTE_MS).await, [(0, 151, 1, 1), (2, 0, 0, 1)]);
    let gone = store.prune_activity(account, later(2 * MINUTE_MS)).await;
    assert_eq!(gone.unwrap(), 2);
    assert_eq!(steps(MINUTE_MS).await, [(3, 0, 0, 1)]);
}

pub(crate) async fn a_sink_has_its_places_and_a_secret_until_it_is_forgotten(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let places = async |sink: &str| store.sink_positions(account, sink).await.unwrap();
    assert!(places("siem").await.is_empty());
    let first = BTreeMap::from([(Log::Access, 5), (Log::Flows, 0)]);
    store
        .note_sink_positions(account, "siem", &first)
        .await
        .unwrap();
    let second = BTreeMap::from([(Log::Access, 9)]);
    store
        .note_sink_positions(account, "siem", &second)
        .await
        .unwrap();
    let both = BTreeMap::from([(Log::Access, 9), (Log::Flows, 0)]);
    assert_eq!(places("siem").await, both);
    assert!(places("other").await.is_empty());
    let secret = async || store.sink_secret(account, "siem").await.unwrap();
    assert_eq!(secret().await, None);
    let token = SecretBytes::new(b"token".to_vec());
    let sink = || "siem".to_owned();
    let set = |secret| {
        let sink = sink();
        vec![Mutation::SetSinkSecret { sink, secret }]
    };
    let changes = world.write(set(Some(token.clone()))).await.unwrap();
    assert_eq!(changes, [], "a secret is no change");
    assert_eq!(secret().await, Some(token.clone()));
    let long = SecretBytes::new(vec![0; MAX_SECRET_LEN + 1]);
    let refused = world.write(set(Some(long))).await;
    assert!(matches!(refused, Err(StoreError::TooMany { .. })));
    assert_eq!(
        secret().await,
        Some(token.clone()),
        "a refusal changes nothing"
    );
    let forget = || Mutation::ForgetSink { sink: sink() };
    world.write(vec![forget()]).await.unwrap();
    assert_eq!(secret().await, None);
    assert!(places("siem").await.is_empty());

    // Another one of the name begins with what comes next, in one write with the settings or not at all.
    store
        .note_sink_positions(account, "siem", &both)
        .await
        .unwrap();
    let ends = store.log_ends(account).await.unwrap();
    let begin = || Mutation::BeginSink {
        sink: sink(),
        secret: Some(token.clone()),
    };
    let row = store.get(account, account.into()).await.unwrap();
    let stale = Mutation::Update {
        entity: row,
        expected_version: Some(7),
    };
    let refused = world.write(vec![begin(), stale]).await;
    assert!(matches!(refused, Err(StoreError::VersionConflict { .. })));
    assert_eq!((secret().await, places("siem").await), (None, both));
    world.write(vec![begin()]).await.unwrap();
    assert_eq!((secret().await, places("siem").await), (Some(token), ends));
}
