//! A running device: its threads, and the handle through which they are spoken to.

mod parts;

use crate::clock;
use crate::configuration::{Change, Configuration, MAX_WORKERS, Options};
use crate::control::{
    Control, DeviceGates, Parts, Request, Shared, complete_status, limit_superframes,
};
use crate::entropy::random_seed;
use crate::error::EngineError;
use crate::flows::TakenFlows;
use crate::published::Published;
use crate::sockets::{View, WorkerSockets};
use crate::status::{Status, WatchedPeer};
use crate::store::StoredDescriptors;
use crate::worker::Worker;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_base::frames::QueueFault;
use culvert_base::{Destination, LocalAddress, PublicKey};
use culvert_datapath::{Mechanism, PathMessage, RouteRefusal, Snapshot, Unrouted, WorkerCounters};
use culvert_packet::ip::Protocol;
use culvert_tun::{LinkWatch, queue_fault};
use culvert_udp::SendError;
use parts::{counters_for, make_tun, make_workers};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Most workers where the number is not given. One carries several Gbit/s, and each has memory and
/// TUN queues of its own: more than four is for whoever asks.
const MAX_DEFAULT_WORKERS: usize = 4;

/// The default number of workers of a device on a machine with so many processors. The other half is for the
/// programs whose packets it carries. Measured: docs/performance.md, "Workers".
pub fn default_workers(processors: usize) -> usize {
    (processors / 2).clamp(1, MAX_DEFAULT_WORKERS)
}

/// Requests that wait for the control thread; whoever asks next waits as well.
const MAX_REQUESTS: usize = 16;

/// A running device: an interface with its workers and its control thread.
///
/// Dropping it stops it. All methods take `&self` and may be called from any thread.
pub struct Device {
    interface: String,
    shared: Arc<Shared>,
    pub(crate) worker_counters: Vec<Arc<WorkerCounters>>,
    requests: SyncSender<Request>,
    threads: Mutex<Vec<JoinHandle<io::Result<()>>>>,
}

impl Device {
    /// Creates the interface, down and without a key, and starts to serve it. If [`Options::store`] has one that
    /// fits, that is taken over as it is, with its port.
    ///
    /// # Errors
    /// [`EngineError`]: the interface is in use, a privilege is missing, an option can't be.
    pub fn start(options: Options) -> Result<Self, EngineError> {
        if !(1..=MAX_WORKERS).contains(&options.workers) {
            return Err(EngineError::Workers(options.workers));
        }
        let store = options.store.clone();
        let tun = make_tun(&options)?;
        let started = Self::serve(options, tun);
        if let (Err(_), Some(store)) = (&started, store) {
            store.forget(StoredDescriptors::Queues);
        }
        started
    }

    /// Starts the threads around an interface.
    fn serve(options: Options, mut tun: culvert_tun::Device) -> Result<Self, EngineError> {
        let watch = LinkWatch::open().map_err(EngineError::system("watch the network"))?;
        if options.mechanisms.has(Mechanism::SuperframeLimit)
            && let Err(error) = limit_superframes(&tun, options.mtu)
        {
            tracing::debug!(%error, "superframes may exceed one segmented send");
        }
        let published = Published::new(View {
            path: Arc::new(Snapshot::empty(options.mtu, clock::wall_offset())),
            sockets: None,
        });
        let gates = DeviceGates::new(options.gate, options.workers)?;
        let waker = options.path_messages.clone();
        let shared = Shared::new(options.workers, published, gates, waker)
            .map(Arc::new)
            .map_err(EngineError::system("create an event descriptor"))?;
        let seed = random_seed()?;
        let worker_counters: Vec<Arc<WorkerCounters>> = (0..options.workers)
            .map(|_| counters_for(options.gate))
            .collect();
        let workers = make_workers(&options, &mut tun, &worker_counters, &shared)?;
        let (requests, received_requests) = sync_channel(MAX_REQUESTS);
        let interface = tun.name().to_owned();
        let control = Control::new(Parts {
            shared: Arc::clone(&shared),
            requests: received_requests,
            tun,
            watch,
            options,
            worker_counters: worker_counters.clone(),
            seed,
        });
        let device = Self {
            interface,
            shared,
            worker_counters,
            requests,
            threads: Mutex::default(),
        };
        device.spawn(control, workers)?;
        Ok(device)
    }

