//! Which TUN queue is read next: the priority queues first, the others by deficit round robin.
//!
//! The kernel sorts packets into the queues by flow ([`culvert_tun::Steering`]), so that an
//! interactive flow does not stand behind the backlog of a bulk one. Deficit round robin
//! (Shreedhar and Varghese, SIGCOMM 1995) then gives each queue the same number of bytes.

use super::codel::Codel;
use super::queue_bound::QueueBound;
use crate::counters::{Dropped, WorkerCounters};
use culvert_session::Time;
use culvert_tun::{Account, Fault, PRIORITY_QUEUES, Queue, URGENT_QUEUE};
use std::io;
use std::time::Duration;

/// Bytes that a queue may read per round: one full superframe.
const QUANTUM_BYTES: i64 = 64 * 1024;

/// Frames read from the priority queues before the others get a turn: what belongs there is small
/// and rare, and a flood of it must not starve the rest.
const PRIORITY_BURST_FRAMES: u32 = 32;

/// Reads that may fail one after the other before the queue is left alone until something arrives in it: each loses a
/// frame, and a worker has others to read.
const MAX_READ_FAILURES: u32 = 16;

/// How long a queue may refuse packets because its account is wrong, which only an administrator who changes its length
/// (`txqueuelen`) and a host without memory bring about. A wake-up in that time costs nothing.
const DOUBT_AFTER: Duration = Duration::from_secs(10);

/// The TUN queues of one worker, and which of them may have something to read.
pub(super) struct Queues {
    queues: Vec<Queue>,
    /// Of each queue, where the kernel bounds them in bytes.
    books: Vec<Book>,
    writer: Queue,
    /// Bytes that each queue may still read in this round.
    deficits: Vec<i64>,
    /// Bit `i`: queue `i` has not been found empty since it was last reported readable.
    ready: u64,
    /// The queue that is being served.
    current: usize,
    /// Whether the first [`PRIORITY_QUEUES`] are those.
    has_priority: bool,
    priority_burst: u32,
    /// When to look for what no event has told of.
    doubt_at: Time,
}

/// What is known of what waits in a queue.
struct Book {
    account: Account,
    codel: Codel,
    bound: QueueBound,
    /// When it was last looked at.
    settled_at: Time,
}

/// A frame that was read.
pub(super) struct Received {
    /// Bytes, the virtio-net header included.
    pub(super) len: usize,
    /// It comes from the urgent queue.
    pub(super) is_urgent: bool,
    /// The queue, where it is time to say [where its frames go](Queues::note_path).
    pub(super) queue: Option<usize>,
    /// Its queue has stood for too long: the sender is to be told.
    pub(super) is_congested: bool,
}

impl Queues {
    /// At most 64 queues: more than any steering asks for. As many accounts as queues, or none.
    pub(super) fn new(
        queues: Vec<Queue>,
        accounts: Vec<Account>,
        writer: Queue,
        has_priority: bool,
    ) -> Self {
        assert!(queues.len() <= u64::BITS as usize);
        assert!(accounts.is_empty() || accounts.len() == queues.len());
        Self {
            books: accounts.into_iter().map(Book::new).collect(),
            deficits: vec![0; queues.len()],
            current: 0,
            // A frame may have arrived before the queue was watched.
            ready: all_of(queues.len()),
            queues,
            writer,
            has_priority,
            priority_burst: 0,
            doubt_at: Time::ZERO,
        }
    }

    /// What this worker writes to.
    pub(super) fn writer(&self) -> &Queue {
        &self.writer
    }

    pub(super) fn set_ready(&mut self, queue: usize) {
        self.ready |= 1 << queue;
    }

    /// How long at most the worker may sleep, where that matters: see [`Self::doubt`].
    pub(super) fn doubts_after(&self) -> Option<Duration> {
        (!self.books.is_empty()).then_some(DOUBT_AFTER)
    }

