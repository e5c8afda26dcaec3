//! The channels between threads: bounded mailboxes and wakers.

use super::message_queue::MessageQueue;
use crate::published::Published;
use crate::sockets::View;
use crate::wake_flag::WakeFlag;
use crossbeam_queue::ArrayQueue;
use culvert_datapath::{
    Command, EndpointWatch, Event, Gates, HandshakeMessage, MAX_PATH_MESSAGE_LEN, PathMessage,
};
use culvert_policy::gate::ClientGate;
use culvert_session::parse::INITIATION_LEN;
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

/// Handshake messages that wait from which on senders must prove with a cookie that they own their address: some
/// 13 ms of work.
pub(crate) const UNDER_LOAD_MESSAGES: usize = 128;

/// Handshake messages of one lane. One takes some 100 µs to answer, so that all lanes together are 0.4 s of work: the
/// last of a full lane is answered within that time. With 200 bytes each, a flood takes 800 KB at most.
const LANE_HANDSHAKES: usize = 128;

/// Messages about paths of one lane. Their owner takes one in some 5 µs. With 150 bytes each, a flood takes 150 KB at
/// most.
const LANE_PATH_MESSAGES: usize = 32;

/// Other news from workers. Each peer has at most one request for a handshake and one confirmation
/// on the way. A request that finds no room is made again by the next packet; a confirmation that
/// finds none leaves this end without a key to send under, so the next packet asks for a handshake.
const MAX_EVENTS: usize = 4096;

/// Commands that wait for one worker: every peer's keepalive at once, up to a size that costs little;
/// what finds no room is a keepalive that the next timer repeats.
const MAX_COMMANDS: usize = 1024;

/// A worker's mailbox.
struct Mailbox {
    waker: OwnedFd,
    commands: ArrayQueue<Command>,
}

/// Messages about paths that wait for the owner of the device.
struct PathMessages {
    queue: MessageQueue<MAX_PATH_MESSAGE_LEN>,
    waker: Waker,
}

/// The state that all threads of a device share.
pub(crate) struct Shared {
    pub(crate) published: Published<View>,
    handshakes: MessageQueue<INITIATION_LEN>,
    /// Messages about paths, of a device whose owner takes them.
    path_messages: Option<PathMessages>,
    path_messages_sent: AtomicU64,
    path_messages_failed: AtomicU64,
    events: ArrayQueue<Event>,
    control_waker: OwnedFd,
    control_woken: WakeFlag,
    workers: Vec<Mailbox>,
    stopping: AtomicBool,
    /// Interface and sockets stay with the store.
    leaving: AtomicBool,
    /// Of a gateway's device.
    pub(crate) gates: Option<Arc<Gates>>,
    /// Of a client's device.
    pub(crate) client_gate: Option<Arc<ClientGate>>,
    /// Watched peers that have moved or had a handshake.
    pub(crate) watch: Arc<EndpointWatch>,
}

/// The gates of a device: none, or one of the two.
#[derive(Default)]
pub(crate) struct DeviceGates {
    pub(crate) gateway: Option<Arc<Gates>>,
    pub(crate) client: Option<Arc<ClientGate>>,
}

impl Shared {
    pub(crate) fn new(
        workers: usize,
        published: Published<View>,
        gates: DeviceGates,
        path_messages: Option<Waker>,
    ) -> io::Result<Self> {
        let mailbox = || {
            io::Result::Ok(Mailbox {
                waker: waker()?,
                commands: ArrayQueue::new(MAX_COMMANDS),
            })
        };
        Ok(Self {
            published,
            handshakes: MessageQueue::new(LANE_HANDSHAKES),
            path_messages: path_messages.map(|waker| PathMessages {
                queue: MessageQueue::new(LANE_PATH_MESSAGES),
                waker,
            }),
            path_messages_sent: AtomicU64::new(0),
            path_messages_failed: AtomicU64::new(0),
            events: ArrayQueue::new(MAX_EVENTS),
            control_waker: waker()?,
            control_woken: WakeFlag::new(),
            workers: (0..workers).map(|_| mailbox()).collect::<io::Result<_>>()?,
            stopping: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            gates: gates.gateway,
            client_gate: gates.client,
            watch: Arc::default(),
        })
    }

