//! Writes of so many rows that they are several statements.

use super::Fixture;
use super::world::*;
use culvert_store::{Change, Entity, Mutation, Operation, Resource, Seq, Stamp};
use culvert_wire::model::Filter;

/// Two batches of the store, and one row more.
const MANY: usize = 2 * 2_000 + 1;

/// The number of changes that are read at once.
const PAGE: u32 = 1_000;

pub(crate) async fn a_write_of_several_batches_creates_changes_and_deletes_all_its_rows(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let site = world.site("Berlin").await.id;
    let seq = world.store.snapshot(world.account).await.unwrap().seq;
    let created: Vec<Resource> = (0..MANY)
        .map(|number| stamped(resource(site, &format!("Resource {number}")), 1))
        .collect();
    let mutations = created.iter().cloned().map(Entity::from);
    let mutations = mutations.map(Mutation::Create).collect();
    let pairs = created.iter().map(|row| (None, Some(row)));
    let seq = check(&world, seq, mutations, Operation::Create, pairs).await;
    assert!(rows(&world).await == created, "rows that were created");

    let changed: Vec<Resource> = created.iter().cloned().enumerate().map(change).collect();
    let mutations = changed.iter().cloned().map(update).collect();
    let pairs = created.iter().zip(&changed);
    let pairs = pairs.map(|(before, after)| (Some(before), Some(after)));
    let seq = check(&world, seq, mutations, Operation::Update, pairs).await;
    assert!(rows(&world).await == changed, "rows that were changed");

    let mutations = changed.iter().map(|row| delete(row.id, false)).collect();
    let pairs = changed.iter().map(|row| (Some(row), None));
    check(&world, seq, mutations, Operation::Delete, pairs).await;
    assert_eq!(rows(&world).await, []);
}

fn stamped(row: Resource, version: u64) -> Resource {
    let stamp = Stamp {
        version,
        created: NOW,
        updated: NOW,
    };
    Resource { stamp, ..row }
}

/// Each row is another one.
fn change((number, mut row): (usize, Resource)) -> Resource {
    row.filters = vec![Filter::Any];
    row.target.address = format!("10.{}.{}.0/24", number / 256, number % 256);
    stamped(row, 2)
}

async fn rows(world: &World) -> Vec<Resource> {
    let mut rows = world.store.snapshot(world.account).await.unwrap().resources;
    rows.sort_by_key(|row| row.id);
    rows
}

/// Writes, and compares the answer and the change log with the rows before and after. Returns the last change.
async fn check<'r>(
    world: &World,
    seq: Seq,
    mutations: Vec<Mutation>,
    operation: Operation,
    rows: impl Iterator<Item = (Option<&'r Resource>, Option<&'r Resource>)>,
) -> Seq {
    let written = world.write(mutations).await.unwrap();
    assert_eq!(written.len(), MANY);
    for ((change, number), (before, after)) in written.iter().zip(seq.0 + 1..).zip(rows) {
        let row = |row: Option<&Resource>| row.cloned().map(Entity::from);
        assert_eq!((change.seq, change.operation), (Seq(number), operation));
        assert_eq!(change.before, row(before));
        assert_eq!(change.after, row(after));
    }
    let mut logged: Vec<Change> = Vec::new();
    loop {
        let after = logged.last().map_or(seq, |change| change.seq);
        let more = world.store.changes_after(world.account, after, PAGE).await;
        match more.unwrap() {
            more if more.is_empty() => break,
            more => logged.extend(more),
        }
    }
    assert!(
        logged == written,
        "{operation:?}: the change log is another"
    );
    Seq(seq.0 + MANY as u64)
}
