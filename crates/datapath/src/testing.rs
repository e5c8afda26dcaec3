//! A shell of queues in memory, for unit tests.

use crate::event::{Command, Event, HandshakeMessage, PathMessage};
use crate::lane::Lane;
use crate::shell::{
    Datagrams, Ended, QueueCredit, Ready, Receive, Received, Renewed, SendFault, Shell,
};
use crate::snapshot::Snapshot;
use crate::unrouted::Unrouted;
use culvert_base::BootTime;
use culvert_base::frames::QueueFault;
use culvert_base::{Destination, LocalAddress};
use culvert_session::ClockOffset;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::time::Duration;

/// The wall clock when the boot-time clock shows 0.
const WALL_AT_ZERO: Duration = Duration::from_secs(1_800_000_000);

/// Devices in memory.
pub(crate) struct MemoryShell {
    pub(crate) now: BootTime,
    /// The time by which the wall clock has been set ahead.
    pub(crate) wall_ahead: Duration,
    /// The frames and faults that each TUN queue gives.
    pub(crate) queues: Vec<VecDeque<Result<Vec<u8>, QueueFault>>>,
    /// The outcomes of the next writes to the TUN; none is success.
    pub(crate) write_faults: RefCell<VecDeque<QueueFault>>,
    /// Frames that were written, each with its virtio-net header.
    pub(crate) written: RefCell<Vec<Vec<u8>>>,
    /// Datagrams that were sent, each with its traffic class.
    pub(crate) sent: RefCell<Vec<(Vec<u8>, u8)>>,
    /// The outcomes of the next sends; none is success.
    pub(crate) send_faults: RefCell<VecDeque<SendFault>>,
    pub(crate) events: RefCell<Vec<Event>>,
    pub(crate) woken: Cell<u64>,
}

impl MemoryShell {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            now: BootTime::ZERO,
            wall_ahead: Duration::ZERO,
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            write_faults: RefCell::default(),
            written: RefCell::default(),
            sent: RefCell::default(),
            send_faults: RefCell::default(),
            events: RefCell::default(),
            woken: Cell::new(0),
        }
    }
}

/// A snapshot without peers, of a machine whose clocks agree with each other.
pub(crate) fn snapshot(mtu: u16) -> Snapshot {
    Snapshot::empty(mtu, ClockOffset::between(BootTime::ZERO, WALL_AT_ZERO))
}

impl Shell for MemoryShell {
    type QueueCredit = NoQueueCredit;
    type Received = NothingReceived;

    fn now(&self) -> BootTime {
        self.now
    }

    fn wall(&self) -> Duration {
        WALL_AT_ZERO + self.wall_ahead + self.now.saturating_since(BootTime::ZERO)
    }

    fn read_frame(&mut self, queue: usize, buffer: &mut [u8]) -> Result<usize, QueueFault> {
        let frame = self.queues[queue]
            .pop_front()
            .unwrap_or(Err(QueueFault::NotReady))?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Ok(frame.len())
    }

    fn write_frame(&self, parts: &[IoSlice<'_>]) -> Result<(), QueueFault> {
        if let Some(fault) = self.write_faults.borrow_mut().pop_front() {
            return Err(fault);
        }
        let frame = parts.iter().flat_map(|part| part.to_vec()).collect();
        self.written.borrow_mut().push(frame);
        Ok(())
    }

    fn receive(&mut self, _lane: Lane, _into: &mut NothingReceived) -> Receive {
        Receive::NoSocket
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
        _to: &Destination,
        class: u8,
    ) -> Result<(), SendFault> {
        if let Some(fault) = self.send_faults.borrow_mut().pop_front() {
            return Err(fault);
        }
        let each = datagrams.chunks(stride);
        let each = each.map(|datagram| (datagram.to_vec(), class));
        self.sent.borrow_mut().extend(each);
        Ok(())
    }

    fn watch_for_room(&mut self, _lane: Lane, _on: bool) -> Result<(), Ended> {
        Ok(())
    }

    fn unsent_bytes(&self, _lane: Lane) -> u32 {
        0
    }

    fn set_send_buffer(&self, _lane: Lane, _bytes: usize) {}

    fn look(&mut self, _ready: &mut Ready) -> Result<(), Ended> {
        Ok(())
    }

    fn is_own_address(&self, _address: LocalAddress) -> bool {
        false
    }

    fn tell(&self, event: Event) -> bool {
        self.events.borrow_mut().push(event);
        true
    }

    fn hand_over(&self, _message: HandshakeMessage) -> bool {
        true
    }

    fn takes_path_messages(&self) -> bool {
        false
    }

    fn hand_over_path(&self, _message: PathMessage) -> bool {
        false
    }

    fn next_command(&mut self) -> Option<Command> {
        None
    }

    fn newer_snapshot(&mut self, _generation: &mut u64) -> Result<Option<Renewed>, Ended> {
        Ok(None)
    }

    fn wake_workers(&self, mask: u64) {
        self.woken.set(self.woken.get() | mask);
    }

    fn takes_unrouted(&self) -> bool {
        false
    }

    fn give_unrouted(&self, _unrouted: Unrouted) -> bool {
        false
    }
}

/// Nothing comes from outside.
pub(crate) struct NothingReceived;

impl Received for NothingReceived {
    fn with_runs(_runs: usize) -> Self {
        Self
    }

    fn run(&mut self, _run: usize) -> Option<Datagrams<'_>> {
        None
    }
}

/// No queue is counted.
pub(crate) enum NoQueueCredit {}

impl QueueCredit for NoQueueCredit {
    fn take(&mut self, _frame_len: usize) -> bool {
        match *self {}
    }

    fn found_empty(&mut self) {
        match *self {}
    }

    fn publish(&mut self) -> u64 {
        match *self {}
    }

    fn has_waiting(&self) -> bool {
        match *self {}
    }

    fn set_bound(&mut self, _bytes: u64) {
        match *self {}
    }

    fn taken(&self) -> u64 {
        match *self {}
    }
}
