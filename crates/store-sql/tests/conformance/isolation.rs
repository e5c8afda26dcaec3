//! Nothing crosses an account.

use super::Fixture;
use super::world::*;
use culvert_ids::{ActorId, ClientId, GatewayId, RelayId};
use culvert_store::{
    AccessEntry, AccessFilter, Author, ChangeFilter, Decision, Entity, EntityId, EntityKind, Grant,
    ListFilter, MachineId, Mutation, PageLimit, SecretBytes, SecretName, SeenMachine, Seq,
    StoreError, TokenScope, TokenUses,
};
use culvert_wire::Cipher;
use culvert_wire::model::Log;
use std::time::Duration;

/// An account with a row of every kind.
struct Full {
    world: World,
    rows: Vec<Entity>,
    client_key: culvert_store::Principal,
    gateway_key: culvert_store::Principal,
    relay_key: culvert_store::Principal,
    relay: RelayId,
    grant: Grant,
}

impl Full {
    async fn new(world: World) -> Self {
        let (ada, staff) = (world.actor("Ada").await, world.group("Staff").await);
        let site = world.site("Berlin").await;
        let resource = world.resource(site.id, "Database").await;
        let policy = world.policy(staff.id, resource.id, "Staff").await;
        world.create(membership(staff.id, ada.id)).await;
        let vouches = provider("Example");
        world.create(vouches.clone()).await;
        world.create(identity(vouches.id, "1", ada.id)).await;
        let client_key = world.client_key(ada.id).await;
        let client = world.enrol(&client_key, "laptop", 1).await.unwrap();
        let gateway_key = world.gateway_key(site.id).await;
        let gateway = world.enrol_gateway(&gateway_key, "gw", 2).await.unwrap();
        let relay_key = world.relay_key().await;
        let machine = relay_enrolment("relay", &["192.0.2.9:3478"]);
        let relay = world
            .store
            .enrol_relay(world.account, &relay_key, machine, NOW);
        let relay = relay.await.unwrap().id;
        let grant = Grant {
            id: grant_id(),
            client: client.id,
            gateway: gateway.id,
            resource: resource.id,
            policy: policy.id,
            cipher: Cipher::Aes256Gcm,
            issued: NOW,
            expires: later(HOUR_MS),
        };
        let (store, account) = (&world.store, world.account);
        let saved = store.save_grants(account, vec![grant.clone()]).await;
        assert_eq!(saved.unwrap(), 1);
        let entry = AccessEntry {
            at: NOW,
            client: client.id,
            actor: Some(client.actor),
            resource: resource.id,
            gateway: Some(gateway.id),
            policy: Some(policy.id),
            grant: Some(grant.id),
            decision: Decision::Granted,
            reason: "Staff".to_owned(),
        };
        store.append_access_log(account, vec![entry]).await.unwrap();
        let mut rows = Vec::new();
        for kind in EntityKind::ALL {
            let filter = ListFilter::default();
            let page = store.list(account, *kind, &filter, None, PageLimit::MAX);
            let items = page.await.unwrap().items;
            assert!(!items.is_empty(), "{kind}");
            rows.extend(items);
        }
        Self {
            world,
            rows,
            client_key,
            gateway_key,
            relay_key,
            relay,
            grant,
        }
    }

    /// All that can be read of the account.
    async fn state(&self) -> String {
        let (store, account) = (&self.world.store, self.world.account);
        let snapshot = store.snapshot(account).await.unwrap();
        let changes = store.changes_after(account, Seq(0), 1_000).await.unwrap();
        let limit = PageLimit::MAX;
        let grants = store.live_grants(account, NOW, None, limit).await.unwrap();
        let filter = AccessFilter::default();
        let log = store.access_log(account, &filter, None, limit).await;
        format!("{snapshot:?}{changes:?}{grants:?}{:?}", log.unwrap())
    }
}

pub(crate) async fn ghsa_6v5r_no_method_reads_or_changes_another_account(
    factory: impl AsyncFn() -> Fixture,
) {
    let fixture = factory().await;
    let ours = Full::new(World::beside(&fixture.store).await).await;
    let theirs = Full::new(World::beside(&fixture.store).await).await;
    let before = (ours.state().await, theirs.state().await);
    rows_of_another_account_are_not_found(&ours, &theirs).await;
    references_into_another_account_are_not_found(&ours, &theirs).await;
    machines_of_another_account_do_not_enrol(&ours, &theirs).await;
    batches_pass_over_another_account(&ours, &theirs).await;
    logs_of_another_account_are_not_read(&ours, &theirs).await;
    assert_eq!((ours.state().await, theirs.state().await), before);
}

