//! A worker: a data path between devices in memory.

use crate::device::{Device, Run, Sent};
use culvert_datapath::{
    Command, DataPath, Dropped, Event, Gates, Lane, Mechanisms, Options, Ready, Rest, Snapshot,
    WorkerCounters,
};
use culvert_packet::Accept;
use culvert_policy::gate::ClientGate;
use culvert_policy::gate::DropReason;
use std::sync::Arc;
use std::time::Duration;

/// The first bulk queue of a worker with priority queues.
pub(crate) const BULK: usize = 2;

/// Turns after which a worker that still has work goes round in circles.
const MANY_TURNS: usize = 100_000;

/// The parts of a worker that tests choose.
pub(crate) struct Setup {
    pub(crate) worker: usize,
    pub(crate) queues: usize,
    pub(crate) are_counted: bool,
    pub(crate) accept: Accept,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) gates: Option<Arc<Gates>>,
    pub(crate) client_gate: Option<Arc<ClientGate>>,
    pub(crate) counts_traffic: bool,
}

impl Default for Setup {
    /// Two priority queues and two others, which are not counted; no gates; everything on.
    fn default() -> Self {
        Self {
            worker: 0,
            queues: 4,
            are_counted: false,
            accept: Accept::ALL,
            mechanisms: Mechanisms::ALL,
            gates: None,
            client_gate: None,
            counts_traffic: false,
        }
    }
}

pub(crate) struct Worker {
    pub(crate) path: DataPath<Device>,
    pub(crate) counters: Arc<WorkerCounters>,
}

impl Worker {
    pub(crate) fn new(snapshot: Snapshot) -> Self {
        Self::with(Setup::default(), snapshot)
    }

    pub(crate) fn with(setup: Setup, snapshot: impl Into<Arc<Snapshot>>) -> Self {
        let mut device = Device::new(setup.queues);
        device.publish(snapshot.into(), true);
        let counters = Arc::new(match setup.counts_traffic {
            true => WorkerCounters::with_traffic(),
            false => WorkerCounters::default(),
        });
        let options = Options {
            worker: setup.worker,
            queues: setup.queues,
            credits: match setup.are_counted {
                true => device.credits(),
                false => Vec::new(),
            },
            has_priority: true,
            accept: setup.accept,
            mechanisms: setup.mechanisms,
            counters: Arc::clone(&counters),
            gates: setup.gates,
            client_gate: setup.client_gate,
            identification: 7,
        };
        let path = DataPath::new(device, options).map_err(|_| "the device has ended");
        let mut worker = Self {
            path: path.unwrap(),
            counters,
        };
        worker.run();
        worker
    }

    pub(crate) fn device(&mut self) -> &mut Device {
        self.path.shell_mut()
    }

    pub(crate) fn queue(&mut self, queue: usize, frame: Vec<u8>) {
        self.device().queue(queue, frame);
    }

    pub(crate) fn arrive(&mut self, lane: Lane, run: Run) {
        self.device().sockets.arrived[lane as usize].push_back(Some(run));
    }

    pub(crate) fn command(&mut self, command: Command) {
        self.device().control.commands.push_back(command);
    }

    pub(crate) fn publish(&mut self, snapshot: Snapshot) {
        self.device().publish(Arc::new(snapshot), false);
    }

    pub(crate) fn advance(&mut self, time: Duration) {
        let now = self.device().clock.now.get();
        self.device().clock.now.set(now.saturating_add(time));
    }

    /// Packets that the gate has dropped, by reason.
    pub(crate) fn gate_drops(&self) -> Vec<(DropReason, u64)> {
        let all = DropReason::ALL.iter();
        let all = all.map(|reason| (*reason, self.counters.dropped_by_gate(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Takes in which devices are ready, and makes one turn.
    pub(crate) fn turn(&mut self) {
        let ready = self.device().ready();
        self.path.take_ready(&ready).unwrap();
        self.path.turn().unwrap();
    }

    /// Makes turns until there is nothing left to do.
    pub(crate) fn run(&mut self) {
        for _ in 0..MANY_TURNS {
            self.turn();
            if self.path.rest() != Rest::None {
                return;
            }
        }
        panic!("the worker never rests");
    }

    /// The socket of a lane has room again.
    pub(crate) fn has_room(&mut self, lane: Lane) {
        let mut ready = Ready::default();
        ready.room[lane as usize] = true;
        self.path.take_ready(&ready).unwrap();
    }

    /// The sends since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Sent> {
        self.device().sockets.sent.take()
    }

    /// The frames that were written to the TUN since the last call.
    pub(crate) fn written(&mut self) -> Vec<Vec<u8>> {
        self.device().tun.written.take()
    }

    /// The news for the control thread since the last call.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        self.device().control.events.take()
    }

    /// Every drop that was counted, by reason.
    pub(crate) fn drops(&self) -> Vec<(Dropped, u64)> {
        let all = Dropped::ALL.iter();
        let all = all.map(|reason| (*reason, self.counters.dropped(*reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}
