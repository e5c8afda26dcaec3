//! Batches leave in the order of their counters, and no worker waits for good.

#[path = "../../../crates/datapath/src/turns.rs"]
#[expect(unreachable_pub, reason = "the engine uses it there")]
mod product;

use crate::check;
use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use product::Turns;

/// Two workers, and the event descriptors by which they wake each other.
struct Workers {
    turns: Turns,
    woken: AtomicU64,
}

impl Workers {
    /// The worker's batch of one record leaves, where it is its turn.
    fn leave(&self, worker: usize, first: u64) -> bool {
        let may_leave = self.turns.is_turn_of(first, worker);
        if may_leave {
            let wake = self.turns.depart(first + 1);
            self.woken.fetch_or(wake, Ordering::AcqRel);
        }
        may_leave
    }
}

#[test]
fn a_batch_leaves_after_the_one_before_and_its_worker_is_woken_for_it() {
    check(|| {
        let workers = Arc::new(Workers {
            turns: Turns::new(),
            woken: AtomicU64::new(0),
        });
        let second = {
            let workers = Arc::clone(&workers);
            thread::spawn(move || workers.leave(1, 1))
        };
        assert!(workers.leave(0, 0), "nobody is before the first");
        if !second.join().unwrap() {
            let woken = workers.woken.load(Ordering::Acquire);
            assert_eq!(woken & 0b10, 0b10, "it sleeps for good");
            assert!(workers.leave(1, 1));
        }
    });
}
