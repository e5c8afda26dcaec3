//! Random mutations, done by the store and by a model of a map.
//!
//! The model has no database, no transaction and no index: a write works on a copy of the map, which
//! becomes the map if all went well. Ids, names and references come from small sets, so that they
//! often collide.

use super::Fixture;
use super::world::*;
use culvert_ids::{ActorId, GroupId, MembershipId, PolicyId, ResourceId, SiteId, TokenId};
use culvert_store::{
    Change, Entity, EntityId, EntityKind, Mutation, Operation, Seq, Snapshot, Stamp, StoreError,
    Token, TokenScope, TokenUses,
};
use culvert_wire::token::Secret;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;

const CASES: u32 = 200;
/// Rows of each kind that a mutation may mean.
const SLOTS: u8 = 3;
/// The same of a large write, so that most mutations meet nothing that is in their way.
const MANY_SLOTS: u8 = 12;
/// Large writes that are compared. Each is some hundred transactions.
const MANY_CASES: u32 = 24;
/// Refusals of a large write that are compared, each after all that went well before it.
const MANY_REFUSALS: u32 = 10;
/// The kinds of rows, but for tokens: no two accounts may have one with the same id.
const KINDS_IN_MANY: u8 = 6;

type Rows = BTreeMap<EntityId, Entity>;

/// The kind of an error, without its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NotFound,
    Conflict,
    NameTaken,
    Exists,
    InUse,
    Invalid,
}

fn fault(error: &StoreError) -> Fault {
    match error {
        StoreError::NotFound(_) => Fault::NotFound,
        StoreError::VersionConflict { .. } => Fault::Conflict,
        StoreError::NameTaken { .. } => Fault::NameTaken,
        StoreError::Exists(_) => Fault::Exists,
        StoreError::InUse { .. } => Fault::InUse,
        StoreError::Invalid { .. } => Fault::Invalid,
        other => panic!("{other:?}"),
    }
}

/// A row that a mutation means, of the kinds that mutations make.
#[derive(Clone, Copy, Debug)]
struct Row {
    kind: u8,
    slot: u8,
    name: u8,
    /// Slots of what it refers to.
    refers: (u8, u8),
    flag: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Create(Row),
    Update(Row, Option<u64>),
    Delete(Row, Option<u64>, bool),
}

