//! The choice of the TUN queue that is read next: the priority queues first, the others by deficit round robin.
//!
//! The kernel sorts packets into the queues by flow (`culvert_tun::Steering`), so that an
//! interactive flow does not stand behind the backlog of a bulk one. Deficit round robin
//! (Shreedhar and Varghese, SIGCOMM 1995) then gives each queue the same number of bytes.

use crate::codel::Codel;
use crate::counters::{Dropped, WorkerCounters};
use crate::queue_bound::QueueBound;
use crate::shell::{Ended, QueueCredit, Shell};
use culvert_base::BootTime;
use culvert_base::frames::{PRIORITY_QUEUE, QueueFault, RESERVED_QUEUES};
use std::time::Duration;

/// Bytes that a queue may read per round: one full superframe.
const QUANTUM_BYTES: i64 = 64 * 1024;

/// Frames read from the priority queues before the others get a turn: what belongs there is small
/// and rare, and a flood of it must not starve the rest.
const PRIORITY_BURST_FRAMES: u32 = 32;

/// Reads that may fail one after the other before the queue is left alone until something arrives in it: each loses a
/// frame, and a worker has others to read.
const MAX_READ_FAILURES: u32 = 16;

/// The longest time for which a queue refuses packets because its credit is wrong. Only an administrator who changes
/// its length (`txqueuelen`) and a host without memory bring that about. One wake-up in that time costs nothing.
const RECHECK_AFTER: Duration = Duration::from_secs(10);

/// The TUN queues of one worker, and which of them may have something to read.
pub(crate) struct Queues<A> {
    /// Of each queue, where the kernel bounds them in bytes.
    states: Vec<QueueState<A>>,
    /// Bytes that each queue may still read in this round.
    deficits: Vec<i64>,
    /// Bit `i`: queue `i` has not been found empty since it was last reported readable.
    ready: u64,
    /// The queue that is being served.
    current: usize,
    /// True if the first [`RESERVED_QUEUES`] are those.
    has_priority: bool,
    /// Choices of the reserved queues since the last frame of a bulk queue.
    priority_burst: u32,
    /// The time of the next look for frames that no event has told of.
    recheck_at: BootTime,
}

/// The state of one queue that is counted.
struct QueueState<A> {
    credit: A,
    codel: Codel,
    bound: QueueBound,
    /// The time at which its credit was last given back.
    published_at: BootTime,
}

/// A frame that was read.
pub(crate) struct Received {
    /// Bytes, the virtio-net header included.
    pub(crate) len: usize,
    /// It comes from the priority queue.
    pub(crate) is_priority: bool,
    /// The queue, where it is time to say [where its frames go](Queues::note_path).
    pub(crate) queue: Option<usize>,
    /// Its queue has stood for too long: the sender is to be told.
    pub(crate) is_congested: bool,
}

impl<A: QueueCredit> Queues<A> {
    /// At most 64 queues: more than any steering asks for. As many credits as queues, or none.
    pub(crate) fn new(count: usize, credits: Vec<A>, has_priority: bool) -> Self {
        assert!(count <= u64::BITS as usize);
        assert!(credits.is_empty() || credits.len() == count);
        Self {
            states: credits.into_iter().map(QueueState::new).collect(),
            deficits: vec![0; count],
            current: 0,
            // A frame may have arrived before the queue was watched.
            ready: all_of(count),
            has_priority,
            priority_burst: 0,
            recheck_at: BootTime::ZERO,
        }
    }

    /// Something has come to the queues whose bits are set.
    pub(crate) const fn set_ready(&mut self, queues: u64) {
        self.ready |= queues;
    }

    /// The longest sleep of the worker, where that matters: see [`Self::recheck`].
    pub(crate) fn rechecks_after(&self) -> Option<Duration> {
        (!self.states.is_empty()).then_some(RECHECK_AFTER)
    }

