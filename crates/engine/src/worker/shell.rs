//! The shell of a worker's data path: TUN queues, sockets, clocks and mailboxes of the kernel.

use super::poller::Poller;
use crate::clock;
use crate::control::Shared;
use crate::sockets::{View, WorkerSockets};
use culvert_base::BootTime;
use culvert_base::frames::QueueFault;
use culvert_base::{Destination, LocalAddress};
use culvert_datapath::{
    Command, Datagrams, Ended, Event, HandshakeMessage, Lane, PathMessage, QueueCredit, Ready,
    Receive, Received, Renewed, SendFault, Shell, Unrouted, WorkerCounters,
};
use culvert_packet::ecn::Ecn;
use culvert_tun::{Queue, queue_fault};
use culvert_udp::{ReceiveBatch, SendError, Socket};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// The token of the waker in epoll. TUN queues have their own number.
const TOKEN_WAKE: u64 = 1 << 32;
/// The first of as many as there are lanes.
const TOKEN_LANES: u64 = TOKEN_WAKE + 1;

const fn token_of(lane: Lane) -> u64 {
    TOKEN_LANES + lane as u64
}

/// The devices of a worker.
pub(super) struct KernelShell {
    worker: usize,
    queues: Vec<Queue>,
    /// A descriptor of the TUN to write to; which queue it is does not matter to the kernel.
    writer: Queue,
    /// Those of all workers.
    sockets: Option<Arc<[WorkerSockets]>>,
    poller: Poller,
    shared: Arc<Shared>,
    unrouted: Option<SyncSender<Unrouted>>,
    /// The error that has ended the worker.
    error: Option<io::Error>,
}

impl KernelShell {
    /// Registers the worker's devices.
    ///
    /// # Errors
    /// Those of `epoll`: no descriptors or no memory left.
    pub(super) fn new(
        worker: usize,
        queues: Vec<Queue>,
        writer: Queue,
        shared: Arc<Shared>,
        unrouted: Option<SyncSender<Unrouted>>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (queue, number) in queues.iter().zip(0..) {
            poller.add(queue, number)?;
        }
        poller.add(shared.worker_waker(worker), TOKEN_WAKE)?;
        Ok(Self {
            worker,
            queues,
            writer,
            sockets: None,
            poller,
            shared,
            unrouted,
            error: None,
        })
    }

    /// The error that has ended the worker.
    pub(super) fn take_error(&mut self) -> io::Error {
        let error = self.error.take();
        error.unwrap_or_else(|| io::Error::other("the worker ended"))
    }

    /// True once the device ends.
    pub(super) fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Waits until a device is ready: not at all where there is something else to do (`is_busy`), at most for `at_most`
    /// otherwise.
    pub(super) fn wait(
        &mut self,
        is_busy: bool,
        at_most: Option<Duration>,
        counters: &WorkerCounters,
        ready: &mut Ready,
    ) -> Result<(), Ended> {
        let waited = self.poller.wait(is_busy, at_most, counters);
        self.note(waited)?;
        self.take_events(ready);
        Ok(())
    }

    fn take_events(&self, ready: &mut Ready) {
        for (token, room) in self.poller.ready() {
            match token {
                TOKEN_WAKE => {
                    self.shared.worker_awake(self.worker);
                    ready.is_woken = true;
                }
                TOKEN_LANES.. => {
                    let lane = (token - TOKEN_LANES) as usize;
                    ready.lanes[lane] = true;
                    ready.room[lane] |= room;
                }
                queue => ready.queues |= 1 << queue,
            }
        }
    }

    /// Remembers what ends the worker.
    fn note<T>(&mut self, outcome: io::Result<T>) -> Result<T, Ended> {
        outcome.map_err(|error| {
            self.error = Some(error);
            Ended
        })
    }

    fn own_sockets(&self) -> Option<&WorkerSockets> {
        self.sockets.as_ref().map(|all| &all[self.worker])
    }

    fn socket(&self, lane: Lane) -> Option<&Socket> {
        self.own_sockets()?.lane(lane)
    }

    /// Watches these sockets instead of those before. A socket that closes leaves epoll by itself once its last reference
    /// is gone.
    fn replace_sockets(&mut self, sockets: Option<Arc<[WorkerSockets]>>) -> io::Result<()> {
        for lane in Lane::ALL {
            if let Some(socket) = self.socket(lane) {
                self.poller.remove(socket);
            }
        }
        self.sockets = sockets;
        for lane in Lane::ALL {
            if let Some(socket) = self.socket(lane) {
                self.poller.add(socket, token_of(lane))?;
            }
        }
        Ok(())
    }
}

impl Shell for KernelShell {
    type QueueCredit = TunQueueCredit;
    type Received = SocketReceived;

    fn now(&self) -> BootTime {
        clock::now()
    }

    fn wall(&self) -> Duration {
        clock::wall()
    }

    fn read_frame(&mut self, queue: usize, buffer: &mut [u8]) -> Result<usize, QueueFault> {
        self.queues[queue].receive(buffer).map_err(|error| {
            let fault = queue_fault(&error);
            if fault.is_lasting() {
                self.error = Some(error);
            } else if fault != QueueFault::NotReady {
                tracing::trace!(%error, "read from the TUN");
            }
            fault
        })
    }

    fn write_frame(&self, parts: &[IoSlice<'_>]) -> Result<(), QueueFault> {
        match self.writer.send(parts) {
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::trace!(%error, "write to the TUN");
                Err(queue_fault(&error))
            }
        }
    }

