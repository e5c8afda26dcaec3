//! The list of resources: rows in their order, search, and the difference between two lists.

use crate::ended::Trace;
use crate::favourites::Favourites;
use crate::rates::{Rate, Rates};
use crate::status::{self, AccessState, Change, Gateway, Reason, Resource, Status};
use crate::{address, natural, opening, text};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

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
    pub fn of(gateway: &Gateway) -> Self {
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
    /// Bytes a second, while any come or go.
    pub rate: Option<Rate>,
    /// True if the person marked it.
    pub is_favourite: bool,
    /// True if a program of the desktop opens it.
    pub opens: bool,
    /// The end of the access, if the resource is gone.
    pub end: Option<End>,
    /// The text that a search looks in.
    key: String,
    /// The place of the row among others, made once: sorting 10,000 rows compares each some 13 times.
    place: String,
}

/// The end of the access to a resource that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The moment at which the service told it, in seconds since 1970.
    pub unix_s: i64,
    /// False if it was some time before.
    pub is_exact: bool,
}

/// The reason of a denial, without its age: rows change when what they show changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// For programs.
    pub code: String,
    /// For people, in English, cleaned.
    pub text: String,
    /// The moment at which a window of time opens, in seconds since 1970, if the reason names one.
    pub opens_unix_s: Option<i64>,
}

impl Denied {
    fn of(reason: &Reason) -> Self {
        Self {
            code: reason.code.clone(),
            text: text::clean(&reason.text),
            opens_unix_s: opening::of(&reason.text),
        }
    }
}

impl Row {
    fn of(resource: &Resource, gateways: &Gateways, favourites: &Favourites) -> Rc<Self> {
        let is_granted = resource.state == AccessState::Granted;
        let gateway = resource.gateway.as_deref().filter(|_| is_granted);
        let is_denied = resource.state == AccessState::Denied;
        let name = text::clean(&resource.name);
        let target = text::clean(&resource.target);
        let key = format!("{}\n{}", name.to_lowercase(), target.to_lowercase());
        Rc::new(Self {
            place: natural::key(&key),
            key,
            id: resource.id.clone(),
            name,
            target,
            state: resource.state,
            why: resource.why.as_ref().filter(|_| is_denied).map(Denied::of),
            through: gateway.and_then(|id| gateways.get(id)).cloned(),
            rate: None,
            is_favourite: favourites.contains(&resource.id),
            opens: address::to_open(resource).is_some(),
            end: None,
        })
    }

    /// The row of a resource that is gone: it tells no access, and nothing opens it.
    fn of_trace(trace: &Trace, favourites: &Favourites) -> Rc<Self> {
        let mut row = Self::of(&trace.resource, &Gateways::new(), favourites);
        let ended = Rc::make_mut(&mut row);
        ended.state = AccessState::Other;
        ended.why = None;
        ended.opens = false;
        ended.end = Some(End {
            unix_s: trace.at.unix_s,
            is_exact: trace.is_exact,
        });
        row
    }

    /// The order of the list: favourites first, then by name in natural order, whatever its case. The id makes it stable.
    fn order(&self) -> (bool, &str, &str, &str) {
        (!self.is_favourite, &self.place, &self.key, &self.id)
    }
}

/// Name and path of each gateway, by its id.
type Gateways = HashMap<String, (String, Path)>;

fn gateways(status: &Status) -> Gateways {
    status
        .gateways
        .iter()
        .map(|gateway| {
            let shown = (text::clean(&gateway.name), Path::of(gateway));
            (gateway.id.clone(), shown)
        })
        .collect()
}

/// The rows of a status and of resources that are gone from it: favourites first, then by name. A row is shared by the
/// lists that have it.
#[must_use]
pub fn rows(status: &Status, ended: &[Trace], favourites: &Favourites) -> Vec<Rc<Row>> {
    let gateways = gateways(status);
    let shown = status.resources.iter().take(MAX_ROWS);
    let mut rows: Vec<Rc<Row>> = shown
        .map(|resource| Row::of(resource, &gateways, favourites))
        .collect();
    rows.extend(ended.iter().map(|trace| Row::of_trace(trace, favourites)));
    rows.sort_by(|a, b| a.order().cmp(&b.order()));
    rows
}

/// More changes than this make all rows anew: each moves up to the whole list.
const MAX_CHANGES: usize = 500;