fn row(kinds: u8, slots: u8) -> impl Strategy<Value = Row> {
    let refers = (0..slots, 0..slots);
    (0..kinds, 0..slots, 0..slots * 2, refers, any::<bool>()).prop_map(
        |(kind, slot, name, refers, flag)| Row {
            kind,
            slot,
            name,
            refers,
            flag,
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    step_of(7, SLOTS, 0.3)
}

/// `stale` is how often a version is named.
fn step_of(kinds: u8, slots: u8, stale: f64) -> impl Strategy<Value = Step> {
    let row = move || row(kinds, slots);
    let version = move || prop::option::weighted(stale, 1_u64..4);
    prop_oneof![
        5 => row().prop_map(Step::Create),
        3 => (row(), version()).prop_map(|(row, version)| Step::Update(row, version)),
        2 => (row(), version(), any::<bool>())
            .prop_map(|(row, version, cascade)| Step::Delete(row, version, cascade)),
    ]
}

/// The ids of one case: tokens must be unlike those of all other accounts.
#[derive(Clone, Copy)]
struct Ids([u8; 16]);

impl Ids {
    fn bytes(self, kind: u8, slot: u8) -> [u8; 16] {
        let mut bytes = self.0;
        bytes[14] = kind;
        bytes[15] = slot;
        bytes
    }

    fn entity(self, row: Row) -> Entity {
        let (first, second) = row.refers;
        let group = GroupId::from_bytes(self.bytes(1, first));
        let actor = ActorId::from_bytes(self.bytes(0, second));
        let resource = ResourceId::from_bytes(self.bytes(4, second));
        let site_id = SiteId::from_bytes(self.bytes(3, first));
        let bytes = self.bytes(row.kind, row.slot);
        let some = ["Web", "wEB", "db", "Äpfel", "äPFEL", "x"];
        let name = match some.get(usize::from(row.name)) {
            Some(name) => (*name).to_owned(),
            None => format!("Name {}", row.name),
        };
        let name = name.as_str();
        match row.kind {
            0 => {
                let mut actor = actor_named(name, bytes);
                actor.disabled = row.flag;
                actor.into()
            }
            1 => {
                let mut group = self::group(name);
                group.id = GroupId::from_bytes(bytes);
                group.into()
            }
            2 => {
                let mut membership = membership(group, actor);
                membership.id = MembershipId::from_bytes(bytes);
                membership.into()
            }
            3 => {
                let mut site = site(name);
                site.id = SiteId::from_bytes(bytes);
                site.into()
            }
            4 => {
                let mut row = resource_named(site_id, name, row.flag);
                row.id = ResourceId::from_bytes(bytes);
                row.into()
            }
            5 => {
                let mut policy = policy(group, resource, name);
                policy.id = PolicyId::from_bytes(bytes);
                policy.disabled = row.flag;
                policy.into()
            }
            _ => Token {
                id: TokenId::from_bytes(bytes),
                scope: if first == 0 {
                    TokenScope::Gateway { site: site_id }
                } else {
                    TokenScope::Client { actor }
                },
                name: name.to_owned(),
                uses: TokenUses::Many,
                expires: None,
                revoked: row.flag.then_some(NOW),
                used: None,
                last_used: None,
                proven: None,
                stamp: Stamp::default(),
            }
            .into(),
        }
    }

    fn mutation(self, step: Step) -> Mutation {
        match step {
            Step::Create(row) => match self.entity(row) {
                Entity::Token(token) => Mutation::CreateToken {
                    token,
                    digest: Secret::new([1; 32]).digest(),
                },
                other => Mutation::Create(other),
            },
            Step::Update(row, expected_version) => Mutation::Update {
                entity: self.entity(row),
                expected_version,
            },
            Step::Delete(row, expected_version, cascade) => Mutation::Delete {
                id: self.entity(row).id(),
                expected_version,
                cascade,
            },
        }
    }
}

fn actor_named(name: &str, bytes: [u8; 16]) -> culvert_store::Actor {
    let mut actor = actor(name);
    actor.id = ActorId::from_bytes(bytes);
    actor
}

fn resource_named(site: SiteId, name: &str, open: bool) -> culvert_store::Resource {
    let mut resource = resource(site, name);
    if open {
        resource.filters = vec![culvert_wire::model::Filter::Any];
    }
    resource
}

/// Name, by which it is compared, and whether it counts.
fn name(row: &Entity) -> Option<String> {
    let (name, counts) = match row {
        Entity::Actor(row) => (&row.name, true),
        Entity::Group(row) => (&row.name, true),
        Entity::Site(row) => (&row.name, true),
        Entity::Resource(row) => (&row.name, true),
        Entity::Policy(row) => (&row.name, true),
        Entity::Token(row) => (&row.name, row.revoked.is_none()),
        _ => return None,
    };
    counts.then(|| name.to_lowercase())
}

fn refers(row: &Entity) -> Vec<EntityId> {
    match row {
        Entity::Membership(row) => vec![row.group.into(), row.actor.into()],
        Entity::Resource(row) => vec![row.site.into()],
        Entity::Policy(row) => vec![row.group.into(), row.resource.into()],
        Entity::Token(row) => {
            let actor = row.scope.actor().map(EntityId::from);
            actor
                .into_iter()
                .chain(row.scope.site().map(EntityId::from))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn stamped(mut row: Entity, version: u64) -> Entity {
    let stamp = Stamp {
        version,
        created: NOW,
        updated: NOW,
    };
    match &mut row {
        Entity::Actor(row) => row.stamp = stamp,
        Entity::Group(row) => row.stamp = stamp,
        Entity::Membership(row) => row.stamp = stamp,
        Entity::Site(row) => row.stamp = stamp,
        Entity::Resource(row) => row.stamp = stamp,
        Entity::Policy(row) => row.stamp = stamp,
        Entity::Token(row) => row.stamp = stamp,
        other => panic!("{other:?}"),
    }
    row
}

fn check(rows: &Rows, row: &Entity) -> Result<(), Fault> {
    if refers(row).iter().any(|id| !rows.contains_key(id)) {
        return Err(Fault::NotFound);
    }
    let others = || rows.values().filter(|other| other.id() != row.id());
    let is_same_name =
        |other: &Entity| other.id().kind() == row.id().kind() && name(other) == name(row);
    if name(row).is_some() && others().any(is_same_name) {
        return Err(Fault::NameTaken);
    }
    let pair =
        |other: &Entity| other.kind() == EntityKind::Membership && refers(other) == refers(row);
    if row.kind() == EntityKind::Membership && others().any(pair) {
        return Err(Fault::Exists);
    }
    Ok(())
}

/// Those that refer to a row; whether they go along without being asked for.
fn users(rows: &Rows, id: EntityId) -> Vec<(EntityId, bool)> {
    let users = rows.values().filter(|row| refers(row).contains(&id));
    let always = |row: &Entity| matches!(row, Entity::Membership(_) | Entity::Policy(_));
    users.map(|row| (row.id(), always(row))).collect()
}

fn remove(rows: &mut Rows, id: EntityId) {
    for (user, _) in users(rows, id) {
        remove(rows, user);
    }
    rows.remove(&id);
}

fn apply(rows: &mut Rows, mutation: &Mutation) -> Result<(), Fault> {
    let current = |rows: &Rows, id: EntityId, expected: Option<u64>| {
        let row = rows.get(&id).ok_or(Fault::NotFound)?;
        match expected {
            Some(expected) if expected != row.stamp().version => Err(Fault::Conflict),
            _ => Ok(row.clone()),
        }
    };
    let create = |rows: &mut Rows, row: Entity| {
        if rows.contains_key(&row.id()) {
            return Err(Fault::Exists);
        }
        check(rows, &row)?;
        rows.insert(row.id(), stamped(row, 1));
        Ok(())
    };
    match mutation {
        Mutation::Create(row) => create(rows, row.clone()),
        Mutation::CreateToken { token, .. } => create(rows, token.clone().into()),
        Mutation::SetPassword { .. }
        | Mutation::Invite { .. }
        | Mutation::UseInvitation { .. }
        | Mutation::SetProviderSecret { .. }
        | Mutation::ChangeFactor { .. }
        | Mutation::Prove { .. }
        | Mutation::RenewProof { .. }
        | Mutation::EndSessions { .. }
        | Mutation::EndOldSessions { .. }
        | Mutation::Unlink { .. }
        | Mutation::BeginSink { .. }
        | Mutation::SetSinkSecret { .. }
        | Mutation::ForgetSink { .. } => {
            panic!("the model has no secrets, sessions and identities")
        }
        Mutation::Expect { id, version } => current(rows, *id, Some(*version)).map(drop),
        Mutation::Update {
            entity,
            expected_version,
        } => {
            let before = current(rows, entity.id(), *expected_version)?;
            let version = before.stamp().version;
            if stamped(entity.clone(), version) == before {
                return Ok(());
            }
            let refused = match (&before, entity) {
                (Entity::Membership(_), _) => true,
                (Entity::Token(was), Entity::Token(is)) => {
                    was.scope != is.scope || was.revoked.is_some() && was.revoked != is.revoked
                }
                _ => false,
            };
            if refused {
                return Err(Fault::Invalid);
            }
            check(rows, entity)?;
            rows.insert(entity.id(), stamped(entity.clone(), version + 1));
            Ok(())
        }
        Mutation::Delete {
            id,
            expected_version,
            cascade,
        } => {
            current(rows, *id, *expected_version)?;
            if !cascade && users(rows, *id).iter().any(|(_, always)| !always) {
                return Err(Fault::InUse);
            }
            remove(rows, *id);
            Ok(())
        }
    }
}

/// Plays changes on top of rows; each must fit what is there.
fn replay(rows: &mut Rows, changes: &[Change]) {
    for change in changes {
        let before = match &change.after {
            Some(after) => rows.insert(change.id, after.clone()),
            None => rows.remove(&change.id),
        };
        assert_eq!(before, change.before, "{change:?}");
        let operation = match (&change.before, &change.after) {
            (None, Some(_)) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
            (Some(_), None) => Operation::Delete,
            (None, None) => panic!("{change:?}"),
        };
        assert_eq!(operation, change.operation);
        // A reader that follows the changes never sees a reference to a missing row.
        for row in rows.values() {
            assert!(refers(row).iter().all(|id| rows.contains_key(id)));
        }
    }
}

fn rows_of(snapshot: &Snapshot) -> Rows {
    let mut rows = Rows::new();
    let mut add = |row: Entity| assert!(rows.insert(row.id(), row).is_none());
    snapshot
        .actors
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    snapshot
        .groups
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    snapshot
        .memberships
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    snapshot
        .sites
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    snapshot
        .resources
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    snapshot
        .policies
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    snapshot
        .tokens
        .iter()
        .cloned()
        .for_each(|row| add(row.into()));
    rows
}

/// The result of each write, the snapshot and the change log are those of the model. The log has no
/// gap, and its replay from the beginning gives the snapshot.
pub(crate) async fn random_mutations_do_what_the_model_does(factory: impl AsyncFn() -> Fixture) {
    let fixture = factory().await;
    let writes = prop::collection::vec(prop::collection::vec(step(), 1..4), 1..14);
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let done = tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        TestRunner::new(config).run(&writes, |writes| {
            runtime.block_on(compare(&fixture, writes));
            Ok(())
        })
    });
    done.unwrap();
}

async fn compare(fixture: &Fixture, writes: Vec<Vec<Step>>) {
    let world = World::beside(&fixture.store).await;
    let ids = Ids(bytes());
    let mut model = Rows::new();
    let mut played = Rows::new();
    let mut seq = Seq(1);
    for steps in writes {
        let mutations: Vec<Mutation> = steps.iter().map(|step| ids.mutation(*step)).collect();
        let mut copy = model.clone();
        let expected = mutations
            .iter()
            .try_for_each(|mutation| apply(&mut copy, mutation));
        let done = world.write(mutations).await;
        match (&done, expected) {
            (Ok(changes), Ok(())) => {
                model = copy;
                for change in changes {
                    seq = Seq(seq.0 + 1);
                    assert_eq!(change.seq, seq);
                }
                replay(&mut played, changes);
            }
            (Err(error), Err(expected)) => assert_eq!(fault(error), expected, "{steps:?}"),
            _ => panic!("{steps:?}: {done:?}, but {expected:?} in the model"),
        }
        assert_eq!(played, model);
    }
    let snapshot = world.store.snapshot(world.account).await.unwrap();
    assert_eq!((rows_of(&snapshot), snapshot.seq), (model.clone(), seq));
    let changes = world
        .store
        .changes_after(world.account, Seq(1), 1_000)
        .await
        .unwrap();
    let numbers: Vec<u64> = changes.iter().map(|change| change.seq.0).collect();
    assert_eq!(numbers, (2..=seq.0).collect::<Vec<_>>());
    let mut replayed = Rows::new();
    replay(&mut replayed, &changes);
    assert_eq!(replayed, model);
}

/// The answer to mutations, with every word of it.
fn said(written: &Result<Vec<Change>, StoreError>) -> Result<Vec<String>, String> {
    match written {
        Ok(changes) => Ok(changes.iter().map(said_of).collect()),
        Err(error) => Err(format!("{error} {error:?}")),
    }
}

fn said_of(change: &Change) -> String {
    let Change {
        operation,
        id,
        before,
        after,
        ..
    } = change;
    format!("{operation:?} {id} {before:?} {after:?}")
}

/// Many mutations in one write do, and say, what each in a write of its own does: to the row, in the change log and in
/// the first refusal.
pub(crate) async fn many_mutations_do_what_each_by_itself_does(factory: impl AsyncFn() -> Fixture) {
    let fixture = factory().await;
    compare_many(&fixture, a_name_that_another_row_takes()).await;
    let steps = prop::collection::vec(step_of(KINDS_IN_MANY, MANY_SLOTS, 0.05), 60..120);
    let config = Config {
        cases: MANY_CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let done = tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Handle::current();
        TestRunner::new(config).run(&steps, |steps| {
            runtime.block_on(compare_many(&fixture, steps));
            Ok(())
        })
    });
    done.unwrap();
}

/// A row is renamed to the name of one that is created later, and has gone when that is tried again.
fn a_name_that_another_row_takes() -> Vec<Step> {
    let group = |slot| Row {
        kind: 1,
        slot,
        name: 5,
        refers: (0, 0),
        flag: false,
    };
    vec![
        Step::Update(group(0), None),
        Step::Create(group(MANY_SLOTS)),
        Step::Delete(group(0), None, false),
        Step::Create(group(MANY_SLOTS)),
    ]
}

/// Something for the others to refer to.
fn first_rows() -> impl Iterator<Item = Step> {
    let row = |kind, slot| Row {
        kind,
        slot,
        name: slot * 2,
        refers: (slot, slot),
        flag: false,
    };
    let kinds = [0, 1, 3, 4];
    kinds
        .into_iter()
        .flat_map(move |kind| (0..MANY_SLOTS).map(move |slot| Step::Create(row(kind, slot))))
}

async fn compare_many(fixture: &Fixture, steps: Vec<Step>) {
    let one_by_one = World::beside(&fixture.store).await;
    let at_once = World::beside(&fixture.store).await;
    let ids = Ids(bytes());
    let steps = first_rows().chain(steps);
    let mutations = steps.map(|step| ids.mutation(step));
    let mut pending: Vec<Mutation> = Vec::new();
    let mut expected = Vec::new();
    let mut refusals = 0;
    for mutation in mutations {
        let by_itself = said(&one_by_one.write(vec![mutation.clone()]).await);
        match by_itself {
            Ok(changes) => {
                pending.push(mutation);
                expected.extend(changes);
            }
            Err(_) if refusals == MANY_REFUSALS => {}
            // A refusal is told with all that goes well before it in the same write.
            Err(refusal) => {
                refusals += 1;
                let mut with_it = pending.clone();
                with_it.push(mutation);
                let refused = said(&at_once.write(with_it).await);
                assert_eq!(refused, Err(refusal));
            }
        }
    }
    // So many that they are read ahead, in the first half and in the second one.
    let second = pending.split_off(pending.len() / 2);
    let mut written = Vec::new();
    for half in [pending, second] {
        written.extend(said(&at_once.write(half).await).unwrap());
    }
    assert_eq!(written, expected);
    let log = async |world: &World| -> Vec<String> {
        let changes = world.store.changes_after(world.account, Seq(1), 1_000);
        changes.await.unwrap().iter().map(said_of).collect()
    };
    assert_eq!(log(&at_once).await, log(&one_by_one).await);
    let rows = async |world: &World| {
        let snapshot = world.store.snapshot(world.account).await.unwrap();
        (rows_of(&snapshot), snapshot.seq)
    };
    assert_eq!(rows(&at_once).await, rows(&one_by_one).await);
}
