//! A dynamic byte limit on the socket's send queue (byte queue limits, BQL): how much may wait between the socket and the wire.
//!
//! TCP keeps its own backlog in the host to about a millisecond ("TCP small queues"). A TUN takes the packets off its
//! hands, so that brake is gone: the excess of the link would fill the queue of the network device, and every other
//! packet would wait behind it. Here the socket's send buffer is the brake. It is kept just large enough that the
//! device never runs dry while more is waiting, as in the kernel's dynamic queue limits (`lib/dynamic_queue_limits.c`).
//! The rest of the backlog stays in the TUN queues, where flows don't wait for each other.

use crate::lane::Lane;
use crate::shell::Shell;
use culvert_base::BootTime;
use std::time::Duration;

/// The smallest send buffer, and the first one: the kernel charges some 80 KB for a full batch, so
/// two fit. One leaves while the next is on its way to us. A buffer that is too small is noticed at
/// the first batch; one that is too large may never fill, and so never be noticed.
const MIN_BYTES: usize = 160 << 10;

/// The largest send buffer: 2 ms at 8 Gbit/s, more than any wake-up takes.
const MAX_BYTES: usize = 2 << 20;

/// Bytes that should be left when room is reported. They bridge the time until the next batch is there, and are too few
/// to be worth waiting behind.
const RESERVE_BYTES: u32 = 48 << 10;

/// The time for which the least reserve is watched before the buffer is made smaller: long enough to see the worst
/// wake-up of a busy machine.
const WATCH_FOR: Duration = Duration::from_millis(20);

/// The limits of a worker's sockets.
pub(crate) struct SendLimits {
    v4: SendLimit,
    v6: SendLimit,
}

impl SendLimits {
    /// Those of new sockets: the lowest.
    pub(crate) fn new(shell: &impl Shell) -> Self {
        for lane in Lane::BULK {
            shell.set_send_buffer(lane, MIN_BYTES);
        }
        Self {
            v4: SendLimit::new(),
            v6: SendLimit::new(),
        }
    }

    /// The socket of `lane` was full and has room again: its limit follows from how much is left in it.
    pub(crate) fn note_room(&mut self, shell: &impl Shell, lane: Lane) {
        let limit = match lane {
            Lane::V4 => &mut self.v4,
            Lane::V6 => &mut self.v6,
            // Nothing is sent from these.
            Lane::PriorityV4 | Lane::PriorityV6 => return,
        };
        if let Some(bytes) = limit.note_room(shell.unsent_bytes(lane), shell.now()) {
            shell.set_send_buffer(lane, bytes);
        }
    }
}

/// The limit of one socket.
struct SendLimit {
    limit_bytes: usize,
    /// The least that was left when room was reported, since `watched_since`.
    least_left_bytes: u32,
    watched_since: Option<BootTime>,
}

impl SendLimit {
    fn new() -> Self {
        Self {
            limit_bytes: MIN_BYTES,
            least_left_bytes: u32::MAX,
            watched_since: None,
        }
    }

    /// The socket was full and has room again, with `left_bytes` still on their way to the device.
    /// Returns the send buffer to set from here on, in bytes, where it changes.
    fn note_room(&mut self, left_bytes: u32, now: BootTime) -> Option<usize> {
        if left_bytes == 0 {
            // The device ran dry while we had more: bandwidth was lost.
            return self.set(self.limit_bytes + self.limit_bytes / 2);
        }
        self.least_left_bytes = self.least_left_bytes.min(left_bytes);
        let since = *self.watched_since.get_or_insert(now);
        if now.saturating_since(since) < WATCH_FOR {
            return None;
        }
        // Room is reported at half the buffer, so what was left too much counts twice.
        let spare = 2 * self.least_left_bytes.saturating_sub(RESERVE_BYTES) as usize;
        self.set(self.limit_bytes.saturating_sub(spare))
    }

    fn set(&mut self, bytes: usize) -> Option<usize> {
        self.least_left_bytes = u32::MAX;
        self.watched_since = None;
        let bytes = bytes.clamp(MIN_BYTES, MAX_BYTES);
        let changed = bytes != self.limit_bytes;
        self.limit_bytes = bytes;
        changed.then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> BootTime {
        BootTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_device_that_ran_dry_gets_a_larger_backlog() {
        let mut limits = SendLimit::new();
        let larger = MIN_BYTES + MIN_BYTES / 2;
        assert_eq!(limits.note_room(0, at(1)), Some(larger));
    }

    #[test]
    fn what_was_never_needed_is_given_up() {
        let mut limits = SendLimit::new();
        let mut limit = (0..10)
            .filter_map(|ms| limits.note_room(0, at(ms)))
            .last()
            .unwrap();
        assert_eq!(limit, MAX_BYTES);
        for ms in 10..1000 {
            // A slow device: room is reported at half the buffer and found a moment later.
            let left = u32::try_from(limit / 2).unwrap();
            limit = limits.note_room(left, at(ms)).unwrap_or(limit);
        }
        assert_eq!(limit, MIN_BYTES);
    }

    #[test]
    fn a_reserve_that_is_needed_now_and_then_is_kept() {
        let mut limits = SendLimit::new();
        limits.note_room(0, at(0));
        for ms in 0..1000 {
            let left = if ms % 10 == 0 { RESERVE_BYTES } else { 1 << 20 };
            assert_eq!(limits.note_room(left, at(ms)), None);
        }
    }

    #[test]
    fn the_backlog_stays_within_its_bounds() {
        let mut limits = SendLimit::new();
        for ms in 0..100 {
            limits.note_room(0, at(ms));
        }
        assert_eq!(limits.limit_bytes, MAX_BYTES);
        for ms in 100..1000 {
            limits.note_room(u32::MAX, at(ms));
        }
        assert_eq!(limits.limit_bytes, MIN_BYTES);
    }
}
