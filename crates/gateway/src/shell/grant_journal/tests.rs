//! The journal over restarts, kills, full disks and damaged files.

use super::*;
use culvert_gateway_core::{PersistedGrant, PersistedNetwork};
use culvert_ids::GatewayId;
use culvert_wire::PresharedKey;
use culvert_wire::messages::{Interface, Ranges};
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A directory of the test's own, removed with it.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("culvert-journal-{}-{test}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn state(&self) -> StateDir {
        StateDir::open(&self.0).unwrap()
    }

    /// A run, and what it goes on with.
    fn start(&self) -> (GrantJournal, Option<PersistedGrants>) {
        GrantJournal::start(self.state()).unwrap()
    }

    /// The state that the next run would go on with: the tokens of grants that count.
    fn next(&self) -> Option<BTreeSet<String>> {
        let (_journal, persisted) = self.start();
        let persisted = persisted?;
        let counts = |token: &String| !persisted.void.iter().any(|id| *token == id.to_string());
        let tokens = persisted.grants.iter().map(|grant| grant.token.clone());
        Some(tokens.filter(counts).collect())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

fn id(number: u16) -> GrantId {
    let mut bytes = [7; 16];
    bytes[14..].copy_from_slice(&number.to_be_bytes());
    GrantId::from_bytes(bytes)
}

/// A grant whose token is its id.
fn grant(number: u16) -> PersistedGrant {
    PersistedGrant {
        token: id(number).to_string(),
        preshared_key: PresharedKey::from_bytes([1; 32]),
        names: Vec::new(),
        filters: None,
        inbound: None,
    }
}

fn network() -> PersistedNetwork {
    PersistedNetwork {
        gateway: GatewayId::from_bytes([1; 16]),
        interface: Interface {
            ipv4: [100, 64, 0, 1].into(),
            ipv6: "fd00:2021:1111::1".parse().unwrap(),
        },
        ranges: Ranges {
            machines_ipv4: "100.64.0.0/11".to_owned(),
            machines_ipv6: "fd00:2021:1111::/112".to_owned(),
            names_ipv4: "100.96.0.0/11".to_owned(),
            names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
        },
        grant_keys: Vec::new(),
    }
}

/// The whole state with these grants.
fn whole(grants: &[u16]) -> GrantChanges {
    let grants = grants.iter();
    GrantChanges {
        is_whole: true,
        network: Some(network()),
        grants: grants
            .map(|number| (id(*number), Some(grant(*number))))
            .collect(),
    }
}

/// Grants that came, and grants that ended.
fn changes(come: &[u16], ended: &[u16]) -> GrantChanges {
    let come = come
        .iter()
        .map(|number| (id(*number), Some(grant(*number))));
    GrantChanges {
        grants: come
            .chain(ended.iter().map(|number| (id(*number), None)))
            .collect(),
        ..GrantChanges::default()
    }
}

fn tokens(numbers: &[u16]) -> Option<BTreeSet<String>> {
    let tokens = numbers.iter().map(|number| id(*number).to_string());
    Some(tokens.collect())
}

#[tokio::test]
async fn the_next_run_goes_on_with_what_was_appended() {
    let directory = Directory::new("appended");
    let (journal, persisted) = directory.start();
    assert!(persisted.is_none());
    assert!(journal.persist(whole(&[1, 2])));
    assert!(journal.persist(changes(&[3], &[1])));
    journal.finish().await;
    assert_eq!(directory.next(), tokens(&[2, 3]));
    // The next run begins a log of its own with what it took over.
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[3])));
    assert!(journal.persist(changes(&[4], &[])));
    journal.finish().await;
    assert_eq!(directory.next(), tokens(&[3, 4]));
}

#[tokio::test]
async fn a_change_costs_what_it_changes_and_not_what_there_is() {
    let directory = Directory::new("cost");
    let (journal, _) = directory.start();
    let all: Vec<u16> = (0..4_000).collect();
    assert!(journal.persist(whole(&all)));
    journal.finish().await;
    let len = || std::fs::metadata(directory.0.join(LOG_FILE)).unwrap().len();
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&all)));
    // The first write is done before the second change comes.
    while directory
        .state()
        .read(LOG_FILE)
        .unwrap()
        .is_none_or(|log| log_generation(log.expose()) < Some(2))
    {
        tokio::task::yield_now().await;
    }
    let before = len();
    assert!(before > 500_000, "{before}");
    assert!(journal.persist(changes(&[4_001], &[7])));
    journal.finish().await;
    let added = len() - before;
    assert!((1..1_000).contains(&added), "{added}");
    let mut left = all;
    left.retain(|number| *number != 7);
    left.push(4_001);
    assert_eq!(directory.next(), tokens(&left));
}