/// The rows of the newest status. A status that has few changes costs as much as these.
#[derive(Debug, Default)]
pub struct Rows {
    resources: Vec<Arc<Resource>>,
    ended: Vec<Trace>,
    gateways: Gateways,
    favourites: Favourites,
    rates: Rates,
    /// True if a row has a rate.
    has_rates: bool,
    sorted: Vec<Rc<Row>>,
}

impl Rows {
    /// The rows in their order.
    #[must_use]
    pub fn all(&self) -> &[Rc<Row>] {
        &self.sorted
    }

    /// Takes a status that came by `now_ms`, and the resources that are gone from it. True if a row changed.
    pub fn update(
        &mut self,
        status: &Status,
        ended: &[Trace],
        favourites: &Favourites,
        now_ms: u64,
    ) -> bool {
        self.rates
            .update(&self.resources, &status.resources, now_ms);
        let is_changed = self.replace_changed(status, ended, favourites);
        self.show_rates(now_ms) || is_changed
    }

    /// The moment at which the next rate ends: rows change then.
    #[must_use]
    pub fn next_ms(&self, now_ms: u64) -> Option<u64> {
        self.rates.next_end_ms(now_ms)
    }

    /// Puts the present rates into the rows. True if a row changed.
    fn show_rates(&mut self, now_ms: u64) -> bool {
        if !self.has_rates && self.rates.next_end_ms(now_ms).is_none() {
            return false;
        }
        self.has_rates = false;
        let mut is_changed = false;
        for row in &mut self.sorted {
            let rate = self.rates.of(&row.id, now_ms);
            self.has_rates |= rate.is_some();
            if row.rate != rate {
                Rc::make_mut(row).rate = rate;
                is_changed = true;
            }
        }
        is_changed
    }

    fn replace_changed(
        &mut self,
        status: &Status,
        ended: &[Trace],
        favourites: &Favourites,
    ) -> bool {
        let gateways = gateways(status);
        let changes = status::changes(&self.resources, &status.resources);
        let is_other = gateways != self.gateways || *favourites != self.favourites;
        if changes.is_empty() && self.ended == ended && !is_other {
            return false;
        }
        let is_small = changes.len() <= MAX_CHANGES && status.resources.len() <= MAX_ROWS;
        if is_other || !is_small {
            self.sorted = rows(status, ended, favourites);
        } else {
            let sorted = &mut self.sorted;
            let trace = |trace: &Trace| Some(Row::of_trace(trace, favourites));
            // A resource that comes back takes the place of its trace, and a trace that of its resource.
            for gone in self.ended.iter().filter(|old| !ended.contains(old)) {
                replace(sorted, trace(gone), None);
            }
            for change in changes {
                let (old, new) = match change {
                    Change::Added(new) => (None, Some(new)),
                    Change::Changed(old, new) => (Some(old), Some(new)),
                    Change::Removed(old) => (Some(old), None),
                };
                let row = |resource: &Arc<Resource>| Row::of(resource, &gateways, favourites);
                replace(sorted, old.map(row), new.map(row));
            }
            for new in ended.iter().filter(|new| !self.ended.contains(new)) {
                replace(sorted, None, trace(new));
            }
        }
        self.resources.clone_from(&status.resources);
        self.ended = ended.to_vec();
        self.gateways = gateways;
        self.favourites.clone_from(favourites);
        true
    }
}

/// Puts `new` in the place of `old`, which stays the same unless its name does not.
fn replace(sorted: &mut Vec<Rc<Row>>, old: Option<Rc<Row>>, new: Option<Rc<Row>>) {
    let place = |sorted: &[Rc<Row>], row: &Row| {
        sorted.binary_search_by(|other| other.order().cmp(&row.order()))
    };
    let old = old.and_then(|old| place(sorted, &old).ok());
    match (old, new) {
        (Some(at), Some(new)) if sorted[at].order() == new.order() => sorted[at] = new,
        (old, new) => {
            if let Some(at) = old {
                sorted.remove(at);
            }
            if let Some(new) = new {
                let at = place(sorted, &new).unwrap_or_else(|at| at);
                sorted.insert(at, new);
            }
        }
    }
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
    let is_same = |(old, new): (&Rc<Row>, &Rc<Row>)| Rc::ptr_eq(old, new) || old.id == new.id;
    let has_same_ids = old.len() == new.len() && old.iter().zip(new).all(is_same);
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
mod tests;