    /// Tells a client's gate of a flow that the host began before this device was there. Other devices know none.
    pub fn adopt_flow(&self, protocol: Protocol, own: SocketAddr, remote: SocketAddr) {
        if let Some(gate) = &self.shared.client_gate {
            gate.adopt(clock::now(), protocol, own, remote);
        }
    }

    /// Name of the interface, with a pattern filled in.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Applies `change` whole, or nothing of it.
    ///
    /// # Errors
    /// [`EngineError`]: a port that is taken, too many peers, or the device has ended.
    pub fn apply(&self, change: Change) -> Result<(), EngineError> {
        self.ask(|answer| Request::Apply(Box::new(change), answer))?
    }

    /// The configuration as it stands, secrets included.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn configuration(&self) -> Result<Configuration, EngineError> {
        self.ask(Request::Configuration)
    }

    /// The state of the device, without secrets.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn status(&self) -> Result<Box<Status>, EngineError> {
        // The list of peers is made here, so that handshakes do not wait for it.
        self.ask(Request::Status)
            .map(|report| Box::new(complete_status(*report)))
    }

    /// True if data that was sent to some peer has been unanswered for a time in `span`. Much cheaper than
    /// [`Self::status`].
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn has_silent_peer(&self, span: Range<Duration>) -> Result<bool, EngineError> {
        self.ask(|answer| Request::HasSilentPeer(span, answer))
    }

    /// The watched peers ([`PeerChange::watch`](crate::PeerChange::watch)) that have moved or had a handshake since the last
    /// call, each once. Authenticated packets alone move a peer. Without such a change, it asks no other thread.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn take_watched(&self) -> Result<Vec<WatchedPeer>, EngineError> {
        match self.shared.watch.is_empty() {
            true => Ok(Vec::new()),
            false => self.ask(Request::Watched),
        }
    }

    /// Flows that have ended since the last call, as the gates know them; with `with_lasting` those
    /// that have not as well. Nothing where there is no gate.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn take_flows(&self, with_lasting: bool) -> Result<TakenFlows, EngineError> {
        self.ask(|answer| Request::Flows {
            with_lasting,
            answer,
        })
    }

    /// Tells the senders of packets without a route that they go nowhere, as far as the rate of ICMP
    /// messages allows.
    pub fn refuse(&self, packets: Vec<Unrouted>, refusal: RouteRefusal) {
        for packet in packets {
            let (worker, command) = packet.refuse(refusal);
            self.shared.command(worker, command);
        }
    }

    /// The next message about paths that has come, for a device with [`Options::path_messages`]. For one thread alone.
    pub fn next_path_message(&self) -> Option<PathMessage> {
        self.shared.next_path_message()
    }

    /// Sends a message about paths from the first worker's socket, which is the one that records leave from. `source` is
    /// the address of this host to send from, where that matters. False if it did not leave: such messages are repeated by
    /// their senders.
    pub fn send_path_message(
        &self,
        datagram: &[u8],
        to: SocketAddr,
        source: Option<LocalAddress>,
    ) -> bool {
        // Generations begin with 1.
        let view = self.shared.published.newer_than(&mut 0);
        let sockets = view.as_deref().and_then(|view| view.sockets.as_deref());
        let sockets = sockets.and_then(<[_]>::first);
        let sent = sockets.is_some_and(|sockets| send_once(sockets, datagram, to, source));
        self.shared.note_path_message(sent);
        sent
    }

    /// Sends to a peer there from now on, with a record at once: the peer follows to where authentic records come from.
    /// The peer's own records move the endpoint no more, wherever they come from; a handshake does, and so does the next
    /// call. `None` lets the endpoint follow them again. Nothing happens where the peer is unknown.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn pin_endpoint(
        &self,
        key: PublicKey,
        address: Option<SocketAddr>,
    ) -> Result<(), EngineError> {
        self.order(Request::PinEndpoint(key, address))
    }

    /// Sends to all peers at the address `from` by the address `to` from now on, since both lead to the same relay and
    /// the first does so no more. Their records move the endpoint as before.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn move_endpoints(&self, from: SocketAddr, to: SocketAddr) -> Result<(), EngineError> {
        self.order(Request::MoveEndpoints { from, to })
    }

    /// Sends the initiation that waits for a peer's answer to one more address, which was no way to the peer when it left.
    /// Nothing happens where none waits.
    ///
    /// # Errors
    /// [`EngineError::Ended`].
    pub fn repeat_initiation(&self, key: PublicKey, to: SocketAddr) -> Result<(), EngineError> {
        self.order(Request::RepeatInitiation(key, to))
    }

    /// Ends the device: its interface goes, [`Self::wait`] returns.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Ends the device as [`Self::stop`] does, but leaves interface and sockets to the process that comes next, where
    /// [`Options::store`] keeps them.
    pub fn leave(&self) {
        self.shared.leave();
    }

    /// True if the device has ended or is about to.
    pub fn has_ended(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Waits until the device has ended: by [`Self::stop`], or because its interface was deleted.
    ///
    /// # Errors
    /// The fault that ended it, if it was neither of the two.
    pub fn wait(&self) -> Result<(), EngineError> {
        let threads = std::mem::take(&mut *self.lock_threads());
        let mut result = Ok(());
        for thread in threads {
            let ended = thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the device panicked")));
            result = result.and(ended);
        }
        result.map_err(EngineError::system("carry packets"))
    }

    fn ask<T>(&self, request: impl FnOnce(SyncSender<T>) -> Request) -> Result<T, EngineError> {
        let (answer, answered) = sync_channel(1);
        self.requests
            .send(request(answer))
            .map_err(|_| EngineError::Ended)?;
        self.shared.wake_control();
        answered.recv().map_err(|_| EngineError::Ended)
    }

    /// Gives an order that needs no answer.
    fn order(&self, request: Request) -> Result<(), EngineError> {
        self.requests
            .send(request)
            .map_err(|_| EngineError::Ended)?;
        self.shared.wake_control();
        Ok(())
    }

    fn spawn(&self, control: Control, workers: Vec<Worker>) -> Result<(), EngineError> {
        let mut threads = self.lock_threads();
        for (number, worker) in workers.into_iter().enumerate() {
            let ending = Ending(Arc::clone(&self.shared));
            let body = move || {
                let _ending = ending;
                match worker.run() {
                    // The interface was deleted, which is a way to end the device.
                    Err(error) if queue_fault(&error) == QueueFault::Gone => Ok(()),
                    ended => ended,
                }
            };
            let thread = thread::Builder::new().name(format!("culvert-road-{number}"));
            threads.push(
                thread
                    .spawn(body)
                    .map_err(EngineError::system("start a worker"))?,
            );
        }
        let ending = Ending(Arc::clone(&self.shared));
        let body = move || {
            let _ending = ending;
            control.run()
        };
        let thread = thread::Builder::new().name("culvert-control".to_owned());
        threads.push(
            thread
                .spawn(body)
                .map_err(EngineError::system("start the control thread"))?,
        );
        Ok(())
    }

    fn lock_threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<io::Result<()>>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a datagram, without the source address where that is gone.
fn send_once(
    sockets: &WorkerSockets,
    datagram: &[u8],
    address: SocketAddr,
    source: Option<LocalAddress>,
) -> bool {
    let Some(socket) = sockets.towards(address) else {
        return false;
    };
    let mut to = Destination { address, source };
    let mut sent = socket.send(datagram, datagram.len(), &to, PRIORITY_CLASS);
    if matches!(sent, Err(SendError::SourceGone)) {
        to.source = None;
        sent = socket.send(datagram, datagram.len(), &to, PRIORITY_CLASS);
    }
    if let Err(error) = &sent {
        tracing::debug!(%error, %address, "message about paths not sent");
    }
    sent.is_ok()
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop();
        // An owner that needs the result has called `wait`.
        let _unasked = self.wait();
    }
}

/// Ends all threads of a device with the one that holds it, even if that one panics: a device that
/// has lost a thread must not look alive.
struct Ending(Arc<Shared>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.stop();
    }
}