    fn receive(&mut self, lane: Lane, into: &mut SocketReceived) -> Receive {
        let Some(socket) = self.socket(lane) else {
            return Receive::NoSocket;
        };
        match socket.receive_batch(&mut into.batch) {
            Ok(runs) => Receive::Runs {
                runs,
                may_have_more: runs == into.room,
            },
            Err(error) => {
                tracing::debug!(%error, "receive");
                Receive::Failed
            }
        }
    }

    fn arrivals(&self, lane: Lane) -> Option<u64> {
        self.socket(lane)?.arrivals()
    }

    fn has_socket(&self, lane: Lane) -> bool {
        self.socket(lane).is_some()
    }

    fn send(
        &self,
        datagrams: &[u8],
        stride: usize,
        to: &Destination,
        class: u8,
    ) -> Result<(), SendFault> {
        let sockets = self.own_sockets();
        let socket = sockets.and_then(|sockets| sockets.towards(to.address));
        let socket = socket.ok_or(SendFault::NoSocket)?;
        socket
            .send(datagrams, stride, to, class)
            .map_err(|error| match error {
                SendError::WouldBlock => SendFault::WouldBlock,
                SendError::TooBig => SendFault::TooBig,
                SendError::SegmentationUnsupported => SendFault::SegmentationUnsupported,
                SendError::SourceGone => SendFault::SourceGone,
                SendError::Passing(error) => {
                    tracing::trace!(%error, "send");
                    SendFault::Passing
                }
                SendError::Other(error) => {
                    tracing::trace!(%error, "send");
                    SendFault::Other
                }
            })
    }

    fn watch_for_room(&mut self, lane: Lane, on: bool) -> Result<(), Ended> {
        // While a socket is watched for room it reports every datagram that leaves it.
        let watched = match self.socket(lane) {
            Some(socket) => self.poller.watch_for_room(socket, token_of(lane), on),
            None => Ok(()),
        };
        self.note(watched)
    }

    fn unsent_bytes(&self, lane: Lane) -> u32 {
        let socket = self.socket(lane);
        socket.map_or(0, |socket| socket.unsent_bytes().unwrap_or(0))
    }

    fn set_send_buffer(&self, lane: Lane, bytes: usize) {
        // The kernel compares with twice the number that it is given.
        if let Some(socket) = self.socket(lane)
            && let Err(error) = socket.set_send_buffer(bytes / 2)
        {
            tracing::debug!(%error, "the send buffer stays");
        }
    }

    fn look(&mut self, ready: &mut Ready) -> Result<(), Ended> {
        let looked = self.poller.look();
        self.note(looked)?;
        self.take_events(ready);
        Ok(())
    }

    fn is_own_address(&self, address: LocalAddress) -> bool {
        culvert_udp::is_our_address(address)
    }

    fn tell(&self, event: Event) -> bool {
        self.shared.tell(event)
    }

    fn hand_over(&self, message: HandshakeMessage) -> bool {
        self.shared.hand_over(message)
    }

    fn takes_path_messages(&self) -> bool {
        self.shared.takes_path_messages()
    }

    fn hand_over_path(&self, message: PathMessage) -> bool {
        self.shared.hand_over_path(message)
    }

    fn next_command(&mut self) -> Option<Command> {
        self.shared.next_command(self.worker)
    }

    fn newer_snapshot(&mut self, generation: &mut u64) -> Result<Option<Renewed>, Ended> {
        let Some(newer) = self.shared.published.newer_than(generation) else {
            return Ok(None);
        };
        let View { path, sockets } = &*newer;
        let is_same = match (&self.sockets, sockets) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            let replaced = self.replace_sockets(sockets.clone());
            self.note(replaced)?;
        }
        Ok(Some(Renewed {
            snapshot: Arc::clone(path),
            has_other_sockets: !is_same,
        }))
    }

    fn wake_workers(&self, mask: u64) {
        self.shared.wake_workers(mask);
    }

    fn takes_unrouted(&self) -> bool {
        self.unrouted.is_some()
    }

    fn give_unrouted(&self, unrouted: Unrouted) -> bool {
        let taken = self.unrouted.as_ref().map(|to| to.try_send(unrouted));
        taken.is_some_and(|sent| sent.is_ok())
    }
}

/// Room for the datagrams of one receive call.
pub(super) struct SocketReceived {
    batch: ReceiveBatch,
    room: usize,
}

impl Received for SocketReceived {
    fn with_runs(runs: usize) -> Self {
        Self {
            batch: ReceiveBatch::new(runs),
            room: runs,
        }
    }

    fn run(&mut self, run: usize) -> Option<Datagrams<'_>> {
        let received = self.batch.get_mut(run)?;
        let ecn = Ecn::from_bits(received.ecn());
        Some(Datagrams {
            bytes: received.bytes,
            stride: received.stride,
            is_truncated: received.truncated,
            source: received.source,
            local: received.local,
            ecn,
        })
    }
}

/// The count of one TUN queue.
pub(super) struct TunQueueCredit(pub(super) culvert_tun::QueueCredit);

impl QueueCredit for TunQueueCredit {
    fn take(&mut self, frame_len: usize) -> bool {
        self.0.take(frame_len)
    }

    fn found_empty(&mut self) {
        self.0.found_empty();
    }

    fn publish(&mut self) -> u64 {
        self.0.publish()
    }

    fn has_waiting(&self) -> bool {
        self.0.has_waiting()
    }

    fn set_bound(&mut self, bytes: u64) {
        self.0.set_bound(bytes);
    }

    fn taken(&self) -> u64 {
        self.0.taken()
    }
}
