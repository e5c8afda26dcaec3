//! A reader of the client's flows finds those that were entered, and never a mixture of two.

#[path = "../../../crates/policy/src/gate/client_flows.rs"]
#[expect(dead_code, unreachable_pub, reason = "the gate uses the rest")]
mod product;

use crate::check;
use crate::sync;
use loom::sync::Arc;
use loom::thread;
use product::{ClientFlows, KeyWords, Rank, WAYS};

/// All in one bucket, with one tag.
const HASH: u64 = 7 << 32;
const A: KeyWords = [1, 1, 1, 1];
const B: KeyWords = [2, 2, 2, 2];
/// All that a reader might see of both.
const MIXED: [KeyWords; 3] = [[1, 2, 2, 2], [2, 1, 1, 1], [1, 1, 2, 2]];

fn over(_word: u64, _flags: u32, _last_s: u64) -> Rank {
    Rank::Over
}

fn begin(flows: &ClientFlows, key: &KeyWords) -> bool {
    let replaced = flows.find(HASH, &A);
    flows.begin(HASH, key, 1, 9, replaced, over)
}

#[test]
fn a_reader_never_finds_a_mixture_of_a_flow_and_the_one_that_takes_its_place() {
    check(|| {
        let flows = Arc::new(ClientFlows::new(WAYS));
        assert!(begin(&flows, &A));
        let written = Arc::clone(&flows);
        let writer = thread::spawn(move || assert!(begin(&written, &B)));
        for mixed in &MIXED {
            assert!(flows.find(HASH, mixed).is_none());
        }
        if let Some(found) = flows.find(HASH, &B) {
            assert_eq!((found.flags, found.last_s), (1, 9));
        }
        writer.join().unwrap();
        assert!(flows.find(HASH, &A).is_none());
        assert!(flows.find(HASH, &B).is_some());
    });
}

#[test]
fn flags_for_a_flow_that_is_gone_are_not_those_of_the_next() {
    check(|| {
        let flows = Arc::new(ClientFlows::new(WAYS));
        assert!(begin(&flows, &A));
        let found = flows.find(HASH, &A).unwrap();
        let written = Arc::clone(&flows);
        let writer = thread::spawn(move || assert!(begin(&written, &B)));
        flows.add_flags(&found, 8);
        writer.join().unwrap();
        assert_eq!(flows.find(HASH, &B).unwrap().flags, 1);
    });
}

#[test]
fn two_workers_that_begin_flows_at_once_both_find_a_place() {
    check(|| {
        let flows = Arc::new(ClientFlows::new(WAYS));
        let written = Arc::clone(&flows);
        let writer = thread::spawn(move || assert!(begin(&written, &A)));
        assert!(flows.begin(HASH, &B, 1, 9, None, over));
        writer.join().unwrap();
        assert!(flows.find(HASH, &A).is_some() && flows.find(HASH, &B).is_some());
    });
}
