//! A peer's traffic marks: written by workers, read by the timers.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use culvert_base::BootTime;
use std::time::Duration;

/// The traffic marks of a peer: the last packets in either direction, and the answers that are
/// still due.
///
/// Workers mark a whole batch at once. Every mark is loaded first and stored only if it changes, so
/// a busy peer's cache line stays shared between workers. The marks carry no other memory with
/// them, so relaxed ordering is enough; a mark that two workers race for is a few microseconds off.
#[derive(Debug, Default)]
pub struct Activity {
    /// The first data packet sent since anything authentic was received.
    unanswered_since: Mark,
    /// The first data packet received since anything authentic was sent.
    unacknowledged_since: Mark,
    last_sent: Mark,
    last_received: Mark,
    /// The timers look at the peer by themselves, or are about to hear of it.
    is_watched: AtomicBool,
}

impl Activity {
    /// The largest error of the two `last_` marks: a busy peer writes them at most this often.
    pub const GRANULARITY: Duration = Duration::from_millis(1);

    /// Data packets were handed to the socket at `now`.
    pub fn data_sent(&self, now: BootTime) {
        self.any_sent(now);
        self.unanswered_since.set_if_clear(now);
    }

    /// A keepalive was handed to the socket at `now`.
    pub fn keepalive_sent(&self, now: BootTime) {
        self.any_sent(now);
    }

    /// Authentic data packets were received at `now`.
    pub fn data_received(&self, now: BootTime) {
        self.any_received(now);
        self.unacknowledged_since.set_if_clear(now);
    }

    /// An authentic keepalive was received at `now`.
    pub fn keepalive_received(&self, now: BootTime) {
        self.any_received(now);
    }

    /// To be called after data was marked: true once for a peer that the timers do not look at, for a worker that then
    /// tells [`Handshaker::handle_active`](crate::Handshaker::handle_active), or takes it back by [`Self::unwatch`].
    pub fn wants_watch(&self) -> bool {
        !self.is_watched.load(Relaxed) && !self.is_watched.swap(true, Relaxed)
    }

    /// The timers do not look at the peer.
    pub fn unwatch(&self) {
        self.is_watched.store(false, Relaxed);
    }

    pub(crate) fn watch(&self) {
        self.is_watched.store(true, Relaxed);
    }

    /// True if nothing is owed in either direction, and nothing went either way after `since`.
    pub(crate) fn is_idle_since(&self, since: BootTime) -> bool {
        let is_before = |at: Option<BootTime>| at.is_none_or(|at| at < since);
        self.unanswered_since().is_none()
            && self.unacknowledged_since().is_none()
            && is_before(self.last_sent())
            && is_before(self.last_received())
    }

    /// The first data packet sent since anything authentic was received.
    pub fn unanswered_since(&self) -> Option<BootTime> {
        self.unanswered_since.get()
    }

    /// The first data packet received since anything authentic was sent.
    pub fn unacknowledged_since(&self) -> Option<BootTime> {
        self.unacknowledged_since.get()
    }

    /// The last time at which anything authentic was sent, to within
    /// [`GRANULARITY`](Self::GRANULARITY).
    pub fn last_sent(&self) -> Option<BootTime> {
        self.last_sent.get()
    }

    /// The last time at which anything authentic was received, to within
    /// [`GRANULARITY`](Self::GRANULARITY).
    pub fn last_received(&self) -> Option<BootTime> {
        self.last_received.get()
    }

    /// Anything authentic, handshake messages included, was sent: nothing is left to acknowledge.
    pub(crate) fn any_sent(&self, now: BootTime) {
        self.unacknowledged_since.clear();
        self.last_sent.refresh(now);
    }

    /// Anything authentic, handshake messages included, was received: all is answered.
    pub(crate) fn any_received(&self, now: BootTime) {
        self.unanswered_since.clear();
        self.last_received.refresh(now);
    }

    pub(crate) fn clear_unanswered(&self) {
        self.unanswered_since.clear();
    }

    pub(crate) fn clear_owed(&self) {
        self.unanswered_since.clear();
        self.unacknowledged_since.clear();
    }
}

/// A time, or none: zero. No event happens at the very start of the boot-time clock; one that did
/// is put a nanosecond later.
#[derive(Debug, Default)]
struct Mark(AtomicU64);

impl Mark {
    fn get(&self) -> Option<BootTime> {
        match self.0.load(Relaxed) {
            0 => None,
            nanos => Some(BootTime::from_nanos(nanos)),
        }
    }

    fn set_if_clear(&self, now: BootTime) {
        if self.0.load(Relaxed) == 0 {
            self.0.store(now.as_nanos().max(1), Relaxed);
        }
    }

    fn clear(&self) {
        if self.0.load(Relaxed) != 0 {
            self.0.store(0, Relaxed);
        }
    }

    fn refresh(&self, now: BootTime) {
        if now.has_passed(self.get().unwrap_or(BootTime::ZERO), Activity::GRANULARITY)
            || self.get().is_none()
        {
            self.0.store(now.as_nanos().max(1), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> BootTime {
        BootTime::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn unanswered_counts_from_the_first_data_sent_since_something_was_received() {
        let activity = Activity::default();
        activity.keepalive_sent(at(1));
        assert_eq!(activity.unanswered_since(), None);
        activity.data_sent(at(2));
        activity.data_sent(at(3));
        assert_eq!(activity.unanswered_since(), Some(at(2)));
        activity.keepalive_received(at(4));
        assert_eq!(activity.unanswered_since(), None);
        assert_eq!(activity.last_sent(), Some(at(3)));
        assert_eq!(activity.last_received(), Some(at(4)));
    }

    #[test]
    fn unacknowledged_counts_from_the_first_data_received_since_something_was_sent() {
        let activity = Activity::default();
        activity.keepalive_received(at(1));
        assert_eq!(activity.unacknowledged_since(), None);
        activity.data_received(at(2));
        activity.data_received(at(3));
        assert_eq!(activity.unacknowledged_since(), Some(at(2)));
        activity.data_sent(at(4));
        assert_eq!(activity.unacknowledged_since(), None);
        activity.data_received(at(5));
        activity.keepalive_sent(at(6));
        assert_eq!(activity.unacknowledged_since(), None);
    }

    #[test]
    fn the_last_marks_move_at_most_once_per_granule() {
        let activity = Activity::default();
        activity.data_sent(BootTime::from_nanos(5));
        activity.data_sent(BootTime::from_nanos(6));
        assert_eq!(activity.last_sent(), Some(BootTime::from_nanos(5)));
        activity.data_sent(at(2));
        assert_eq!(activity.last_sent(), Some(at(2)));
    }
}
