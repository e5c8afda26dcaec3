//! Says that something has happened that pages show. It says neither what nor to whom: whoever hears it
//! looks again, at what they may see.

use std::sync::Arc;
use tokio::sync::watch;

/// The sending end of the pulse. A copy is the same pulse.
#[derive(Clone, Debug)]
pub(super) struct Pulse(Arc<watch::Sender<Beat>>);

/// The state of the pulse.
#[derive(Clone, Copy, Debug, Default)]
struct Beat {
    count: u64,
    is_last: bool,
}

/// Feels the pulse.
#[derive(Clone, Debug)]
pub struct Listener(watch::Receiver<Beat>);

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// Something has happened.
    pub(super) fn beat(&self) {
        self.0.send_modify(|beat| beat.count += 1);
    }

    /// Nothing more will happen: the portal stops.
    pub(super) fn stop(&self) {
        self.0.send_modify(|beat| beat.is_last = true);
    }

    pub(super) fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    /// The number of its beats.
    pub fn count(&self) -> u64 {
        self.0.borrow().count
    }

    /// Waits for the next beat after those that were taken; false where there will be none.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok() && !self.0.borrow().is_last
    }

    /// Takes all beats up to now as one.
    pub fn take(&mut self) {
        self.0.mark_unchanged();
    }

    /// True if the portal stops.
    pub fn is_over(&self) -> bool {
        self.0.borrow().is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn beats_are_felt_as_one_and_end_with_the_portal() {
        let pulse = Pulse::new();
        let mut listener = pulse.listen();
        pulse.beat();
        pulse.beat();
        assert!(listener.next().await);
        assert_eq!(listener.count(), 2);
        pulse.beat();
        listener.take();
        pulse.stop();
        assert!(!listener.next().await && listener.is_over());
    }
}
