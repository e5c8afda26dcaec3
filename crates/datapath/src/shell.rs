//! The machine around a worker's data path.

use crate::event::{Command, Event, HandshakeMessage, PathMessage};
use crate::lane::Lane;
use crate::snapshot::Snapshot;
use crate::unrouted::Unrouted;
use culvert_base::BootTime;
use culvert_base::frames::QueueFault;
use culvert_base::{Destination, LocalAddress};
use culvert_packet::ecn::Ecn;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The machine around a worker's data path: its devices, its clocks and its other threads. The engine makes one of
/// kernel devices, the simulation one of queues in memory.
///
/// No call waits for anything.
pub trait Shell {
    /// The count of one TUN queue.
    type QueueCredit: QueueCredit;

    /// Room for the datagrams of one receive call.
    type Received: Received;

    /// The boot-time clock.
    fn now(&self) -> BootTime;

    /// The wall clock, as the time since the Unix epoch.
    fn wall(&self) -> Duration;

    /// Reads the next frame of a TUN queue into `buffer`. Returns its bytes, the virtio-net header included.
    ///
    /// # Errors
    /// [`QueueFault`]. Lasting ones end the worker.
    fn read_frame(&mut self, queue: usize, buffer: &mut [u8]) -> Result<usize, QueueFault>;

    /// Writes one frame to the TUN: the virtio-net header, then the parts of the packet.
    ///
    /// # Errors
    /// [`QueueFault`].
    fn write_frame(&self, parts: &[IoSlice<'_>]) -> Result<(), QueueFault>;

    /// Receives from a lane, in place of what `into` held.
    fn receive(&mut self, lane: Lane, into: &mut Self::Received) -> Receive;

    /// Datagrams that have come to a lane so far, where that is counted. Costs no system call.
    fn arrivals(&self, lane: Lane) -> Option<u64>;

    /// True if the lane has a socket.
    fn has_socket(&self, lane: Lane) -> bool;

    /// Sends `datagrams`, which are `stride` bytes each but for the last, which may be shorter, with the traffic
    /// class `class`: DSCP, and ECN in the low two bits. All or none are taken.
    ///
    /// # Errors
    /// [`SendFault`].
    fn send(
        &self,
        datagrams: &[u8],
        stride: usize,
        to: &Destination,
        class: u8,
    ) -> Result<(), SendFault>;

    /// Asks to be told when the socket of `lane` has room again (`on`), or no longer.
    ///
    /// # Errors
    /// [`Ended`].
    fn watch_for_room(&mut self, lane: Lane, on: bool) -> Result<(), Ended>;

    /// Bytes between the socket of `lane` and the wire.
    fn unsent_bytes(&self, lane: Lane) -> u32;

    /// Sets the send buffer of the socket of `lane`, as the kernel counts it.
    fn set_send_buffer(&self, lane: Lane, bytes: usize);

    /// Looks which devices have become ready, and waits for none.
    ///
    /// # Errors
    /// [`Ended`].
    fn look(&mut self, ready: &mut Ready) -> Result<(), Ended>;

    /// True if the address is one of this host's.
    fn is_own_address(&self, address: LocalAddress) -> bool;

    /// Tells the control thread. False where its queue is full.
    fn tell(&self, event: Event) -> bool;

    /// Hands a handshake message to the control thread. False where there is no room for its sender.
    fn hand_over(&self, message: HandshakeMessage) -> bool;

    /// True if somebody takes messages about paths.
    fn takes_path_messages(&self) -> bool;

    /// Hands over such a message. False where there is no room for its sender.
    fn hand_over_path(&self, message: PathMessage) -> bool;

    /// The next request of the control thread.
    fn next_command(&mut self) -> Option<Command>;

    /// The newest snapshot, where it is newer than `generation`, which is brought up to date.
    ///
    /// # Errors
    /// [`Ended`]: its sockets can't be used.
    fn newer_snapshot(&mut self, generation: &mut u64) -> Result<Option<Renewed>, Ended>;

    /// Wakes each worker whose bit is set in `mask`.
    fn wake_workers(&self, mask: u64);

    /// True if somebody takes packets that no peer has a route for.
    fn takes_unrouted(&self) -> bool;

    /// Hands over such a packet. False where there is no room for it.
    fn give_unrouted(&self, unrouted: Unrouted) -> bool;
}

/// The worker can't go on. Its shell knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

/// A newer snapshot.
pub struct Renewed {
    /// It.
    pub snapshot: Arc<Snapshot>,
    /// The sockets are others than before, or there are none any more.
    pub has_other_sockets: bool,
}

/// The outcome of a receive call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// The lane has no socket.
    NoSocket,
    /// So many runs of datagrams have come.
    Runs {
        /// Their number.
        runs: usize,
        /// There may be more.
        may_have_more: bool,
    },
    /// The socket has lost something, or memory is short.
    Failed,
}

/// Room for the datagrams of one receive call.
pub trait Received {
    /// Room for so many runs.
    fn with_runs(runs: usize) -> Self;

    /// A run of the last call.
    fn run(&mut self, run: usize) -> Option<Datagrams<'_>>;
}

/// Datagrams of one sender that were received together.
pub struct Datagrams<'a> {
    /// One after the other.
    pub bytes: &'a mut [u8],
    /// Bytes of each but the last, which may be shorter.
    pub stride: usize,
    /// Something did not fit the buffer.
    pub is_truncated: bool,
    /// Their sender.
    pub source: SocketAddr,
    /// The address that they came to.
    pub local: Option<LocalAddress>,
    /// The congestion bits of their outer header.
    pub ecn: Ecn,
}

/// The reason for which datagrams did not leave. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFault {
    /// The send buffer is full.
    WouldBlock,
    /// The datagrams exceed what the path takes.
    TooBig,
    /// The kernel does not take several at once.
    SegmentationUnsupported,
    /// The source address is not ours any more.
    SourceGone,
    /// The same datagrams may leave at once or later.
    Passing,
    /// There is no socket of that family.
    NoSocket,
    /// Anything else: these datagrams can't leave.
    Other,
}

/// The count of one TUN queue, in bytes.
pub trait QueueCredit {
    /// Notes a frame that was read. True once it is time to [`publish`](Self::publish).
    fn take(&mut self, frame_len: usize) -> bool;

    /// Notes that nothing was left to read.
    fn found_empty(&mut self);

    /// Gives the credit of what was taken back to the writer. Returns the bytes that wait.
    fn publish(&mut self) -> u64;

    /// True if something was queued that has not been taken. Costs no system call.
    fn has_waiting(&self) -> bool;

    /// Sets the bound in bytes.
    fn set_bound(&mut self, bytes: u64);

    /// Bytes taken so far: with what waits, a place in the stream of what was queued.
    fn taken(&self) -> u64;
}

/// Devices that have become ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready {
    /// Bit `i`: TUN queue `i` has something to read.
    pub queues: u64,
    /// By lane: datagrams have come.
    pub lanes: [bool; Lane::ALL.len()],
    /// By lane: the socket has room again.
    pub room: [bool; Lane::ALL.len()],
    /// Another thread has woken the worker.
    pub is_woken: bool,
}
