//! Initiations that an end answers. Culvert answers 20 of a peer in a row, and then one a second.

use std::thread;
use std::time::{Duration, Instant};

/// One less than the end's own bound: each round begins with the first peers again.
const IN_A_ROW: f64 = 19.0;

/// The initiations of all peers of one end.
pub(super) struct Budget {
    peers: f64,
    left: f64,
    at: Instant,
}

impl Budget {
    pub(super) fn of(peers: u32) -> Self {
        let peers = f64::from(peers);
        Self {
            peers,
            left: IN_A_ROW * peers,
            at: Instant::now(),
        }
    }

    /// Waits until so many are answered, if that is ever so, and takes them.
    pub(super) fn wait_for(&mut self, count: f64) {
        self.refill();
        let missing = (count.min(IN_A_ROW * self.peers) - self.left).max(0.0);
        thread::sleep(Duration::from_secs_f64(missing / self.peers));
        self.refill();
        self.left -= count;
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let gained = now.duration_since(self.at).as_secs_f64() * self.peers;
        self.left = (self.left + gained).min(IN_A_ROW * self.peers);
        self.at = now;
    }
}
