//! Threads that do the dear part of handshakes, so that the control thread has time for everything else.

use super::shared::Shared;
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
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Todo {
    jobs: VecDeque<Job<Work>>,
    is_over: bool,
}

impl Helpers {
    /// One for each processor but one, at most [`MAX_HELPERS`].
    pub(super) fn start(shared: Arc<Shared>) -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let count = (processors - 1).min(MAX_HELPERS);
        let queue = Arc::new(WorkQueue {
            todo: Mutex::default(),
            has_todo: Condvar::new(),
            done: ArrayQueue::new((count * WORK_PER_HELPER).max(1)),
            shared,
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
            self.shared.wake_control();
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
