//! Two workers that open the same record deliver it once.

#[path = "../../../crates/session/src/transport/window.rs"]
mod shared;

use crate::check;
use crate::replay::ReplayVerdict;
use loom::sync::Arc;
use loom::thread;
use shared::SharedWindow;

/// As a transport opens records: judged under the lock, opened without, remembered under the lock.
fn open(window: &SharedWindow, counters: &[u64]) -> Vec<u64> {
    let judge = |counter: &u64| window.lock().check(*counter) == ReplayVerdict::Fresh;
    let fresh: Vec<u64> = counters.iter().copied().filter(judge).collect();
    let remember = |counter: &u64| window.lock().commit(*counter) == ReplayVerdict::Fresh;
    fresh.into_iter().filter(remember).collect()
}

#[test]
fn a_record_that_two_workers_open_is_delivered_once() {
    check(|| {
        let window = Arc::new(SharedWindow::new());
        let worker = {
            let window = Arc::clone(&window);
            thread::spawn(move || open(&window, &[1, 0]))
        };
        let mut delivered = open(&window, &[0, 1]);
        delivered.extend(worker.join().unwrap());
        delivered.sort_unstable();
        assert_eq!(delivered, [0, 1]);
    });
}
