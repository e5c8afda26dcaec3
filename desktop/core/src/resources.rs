//! The list of resources: rows in their order, search, and the difference between two lists.

use crate::favourites::Favourites;
use crate::status::{AccessState, Reason, Resource, Status};
use crate::{address, text};
use std::rc::Rc;

/// The most rows: the service's own bound of resources.
pub const MAX_ROWS: usize = 20_000;

/// The longest text that is searched for, in characters.
pub const MAX_QUERY_CHARS: usize = 100;

/// The path of a row whose access is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Straight to the gateway.
    Direct,
    /// By a relay.
    Relayed,
    /// By a relay that is reached by TLS.
    RelayedByTls,
    /// The gateway has not answered yet.
    None,
}

impl Path {
    /// The path that a gateway's status tells.
    #[must_use]
    pub fn of(gateway: &crate::status::Gateway) -> Self {
        match gateway.path.as_str() {
            "direct" => Self::Direct,
            "relayed" if gateway.by_tls => Self::RelayedByTls,
            "relayed" => Self::Relayed,
            _ => Self::None,
        }
    }
}

/// A row of the list. Two equal rows look the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The resource's id.
    pub id: String,
    /// The name, cleaned.
    pub name: String,
    /// The address, cleaned.
    pub target: String,
    /// The state of the access.
    pub state: AccessState,
    /// The reason of a denial.
    pub why: Option<Denied>,
    /// The gateway's name and the path, if access is granted.
    pub through: Option<(String, Path)>,
    /// True if the person marked it.
    pub is_favourite: bool,
    /// True if a program of the desktop opens it.
    pub opens: bool,
    /// The text that a search looks in.
    key: String,
}

/// The reason of a denial, without its age: rows change when what they show changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// For programs.
    pub code: String,
    /// For people, in English, cleaned.
    pub text: String,
}

impl Denied {
    fn of(reason: &Reason) -> Self {
        Self {
            code: reason.code.clone(),
            text: text::clean(&reason.text),
        }
    }
}

/// The rows of a status: favourites first, then by name. A row is shared by the lists that have it.
#[must_use]
pub fn rows(status: &Status, favourites: &Favourites) -> Vec<Rc<Row>> {
    let gateways: std::collections::HashMap<&str, &crate::status::Gateway> = status
        .gateways
        .iter()
        .map(|gateway| (gateway.id.as_str(), gateway))
        .collect();
    let row = |resource: &Resource| {
        let is_granted = resource.state == AccessState::Granted;
        let gateway = resource.gateway.as_deref().filter(|_| is_granted);
        let gateway = gateway.and_then(|id| gateways.get(id));
        let is_denied = resource.state == AccessState::Denied;
        let name = text::clean(&resource.name);
        let target = text::clean(&resource.target);
        Rc::new(Row {
            key: format!("{}\n{}", name.to_lowercase(), target.to_lowercase()),
            id: resource.id.clone(),
            name,
            target,
            state: resource.state,
            why: resource.why.as_ref().filter(|_| is_denied).map(Denied::of),
            through: gateway.map(|gateway| (text::clean(&gateway.name), Path::of(gateway))),
            is_favourite: favourites.contains(&resource.id),
            opens: address::to_open(resource).is_some(),
        })
    };
    let mut rows: Vec<Rc<Row>> = status.resources.iter().take(MAX_ROWS).map(row).collect();
    rows.sort_by(|a, b| (!a.is_favourite, &a.key, &a.id).cmp(&(!b.is_favourite, &b.key, &b.id)));
    rows
}

/// A choice among the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All.
    #[default]
    All,
    /// Those that the person marked.
    Favourites,
    /// Those with a grant.
    Granted,
    /// Those whose access was denied.
    Denied,
}

impl Choice {
    fn has(self, row: &Row) -> bool {
        match self {
            Self::All => true,
            Self::Favourites => row.is_favourite,
            Self::Granted => row.state == AccessState::Granted,
            Self::Denied => row.state == AccessState::Denied,
        }
    }
}

