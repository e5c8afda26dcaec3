//! Threads that do the dear part of handshakes, so that the control thread has time for everything else.

use crossbeam_queue::ArrayQueue;
use culvert_datapath::HandshakeMessage;
use culvert_session::{Finished, Work};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Four of them do some 40,000 handshakes a second: those of a whole company in less than one.
const MAX_HELPERS: usize = 4;

/// Work under way for each helper: some 4 ms. The rest waits in its lane, where no network fills that of another.
const WORK_PER_HELPER: usize = 64;

/// Work, with the message that it is for.
pub(super) struct Job<T> {
    pub(super) part: T,
    pub(super) message: HandshakeMessage,
}

/// The helpers of one device; none on a machine with one processor.
pub(super) struct Helpers {
    queue: Arc<WorkQueue>,
    threads: Vec<JoinHandle<()>>,
    under_way: usize,
}

/// The work that the control thread and its helpers share.
struct WorkQueue {
    todo: Mutex<Todo>,
    has_todo: Condvar,
    done: ArrayQueue<Job<Finished>>,
    /// Tells the control thread that something is done.
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct Todo {
    jobs: VecDeque<Job<Work>>,
    is_over: bool,
}

impl Helpers {
    /// One for each processor but one, at most [`MAX_HELPERS`]. They call `wake` when something is done.
    pub(super) fn start(wake: impl Fn() + Send + Sync + 'static) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self::with((processors - 1).min(MAX_HELPERS), wake)
    }

    fn with(count: usize, wake: impl Fn() + Send + Sync + 'static) -> Self {
        let queue = Arc::new(WorkQueue {
            todo: Mutex::default(),
            has_todo: Condvar::new(),
            done: ArrayQueue::new((count * WORK_PER_HELPER).max(1)),
            wake: Box::new(wake),
        });
        let threads = (0..count).map_while(|number| {
            let queue = Arc::clone(&queue);
            let thread = thread::Builder::new().name(format!("culvert-shake-{number}"));
            // Without it, the others or the control thread do its work.
            thread.spawn(move || queue.serve()).ok()
        });
        Self {
            threads: threads.collect(),
            queue,
            under_way: 0,
        }
    }

    /// True if there is room for one more. Never where there are no helpers.
    pub(super) fn have_room(&self) -> bool {
        self.under_way < self.threads.len() * WORK_PER_HELPER
    }

    /// True if something is under way.
    pub(super) const fn are_busy(&self) -> bool {
        self.under_way > 0
    }

    /// Has some work done. Only where [`Self::have_room`] says so.
    pub(super) fn give(&mut self, job: Job<Work>) {
        self.under_way += 1;
        self.queue.lock().jobs.push_back(job);
        self.queue.has_todo.notify_one();
    }

    /// Some work that is done.
    pub(super) fn take(&mut self) -> Option<Job<Finished>> {
        let job = self.queue.done.pop()?;
        self.under_way -= 1;
        Some(job)
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.has_todo.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _panicked = thread.join();
        }
    }
}

impl WorkQueue {
    fn serve(&self) {
        while let Some(Job { part, message }) = self.next() {
            let part = part.run();
            // There is room for all that is under way.
            let _pushed = self.done.push(Job { part, message });
            (self.wake)();
        }
    }

    /// Waits for the next work. `None` once the device ends.
    fn next(&self) -> Option<Job<Work>> {
        let waits = |todo: &mut Todo| todo.jobs.is_empty() && !todo.is_over;
        let todo = self.has_todo.wait_while(self.lock(), waits);
        let mut todo = todo.unwrap_or_else(PoisonError::into_inner);
        match todo.is_over {
            true => None,
            false => todo.jobs.pop_front(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Todo> {
        self.todo.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_base::BootTime;
    use culvert_session::{Clock, Handshaker, Output, PeerId, PrivateKey, Step, Tai64n};
    use std::sync::mpsc;
    use std::time::Duration;

    const CLOCK: Clock = Clock {
        now: BootTime::from_nanos(1_000_000_000_000),
        wall: Tai64n::from_bytes([0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    };

    fn end(own: u8, peer: u8) -> (Handshaker, PeerId) {
        let key = |number| PrivateKey::from_bytes([number; 32]);
        let mut shaker = Handshaker::new([own; 32]);
        shaker.set_private_key(Some(key(own)), CLOCK);
        shaker.set_up(true, CLOCK);
        let peer = shaker.add_peer(key(peer).public_key());
        (shaker, peer.expect("it is another key"))
    }

    /// The initiation of a peer with this key.
    fn initiation(number: u8) -> HandshakeMessage {
        let (mut shaker, peer) = end(number, 200);
        shaker.handle_wanted(peer, CLOCK);
        let sent = std::iter::from_fn(|| shaker.poll_output()).find_map(|output| match output {
            Output::Send { datagram, .. } => Some(datagram),
            _ => None,
        });
        let source = ([192, 0, 2, number], 51_820).into();
        let message = sent.and_then(|sent| HandshakeMessage::new(sent.as_bytes(), source, None));
        message.expect("an initiation leaves at once")
    }

    fn job(shaker: &mut Handshaker, message: HandshakeMessage) -> Job<Work> {
        let (datagram, source) = (message.datagram().to_vec(), message.source);
        match shaker.begin_datagram(&datagram, source, false, CLOCK) {
            Step::Work(part) => Job { part, message },
            Step::Done(handled) => panic!("{handled:?}"),
        }
    }

    #[test]
    fn work_comes_back_done_with_its_message_and_its_owner_is_woken() {
        let (mut responder, _) = end(200, 1);
        for number in 2..=20 {
            let key = PrivateKey::from_bytes([number; 32]).public_key();
            assert!(responder.add_peer(key).is_ok());
        }
        let (wake, woken) = mpsc::channel();
        let mut helpers = Helpers::with(2, move || {
            // The test may be over.
            let _unheard = wake.send(());
        });
        for number in 1..=20 {
            helpers.give(job(&mut responder, initiation(number)));
        }
        let mut answered = Vec::new();
        while answered.len() < 20 {
            assert!(helpers.are_busy());
            let woken = woken.recv_timeout(Duration::from_secs(60));
            assert!(woken.is_ok(), "the helpers are idle");
            while let Some(Job { part, message }) = helpers.take() {
                match responder.finish(part, CLOCK) {
                    Step::Work(part) => helpers.give(Job { part, message }),
                    Step::Done(handled) => {
                        assert!(handled.is_ok(), "{handled:?}");
                        answered.push(message.source);
                    }
                }
            }
        }
        answered.sort_unstable();
        answered.dedup();
        assert_eq!(answered.len(), 20, "each once");
        assert!(!helpers.are_busy());
    }

    #[test]
    fn there_is_room_for_so_much_work_for_each_helper_and_for_none_without_one() {
        let (mut responder, _) = end(200, 1);
        assert!(!Helpers::with(0, || ()).have_room());
        let mut helpers = Helpers::with(1, || ());
        let mut given = 0;
        while helpers.have_room() {
            helpers.give(job(&mut responder, initiation(1)));
            given += 1;
        }
        assert_eq!(given, WORK_PER_HELPER);
        // Work under way is given up when the device ends.
        drop(helpers);
    }
}
