//! No event waits while the control thread sleeps.

#[path = "../../../crates/engine/src/wake_flag.rs"]
mod product;

use crate::check;
use crate::sync::{AtomicBool, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use product::WakeFlag;

/// The control thread's mailbox, and its event descriptor: readable or not.
struct Mailbox {
    events: AtomicU64,
    is_readable: AtomicBool,
    flag: WakeFlag,
}

impl Mailbox {
    /// As a worker tells the control thread something.
    fn tell(&self) {
        // Relaxed, as if the queue promised nothing: the flag alone carries it over.
        self.events.fetch_add(1, Ordering::Relaxed);
        if self.flag.raise() {
            // The kernel orders accesses to the descriptor.
            self.is_readable.swap(true, Ordering::AcqRel);
        }
    }

    /// As the control thread wakes and looks, where its descriptor is readable.
    fn look(&self, heard: &mut u64) {
        if self.is_readable.swap(false, Ordering::AcqRel) {
            self.flag.lower();
            *heard = self.events.load(Ordering::Relaxed);
        }
    }
}

#[test]
fn no_event_waits_for_a_control_thread_that_sleeps() {
    check(|| {
        let mailbox = Arc::new(Mailbox {
            events: AtomicU64::new(0),
            is_readable: AtomicBool::new(false),
            flag: WakeFlag::new(),
        });
        let worker = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || (0..2).for_each(|_| mailbox.tell()))
        };
        let mut heard = 0;
        mailbox.look(&mut heard);
        worker.join().unwrap();
        // It sleeps for good once nothing is readable.
        while mailbox.is_readable.load(Ordering::Acquire) {
            mailbox.look(&mut heard);
        }
        assert_eq!(heard, 2);
    });
}