/// The rows of `choice` in which each word of `query` occurs, whatever its case.
#[must_use]
pub fn search(rows: &[Rc<Row>], query: &str, choice: Choice) -> Vec<Rc<Row>> {
    let query: String = query.chars().take(MAX_QUERY_CHARS).collect();
    let query = query.to_lowercase();
    let words: Vec<&str> = query.split_whitespace().collect();
    let is_found =
        |row: &&Rc<Row>| choice.has(row) && words.iter().all(|word| row.key.contains(word));
    rows.iter().filter(is_found).cloned().collect()
}

/// A step from one list of rows to the next: at `at`, `removed` rows give way to `added` of the new list, which begin at
/// the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The place of the first row that changes.
    pub at: usize,
    /// Rows of the old list that go.
    pub removed: usize,
    /// Rows of the new list that come in their place.
    pub added: usize,
}

/// More single changes than this are one splice: the list redraws the rows that are seen either way.
const MAX_SINGLE: usize = 64;

/// The steps from `old` to `new`, in order. Rows that are equal at both ends stay as they are, so the list keeps its place
/// and its selection. With the same ids in the same order, each changed row is a step of its own.
#[must_use]
pub fn difference(old: &[Rc<Row>], new: &[Rc<Row>]) -> Vec<Splice> {
    let has_same_ids =
        old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old.id == new.id);
    if has_same_ids {
        let changed = old
            .iter()
            .zip(new)
            .enumerate()
            .filter(|(_, (old, new))| old != new);
        let steps: Vec<Splice> = changed
            .map(|(at, _)| Splice {
                at,
                removed: 1,
                added: 1,
            })
            .take(MAX_SINGLE + 1)
            .collect();
        if steps.len() <= MAX_SINGLE {
            return steps;
        }
    }
    let before = old
        .iter()
        .zip(new)
        .take_while(|(old, new)| old == new)
        .count();
    let (old, new) = (&old[before..], &new[before..]);
    let after = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let (removed, added) = (old.len() - after, new.len() - after);
    match (removed, added) {
        (0, 0) => Vec::new(),
        _ => vec![Splice {
            at: before,
            removed,
            added,
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Gateway;

    fn resource(id: &str, name: &str, target: &str, state: AccessState) -> Resource {
        Resource {
            id: id.to_owned(),
            name: name.to_owned(),
            target: target.to_owned(),
            state,
            ..Resource::default()
        }
    }

    fn status(resources: Vec<Resource>) -> Status {
        Status {
            resources,
            ..Status::default()
        }
    }

    fn ids(rows: &[Rc<Row>]) -> Vec<&str> {
        rows.iter().map(|row| row.id.as_str()).collect()
    }

    fn sample() -> Status {
        status(vec![
            resource("r1", "Wiki", "wiki.corp.example", AccessState::Granted),
            resource("r2", "database", "10.0.0.5", AccessState::Denied),
            resource("r3", "Ärzte-Portal", "10.0.0.6", AccessState::Idle),
        ])
    }

    #[test]
    fn favourites_come_first_and_the_rest_by_name() {
        let mut favourites = Favourites::default();
        assert_eq!(ids(&rows(&sample(), &favourites)), ["r2", "r1", "r3"]);
        favourites.set("r3", true);
        assert_eq!(ids(&rows(&sample(), &favourites)), ["r3", "r2", "r1"]);
    }

    #[test]
    fn search_finds_each_word_in_name_or_address() {
        let rows = rows(&sample(), &Favourites::default());
        let find = |query| ids(&search(&rows, query, Choice::All)).join(" ");
        assert_eq!(find("WIKI"), "r1");
        assert_eq!(find("corp wiki"), "r1");
        assert_eq!(find("ärzte"), "r3");
        assert_eq!(find("10.0.0"), "r2 r3");
        assert_eq!(find("10.0.0 wiki"), "");
        assert_eq!(find("  "), "r2 r1 r3");
        assert_eq!(ids(&search(&rows, "", Choice::Denied)), ["r2"]);
        assert_eq!(ids(&search(&rows, "", Choice::Granted)), ["r1"]);
        assert!(search(&rows, "", Choice::Favourites).is_empty());
    }

    #[test]
    fn a_row_tells_the_path_of_a_grant_and_the_reason_of_a_denial() {
        let mut status = sample();
        let why = Reason {
            code: "no_access".to_owned(),
            text: "no\nway".to_owned(),
            ago_ms: 5,
        };
        for resource in &mut status.resources {
            resource.gateway = Some("g1".to_owned());
            resource.why = Some(why.clone());
        }
        let gateway = |path: &str, by_tls| Gateway {
            id: "g1".to_owned(),
            name: "gw-1".to_owned(),
            path: path.to_owned(),
            by_tls,
            ..Gateway::default()
        };
        status.gateways = vec![gateway("relayed", true)];
        let rows = rows(&status, &Favourites::default());
        let denied = Denied {
            code: "no_access".to_owned(),
            text: "no\u{fffd}way".to_owned(),
        };
        assert_eq!(
            (rows[0].why.as_ref(), rows[0].through.as_ref()),
            (Some(&denied), None)
        );
        let through = ("gw-1".to_owned(), Path::RelayedByTls);
        assert_eq!(
            (rows[1].why.as_ref(), rows[1].through.as_ref()),
            (None, Some(&through))
        );
        assert_eq!(Path::of(&gateway("direct", false)), Path::Direct);
        assert_eq!(Path::of(&gateway("relayed", false)), Path::Relayed);
        assert_eq!(Path::of(&gateway("teleported", false)), Path::None);
    }

    /// Carries the steps out, as the list does.
    fn apply(old: &[Rc<Row>], new: &[Rc<Row>]) -> Vec<Rc<Row>> {
        let mut list = old.to_vec();
        for Splice { at, removed, added } in difference(old, new) {
            list.splice(at..at + removed, new[at..at + added].iter().cloned());
        }
        list
    }

    fn numbered(numbers: impl Iterator<Item = usize>) -> Vec<Rc<Row>> {
        let resources = numbers.map(|number| {
            let name = format!("{number:05}");
            resource(&name, &name, "10.0.0.0/8", AccessState::Idle)
        });
        rows(&status(resources.collect()), &Favourites::default())
    }

    #[test]
    fn the_steps_lead_from_one_list_to_the_other() {
        let lists = [
            numbered(0..0),
            numbered(0..10),
            numbered(0..200),
            numbered((0..200).filter(|number| number % 7 != 3)),
            numbered(100..300),
            numbered(5..6),
        ];
        for old in &lists {
            for new in &lists {
                assert_eq!(&apply(old, new), new);
            }
        }
    }

    #[test]
    fn a_change_of_one_row_is_a_step_of_one_row() {
        let old = numbered(0..100);
        let mut new = old.clone();
        assert!(difference(&old, &new).is_empty());
        Rc::make_mut(&mut new[3]).state = AccessState::Granted;
        Rc::make_mut(&mut new[90]).state = AccessState::Granted;
        let one = |at| Splice {
            at,
            removed: 1,
            added: 1,
        };
        assert_eq!(difference(&old, &new), [one(3), one(90)]);
        for row in &mut new[10..90] {
            Rc::make_mut(row).state = AccessState::Denied;
        }
        assert_eq!(
            difference(&old, &new),
            [Splice {
                at: 3,
                removed: 88,
                added: 88
            }]
        );
        assert_eq!(apply(&old, &new), new);
    }

    #[test]
    fn the_list_is_bounded() {
        let resources = (0..=MAX_ROWS).map(|number| Resource {
            id: number.to_string(),
            ..Resource::default()
        });
        let status = status(resources.collect());
        assert_eq!(rows(&status, &Favourites::default()).len(), MAX_ROWS);
    }
}
