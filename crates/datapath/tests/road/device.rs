//! Devices in memory around a data path: a TUN, sockets, clocks and a control thread. Each gives the faults that a test
//! puts into it.

use culvert_base::frames::{MIN_BOUND_BYTES, QueueFault, counted_bytes};
use culvert_base::{BootTime, Destination, LocalAddress};
use culvert_datapath::{
    Command, Datagrams, Ended, Event, HandshakeMessage, Lane, PathMessage, QueueCredit, Ready,
    Receive, Received, Renewed, SendFault, Shell, Snapshot, Unrouted,
};
use culvert_packet::ecn::Ecn;
use culvert_session::ClockOffset;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The boot-time clock at the beginning of each test.
pub(crate) const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

/// The wall clock when the boot-time clock shows 0.
const WALL_AT_ZERO: Duration = Duration::from_secs(1_800_000_000);

/// The machine of one worker.
pub(crate) struct Device {
    pub(crate) clock: Clock,
    pub(crate) tun: Tun,
    pub(crate) sockets: Sockets,
    pub(crate) control: Control,
}

/// Its clocks.
pub(crate) struct Clock {
    pub(crate) now: Cell<BootTime>,
    /// The time by which the wall clock was set ahead.
    pub(crate) wall_ahead: Cell<Duration>,
}

/// Its interface.
pub(crate) struct Tun {
    /// The frames and faults that each queue gives.
    pub(crate) queues: Vec<VecDeque<Result<Vec<u8>, QueueFault>>>,
    pub(crate) counts: Vec<Rc<Count>>,
    /// Frames that were written.
    pub(crate) written: RefCell<Vec<Vec<u8>>>,
    /// The outcomes of the next writes. None is success.
    pub(crate) write_faults: RefCell<VecDeque<QueueFault>>,
}

/// Its sockets.
#[derive(Default)]
pub(crate) struct Sockets {
    /// By lane: what the next receive calls return. `None` is a call that fails.
    pub(crate) arrived: [VecDeque<Option<Run>>; Lane::ALL.len()],
    pub(crate) counted: [Option<u64>; Lane::ALL.len()],
    pub(crate) are_closed: bool,
    pub(crate) sent: RefCell<Vec<Sent>>,
    /// The outcomes of the next sends. None is success.
    pub(crate) send_faults: RefCell<VecDeque<Option<SendFault>>>,
    pub(crate) watched: [bool; Lane::ALL.len()],
    pub(crate) unsent_bytes: Cell<u32>,
    /// The send buffers that were set.
    pub(crate) buffers: RefCell<Vec<(Lane, usize)>>,
    /// An address of this host.
    pub(crate) own: Option<IpAddr>,
}

/// Its other threads.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) events: RefCell<Vec<Event>>,
    /// The control thread takes no event.
    pub(crate) is_full: Cell<bool>,
    pub(crate) handshakes: RefCell<Vec<HandshakeMessage>>,
    /// Messages about paths; `None` where nobody takes them.
    pub(crate) path_messages: RefCell<Option<Vec<PathMessage>>>,
    pub(crate) commands: VecDeque<Command>,
    published: Option<Published>,
    pub(crate) woken: Cell<u64>,
    pub(crate) unrouted: RefCell<Vec<Unrouted>>,
    /// The number of packets without a route that are taken. `None` where nobody wants them.
    pub(crate) unrouted_room: Cell<Option<usize>>,
}

struct Published {
    snapshot: Arc<Snapshot>,
    generation: u64,
    has_other_sockets: bool,
    is_unusable: bool,
}

/// One send call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stride: usize,
    pub(crate) to: Destination,
    pub(crate) class: u8,
}

impl Sent {
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks(self.stride)
    }
}

/// Datagrams that were received together.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stride: usize,
    pub(crate) is_truncated: bool,
    pub(crate) source: SocketAddr,
    pub(crate) ecn: Ecn,
}

