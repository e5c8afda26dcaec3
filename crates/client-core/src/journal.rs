//! The journal of changes of a client's state: which parts changed, and at which sequence number. It holds no state
//! itself, so that a watcher is always told the newest.

use super::changed::ChangedResources;
use culvert_base::{BootTime, Traffic};
use culvert_ids::ResourceId;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Changed resources that are remembered for watchers that come back, 50 bytes each: twice as many as there may be.
/// Beyond it a watcher that comes back gets the whole state.
const MAX_REMEMBERED: usize = 40_000;

/// The shortest time between two changes that are of counts alone.
const COUNTS_EVERY: Duration = Duration::from_secs(1);

/// Spans of time, instants of writing and differences of clocks, which are different at each look. That there is one is a
/// part of the state.
const AGES: [&str; 10] = [
    "ago_ms",
    "at",
    "clock_ahead_ms",
    "expires_in_s",
    "handshake_age_ms",
    "heard_ms_ago",
    "next_attempt_in_ms",
    "running_for_ms",
    "silent_for_ms",
    "state_for_ms",
];

/// Numbers that count or measure.
const COUNTS: [&str; 10] = [
    "count",
    "packets",
    "received_bytes",
    "refused_others",
    "round_trip_us",
    "rx_bytes",
    "rx_bytes_per_s",
    "sent_bytes",
    "tx_bytes",
    "tx_bytes_per_s",
];

/// The state, as one look finds it.
#[derive(Debug)]
pub struct Found<'a> {
    /// Resources that the portal told of anew or that are gone.
    pub resources: ChangedResources,
    /// A mark of each access: another mark means that it has changed.
    pub accesses: BTreeMap<ResourceId, u64>,
    /// The bytes of resources.
    pub traffic: BTreeMap<ResourceId, Traffic>,
    /// The other parts of the state, by name.
    pub sections: &'a Map<String, Value>,
}

/// The parts that a watcher is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// All: it knows nothing, or nothing that the journal remembers.
    Whole,
    /// These parts.
    Changes {
        /// The names of sections.
        sections: Vec<String>,
        /// Resources, some of which may be gone.
        resources: Vec<ResourceId>,
    },
}

/// The journal.
#[derive(Debug)]
pub struct Journal {
    sequence: u64,
    /// Changes after this number are remembered.
    floor: u64,
    /// The number of the last change of each resource.
    resources: BTreeMap<ResourceId, u64>,
    /// The marks of the last look.
    accesses: BTreeMap<ResourceId, u64>,
    /// The bytes that were told last.
    traffic: BTreeMap<ResourceId, Traffic>,
    sections: BTreeMap<String, Section>,
    /// The time of the last change of counts.
    counted: Option<BootTime>,
}

/// A section at the last look.
#[derive(Debug)]
struct Section {
    /// Its mark without counts.
    state: u64,
    /// Its mark with counts.
    counts: u64,
    /// The number of its last change.
    changed: u64,
}

impl Journal {
    /// A journal whose first number is after `before`, which should be above all numbers of earlier runs.
    #[must_use]
    pub const fn new(before: u64) -> Self {
        Self {
            sequence: before,
            floor: before,
            resources: BTreeMap::new(),
            accesses: BTreeMap::new(),
            traffic: BTreeMap::new(),
            sections: BTreeMap::new(),
            counted: None,
        }
    }

    /// The number of the state at the last look.
    #[must_use]
    pub const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Compares the state with the last look.
    pub fn note(&mut self, found: Found<'_>, now: BootTime) {
        let next = self.sequence + 1;
        let counts_are_due = self
            .counted
            .is_none_or(|at| at.saturating_add(COUNTS_EVERY) <= now);
        let of_resources = self.note_resources(found.resources, found.accesses, next);
        let of_traffic = self.note_traffic(found.traffic, next, counts_are_due);
        let of_sections = self.note_sections(found.sections, next, counts_are_due, now);
        if of_traffic {
            self.counted = Some(now);
        }
        if of_resources || of_traffic || of_sections {
            self.sequence = next;
        }
    }

    fn note_resources(
        &mut self,
        resources: ChangedResources,
        accesses: BTreeMap<ResourceId, u64>,
        next: u64,
    ) -> bool {
        let before = std::mem::replace(&mut self.accesses, accesses);
        let ChangedResources::Some(changed) = resources else {
            self.resources.clear();
            self.floor = next;
            return true;
        };
        let is_other = |id: &&ResourceId| before.get(id) != self.accesses.get(id);
        let either = before.keys().chain(self.accesses.keys());
        let other = either.filter(is_other).copied();
        let changed: Vec<_> = changed.into_iter().chain(other).collect();
        self.resources.extend(changed.iter().map(|id| (*id, next)));
        self.bound_resources(next);
        !changed.is_empty()
    }

