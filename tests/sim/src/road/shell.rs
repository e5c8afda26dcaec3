//! Devices in memory: the shell of a simulated machine's data path.

use culvert_base::BootTime;
use culvert_base::frames::{ACKNOWLEDGEMENT_QUEUE, PRIORITY_QUEUE, QueueFault, counted_bytes};
use culvert_base::{Destination, LocalAddress};
use culvert_datapath::{
    Command, Datagrams, Ended, Event, HandshakeMessage, Lane, PathMessage, QueueCredit, Ready,
    Receive, Received, Renewed, SendFault, Shell, Snapshot, Unrouted,
};
use culvert_packet::ecn::Ecn;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// TUN queues of a machine: the two with priority, and two for bulk.
pub(crate) const QUEUES: usize = 4;

/// Runs that one receive call returns.
const RUNS: usize = 4;

/// Datagrams that the network card joins at most.
const MAX_JOINED: usize = 32;

/// The wall clock when the boot-time clock shows 0.
const WALL_AT_ZERO: Duration = Duration::from_secs(1_800_000_000);

/// Bytes that a queue takes, as they count, before it refuses more.
const FIRST_BOUND_BYTES: u64 = 2 << 20;

/// A datagram that has come in.
pub(crate) struct Arrived {
    pub(crate) from: SocketAddr,
    pub(crate) class: u8,
    pub(crate) bytes: Vec<u8>,
}

/// A datagram that leaves.
pub(crate) struct Leaving {
    pub(crate) to: SocketAddr,
    pub(crate) class: u8,
    pub(crate) bytes: Vec<u8>,
}

/// The devices of a machine.
pub(crate) struct SimShell {
    clock: Rc<Cell<BootTime>>,
    queues: Vec<VecDeque<Vec<u8>>>,
    counts: Vec<Rc<Count>>,
    /// Frames that the host has got.
    pub(crate) written: RefCell<Vec<Vec<u8>>>,
    arrived: [VecDeque<Arrived>; Lane::ALL.len()],
    pub(crate) leaving: RefCell<VecDeque<Leaving>>,
    /// Bytes that the link takes before it is full.
    pub(crate) room_bytes: Cell<usize>,
    wants_room: [bool; Lane::ALL.len()],
    pub(crate) events: RefCell<VecDeque<Event>>,
    pub(crate) handshakes: RefCell<VecDeque<HandshakeMessage>>,
    pub(crate) commands: VecDeque<Command>,
    published: Option<Arc<Snapshot>>,
    generation: u64,
    has_told_sockets: bool,
}

impl SimShell {
    pub(crate) fn new(clock: Rc<Cell<BootTime>>) -> Self {
        Self {
            clock,
            queues: (0..QUEUES).map(|_| VecDeque::new()).collect(),
            counts: (0..QUEUES).map(|_| Rc::default()).collect(),
            written: RefCell::default(),
            arrived: Default::default(),
            leaving: RefCell::default(),
            room_bytes: Cell::new(usize::MAX),
            wants_room: [false; Lane::ALL.len()],
            events: RefCell::default(),
            handshakes: RefCell::default(),
            commands: VecDeque::new(),
            published: None,
            generation: 0,
            has_told_sockets: false,
        }
    }

    /// The counts of its queues.
    pub(crate) fn credits(&self) -> Vec<SimQueueCredit> {
        let credits = self.counts.iter();
        let credits = credits.map(|count| SimQueueCredit {
            count: Rc::clone(count),
            taken: 0,
        });
        credits.collect()
    }

    pub(crate) fn publish(&mut self, snapshot: Snapshot) {
        self.published = Some(Arc::new(snapshot));
        self.generation += 1;
    }