impl Device {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            clock: Clock {
                now: Cell::new(START),
                wall_ahead: Cell::default(),
            },
            tun: Tun {
                queues: (0..queues).map(|_| VecDeque::new()).collect(),
                counts: (0..queues).map(|_| Rc::default()).collect(),
                written: RefCell::default(),
                write_faults: RefCell::default(),
            },
            sockets: Sockets::default(),
            control: Control::default(),
        }
    }

    /// The counts of its queues.
    pub(crate) fn credits(&self) -> Vec<Credit> {
        let counts = self.tun.counts.iter().map(Rc::clone);
        counts.map(|count| Credit { count, taken: 0 }).collect()
    }

    /// The offset of its clocks.
    pub(crate) fn wall_offset() -> ClockOffset {
        ClockOffset::between(BootTime::ZERO, WALL_AT_ZERO)
    }

    /// Puts a frame into a queue, and counts it there.
    pub(crate) fn queue(&mut self, queue: usize, frame: Vec<u8>) {
        let count = &self.tun.counts[queue].queued;
        count.set(count.get() + counted_bytes(frame.len()));
        self.tun.queues[queue].push_back(Ok(frame));
    }

    pub(crate) fn publish(&mut self, snapshot: Arc<Snapshot>, has_other_sockets: bool) {
        let before = self.control.published.as_ref();
        self.control.published = Some(Published {
            snapshot,
            generation: 1 + before.map_or(0, |before| before.generation),
            has_other_sockets,
            is_unusable: false,
        });
    }

    /// Publishes a snapshot whose sockets can't be used.
    pub(crate) fn publish_unusable(&mut self) {
        if let Some(published) = &mut self.control.published {
            published.generation += 1;
            published.is_unusable = true;
        }
    }

    /// The devices that are ready.
    pub(crate) fn ready(&self) -> Ready {
        let mut ready = Ready::default();
        for (queue, frames) in self.tun.queues.iter().enumerate() {
            ready.queues |= u64::from(!frames.is_empty()) << queue;
        }
        for lane in Lane::ALL {
            ready.lanes[lane as usize] = !self.sockets.arrived[lane as usize].is_empty();
        }
        ready
    }
}

impl Shell for Device {
    type QueueCredit = Credit;
    type Received = Runs;

    fn now(&self) -> BootTime {
        self.clock.now.get()
    }

    fn wall(&self) -> Duration {
        WALL_AT_ZERO + self.clock.wall_ahead.get() + self.now().saturating_since(BootTime::ZERO)
    }

    fn read_frame(&mut self, queue: usize, buffer: &mut [u8]) -> Result<usize, QueueFault> {
        let next = self.tun.queues[queue].pop_front();
        let frame = next.unwrap_or(Err(QueueFault::NotReady))?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok(frame.len())
    }

