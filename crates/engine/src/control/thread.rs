//! The control thread and its parts. Each part has its own state; the files with `impl Control` are the rules between
//! them.

use super::counters::ControlCounters;
use super::gating::Gating;
use super::handshakes::Handshakes;
use super::helpers::Helpers;
use super::link::Link;
use super::machine::Machine;
use super::paths::Paths;
use super::peers::Peers;
use super::request::Request;
use super::shared::Shared;
use super::udp::{SocketSettings, Sockets};
use super::workers::Workers;
use crate::clock;
use crate::configuration::GateKind;
use crate::sockets::View;
use crate::store::StoredDescriptors;
use culvert_base::BootTime;
use culvert_datapath::{Event, SWEEP_INTERVAL, Snapshot, WorkerCounters};
use culvert_session::Clock;
use culvert_tun::LinkWatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The longest sleep of the control thread: paths are looked at again at this interval.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The pause of the control thread while the kernel has no memory for a moment.
const MEMORY_PAUSE: Duration = Duration::from_millis(10);

/// The state of the control thread.
pub(crate) struct Control {
    pub(super) workers: Workers,
    requests: Receiver<Request>,
    pub(super) handshakes: Handshakes,
    pub(super) helpers: Helpers,
    pub(super) machine: Machine,
    pub(super) link: Link,
    pub(super) counters: ControlCounters,
    pub(super) peers: Peers,
    pub(super) sockets: Sockets,
    pub(super) paths: Paths,
    pub(super) gating: Gating,
}

/// Everything that [`Control`] is made of.
pub(crate) struct Parts {
    pub(crate) shared: Arc<Shared>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) tun: culvert_tun::Device,
    pub(crate) watch: LinkWatch,
    pub(crate) options: crate::Options,
    pub(crate) worker_counters: Vec<Arc<WorkerCounters>>,
    pub(crate) seed: [u8; 32],
}

impl Control {
    pub(crate) fn new(parts: Parts) -> Self {
        let options = parts.options;
        let settings = SocketSettings {
            workers: parts.shared.workers(),
            mechanisms: options.mechanisms,
            store: options.store,
            bind_when_looped: options.bind_when_looped,
        };
        // Clients take a gateway's silence for its death.
        let answers_promptly = matches!(options.gate, GateKind::Gateway { .. });
        Self {
            helpers: {
                let shared = Arc::clone(&parts.shared);
                Helpers::start(move || shared.wake_control())
            },
            workers: Workers::new(parts.shared, parts.worker_counters),
            requests: parts.requests,
            handshakes: Handshakes::new(parts.seed, options.suite, answers_promptly),
            peers: Peers::new(),
            sockets: Sockets::new(settings, options.listen_port, options.mark),
            link: Link::new(parts.tun, parts.watch, options.mtu, options.mechanisms),
            paths: Paths::new(clock::now()),
            gating: Gating::new(clock::now()),
            machine: Machine::new(),
            counters: ControlCounters::default(),
        }
    }