    /// The host sends a frame into the tunnel. False where the queue of its flow has no room, as the kernel decides.
    pub(crate) fn queue(&mut self, frame: Vec<u8>, is_priority: bool, flow: usize) -> bool {
        let queue = match is_priority {
            true => PRIORITY_QUEUE,
            false => ACKNOWLEDGEMENT_QUEUE + 1 + flow % (QUEUES - ACKNOWLEDGEMENT_QUEUE - 1),
        };
        let count = &self.counts[queue];
        let waiting = count.queued.get().wrapping_sub(count.told.get());
        if waiting > count.bound.get() {
            return false;
        }
        let queued = count.queued.get().wrapping_add(counted_bytes(frame.len()));
        count.queued.set(queued);
        self.queues[queue].push_back(frame);
        true
    }

    /// Frames that wait to be read.
    pub(crate) fn waiting(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    pub(crate) fn arrive(&mut self, datagram: Arrived) {
        let has_priority = datagram.class & !0b11 == culvert_base::datagrams::PRIORITY_CLASS;
        let lane = match (datagram.from.is_ipv4(), has_priority) {
            (true, true) => Lane::PriorityV4,
            (false, true) => Lane::PriorityV6,
            (true, false) => Lane::V4,
            (false, false) => Lane::V6,
        };
        self.arrived[lane as usize].push_back(datagram);
    }

    /// The devices that are ready.
    pub(crate) fn ready(&self) -> Ready {
        let mut ready = Ready {
            is_woken: true,
            ..Ready::default()
        };
        for (queue, frames) in self.queues.iter().enumerate() {
            ready.queues |= u64::from(!frames.is_empty()) << queue;
        }
        for lane in Lane::ALL {
            let at = lane as usize;
            ready.lanes[at] = !self.arrived[at].is_empty();
            ready.room[at] = self.wants_room[at] && self.room_bytes.get() > 0;
        }
        ready
    }
}

impl Shell for SimShell {
    type QueueCredit = SimQueueCredit;
    type Received = SimReceived;

    fn now(&self) -> BootTime {
        self.clock.get()
    }

    fn wall(&self) -> Duration {
        WALL_AT_ZERO + self.now().saturating_since(BootTime::ZERO)
    }

    fn read_frame(&mut self, queue: usize, buffer: &mut [u8]) -> Result<usize, QueueFault> {
        let frame = self.queues[queue].pop_front();
        let frame = frame.ok_or(QueueFault::NotReady)?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok(frame.len())
    }