    fn bound_resources(&mut self, next: u64) {
        if self.resources.len() > MAX_REMEMBERED {
            self.resources.clear();
            self.floor = next;
        }
    }

    /// Resources of which only the bytes are others. They wait until counts are due.
    fn note_traffic(
        &mut self,
        found: BTreeMap<ResourceId, Traffic>,
        next: u64,
        is_due: bool,
    ) -> bool {
        if !is_due {
            return false;
        }
        let before = std::mem::replace(&mut self.traffic, found);
        let traffic = self.traffic.iter();
        let other = traffic.filter(|(id, bytes)| before.get(id) != Some(bytes));
        let other: Vec<_> = other.map(|(id, _)| (*id, next)).collect();
        let is_other = !other.is_empty();
        self.resources.extend(other);
        self.bound_resources(next);
        is_other
    }

    fn note_sections(
        &mut self,
        found: &Map<String, Value>,
        next: u64,
        counts_are_due: bool,
        now: BootTime,
    ) -> bool {
        let mut is_changed = false;
        for (name, value) in found {
            if AGES.contains(&name.as_str()) {
                continue;
            }
            let (state, counts) = (mark(value, false), mark(value, true));
            let known = self.sections.get(name);
            let is_other = known.is_none_or(|known| known.state != state);
            let counts_other = known.is_none_or(|known| known.counts != counts);
            if !(is_other || counts_other && counts_are_due) {
                continue;
            }
            if !is_other {
                self.counted = Some(now);
            }
            is_changed = true;
            let section = Section {
                state,
                counts,
                changed: next,
            };
            self.sections.insert(name.clone(), section);
        }
        is_changed
    }

    /// The parts that changed after the message with this number.
    #[must_use]
    pub fn since(&self, after: Option<u64>) -> Since {
        let Some(after) = after.filter(|after| (self.floor..=self.sequence).contains(after)) else {
            return Since::Whole;
        };
        let sections = self.sections.iter().filter(|(_, it)| it.changed > after);
        let resources = self.resources.iter().filter(|(_, at)| **at > after);
        Since::Changes {
            sections: sections.map(|(name, _)| name.clone()).collect(),
            resources: resources.map(|(id, _)| *id).collect(),
        }
    }
}

/// A mark of a value: equal values have the same.
fn mark(value: &Value, with_counts: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    add(value, with_counts, &mut hasher);
    hasher.finish()
}

