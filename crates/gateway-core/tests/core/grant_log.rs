//! Logs that are cut or damaged: whatever is read, no grant comes back that the log alone knew to have ended.

use culvert_gateway_core::{
    GrantChanges, LogFault, LogMark, PersistedGrant, append_to_log, begin_log, compact_log,
    read_log,
};
use culvert_ids::GrantId;
use culvert_wire::PresharedKey;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A write: grants that come or change, and grants that end.
#[derive(Clone, Debug)]
struct Write {
    come: BTreeSet<u8>,
    end: BTreeSet<u8>,
}

fn write() -> impl Strategy<Value = Write> {
    let some = || proptest::collection::btree_set(0..24_u8, 0..6);
    (some(), some()).prop_map(|(come, end)| Write {
        end: end.difference(&come).copied().collect(),
        come,
    })
}

fn id(number: u8) -> GrantId {
    GrantId::from_bytes([number; 16])
}

/// A grant, as a write wrote it.
fn grant(number: u8, write: usize) -> PersistedGrant {
    PersistedGrant {
        token: format!("{number} of {write}"),
        preshared_key: PresharedKey::from_bytes([number; 32]),
        names: Vec::new(),
        inbound: None,
        filters: None,
    }
}

fn changes(number: usize, write: &Write) -> GrantChanges {
    let come = write.come.iter();
    let come = come.map(|id_number| (id(*id_number), Some(grant(*id_number, number))));
    GrantChanges {
        is_whole: number == 0,
        network: None,
        grants: come
            .chain(write.end.iter().map(|ended| (id(*ended), None)))
            .collect(),
    }
}

/// A log, and after each write its length and the tokens of the grants.
struct Written {
    log: Vec<u8>,
    states: Vec<(usize, BTreeMap<GrantId, String>)>,
}

fn written(writes: &[Write]) -> Written {
    let mut log = Vec::new();
    let mut state = BTreeMap::new();
    let mut states = Vec::new();
    for (number, write) in writes.iter().enumerate() {
        let changes = changes(number, write);
        match number {
            0 => log = begin_log(3, &changes).0,
            _ => drop(append_to_log(&mut log, &changes)),
        }
        for (id, grant) in changes.grants {
            match grant {
                Some(grant) => drop(state.insert(id, grant.token)),
                None => drop(state.remove(&id)),
            }
        }
        states.push((log.len(), state.clone()));
    }
    Written { log, states }
}

fn read(log: &[u8], mark: Option<LogMark>) -> Result<BTreeMap<GrantId, String>, LogFault> {
    let log = read_log(log, mark)?;
    let grants = log.grants.into_iter();
    Ok(grants.map(|(id, grant)| (id, grant.token)).collect())
}

/// Every token that the log has after the first `len` bytes of some write or in the middle of one: a state, and some of
/// the changes of the next write.
fn is_between(found: &BTreeMap<GrantId, String>, states: &[BTreeMap<GrantId, String>]) -> bool {
    states.windows(2).any(|pair| {
        let [before, after] = pair else {
            return false;
        };
        let ids: BTreeSet<_> = before
            .keys()
            .chain(after.keys())
            .chain(found.keys())
            .collect();
        ids.into_iter().all(|id| {
            let is = found.get(id);
            is == before.get(id) || is == after.get(id)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_log_that_is_cut_or_damaged_brings_no_grant_back(
        writes in proptest::collection::vec(write(), 1..8),
        marked in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        damage in proptest::option::of(1..=u8::MAX),
    ) {
        let Written { mut log, states } = written(&writes);
        let marked = marked.index(states.len());
        let mark = Some(LogMark { generation: 3, len: states[marked].0 as u64 });
        prop_assert_eq!(read(&log, mark), Ok(states[states.len() - 1].1.clone()));
        let place = place.index(log.len());
        match damage {
            Some(damage) => log[place] ^= damage,
            None => log.truncate(place),
        }
        // A loss of power may do this: the log is right as far as it was on the disk.
        match read(&log, mark) {
            Err(_) => prop_assert!(place < states[marked].0, "only what was on the disk is missed"),
            Ok(found) => {
                prop_assert!(place >= states[marked].0);
                let mut later: Vec<_> = states[marked..].iter().map(|(_, state)| state.clone()).collect();
                later.push(later[later.len() - 1].clone());
                prop_assert!(is_between(&found, &later), "{:?}", found);
            }
        }
    }

    #[test]
    fn a_log_that_is_made_shorter_says_the_same(writes in proptest::collection::vec(write(), 1..8)) {
        let Written { log, states } = written(&writes);
        let (shorter, lens) = compact_log(&log).unwrap();
        let last = states[states.len() - 1].1.clone();
        prop_assert_eq!(read(&shorter, None), Ok(last.clone()));
        prop_assert!(shorter.len() <= log.len());
        let count = last.len();
        prop_assert_eq!(lens.len(), count);
        // A mark of the log before means nothing for this one, which was written whole.
        let mark = LogMark { generation: 3, len: u64::MAX };
        prop_assert_eq!(read(&shorter, Some(mark)), Ok(last));
        for len in 0..shorter.len() {
            prop_assert!(read(&shorter[..len], Some(mark)).is_err());
        }
        // But one of a log after it says that it is old.
        let mark = LogMark { generation: 5, len: 0 };
        prop_assert_eq!(read(&shorter, Some(mark)), Err(LogFault::Outdated));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _nothing = read(&bytes, None);
        let _nothing = compact_log(&bytes);
        let log = begin_log(1, &GrantChanges::default()).0;
        let _nothing = read(&[log, bytes].concat(), None);
    }
}