#[tokio::test]
async fn the_log_is_made_shorter_when_most_of_it_is_out_of_date() {
    let directory = Directory::new("compacted");
    let state = directory.state();
    let mut log = Log::after(0);
    // One that no round ends.
    log.write(&state, whole(&[50_000])).unwrap();
    let mut longest = 0;
    for round in 0..40_u16 {
        let come: Vec<u16> = (0..1_000)
            .map(|number| 1_000 * (round + 1) + number)
            .collect();
        let ended: Vec<u16> = come.iter().map(|number| number - 1_000).collect();
        log.write(&state, changes(&come, &ended)).unwrap();
        log.compact(&state).unwrap();
        let len = std::fs::metadata(directory.0.join(LOG_FILE)).unwrap().len();
        longest = longest.max(len);
    }
    assert!(longest < 2_000_000, "{longest}");
    let mut last: Vec<u16> = (40_000..41_000).collect();
    last.push(50_000);
    assert!(directory.next() == tokens(&last), "another state");
}

#[tokio::test]
async fn a_grant_that_ended_is_void_until_the_log_says_so() {
    let directory = Directory::new("void");
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1, 2])));
    journal.finish().await;
    let (journal, _) = directory.start();
    journal.void(&[id(2)]);
    // As if the process were killed here: nothing is finished.
    assert_eq!(directory.next(), tokens(&[1]));
    assert!(journal.persist(whole(&[1])));
    journal.finish().await;
    let noted = revocations::read(&directory.state()).unwrap();
    assert!(noted.ended.is_empty() && noted.mark.is_some(), "{noted:?}");
    assert_eq!(directory.next(), tokens(&[1]));
}

#[tokio::test]
async fn a_log_that_was_cut_before_an_end_that_it_alone_has_is_not_believed() {
    let directory = Directory::new("cut");
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1, 2])));
    journal.finish().await;
    let path = directory.0.join(LOG_FILE);
    let begun = std::fs::read(&path).unwrap();
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1, 2])));
    while std::fs::read(&path).is_ok_and(|log| log_generation(&log) < Some(2)) {
        tokio::task::yield_now().await;
    }
    journal.void(&[id(2)]);
    assert!(journal.persist(changes(&[3], &[2])));
    journal.finish().await;
    let log = std::fs::read(&path).unwrap();
    assert_eq!(directory.next(), tokens(&[1, 3]));
    for len in 0..log.len() {
        std::fs::write(&path, &log[..len]).unwrap();
        assert_eq!(directory.next(), None, "cut to {len} bytes");
    }
    // The log of before, as from a backup.
    std::fs::write(&path, &begun).unwrap();
    assert_eq!(directory.next(), None);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(directory.next(), None);
}

#[tokio::test]
async fn of_an_unfinished_tail_nothing_is_needed() {
    let directory = Directory::new("tail");
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1, 2])));
    journal.finish().await;
    let path = directory.0.join(LOG_FILE);
    let mut log = std::fs::read(&path).unwrap();
    let base = log.len();
    culvert_gateway_core::append_to_log(&mut log, &changes(&[3], &[]));
    for len in base..log.len() {
        std::fs::write(&path, &log[..len]).unwrap();
        assert_eq!(directory.next(), tokens(&[1, 2]), "cut to {len} bytes");
    }
    std::fs::write(&path, &log).unwrap();
    assert_eq!(directory.next(), tokens(&[1, 2, 3]));
}

#[tokio::test]
async fn what_an_earlier_version_kept_is_taken_over_once() {
    let directory = Directory::new("former");
    let former = PersistedGrants {
        gateway: network().gateway,
        interface: network().interface,
        ranges: network().ranges,
        grant_keys: Vec::new(),
        grants: vec![grant(1), grant(2)],
        void: BTreeSet::new(),
    };
    let text = serde_json::to_vec(&former).unwrap();
    directory.state().write(FORMER_FILE, &text).unwrap();
    let revoked = format!("{}\n", id(2));
    directory
        .state()
        .write("revoked-grants", revoked.as_bytes())
        .unwrap();
    assert_eq!(directory.next(), tokens(&[1]));
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1])));
    journal.finish().await;
    assert!(!directory.0.join(FORMER_FILE).exists());
    // A copy of it that somebody puts back counts no more.
    directory.state().write(FORMER_FILE, &text).unwrap();
    assert_eq!(directory.next(), tokens(&[1]));
    std::fs::remove_file(directory.0.join(LOG_FILE)).unwrap();
    assert_eq!(directory.next(), None);
}

#[tokio::test]
async fn what_was_kept_before_is_removed_where_a_write_fails_and_is_told_anew() {
    let directory = Directory::new("full");
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1])));
    journal.finish().await;
    assert_eq!(directory.next(), tokens(&[1]));
    // A directory where the unfinished file is to be: the write fails, whoever runs the test.
    let unfinished = directory.0.join("grants.log.unfinished");
    let made = std::fs::DirBuilder::new().mode(0o700).create(&unfinished);
    made.unwrap();
    let (journal, _) = directory.start();
    assert!(journal.persist(whole(&[1])));
    while directory.0.join(LOG_FILE).exists() {
        tokio::task::yield_now().await;
    }
    std::fs::remove_dir(&unfinished).unwrap();
    assert!(!journal.persist(changes(&[2], &[])), "it wants everything");
    assert!(journal.persist(whole(&[1, 2])));
    assert!(journal.persist(changes(&[3], &[])));
    journal.finish().await;
    assert_eq!(directory.next(), tokens(&[1, 2, 3]));
}