async fn rows_of_another_account_are_not_found(ours: &Full, theirs: &Full) {
    let (store, account) = (&ours.world.store, ours.world.account);
    for row in &theirs.rows {
        let id = row.id();
        let mut attempts = vec![
            store.get(account, id).await.map(|_| ()),
            ours.world.update(row.clone()).await.map(|_| ()),
        ];
        if id.kind() != EntityKind::Account {
            attempts.push(ours.world.delete(id, true).await.map(|_| ()));
        }
        for kind in EntityKind::ALL {
            let filter = ListFilter {
                refers_to: vec![id],
                ..ListFilter::default()
            };
            let list = store.list(account, *kind, &filter, None, PageLimit::MAX);
            match list.await {
                // The kind refers to no such rows, whoever's they are.
                Err(StoreError::Invalid { .. }) => {}
                other => attempts.push(other.map(|_| ())),
            }
            let position = culvert_store::Position {
                order: culvert_store::Order {
                    by: culvert_store::OrderBy::Created,
                    is_descending: false,
                },
                skipped: 0,
            };
            let ordered = store.list_ordered(account, *kind, &filter, position, PageLimit::MAX);
            match ordered.await {
                Err(StoreError::Invalid { .. }) => {}
                other => attempts.push(other.map(|_| ())),
            }
        }
        for attempt in attempts {
            assert!(
                matches!(&attempt, Err(StoreError::NotFound(missing)) if *missing == id),
                "{id}: {attempt:?}"
            );
        }
    }
    let ids: Vec<EntityId> = theirs.rows.iter().map(Entity::id).collect();
    let own = theirs.world.store.names(theirs.world.account, &ids).await;
    assert!(own.unwrap().len() > 5, "they have names");
    let found = store.names(account, &ids).await.unwrap();
    assert!(found.is_empty(), "{found:?}");
}

async fn references_into_another_account_are_not_found(ours: &Full, theirs: &Full) {
    let id = |full: &Full, kind: EntityKind| -> EntityId {
        full.rows
            .iter()
            .map(Entity::id)
            .find(|id| id.kind() == kind)
            .unwrap()
    };
    let (EntityId::Group(group), EntityId::Actor(actor), EntityId::Site(site)) = (
        id(theirs, EntityKind::Group),
        id(theirs, EntityKind::Actor),
        id(theirs, EntityKind::Site),
    ) else {
        unreachable!("ids of their kinds");
    };
    let EntityId::Group(own_group) = id(ours, EntityKind::Group) else {
        unreachable!("an id of its kind");
    };
    let (client, _) = token(TokenScope::Client { actor }, TokenUses::Many);
    let (gateway, _) = token(TokenScope::Gateway { site }, TokenUses::Many);
    for mutation in [
        Mutation::Create(membership(own_group, actor).into()),
        Mutation::Create(resource(site, "Theirs").into()),
        Mutation::Create(policy(group, theirs.grant.resource, "Theirs").into()),
        Mutation::Create(policy(own_group, theirs.grant.resource, "Theirs").into()),
        client,
        gateway,
    ] {
        let error = ours.world.write(vec![mutation]).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error:?}");
    }
}

async fn machines_of_another_account_do_not_enrol(ours: &Full, theirs: &Full) {
    let (store, account) = (&ours.world.store, ours.world.account);
    let machine = enrolment(ClientId::from_bytes(bytes()), "laptop", 7);
    let client = store.enrol_client(account, &theirs.client_key, machine, NOW);
    assert!(matches!(client.await, Err(StoreError::Denied(_))));
    let machine = enrolment(GatewayId::from_bytes(bytes()), "gw", 7);
    let gateway = store.enrol_gateway(account, &theirs.gateway_key, machine, NOW);
    assert!(matches!(gateway.await, Err(StoreError::Denied(_))));
    let machine = relay_enrolment("relay", &["192.0.2.9:3478"]);
    let relay = store.enrol_relay(account, &theirs.relay_key, machine, NOW);
    assert!(matches!(relay.await, Err(StoreError::Denied(_))));
}

async fn batches_pass_over_another_account(ours: &Full, theirs: &Full) {
    let (store, account) = (&ours.world.store, ours.world.account);
    let seen = |id| SeenMachine {
        id,
        seen: seen(later(5)),
    };
    let machines = vec![
        seen(MachineId::Client(theirs.grant.client)),
        seen(MachineId::Gateway(theirs.grant.gateway)),
        seen(MachineId::Relay(theirs.relay)),
    ];
    assert_eq!(store.record_seen(account, machines).await.unwrap(), 0);
    let uses = vec![(theirs.client_key.token, later(5))];
    assert_eq!(store.touch_tokens(account, uses).await.unwrap(), 0);
    let ended = store.end_grants(account, vec![theirs.grant.id]).await;
    assert_eq!(ended.unwrap(), 0);
    for foreign in [
        Grant {
            client: theirs.grant.client,
            ..ours.grant.clone()
        },
        Grant {
            gateway: theirs.grant.gateway,
            ..ours.grant.clone()
        },
        Grant {
            resource: theirs.grant.resource,
            ..ours.grant.clone()
        },
    ] {
        let saved = store.save_grants(account, vec![foreign]).await;
        assert_eq!(saved.unwrap(), 0);
    }
}

