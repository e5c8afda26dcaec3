//! A worker never takes a snapshot for newer than it is, and misses none.

#[path = "../../../crates/engine/src/published.rs"]
mod product;

use crate::check;
use loom::sync::Arc;
use loom::thread;
use product::Published;

/// The number of the snapshot that a worker has after each of its looks.
fn look(published: &Published<u64>, seen: &mut u64, has: &mut u64) {
    if let Some(newer) = published.newer_than(seen) {
        assert!(*newer > *has, "{newer} after {has}");
        *has = *newer;
    }
    assert_eq!(*has, *seen, "the generation of another snapshot");
}

#[test]
fn a_worker_knows_which_snapshot_it_has_and_gets_the_newest() {
    check(|| {
        let published = Arc::new(Published::new(1));
        let worker = {
            let published = Arc::clone(&published);
            thread::spawn(move || {
                let (mut seen, mut has) = (0, 0);
                for _ in 0..3 {
                    look(&published, &mut seen, &mut has);
                }
                (seen, has)
            })
        };
        for _ in 0..2 {
            let number = published.next_generation();
            published.publish(number);
        }
        let (mut seen, mut has) = worker.join().unwrap();
        look(&published, &mut seen, &mut has);
        assert_eq!(has, 3);
    });
}
