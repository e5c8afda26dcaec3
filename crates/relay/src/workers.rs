//! The workers of a relay, as its event loop sees them.

use crate::RelayError;
use crate::clock::TokenClock;
use crate::exchange::{Command, Report};
use crate::sockets::Sockets;
use crate::worker::{self, Place, Worker};
use culvert_relay_core::SharedBudget;
use culvert_relay_core::relay::{CLIENTS_PER_PORT, PortView, Relay, RelaySettings};
use culvert_udp::Socket;
use culvert_wire::messages::RelayPort;
use std::io;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Commands that wait for a worker, which looks for them every half second at the latest.
const WAITING_COMMANDS: usize = 1_024;

/// One worker.
#[derive(Debug)]
struct Handle {
    commands: SyncSender<Command>,
    wake: Arc<OwnedFd>,
    report: Arc<Mutex<Report>>,
    thread: JoinHandle<()>,
}

/// The workers of a relay. Dropping them leaves their threads to the end of the process; [`Self::stop`] ends them.
#[derive(Debug)]
pub struct Workers {
    handles: Vec<Handle>,
    clock: TokenClock,
    ended: mpsc::Receiver<String>,
}

impl Workers {
    /// Starts `count` threads, each with every `count`th of the ports. No port has more clients than
    /// [`CLIENTS_PER_PORT`].
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        sockets: Sockets,
        count: NonZeroU32,
        rate_bytes_per_s: Option<u64>,
    ) -> Result<Self, RelayError> {
        let total = Arc::new(SharedBudget::new(rate_bytes_per_s));
        let clock = TokenClock::new();
        // The first that ends ends the relay.
        let (end, ended) = mpsc::channel(1);
        let mut handles = Vec::new();
        for (number, share) in shares(sockets, count).into_iter().enumerate() {
            let mut seed = [0; 32];
            getrandom::fill(&mut seed)
                .map_err(io::Error::other)
                .map_err(RelayError::system("draw random bytes"))?;
            let relay = Relay::new(RelaySettings {
                ports: share.ports,
                clients_per_port: CLIENTS_PER_PORT,
                workers: count,
                seed,
                total: Arc::clone(&total),
            });
            let handle = start_one(number, relay, share.sockets, &clock, end.clone());
            handles.push(handle.map_err(RelayError::system("start a worker"))?);
        }
        Ok(Self {
            handles,
            clock,
            ended,
        })
    }

    /// Tells all workers.
    ///
    /// # Errors
    /// [`RelayError::Worker`] if one has ended.
    pub fn tell(&self, command: &Command) -> Result<(), RelayError> {
        for handle in &self.handles {
            let told = handle.commands.send(command.clone());
            told.map_err(|_| RelayError::Worker("its thread is gone".to_owned()))?;
            worker::wake_up(&handle.wake);
        }
        Ok(())
    }

    /// The state of all workers together, ports in order.
    #[must_use]
    pub fn report(&self) -> Report {
        let mut sum = Report::default();
        for handle in &self.handles {
            let report = handle.report.lock();
            sum.add(&report.unwrap_or_else(PoisonError::into_inner));
        }
        sum.ports.sort_unstable_by_key(|port| port.port);
        sum
    }

    /// The gateways that have a port.
    #[must_use]
    pub fn assigned(&self) -> Vec<RelayPort> {
        let ports = self.report().ports.into_iter();
        let assigned = ports.map(|PortView { port, gateway, .. }| RelayPort { port, gateway });
        assigned.collect()
    }

    pub(crate) const fn clock(&self) -> &TokenClock {
        &self.clock
    }

    /// Waits until a worker ends by itself, and says why.
    pub async fn ended(&mut self) -> String {
        match self.ended.recv().await {
            Some(why) => why,
            None => "its thread is gone".to_owned(),
        }
    }

    /// Ends them.
    pub fn stop(self) {
        // One that has ended hears nothing.
        let _gone = self.tell(&Command::Stop);
        for handle in self.handles {
            let _panicked = handle.thread.join();
        }
    }
}

fn start_one(
    number: usize,
    relay: Relay,
    sockets: Vec<(Place, Socket)>,
    clock: &TokenClock,
    end: mpsc::Sender<String>,
) -> io::Result<Handle> {
    let (commands, to_obey) = sync_channel(WAITING_COMMANDS);
    let wake = Arc::new(worker::wake_event()?);
    let report = Arc::new(Mutex::new(Report::default()));
    let worker = Worker::new(
        relay,
        clock.clone(),
        sockets,
        Arc::clone(&wake),
        to_obey,
        Arc::clone(&report),
    )?;
    let thread = std::thread::Builder::new()
        .name(format!("relay-{number}"))
        .spawn(move || {
            if let Err(error) = worker.run() {
                // The event loop may be gone, or have heard of another one.
                let _unheard = end.try_send(error.to_string());
            }
        })?;
    Ok(Handle {
        commands,
        wake,
        report,
        thread,
    })
}

/// The ports of one worker.
#[derive(Default)]
struct Share {
    ports: Vec<u16>,
    sockets: Vec<(Place, Socket)>,
}

/// Deals the gateway ports out, and gives the main port to the first worker.
fn shares(sockets: Sockets, count: NonZeroU32) -> Vec<Share> {
    let count = count.get() as usize;
    let mut shares: Vec<Share> = std::iter::repeat_with(Share::default).take(count).collect();
    let main = sockets.main.into_iter().map(|socket| {
        let place = Place::Main(socket.local_port());
        (place, socket)
    });
    shares[0].sockets.extend(main);
    for (number, (port, sockets)) in sockets.gateway_ports.into_iter().enumerate() {
        let share = &mut shares[number % count];
        let place = Place::Gateway(share.ports.len());
        share.ports.push(port);
        share
            .sockets
            .extend(sockets.into_iter().map(|socket| (place, socket)));
    }
    shares
}