    /// Serves until the device is stopped or its interface is deleted.
    ///
    /// # Errors
    /// Those of the system that leave nothing to serve.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        self.workers.shared().stop();
        self.close();
        served
    }

    fn serve(&mut self) -> io::Result<()> {
        self.read_link();
        while !self.workers.shared().is_stopping() {
            if self.workers.is_dirty() {
                self.publish();
            }
            self.sleep()?;
            self.workers.shared().control_awake();
            let clock = clock::clock();
            if !self.read_network_events()? {
                tracing::info!("the interface was deleted");
                break;
            }
            self.check_machine(clock)?;
            self.serve_requests(clock);
            self.serve_events(clock)?;
            self.finish_handshakes(clock);
            self.answer_handshakes(clock);
            self.handshakes.handshaker.handle_timeout(clock);
            self.execute();
            self.check_paths(clock.now);
            self.measure_paths(clock.now);
            self.sweep_gates(clock.now);
        }
        Ok(())
    }

    /// Has the store let go of everything, unless it is left to the next process. The interface is deleted, since the
    /// store takes a moment.
    fn close(&self) {
        let Some(store) = self.sockets.store() else {
            return;
        };
        if self.workers.shared().is_leaving() {
            return;
        }
        for stored in StoredDescriptors::ALL {
            store.forget(stored);
        }
        if let Err(error) = self.link.tun().delete() {
            tracing::debug!(%error, "the interface is not deleted");
        }
    }

    fn sleep(&self) -> io::Result<()> {
        let is_stuck = self.helpers.are_busy() && !self.helpers.have_room();
        if self.workers.shared().waiting_handshakes() > 0 && !is_stuck {
            // A helper that is done wakes this thread otherwise.
            return Ok(());
        }
        let now = clock::now();
        let longest = match self.workers.shared().gates {
            Some(_) => SWEEP_INTERVAL,
            None => LONGEST_SLEEP,
        };
        let due = [
            self.handshakes.handshaker.next_timeout(),
            self.next_measurement(),
        ];
        let wait = due
            .into_iter()
            .flatten()
            .map(|at| at.saturating_since(now))
            .fold(longest, Duration::min);
        let timeout = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut waited = vec![
            PollFd::new(self.workers.shared().control_waker(), PollFlags::IN),
            PollFd::new(self.link.watch(), PollFlags::IN),
        ];
        let uevents = self.machine.uevents();
        waited.extend(uevents.map(|uevents| PollFd::new(uevents, PollFlags::IN)));
        match poll(&mut waited, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(rustix::io::Errno::NOMEM | rustix::io::Errno::AGAIN) => {
                std::thread::sleep(MEMORY_PAUSE);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sweep_gates(&mut self, now: BootTime) {
        let gates = self.workers.shared().gates.as_deref();
        self.gating.sweep(gates, now);
    }

    fn serve_requests(&mut self, clock: Clock) {
        while let Ok(request) = self.requests.try_recv() {
            // A requester that has gone away needs no answer.
            match request {
                Request::Apply(change, answer) => {
                    let result = self.apply(*change, clock);
                    self.execute();
                    // It is in force before anybody hears that it is.
                    if self.workers.is_dirty() {
                        self.publish();
                    }
                    let _gone = answer.send(result);
                }
                Request::Configuration(answer) => {
                    let _gone = answer.send(self.configuration());
                }
                Request::Status(answer) => {
                    let _gone = answer.send(Box::new(self.status()));
                }
                Request::HasSilentPeer(span, answer) => {
                    let _gone = answer.send(self.has_silent_peer(&span));
                }
                Request::Watched(answer) => {
                    let _gone = answer.send(self.take_watched());
                }
                Request::PinEndpoint(key, address) => {
                    self.pin_endpoint(&key, address, clock.now);
                }
                Request::MoveEndpoints { from, to } => self.move_endpoints(from, to),
                Request::RepeatInitiation(key, to) => self.repeat_initiation(&key, to, clock.now),
                Request::Flows {
                    with_lasting,
                    answer,
                } => {
                    let _gone = answer.send({
                        let gates = self.workers.shared().gates.as_deref();
                        self.gating.take_flows(gates, with_lasting)
                    });
                }
            }
        }
    }

    fn serve_events(&mut self, clock: Clock) -> io::Result<()> {
        while let Some(event) = self.workers.shared().next_event() {
            match event {
                Event::HandshakeWanted(peer) => {
                    if let Some(state) = self.peers.get(peer) {
                        let wanted = &state.shared.handshake_wanted;
                        wanted.store(false, Ordering::Release);
                        self.handshakes.handshaker.handle_wanted(peer, clock);
                    }
                }
                Event::Active(peer) => {
                    self.handshakes.handshaker.handle_active(peer, clock);
                }
                Event::Confirmed(peer, index) => {
                    self.handshakes
                        .handshaker
                        .handle_confirmed(peer, index, clock);
                }
                Event::PerhapsCopied { generation, change } => {
                    self.hear_of_copy(generation, change, clock)?;
                }
                Event::FullSizeLeft(peer) => self.handle_full_size(peer, clock.now),
                Event::MtuAnswered(peer, probe) => {
                    self.handle_mtu_answer(peer, probe, clock.now);
                }
                Event::SegmentationRefused(peer, len) => self.learn_path(peer, len),
                Event::Looped(to) => self.leave_loop(to, clock.now),
                Event::ForeignSource(source) => self.paths.hear_of_foreign(source, clock.now),
                Event::SuperframesTaken(kinds) => self.link.take_superframes(kinds),
                Event::SuperframesRefused(kinds) => self.link.refuse_superframes(kinds),
            }
            self.take_in();
        }
        self.send_out();
        Ok(())
    }

    /// Replaces the snapshot that the workers see.
    pub(super) fn publish(&mut self) {
        let sockets = self.sockets.open();
        let path = Snapshot {
            routes: self.peers.routes(),
            peers: self.peers.table(),
            keys: self.peers.keys(),
            port: sockets.as_ref().map_or(0, |_| self.sockets.bound_port()),
            mtu: self.link.mtu(),
            service_routes: self.peers.service_routes(),
            gate: self.gating.table(),
            inbound: self.gating.inbound(),
            inside: self.gating.inside(),
            wall_offset: self.machine.wall_offset(),
        };
        self.counters.snapshots.add(1);
        self.workers.publish(View {
            path: Arc::new(path),
            sockets,
        });
    }
}