    fn write_frame(&self, parts: &[IoSlice<'_>]) -> Result<(), QueueFault> {
        if let Some(fault) = self.tun.write_faults.borrow_mut().pop_front() {
            return Err(fault);
        }
        let frame = parts.iter().flat_map(|part| part.to_vec()).collect();
        self.tun.written.borrow_mut().push(frame);
        Ok(())
    }

    fn receive(&mut self, lane: Lane, into: &mut Runs) -> Receive {
        into.runs.clear();
        if self.sockets.are_closed {
            return Receive::NoSocket;
        }
        let arrived = &mut self.sockets.arrived[lane as usize];
        while into.runs.len() < into.room {
            match arrived.front() {
                Some(Some(_)) => into.runs.extend(arrived.pop_front().flatten()),
                Some(None) if into.runs.is_empty() => {
                    arrived.pop_front();
                    return Receive::Failed;
                }
                _ => break,
            }
        }
        Receive::Runs {
            runs: into.runs.len(),
            may_have_more: !arrived.is_empty(),
        }
    }

    fn arrivals(&self, lane: Lane) -> Option<u64> {
        self.sockets.counted[lane as usize]
    }

    fn has_socket(&self, _lane: Lane) -> bool {
        !self.sockets.are_closed
    }

    fn send(
        &self,
        datagrams: &[u8],
        stride: usize,
        to: &Destination,
        class: u8,
    ) -> Result<(), SendFault> {
        let next = self.sockets.send_faults.borrow_mut().pop_front();
        if let Some(fault) = next.flatten() {
            return Err(fault);
        }
        self.sockets.sent.borrow_mut().push(Sent {
            bytes: datagrams.to_vec(),
            stride,
            to: *to,
            class,
        });
        Ok(())
    }

    fn watch_for_room(&mut self, lane: Lane, on: bool) -> Result<(), Ended> {
        self.sockets.watched[lane as usize] = on;
        Ok(())
    }

    fn unsent_bytes(&self, _lane: Lane) -> u32 {
        self.sockets.unsent_bytes.get()
    }

    fn set_send_buffer(&self, lane: Lane, bytes: usize) {
        self.sockets.buffers.borrow_mut().push((lane, bytes));
    }

    fn look(&mut self, ready: &mut Ready) -> Result<(), Ended> {
        *ready = self.ready();
        Ok(())
    }

    fn is_own_address(&self, address: LocalAddress) -> bool {
        self.sockets.own == Some(address.ip)
    }

    fn tell(&self, event: Event) -> bool {
        let takes = !self.control.is_full.get();
        if takes {
            self.control.events.borrow_mut().push(event);
        }
        takes
    }

    fn hand_over(&self, message: HandshakeMessage) -> bool {
        let takes = !self.control.is_full.get();
        if takes {
            self.control.handshakes.borrow_mut().push(message);
        }
        takes
    }

    fn takes_path_messages(&self) -> bool {
        self.control.path_messages.borrow().is_some()
    }

    fn hand_over_path(&self, message: PathMessage) -> bool {
        let takes = !self.control.is_full.get();
        let mut messages = self.control.path_messages.borrow_mut();
        if let Some(messages) = messages.as_mut().filter(|_| takes) {
            messages.push(message);
        }
        takes
    }

    fn next_command(&mut self) -> Option<Command> {
        self.control.commands.pop_front()
    }

    fn newer_snapshot(&mut self, generation: &mut u64) -> Result<Option<Renewed>, Ended> {
        let published = self.control.published.as_ref();
        let Some(published) = published.filter(|it| it.generation != *generation) else {
            return Ok(None);
        };
        *generation = published.generation;
        if published.is_unusable {
            return Err(Ended);
        }
        Ok(Some(Renewed {
            snapshot: Arc::clone(&published.snapshot),
            has_other_sockets: published.has_other_sockets,
        }))
    }

    fn wake_workers(&self, mask: u64) {
        self.control.woken.set(self.control.woken.get() | mask);
    }

    fn takes_unrouted(&self) -> bool {
        self.control.unrouted_room.get().is_some()
    }

    fn give_unrouted(&self, unrouted: Unrouted) -> bool {
        let room = self.control.unrouted_room.get().unwrap_or_default();
        let mut taken = self.control.unrouted.borrow_mut();
        let takes = taken.len() < room;
        if takes {
            taken.push(unrouted);
        }
        takes
    }
}

/// The runs of one receive call.
pub(crate) struct Runs {
    runs: Vec<Run>,
    room: usize,
}

impl Received for Runs {
    fn with_runs(room: usize) -> Self {
        Self {
            runs: Vec::new(),
            room,
        }
    }

    fn run(&mut self, run: usize) -> Option<Datagrams<'_>> {
        let run = self.runs.get_mut(run)?;
        Some(Datagrams {
            stride: run.stride,
            is_truncated: run.is_truncated,
            source: run.source,
            local: None,
            ecn: run.ecn,
            bytes: &mut run.bytes,
        })
    }
}

/// The numbers that both ends of a queue share.
pub(crate) struct Count {
    pub(crate) queued: Cell<u64>,
    /// Bytes that the reader has taken, as far as it has said so.
    pub(crate) told: Cell<u64>,
    pub(crate) bound: Cell<u64>,
}

impl Default for Count {
    fn default() -> Self {
        Self {
            queued: Cell::new(0),
            told: Cell::new(0),
            bound: Cell::new(MIN_BOUND_BYTES),
        }
    }
}

/// The reader's end of the count of a queue.
pub(crate) struct Credit {
    count: Rc<Count>,
    taken: u64,
}

impl QueueCredit for Credit {
    fn take(&mut self, frame_len: usize) -> bool {
        self.taken += counted_bytes(frame_len);
        false
    }

    fn found_empty(&mut self) {
        self.taken = self.count.queued.get();
        self.count.told.set(self.taken);
    }

    fn publish(&mut self) -> u64 {
        self.count.told.set(self.taken);
        self.count.queued.get().saturating_sub(self.taken)
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