fn add(value: &Value, with_counts: bool, hasher: &mut DefaultHasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(it) => it.hash(hasher),
        Value::Number(it) => it.hash(hasher),
        Value::String(it) => it.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| add(item, with_counts, hasher));
        }
        Value::Object(fields) => {
            fields.len().hash(hasher);
            for (name, field) in fields {
                name.hash(hasher);
                let name = name.as_str();
                match AGES.contains(&name) || (!with_counts && COUNTS.contains(&name)) {
                    true => field.is_null().hash(hasher),
                    false => add(field, with_counts, hasher),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    const fn id(number: u8) -> ResourceId {
        ResourceId::from_bytes([number; 16])
    }

    fn note(journal: &mut Journal, ids: &[u8], accesses: &[(u8, u64)], sections: Value, ms: u64) {
        let Value::Object(sections) = sections else {
            panic!("{sections}");
        };
        let found = Found {
            resources: ChangedResources::Some(ids.iter().map(|it| id(*it)).collect()),
            accesses: accesses.iter().map(|(it, mark)| (id(*it), *mark)).collect(),
            traffic: BTreeMap::new(),
            sections: &sections,
        };
        let now = BootTime::ZERO.saturating_add(Duration::from_millis(ms));
        journal.note(found, now);
    }

    fn changes(sections: &[&str], resources: &[u8]) -> Since {
        Since::Changes {
            sections: sections.iter().map(ToString::to_string).collect(),
            resources: resources.iter().map(|it| id(*it)).collect(),
        }
    }

    #[test]
    fn each_number_leads_to_what_changed_after_it() {
        let mut journal = Journal::new(100);
        note(
            &mut journal,
            &[],
            &[],
            json!({"ready": false, "name": "a"}),
            0,
        );
        assert_eq!(journal.sequence(), 101);
        note(
            &mut journal,
            &[1],
            &[(2, 7)],
            json!({"ready": false, "name": "a"}),
            0,
        );
        note(
            &mut journal,
            &[],
            &[(2, 7)],
            json!({"ready": true, "name": "a"}),
            0,
        );
        note(
            &mut journal,
            &[],
            &[],
            json!({"ready": true, "name": "a"}),
            0,
        );
        assert_eq!(journal.sequence(), 104);
        assert_eq!(journal.since(Some(101)), changes(&["ready"], &[1, 2]));
        assert_eq!(journal.since(Some(102)), changes(&["ready"], &[2]));
        assert_eq!(journal.since(Some(103)), changes(&[], &[2]));
        assert_eq!(journal.since(Some(104)), changes(&[], &[]));
        // Numbers of another run, and none.
        for unknown in [Some(99), Some(105), None] {
            assert_eq!(journal.since(unknown), Since::Whole);
        }
    }

    #[test]
    fn nothing_changes_by_time_alone() {
        let mut journal = Journal::new(0);
        let at = |ms: u64| {
            json!({
                "at": ms, "running_for_ms": ms, "portal": {"state_for_ms": ms},
                "gateways": [{"heard_ms_ago": ms, "handshake_age_ms": ms, "silent_for_ms": null}],
            })
        };
        note(&mut journal, &[], &[(1, 1)], at(1), 1);
        let first = journal.sequence();
        note(&mut journal, &[], &[(1, 1)], at(5_000), 5_000);
        assert_eq!(journal.sequence(), first);
        let silent = json!({
            "portal": {"state_for_ms": 1},
            "gateways": [{"heard_ms_ago": 1, "handshake_age_ms": 1, "silent_for_ms": 1}],
        });
        note(&mut journal, &[], &[(1, 1)], silent, 5_000);
        assert_eq!(journal.since(Some(first)), changes(&["gateways"], &[]));
    }

    #[test]
    fn counts_are_told_once_a_second_and_together() {
        let mut journal = Journal::new(0);
        let state = |bytes: u64, path: &str| {
            json!({
                "counters": [{"name": "granted", "count": bytes}],
                "gateways": [{"path": path, "rx_bytes": bytes}],
            })
        };
        note(&mut journal, &[], &[], state(0, "direct"), 0);
        note(&mut journal, &[], &[], state(1, "direct"), 1);
        let first = journal.sequence();
        let both = changes(&["counters", "gateways"], &[]);
        note(&mut journal, &[], &[], state(2, "direct"), 500);
        assert_eq!(journal.sequence(), first, "{journal:?}");
        note(&mut journal, &[], &[], state(2, "direct"), 1_001);
        assert_eq!(journal.since(Some(first)), both);
        // A change of the state does not wait for the counts.
        let second = journal.sequence();
        note(&mut journal, &[], &[], state(3, "relayed"), 1_100);
        assert_eq!(journal.since(Some(second)), changes(&["gateways"], &[]));
    }

    #[test]
    fn bytes_of_resources_are_told_once_a_second_and_an_idle_client_has_no_changes() {
        let mut journal = Journal::new(0);
        let look = |journal: &mut Journal, bytes: &[(u8, u64)], ms: u64| {
            let traffic = bytes.iter().map(|(number, sent_bytes)| {
                let traffic = Traffic {
                    sent_bytes: *sent_bytes,
                    received_bytes: 0,
                };
                (id(*number), traffic)
            });
            let found = Found {
                resources: ChangedResources::Some(BTreeSet::new()),
                accesses: BTreeMap::new(),
                traffic: traffic.collect(),
                sections: &Map::new(),
            };
            journal.note(found, BootTime::from_millis(ms));
            journal.sequence()
        };
        // The first look of a journal: all resources change.
        let found = Found {
            resources: ChangedResources::All,
            accesses: BTreeMap::new(),
            traffic: BTreeMap::new(),
            sections: &Map::new(),
        };
        journal.note(found, BootTime::ZERO);
        let first = look(&mut journal, &[(1, 0), (2, 0)], 1);
        for ms in [250, 500, 1_000] {
            assert_eq!(look(&mut journal, &[(1, ms), (2, 0)], ms), first);
        }
        let second = look(&mut journal, &[(1, 1_250), (2, 0)], 1_250);
        assert_eq!(second, first + 1);
        assert_eq!(journal.since(Some(first)), changes(&[], &[1]));
        for ms in [2_000, 5_000, 60_000] {
            assert_eq!(look(&mut journal, &[(1, 1_250), (2, 0)], ms), second);
        }
    }

    #[test]
    fn numbers_that_are_forgotten_lead_to_the_whole_state() {
        let mut journal = Journal::new(0);
        note(&mut journal, &[1], &[], json!({}), 0);
        let first = journal.sequence();
        let ids = (0..=MAX_REMEMBERED).map(|number| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            ResourceId::from_bytes(bytes)
        });
        let found = Found {
            resources: ChangedResources::Some(ids.collect::<BTreeSet<_>>()),
            accesses: BTreeMap::new(),
            traffic: BTreeMap::new(),
            sections: &Map::new(),
        };
        journal.note(found, BootTime::ZERO);
        assert!(journal.resources.is_empty());
        assert_eq!(journal.since(Some(first)), Since::Whole);
        let last = journal.sequence();
        assert_eq!(journal.since(Some(last)), changes(&[], &[]));
    }
}