    /// Has every queue read, once in a while. One whose credit is wrong may refuse all packets although it is empty
    /// ([`QueueCredit::found_empty`]), and then nothing else would have it read.
    pub(crate) fn recheck(&mut self, now: BootTime) {
        if !self.states.is_empty() && now >= self.recheck_at {
            self.recheck_at = now.saturating_add(RECHECK_AFTER);
            self.ready = all_of(self.deficits.len());
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready != 0
    }

    /// True if waiting frames are counted: [`Self::priority_waits`] is up to date then, without an event.
    pub(crate) fn are_counted(&self) -> bool {
        !self.states.is_empty()
    }

    /// True if something waits in the priority queue. Costs no system call.
    pub(crate) fn priority_waits(&self) -> bool {
        self.has_priority
            && (self.ready >> PRIORITY_QUEUE & 1 == 1 || self.was_queued(PRIORITY_QUEUE))
    }

    /// True if the kernel has counted more in the queue than was read.
    fn was_queued(&self, queue: usize) -> bool {
        let state = self.states.get(queue);
        state.is_some_and(|state| state.credit.has_waiting())
    }

    /// Reads the next frame into `buffer`. `None` where all queues are empty; of those, where `only_priority` asks for it,
    /// the priority queue alone.
    ///
    /// A read that fails for the moment is counted as the loss of a frame, which the kernel has taken off its queue by then.
    ///
    /// # Errors
    /// A read failed for good.
    pub(crate) fn receive<S: Shell<QueueCredit = A>>(
        &mut self,
        shell: &mut S,
        buffer: &mut [u8],
        now: BootTime,
        only_priority: bool,
        counters: &WorkerCounters,
    ) -> Result<Option<Received>, Ended> {
        let mut failures = 0;
        while if only_priority {
            self.priority_waits()
        } else {
            self.ready != 0
        } {
            let queue = if only_priority {
                PRIORITY_QUEUE
            } else {
                self.choose()
            };
            match shell.read_frame(queue, buffer) {
                Ok(len) => {
                    self.deficits[queue] -= len as i64;
                    return Ok(Some(self.note_read(queue, len, now)));
                }
                Err(QueueFault::NotReady) => {
                    self.ready &= !(1 << queue);
                    self.deficits[queue] = 0;
                    if let Some(QueueState { credit, codel, .. }) = self.states.get_mut(queue) {
                        credit.found_empty();
                        codel.found_empty(credit.taken(), now);
                    }
                }
                Err(QueueFault::Gone | QueueFault::Broken) => {
                    self.ready &= !(1 << queue);
                    return Err(Ended);
                }
                Err(QueueFault::Refused | QueueFault::Passing | QueueFault::Down) => {
                    counters.count_drop(Dropped::TunReadFailed, 1);
                    failures += 1;
                    if failures == MAX_READ_FAILURES {
                        self.ready &= !(1 << queue);
                        return Ok(None);
                    }
                }
            }
        }
        self.priority_burst = 0;
        Ok(None)
    }

    /// Notes that a frame of `len` bytes was read from `queue`.
    fn note_read(&mut self, queue: usize, len: usize, now: BootTime) -> Received {
        let mut received = Received {
            len,
            is_priority: self.has_priority && queue == PRIORITY_QUEUE,
            queue: None,
            is_congested: false,
        };
        let is_bulk = self.is_bulk(queue);
        if is_bulk {
            // Only a frame ends the burst. A bulk queue that was found empty would take the turn of another one.
            self.priority_burst = 0;
        }
        if let Some(state) = self.states.get_mut(queue) {
            // Once a turn at least: on a slow link it takes long to come to many bytes.
            if state.credit.take(len) || now != state.published_at {
                state.published_at = now;
                let waiting = state.credit.publish();
                let taken = state.credit.taken();
                received.queue = Some(queue);
                received.is_congested = state.codel.note(taken, waiting, len, now) && is_bulk;
            }
        }
        received
    }

    /// Notes that a frame of `queue` goes by a path of this `round_trip`, where that is known.
    pub(crate) fn note_path(&mut self, queue: usize, round_trip: Option<Duration>, now: BootTime) {
        let QueueState { credit, bound, .. } = &mut self.states[queue];
        if let Some(bytes) = bound.note(round_trip, now) {
            credit.set_bound(bytes);
        }
    }

    /// At least one queue is ready.
    fn choose(&mut self) -> usize {
        if self.has_priority {
            // Without waiting for the next look at events.
            if self.was_queued(PRIORITY_QUEUE) {
                self.ready |= 1 << PRIORITY_QUEUE;
            }
            let first = self.ready.trailing_zeros() as usize;
            let has_others = self.ready >> RESERVED_QUEUES != 0;
            if !self.is_bulk(first) && (self.priority_burst < PRIORITY_BURST_FRAMES || !has_others)
            {
                self.priority_burst += 1;
                return first;
            }
        }
        loop {
            if self.is_bulk(self.current)
                && self.ready >> self.current & 1 == 1
                && self.deficits[self.current] > 0
            {
                return self.current;
            }
            self.current = (self.current + 1) % self.deficits.len();
            if self.is_bulk(self.current) && self.ready >> self.current & 1 == 1 {
                self.deficits[self.current] += QUANTUM_BYTES;
            }
        }
    }

    fn is_bulk(&self, queue: usize) -> bool {
        !(self.has_priority && queue < RESERVED_QUEUES)
    }
}

/// A bit for each of `queues`.
fn all_of(queues: usize) -> u64 {
    u64::MAX.checked_shr(u64::BITS - queues as u32).unwrap_or(0)
}

impl<A> QueueState<A> {
    fn new(credit: A) -> Self {
        Self {
            credit,
            codel: Codel::default(),
            bound: QueueBound::default(),
            published_at: BootTime::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