    /// Has every queue read, once in a while. One whose account is wrong may refuse all packets although it is empty
    /// ([`Account::found_empty`]), and then nothing else would have it read.
    pub(super) fn doubt(&mut self, now: Time) {
        if !self.books.is_empty() && now >= self.doubt_at {
            self.doubt_at = now.saturating_add(DOUBT_AFTER);
            self.ready = all_of(self.queues.len());
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ready != 0
    }

    /// Whether what waits is counted: [`Self::has_urgent`] is up to date then, without an event.
    pub(super) fn are_counted(&self) -> bool {
        !self.books.is_empty()
    }

    /// Whether something waits in the urgent queue. Costs no system call.
    pub(super) fn has_urgent(&self) -> bool {
        self.has_priority && (self.ready >> URGENT_QUEUE & 1 == 1 || self.was_queued(URGENT_QUEUE))
    }

    /// Whether the kernel has counted more in the queue than was read.
    fn was_queued(&self, queue: usize) -> bool {
        let book = self.books.get(queue);
        book.is_some_and(|book| book.account.has_waiting())
    }

    /// Reads the next frame into `buffer`. `None` where all queues are empty; of those, where `only_urgent` asks for it,
    /// the urgent queue alone.
    ///
    /// A read that fails for the moment is counted as the loss of a frame, which the kernel has taken off its queue by then.
    ///
    /// # Errors
    /// Those of reading the TUN that are [lasting](Fault::is_lasting).
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        now: Time,
        only_urgent: bool,
        counters: &WorkerCounters,
    ) -> io::Result<Option<Received>> {
        let mut failures = 0;
        while if only_urgent {
            self.has_urgent()
        } else {
            self.ready != 0
        } {
            let queue = if only_urgent {
                URGENT_QUEUE
            } else {
                self.choose()
            };
            match self.queues[queue].receive(buffer) {
                Ok(len) => {
                    self.deficits[queue] -= len as i64;
                    return Ok(Some(self.settle(queue, len, now)));
                }
                Err(error) if Fault::of(&error) == Fault::NotReady => {
                    self.ready &= !(1 << queue);
                    self.deficits[queue] = 0;
                    if let Some(Book { account, codel, .. }) = self.books.get_mut(queue) {
                        account.found_empty();
                        codel.found_empty(account.taken(), now);
                    }
                }
                Err(error) => {
                    if Fault::of(&error).is_lasting() {
                        self.ready &= !(1 << queue);
                        return Err(error);
                    }
                    tracing::trace!(%error, "read from the TUN");
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
    fn settle(&mut self, queue: usize, len: usize, now: Time) -> Received {
        let mut received = Received {
            len,
            is_urgent: self.has_priority && queue == URGENT_QUEUE,
            queue: None,
            is_congested: false,
        };
        let is_bulk = self.is_bulk(queue);
        if let Some(book) = self.books.get_mut(queue) {
            // Once a turn at least: on a slow link it takes long to come to many bytes.
            if book.account.take(len) || now != book.settled_at {
                book.settled_at = now;
                let waiting = book.account.settle();
                let taken = book.account.taken();
                received.queue = Some(queue);
                received.is_congested = book.codel.note(taken, waiting, len, now) && is_bulk;
            }
        }
        received
    }

    /// Notes that a frame of `queue` goes by a path of this `round_trip`, where that is known.
    pub(super) fn note_path(&mut self, queue: usize, round_trip: Option<Duration>, now: Time) {
        let Book { account, bound, .. } = &mut self.books[queue];
        if let Some(bytes) = bound.note(round_trip, now) {
            account.set_bound(bytes);
        }
    }

    /// At least one queue is ready.
    fn choose(&mut self) -> usize {
        if self.has_priority {
            // Without waiting for the next look at events.
            if self.was_queued(URGENT_QUEUE) {
                self.ready |= 1 << URGENT_QUEUE;
            }
            let first = self.ready.trailing_zeros() as usize;
            let has_others = self.ready >> PRIORITY_QUEUES != 0;
            if !self.is_bulk(first) && (self.priority_burst < PRIORITY_BURST_FRAMES || !has_others)
            {
                self.priority_burst += 1;
                return first;
            }
            self.priority_burst = 0;
        }
        loop {
            if self.is_bulk(self.current)
                && self.ready >> self.current & 1 == 1
                && self.deficits[self.current] > 0
            {
                return self.current;
            }
            self.current = (self.current + 1) % self.queues.len();
            if self.is_bulk(self.current) && self.ready >> self.current & 1 == 1 {
                self.deficits[self.current] += QUANTUM_BYTES;
            }
        }
    }

    fn is_bulk(&self, queue: usize) -> bool {
        !(self.has_priority && queue < PRIORITY_QUEUES)
    }
}

/// A bit for each of `queues`.
fn all_of(queues: usize) -> u64 {
    u64::MAX.checked_shr(u64::BITS - queues as u32).unwrap_or(0)
}

impl Book {
    fn new(account: Account) -> Self {
        Self {
            account,
            codel: Codel::default(),
            bound: QueueBound::default(),
            settled_at: Time::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_tun::MAX_FRAME_BYTES;
    use std::net::UdpSocket;

    /// A queue whose next read fails with ECONNREFUSED, and whoever may write to it then.
    fn failing_once() -> (Queue, UdpSocket) {
        let tun = UdpSocket::bind("127.0.0.1:0").unwrap();
        let closed = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        tun.connect(address).unwrap();
        tun.set_nonblocking(true).unwrap();
        // Loopback answers "port unreachable" within the call.
        tun.send(&[0]).unwrap();
        let writer = UdpSocket::bind(address).unwrap();
        writer.connect(tun.local_addr().unwrap()).unwrap();
        (Queue::new(tun.into()), writer)
    }

    #[test]
    fn a_read_that_fails_is_counted_as_a_lost_frame_and_the_next_frame_is_read() {
        let (queue, host) = failing_once();
        let writer = queue.try_clone().unwrap();
        let mut queues = Queues::new(vec![queue], Vec::new(), writer, false);
        host.send(b"a frame").unwrap();
        let counters = WorkerCounters::default();
        let mut buffer = vec![0; MAX_FRAME_BYTES];
        let mut receive = || queues.receive(&mut buffer, Time::ZERO, false, &counters);
        let received = receive().unwrap().map(|received| received.len);
        assert_eq!(received, Some("a frame".len()));
        assert!(receive().unwrap().is_none());
        assert_eq!(counters.dropped(Dropped::TunReadFailed), 1);
    }
}
