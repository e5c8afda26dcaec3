//! The access log of the last 24 hours in sums: why requests were denied, and who used which resource most.

use crate::explain;
use crate::names::Names;
use crate::paths;
use crate::view::{Cell, Section, Table};
use culvert_store::{AccessTotals, EntityId, MAX_USE_ROWS};

/// The things whose names the tables show.
pub(super) fn ids(totals: &AccessTotals) -> Vec<EntityId> {
    let last = totals.causes.iter();
    let last = last.flat_map(|cause| [cause.last_client.into(), cause.resource.into()]);
    let resources = totals.resources.iter().map(|(id, _)| (*id).into());
    let actors = totals.actors.iter().map(|(id, _)| (*id).into());
    last.chain(resources).chain(actors).collect()
}

/// The sum, which leads to its entries. Those of what was deleted since can't be asked for by its name.
fn entries(names: &Names, field: &str, id: EntityId, count: u64) -> Cell {
    let Some(name) = names.get(id) else {
        return Cell::text(count);
    };
    let words = [(field, name), ("decision", "granted"), ("from", "24h")];
    Cell::link(paths::asking("/log/access", &words), count)
}

pub(super) fn sections(totals: &AccessTotals, names: &Names) -> Vec<Section> {
    let causes = totals.causes.iter().map(|cause| {
        vec![
            Cell::text(&cause.reason),
            names.shown(cause.resource),
            Cell::text(cause.count),
            names.shown(cause.last_client),
            Cell::time(Some(cause.last)),
            explain::link(names, cause.last_client, cause.resource),
        ]
    });
    let causes = Table {
        title: "Denied in 24 hours, by cause".to_owned(),
        columns: vec![
            "Cause",
            "Resource",
            "Requests",
            "Last client",
            "Last",
            "Why",
        ],
        rows: causes.collect(),
        empty: "Nothing was denied.".into(),
        ..Table::default()
    };
    let resources = totals.resources.iter().map(|(id, count)| {
        vec![
            names.shown(*id),
            entries(names, "resource", (*id).into(), *count),
        ]
    });
    let resources = Table {
        title: "Most used resources in 24 hours".to_owned(),
        columns: vec!["Resource", "Granted requests"],
        rows: resources.collect(),
        empty: "No resource was used.".into(),
        ..Table::default()
    };
    let actors = totals.actors.iter().map(|(id, count)| {
        vec![
            names.shown(*id),
            entries(names, "actor", (*id).into(), *count),
        ]
    });
    let actors = Table {
        title: "Most active people in 24 hours".to_owned(),
        columns: vec!["Person", "Granted requests"],
        rows: actors.collect(),
        empty: "Nobody used a resource.".into(),
        ..Table::default()
    };
    let mut sections = vec![
        Section::Table(causes),
        Section::Pair(Box::new([resources, actors])),
    ];
    if totals.is_partial {
        sections.push(Section::Note(format!(
            "The sums above and the widths in the picture are of the newest {MAX_USE_ROWS} entries of the access log."
        )));
    }
    sections
}
