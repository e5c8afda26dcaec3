//! A packet worker: one thread that carries both directions to completion.
//!
//! A turn asks which devices are ready and lets the data path carry. Nothing here waits for anything but `epoll`.

mod affinity;
mod poller;
mod shell;

use crate::clock;
use crate::control::Shared;
use affinity::Affinity;
use culvert_datapath::{
    DataPath, Ended, Gates, Mechanism, Mechanisms, PAUSE, Ready, Rest, Unrouted, WorkerCounters,
};
use culvert_packet::Accept;
use culvert_tun::{Queue, QueueCredit};
use rustix::thread::Timespec;
use shell::{KernelShell, TunQueueCredit};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// The parts of a worker.
pub(crate) struct WorkerOptions {
    pub(crate) worker: usize,
    pub(crate) queues: Vec<Queue>,
    /// Of each queue, where the kernel bounds them in bytes.
    pub(crate) credits: Vec<QueueCredit>,
    /// A descriptor of the TUN to write to; which queue it is does not matter to the kernel.
    pub(crate) writer: Queue,
    /// True if the first of `queues` are the TUN's priority queues.
    pub(crate) has_priority: bool,
    /// The kinds of packets that the TUN takes coalesced.
    pub(crate) accept: Accept,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) unrouted: Option<SyncSender<Unrouted>>,
}

/// A packet worker, ready to run on a thread of its own.
pub(crate) struct Worker {
    data_path: DataPath<KernelShell>,
    counters: Arc<WorkerCounters>,
    may_stay: bool,
}

impl Worker {
    /// Registers the worker's devices.
    ///
    /// # Errors
    /// Those of `epoll`: no descriptors or no memory left.
    pub(crate) fn new(options: WorkerOptions) -> io::Result<Self> {
        let gates: Option<Arc<Gates>> = options.shared.gates.clone();
        let path_options = culvert_datapath::Options {
            worker: options.worker,
            queues: options.queues.len(),
            credits: options.credits.into_iter().map(TunQueueCredit).collect(),
            has_priority: options.has_priority,
            accept: options.accept,
            mechanisms: options.mechanisms,
            counters: Arc::clone(&options.counters),
            gates,
            client_gate: options.shared.client_gate.clone(),
            identification: getrandom::u32().unwrap_or_default(),
        };
        let shell = KernelShell::new(
            options.worker,
            options.queues,
            options.writer,
            options.shared,
            options.unrouted,
        )?;
        let data_path = DataPath::new(shell, path_options)
            .map_err(|Ended| io::Error::other("the sockets can't be watched"))?;
        Ok(Self {
            data_path,
            counters: options.counters,
            may_stay: options.mechanisms.has(Mechanism::Affinity),
        })
    }

    /// Carries packets until the device ends.
    ///
    /// # Errors
    /// Those of the TUN: the interface was deleted.
    pub(crate) fn run(mut self) -> io::Result<()> {
        sleep_exactly();
        let mut affinity = self
            .may_stay
            .then(|| Affinity::of_this_thread(clock::now()))
            .flatten();
        while !self.data_path.shell().is_stopping() {
            if self.turn() == Err(Ended) {
                return Err(self.data_path.shell_mut().take_error());
            }
            if let Some(affinity) = &mut affinity
                && affinity.look(self.data_path.now(), self.data_path.mix_mut())
            {
                self.counters.pinned.add(1);
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Ended> {
        let (is_busy, at_most) = match self.data_path.rest() {
            Rest::None => (true, None),
            Rest::Pause => {
                pause();
                (true, None)
            }
            Rest::Poll => {
                rustix::thread::sched_yield();
                (true, None)
            }
            Rest::Sleep(at_most) => (false, at_most),
        };
        let mut ready = Ready::default();
        let shell = self.data_path.shell_mut();
        shell.wait(is_busy, at_most, &self.counters, &mut ready)?;
        self.data_path.take_ready(&ready)?;
        self.data_path.turn()
    }
}

/// Lets the calling thread sleep for [`PAUSE`] and not for twice that: the kernel adds up to 50 µs to a
/// sleep unless it is told not to.
fn sleep_exactly() {
    // If it can't, pauses are longer: batches grow, and so does the latency of a stream.
    let _refused = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

fn pause() {
    const FOR: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: PAUSE.subsec_nanos() as i64,
    };
    // A signal that ends it early does no harm.
    let _interrupted = rustix::thread::nanosleep(&FOR);
}