    fn write_frame(&self, parts: &[IoSlice<'_>]) -> Result<(), QueueFault> {
        let frame = parts.iter().flat_map(|part| part.to_vec()).collect();
        self.written.borrow_mut().push(frame);
        Ok(())
    }

    fn receive(&mut self, lane: Lane, into: &mut SimReceived) -> Receive {
        let arrived = &mut self.arrived[lane as usize];
        into.runs.clear();
        while into.runs.len() < into.room
            && let Some(first) = arrived.pop_front()
        {
            let stride = first.bytes.len();
            let mut run = Run {
                bytes: first.bytes,
                stride,
                from: first.from,
                class: first.class,
            };
            let mut joined = 1;
            // As the card joins them: of one source and class, the last may be shorter.
            while joined < MAX_JOINED
                && run.bytes.len() == joined * stride
                && let Some(next) = arrived.front()
                && (next.from, next.class) == (run.from, run.class)
                && next.bytes.len() <= stride
                && let Some(next) = arrived.pop_front()
            {
                run.bytes.extend(next.bytes);
                joined += 1;
            }
            into.runs.push(run);
        }
        Receive::Runs {
            runs: into.runs.len(),
            may_have_more: !arrived.is_empty(),
        }
    }

    fn arrivals(&self, _lane: Lane) -> Option<u64> {
        None
    }

    fn has_socket(&self, _lane: Lane) -> bool {
        true
    }

    fn send(
        &self,
        datagrams: &[u8],
        stride: usize,
        to: &Destination,
        class: u8,
    ) -> Result<(), SendFault> {
        let room = self.room_bytes.get();
        if room == 0 {
            return Err(SendFault::WouldBlock);
        }
        self.room_bytes.set(room.saturating_sub(datagrams.len()));
        let each = datagrams.chunks(stride).map(|bytes| Leaving {
            to: to.address,
            class,
            bytes: bytes.to_vec(),
        });
        self.leaving.borrow_mut().extend(each);
        Ok(())
    }

    fn watch_for_room(&mut self, lane: Lane, on: bool) -> Result<(), Ended> {
        self.wants_room[lane as usize] = on;
        Ok(())
    }

    fn unsent_bytes(&self, _lane: Lane) -> u32 {
        0
    }

    fn set_send_buffer(&self, _lane: Lane, _bytes: usize) {}

    fn look(&mut self, ready: &mut Ready) -> Result<(), Ended> {
        *ready = self.ready();
        Ok(())
    }

    fn is_own_address(&self, _address: LocalAddress) -> bool {
        false
    }

    fn tell(&self, event: Event) -> bool {
        self.events.borrow_mut().push_back(event);
        true
    }

    fn hand_over(&self, message: HandshakeMessage) -> bool {
        self.handshakes.borrow_mut().push_back(message);
        true
    }

    fn takes_path_messages(&self) -> bool {
        false
    }

    fn hand_over_path(&self, _message: PathMessage) -> bool {
        false
    }

    fn next_command(&mut self) -> Option<Command> {
        self.commands.pop_front()
    }

    fn newer_snapshot(&mut self, generation: &mut u64) -> Result<Option<Renewed>, Ended> {
        let Some(snapshot) = self
            .published
            .clone()
            .filter(|_| self.generation != *generation)
        else {
            return Ok(None);
        };
        *generation = self.generation;
        let has_other_sockets = !std::mem::replace(&mut self.has_told_sockets, true);
        Ok(Some(Renewed {
            snapshot,
            has_other_sockets,
        }))
    }

    fn wake_workers(&self, _mask: u64) {}

    fn takes_unrouted(&self) -> bool {
        false
    }

    fn give_unrouted(&self, _unrouted: Unrouted) -> bool {
        false
    }
}

struct Run {
    bytes: Vec<u8>,
    stride: usize,
    from: SocketAddr,
    class: u8,
}

/// The datagrams of one receive call.
pub(crate) struct SimReceived {
    runs: Vec<Run>,
    room: usize,
}

impl Received for SimReceived {
    fn with_runs(runs: usize) -> Self {
        Self {
            runs: Vec::new(),
            room: runs.min(RUNS),
        }
    }

    fn run(&mut self, run: usize) -> Option<Datagrams<'_>> {
        let run = self.runs.get_mut(run)?;
        Some(Datagrams {
            stride: run.stride,
            is_truncated: false,
            source: run.from,
            local: None,
            ecn: Ecn::from_bits(run.class),
            bytes: &mut run.bytes,
        })
    }
}

/// The numbers that the two ends of a queue share.
struct Count {
    queued: Cell<u64>,
    told: Cell<u64>,
    bound: Cell<u64>,
}

impl Default for Count {
    fn default() -> Self {
        Self {
            queued: Cell::new(0),
            told: Cell::new(0),
            bound: Cell::new(FIRST_BOUND_BYTES),
        }
    }
}

/// The reader's count of a queue.
pub(crate) struct SimQueueCredit {
    count: Rc<Count>,
    taken: u64,
}

impl QueueCredit for SimQueueCredit {
    fn take(&mut self, frame_len: usize) -> bool {
        self.taken = self.taken.wrapping_add(counted_bytes(frame_len));
        true
    }

    fn found_empty(&mut self) {
        self.taken = self.count.queued.get();
        self.count.told.set(self.taken);
    }

    fn publish(&mut self) -> u64 {
        self.count.told.set(self.taken);
        self.count.queued.get().wrapping_sub(self.taken)
    }

    fn has_waiting(&self) -> bool {
        self.count.queued.get() != self.taken
    }

    fn set_bound(&mut self, bytes: u64) {
        self.count.bound.set(bytes);
    }

    fn taken(&self) -> u64 {
        self.taken
    }
}
