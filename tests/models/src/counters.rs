//! No two workers share a counter, and none is handed out once the machine may be a copy.

#[path = "../../../crates/session/src/transport/counter.rs"]
mod counter;

use crate::check;
use crate::constants::REJECT_AFTER_MESSAGES;
use counter::Counters;
use loom::sync::Arc;
use loom::thread;

#[test]
fn no_two_workers_share_a_counter() {
    check(|| {
        let counters = Arc::new(Counters::new());
        let workers = [1, 2, 3].map(|count| {
            let counters = Arc::clone(&counters);
            thread::spawn(move || (counters.reserve(count).unwrap(), count))
        });
        let mut reserved = workers.map(|worker| worker.join().unwrap());
        reserved.sort_unstable();
        let mut next = 0;
        for (first, count) in reserved {
            assert_eq!(first, next);
            next = first + u64::from(count);
        }
        assert!(counters.are_left() && !counters.want_rekey());
    });
}

#[test]
fn a_key_that_was_retired_has_no_counter_whoever_reserves_meanwhile() {
    check(|| {
        let counters = Arc::new(Counters::new());
        let worker = {
            let counters = Arc::clone(&counters);
            thread::spawn(move || counters.reserve(7))
        };
        counters.retire();
        assert_eq!(counters.reserve(1), None);
        assert!(matches!(worker.join().unwrap(), None | Some(0)));
        assert_eq!(counters.reserve(1), None);
        assert!(!counters.are_left());
    });
}

#[test]
fn the_last_counters_of_a_key_go_to_one_worker() {
    check(|| {
        let counters = Arc::new(Counters::new());
        let first = REJECT_AFTER_MESSAGES - 4;
        counters.skip_to(first);
        let worker = {
            let counters = Arc::clone(&counters);
            thread::spawn(move || counters.reserve(3))
        };
        let both = [counters.reserve(3), worker.join().unwrap()];
        assert!(
            both == [Some(first), None] || both == [None, Some(first)],
            "{both:?}"
        );
        assert!(counters.are_left() && counters.want_rekey());
    });
}