async fn logs_of_another_account_are_not_read(ours: &Full, theirs: &Full) {
    let (store, account) = (&ours.world.store, ours.world.account);
    for row in &theirs.rows {
        let filter = ChangeFilter {
            id: Some(row.id()),
            ..ChangeFilter::default()
        };
        let page = store
            .change_log(account, &filter, None, PageLimit::MAX)
            .await
            .unwrap();
        assert_eq!(page.items, []);
    }
    let filter = AccessFilter {
        client: Some(theirs.grant.client),
        ..AccessFilter::default()
    };
    let page = store.access_log(account, &filter, None, PageLimit::MAX);
    assert_eq!(page.await.unwrap().items, []);
    let secret =
        |account, byte| store.secret(account, SecretName::Pairs, SecretBytes::new(vec![byte; 32]));
    assert_eq!(secret(account, 1).await.unwrap().expose(), [1; 32]);
    let other = secret(theirs.world.account, 2).await.unwrap();
    assert_eq!(other.expose(), [2; 32]);
}

pub(crate) async fn an_unknown_account_is_an_error_everywhere(factory: impl AsyncFn() -> Fixture) {
    let fixture = factory().await;
    let full = Full::new(World::beside(&fixture.store).await).await;
    let (store, unknown) = (&fixture.store, account_id());
    let limit = PageLimit::MAX;
    let list = ListFilter::default();
    let changes = ChangeFilter::default();
    let access = AccessFilter::default();
    let client = enrolment(ClientId::from_bytes(bytes()), "laptop", 1);
    let gateway = enrolment(GatewayId::from_bytes(bytes()), "gw", 1);
    let secret = SecretBytes::new(vec![1]);
    let key = full.client_key;
    let answers = [
        store.is_set_up(unknown).await.map(|_| ()),
        store.password(unknown, "Ada").await.map(|_| ()),
        store.owners(unknown, NOW).await.map(|_| ()),
        store
            .write(unknown, Author::PORTAL, NOW, Vec::new())
            .await
            .map(|_| ()),
        store
            .list(unknown, EntityKind::Group, &list, None, limit)
            .await
            .map(|_| ()),
        store
            .list_ordered(unknown, EntityKind::Group, &list, Default::default(), limit)
            .await
            .map(|_| ()),
        store.snapshot(unknown).await.map(|_| ()),
        store.changes_after(unknown, Seq(0), 1).await.map(|_| ()),
        store
            .change_log(unknown, &changes, None, limit)
            .await
            .map(|_| ()),
        store.touch_tokens(unknown, Vec::new()).await.map(|_| ()),
        store
            .enrol_client(unknown, &key, client, NOW)
            .await
            .map(|_| ()),
        store
            .enrol_gateway(unknown, &key, gateway, NOW)
            .await
            .map(|_| ()),
        store
            .enrol_relay(unknown, &key, relay_enrolment("relay", &[]), NOW)
            .await
            .map(|_| ()),
        store.record_seen(unknown, Vec::new()).await.map(|_| ()),
        store.save_grants(unknown, Vec::new()).await.map(|_| ()),
        store.end_grants(unknown, Vec::new()).await.map(|_| ()),
        store
            .live_grants(unknown, NOW, None, limit)
            .await
            .map(|_| ()),
        store.prune_grants(unknown, NOW).await.map(|_| ()),
        store.append_access_log(unknown, Vec::new()).await,
        store
            .access_log(unknown, &access, None, limit)
            .await
            .map(|_| ()),
        store
            .prune_log(unknown, Log::Access, NOW, 1)
            .await
            .map(|_| ()),
        store.append_flows(unknown, Vec::new()).await,
        store
            .flow_log(unknown, &culvert_store::FlowFilter::default(), None, limit)
            .await
            .map(|_| ()),
        store.flows_lost(unknown).await.map(|_| ()),
        store.log_after(unknown, Log::Flows, 0, 1).await.map(|_| ()),
        store.log_ends(unknown).await.map(|_| ()),
        store.record_traffic(unknown, Vec::new()).await,
        store
            .activity(unknown, NOW, NOW, Duration::from_secs(60))
            .await
            .map(|_| ()),
        store
            .recent_use(unknown, ActorId::from_bytes([1; 16]).into(), NOW)
            .await
            .map(|_| ()),
        store.member_counts(unknown, &[]).await.map(|_| ()),
        store
            .reference_counts(unknown, EntityKind::Gateway, &ListFilter::default(), &[])
            .await
            .map(|_| ()),
        store
            .software_counts(unknown, EntityKind::Client)
            .await
            .map(|_| ()),
        store.prune_activity(unknown, NOW).await.map(|_| ()),
        store.sink_positions(unknown, "siem").await.map(|_| ()),
        store.sink_secret(unknown, "siem").await.map(|_| ()),
        store
            .secret(unknown, SecretName::Pairs, secret)
            .await
            .map(|_| ()),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        assert!(
            matches!(answer, Err(StoreError::NoAccount)),
            "{at}: {answer:?}"
        );
    }
    let get = store.get(unknown, full.grant.client.into()).await;
    assert!(matches!(get, Err(StoreError::NotFound(_))));
}
