//! A worker: one thread that receives at its ports, and sends on what its part of the relay decides.

mod sender;

use crate::clock::TokenClock;
use crate::exchange::{Command, Report};
use culvert_relay_core::Relay;
use culvert_relay_core::relay::{Decisions, Run};
use culvert_udp::{ReceiveBatch, Socket};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
pub(crate) use sender::Place;
use sender::{PortSockets, Sender};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Runs of one system call, and of a socket before the others have their turn.
const RUNS_PER_TURN: usize = 16;

/// The same while they are full ones, of 64 KiB: a worker needs some 15 µs for two, and another socket waits no longer.
const FULL_RUNS_PER_TURN: usize = 2;

/// Bytes of a turn, as far as the last one lets expect.
const BYTES_PER_TURN: usize = FULL_RUNS_PER_TURN << 16;

/// Events of one wait.
const EVENTS: usize = 64;

/// The longest wait for an event.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The event of a command.
const WAKE: u64 = u64::MAX;

/// The worker's side of its thread.
pub(crate) struct Worker {
    relay: Relay,
    clock: TokenClock,
    sockets: Vec<(Place, Socket)>,
    /// Runs of the next turn of each socket.
    turns: Vec<usize>,
    sender: Sender,
    batch: ReceiveBatch,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    commands: Receiver<Command>,
    report: Arc<Mutex<Report>>,
}

/// An event that a worker waits for, by which it is woken up.
pub(crate) fn wake_event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Wakes a worker up.
pub(crate) fn wake_up(event: &OwnedFd) {
    // A counter at its end wakes as well.
    let _full = rustix::io::write(event, &1_u64.to_ne_bytes());
}

impl Worker {
    pub(crate) fn new(
        relay: Relay,
        clock: TokenClock,
        sockets: Vec<(Place, Socket)>,
        wake: Arc<OwnedFd>,
        commands: Receiver<Command>,
        report: Arc<Mutex<Report>>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            wake.as_fd(),
            EventData::new_u64(WAKE),
            EventFlags::IN,
        )?;
        for (index, (_, socket)) in sockets.iter().enumerate() {
            let data = EventData::new_u64(index as u64);
            epoll::add(&epoll, socket, data, EventFlags::IN)?;
        }
        let ports = PortSockets::of(&sockets);
        Ok(Self {
            relay,
            clock,
            turns: vec![FULL_RUNS_PER_TURN; sockets.len()],
            sockets,
            sender: Sender::new(ports),
            batch: ReceiveBatch::new(RUNS_PER_TURN),
            epoll,
            wake,
            commands,
            report,
        })
    }

    /// Carries records until [`Command::Stop`].
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let wait = self.wait();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in events.drain(..) {
                let data = event.data;
                match data.u64() {
                    WAKE => self.rest(),
                    index => self.receive(usize::try_from(index).unwrap_or(usize::MAX)),
                }
            }
            if self.obey().is_break() {
                return Ok(());
            }
            self.look_around();
        }
    }

    /// The time until the relay's next timer.
    fn wait(&self) -> Timespec {
        let now = self.clock.now().boot;
        let due = self.relay.poll_timeout().saturating_since(now);
        let wait = due.min(LONGEST_WAIT);
        Timespec {
            tv_sec: 0,
            tv_nsec: wait.subsec_nanos().into(),
        }
    }

    /// The wake-up is heard.
    fn rest(&self) {
        let mut count = [0; 8];
        let _empty = rustix::io::read(&*self.wake, &mut count);
    }

    /// Receives at a socket, one batch: then the others have their turn, so that a full socket delays them by no more
    /// than that.
    fn receive(&mut self, index: usize) {
        let Some((place, socket)) = self.sockets.get(index) else {
            return;
        };
        let received = match socket.receive_some(&mut self.batch, self.turns[index]) {
            Ok(received) => received,
            Err(error) => {
                // An error of an earlier datagram, which says nothing of the next one.
                tracing::debug!(%error, "receiving");
                return;
            }
        };
        let now = self.clock.now();
        let mut bytes = 0;
        for run in self.batch.iter_mut().filter(|run| !run.truncated) {
            let class = run.class;
            bytes += run.bytes.len();
            let run = Run {
                source: run.source,
                local: run.local,
                bytes: run.bytes,
                stride: run.stride,
            };
            let decisions: &Decisions = match *place {
                Place::Main(port) => self.relay.handle_main_run(port, &run, now),
                Place::Gateway(port) => self.relay.handle_run(port, &run, now),
            };
            self.sender
                .execute(index, &self.sockets, &run, class, decisions);
        }
        if received > 0 {
            let runs = BYTES_PER_TURN * received / bytes.max(1);
            self.turns[index] = runs.clamp(FULL_RUNS_PER_TURN, RUNS_PER_TURN);
        }
    }

    /// Carries out the commands of the event loop.
    fn obey(&mut self) -> std::ops::ControlFlow<()> {
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Identity { relay, key } => self.relay.set_identity(relay, &key),
                Command::Withdraw {
                    gateway,
                    client,
                    until,
                } => {
                    let now = self.clock.now().unix;
                    self.relay.withdraw(gateway, client, until, now);
                }
                Command::Drain(on) => self.relay.set_draining(on),
                Command::Stop => return std::ops::ControlFlow::Break(()),
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    /// Lets the relay's timers pass, and reports, when they are due.
    fn look_around(&mut self) {
        let now = self.clock.now();
        if self.relay.poll_timeout() > now.boot {
            return;
        }
        self.relay.handle_timeout(now);
        let report = Report {
            counters: self.relay.counters().clone(),
            sending: self.sender.counters(),
            gateways: self.relay.gateways(),
            clients: self.relay.clients(),
            ports: self.relay.ports().collect(),
        };
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }
}