    /// Tells the control thread. False where its queue is full.
    pub(crate) fn tell(&self, event: Event) -> bool {
        let told = self.events.push(event).is_ok();
        self.wake_control();
        told
    }

    /// Hands a handshake message to the control thread. False where there is no room for its sender.
    pub(crate) fn hand_over(&self, message: HandshakeMessage) -> bool {
        let taken = self.handshakes.push(message);
        self.wake_control();
        taken
    }

    pub(crate) const fn takes_path_messages(&self) -> bool {
        self.path_messages.is_some()
    }

    /// Hands a message about paths to the owner of the device. False where there is no room for its sender.
    pub(crate) fn hand_over_path(&self, message: PathMessage) -> bool {
        let Some(messages) = &self.path_messages else {
            return false;
        };
        let taken = messages.queue.push(message);
        messages.waker.wake_by_ref();
        taken
    }

    pub(crate) fn next_path_message(&self) -> Option<PathMessage> {
        self.path_messages.as_ref()?.queue.pop()
    }

    /// Counts a message about paths that was sent, or was not.
    pub(crate) fn note_path_message(&self, sent: bool) {
        let counter = match sent {
            true => &self.path_messages_sent,
            false => &self.path_messages_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages about paths that were sent, and those that were not.
    pub(crate) fn path_messages(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (
            read(&self.path_messages_sent),
            read(&self.path_messages_failed),
        )
    }

    pub(crate) fn next_event(&self) -> Option<Event> {
        self.events.pop()
    }

    pub(crate) fn next_handshake(&self) -> Option<HandshakeMessage> {
        self.handshakes.pop()
    }

    pub(crate) fn waiting_handshakes(&self) -> usize {
        self.handshakes.len()
    }

    /// Asks `worker` to do something. False where its mailbox is full.
    pub(crate) fn command(&self, worker: usize, command: Command) -> bool {
        let taken = self.workers[worker].commands.push(command).is_ok();
        wake(&self.workers[worker].waker);
        taken
    }

    pub(crate) fn next_command(&self, worker: usize) -> Option<Command> {
        self.workers[worker].commands.pop()
    }

    pub(crate) fn wake_control(&self) {
        if self.control_woken.raise() {
            wake(&self.control_waker);
        }
    }

    pub(crate) fn control_waker(&self) -> &OwnedFd {
        &self.control_waker
    }

    /// The control thread is awake and about to look at its queues.
    pub(crate) fn control_awake(&self) {
        drain(&self.control_waker);
        self.control_woken.lower();
    }

    pub(crate) fn worker_waker(&self, worker: usize) -> &OwnedFd {
        &self.workers[worker].waker
    }

    pub(crate) fn worker_awake(&self, worker: usize) {
        drain(&self.workers[worker].waker);
    }

    /// Wakes each worker whose bit is set.
    pub(crate) fn wake_workers(&self, mask: u64) {
        for (worker, mailbox) in self.workers.iter().enumerate() {
            if mask >> worker & 1 == 1 {
                wake(&mailbox.waker);
            }
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Ends all threads of the device.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake_workers(u64::MAX);
        // Not through `wake_control`: a wake-up that was already consumed must not swallow this one.
        wake(&self.control_waker);
    }

    /// Ends all threads of the device, and leaves interface and sockets with the store.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        self.stop();
    }

    /// True if interface and sockets stay.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

fn waker() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

fn wake(waker: &OwnedFd) {
    // The only failure is a counter that is full: then a wake-up is on its way already.
    let _full = rustix::io::write(waker, &1u64.to_ne_bytes());
}

fn drain(waker: &OwnedFd) {
    // The only failure is a counter at zero: nothing was to be drained.
    let _empty = rustix::io::read(waker, &mut [0; 8]);
}
