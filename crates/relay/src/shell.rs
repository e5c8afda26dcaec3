//! The relay's event loop: the session with the portal, and what follows for the workers.

mod portal_events;
mod report;

use crate::RelayError;
use crate::clock;
use crate::exchange::Command;
use crate::load::Load;
use crate::observer::{Observed, StatusRequest};
use crate::portal::Portal;
use crate::settings::Settings;
use crate::sockets::Sockets;
use crate::status::SCHEMA_VERSION;
use crate::tls::Tls;
use crate::workers::Workers;
use culvert_base::BootTime;
use culvert_host::{
    NetworkWatch, Routing, Shutdown, StateDir, StatusSocket, WatchOptions, machine_id,
    notify_ready, notify_status, notify_stopping,
};
use culvert_link::PortalEvent;
use culvert_relay_core::portal::{Ending, Machine, Output, PortalSession};
use culvert_wire::encode;
use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// The interval at which the load of the relay is reported to the portal.
const LOAD_INTERVAL: Duration = Duration::from_secs(5);

/// Runs a relay until `stop` is there, or until it can't go on. `sockets` are those of [`Sockets::bind`]. Requests for
/// its state, through `observed` or at its socket, are answered meanwhile.
///
/// # Errors
/// [`RelayError`] says what to do.
pub async fn run(
    settings: Settings,
    sockets: Sockets,
    observed: Observed,
    stop: impl Future<Output = Shutdown>,
) -> Result<(), RelayError> {
    let state = StateDir::open(&settings.state_dir)?;
    // No other relay may have it before this one has left.
    let _lock = state.lock()?;
    if let Some(confinement) = &settings.confinement {
        confinement.log();
    }
    if let Some(sandbox) = &settings.sandbox {
        sandbox.log();
    }
    let mut shell = Shell::start(settings, sockets, state, observed).await?;
    let result = shell.serve(stop).await;
    notify_stopping("stopping");
    shell.finish().await;
    result
}

/// The session's core and everything that it speaks with.
struct Shell {
    settings: Settings,
    machine: String,
    began: BootTime,
    core: PortalSession,
    portal: Portal,
    workers: Workers,
    tls: Tls,
    watch: NetworkWatch,
    load: Load,
    observed: Observed,
    /// Or the reason why there is none.
    status_socket: Result<StatusSocket, String>,
    announced: Announced,
    ending: Option<Ending>,
}

/// The state of what was told to the log and the service manager.
#[derive(Default)]
struct Announced {
    is_started: bool,
    was_connected: bool,
    summary: String,
}

/// The event that woke the shell up.
enum Event {
    Stop,
    Timeout,
    Portal(PortalEvent),
    NetworkChanged,
    Load,
    Drain,
    Status(StatusRequest),
    WorkerEnded(String),
}

impl Shell {
    async fn start(
        settings: Settings,
        mut sockets: Sockets,
        state: StateDir,
        observed: Observed,
    ) -> Result<Self, RelayError> {
        let began = clock::boot_time();
        let machine = machine_id(&state, settings.id.as_deref())?;
        let seed = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(RelayError::system("draw random bytes"))?;
        let watch = NetworkWatch::open(WatchOptions {
            own_interfaces: Vec::new(),
            // It has no routes of its own: these say nothing but how ways are looked up.
            routing: Routing::GATEWAY,
            destinations: Vec::new(),
            debounce: culvert_host::DEBOUNCE,
        })
        .await?;
        let ports = settings.gateway_ports;
        let threads = NonZeroUsize::try_from(settings.workers).unwrap_or(NonZeroUsize::MIN);
        let tls = Tls::start(
            &settings.tls,
            std::mem::take(&mut sockets.tls),
            StateDir::open(&settings.state_dir)?,
            ports.first()..=ports.last(),
            threads,
        )?;
        let mut core = PortalSession::new(
            Machine {
                machine: machine.clone(),
                name: settings.name.clone(),
                version: settings.version.clone(),
                first_port: settings.gateway_ports.first(),
                ports: settings.gateway_ports.count(),
            },
            addresses(&settings, &watch),
            seed,
            began,
        );
        core.handle_tls(tls.place(), began);
        let status_socket = observed
            .bind(&settings.status_socket, SCHEMA_VERSION)
            .map_err(|error| {
                let problem = format!("`culvert relay status` is not answered: {error}");
                tracing::warn!("{problem}");
                problem
            });
        let portal = Portal::new(&settings, state)?;
        let workers = Workers::start(sockets, settings.workers, settings.rate_bytes_per_s)?;
        Ok(Self {
            settings,
            machine,
            began,
            core,
            portal,
            workers,
            tls,
            watch,
            load: Load::default(),
            observed,
            status_socket,
            announced: Announced::default(),
            ending: None,
        })
    }

    async fn serve(&mut self, stop: impl Future<Output = Shutdown>) -> Result<(), RelayError> {
        let mut stop = std::pin::pin!(stop);
        let mut load = interval(LOAD_INTERVAL);
        load.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let drain_signal = tokio::signal::unix::SignalKind::user_defined1();
        let mut drain = tokio::signal::unix::signal(drain_signal)
            .map_err(RelayError::system("wait for a signal"))?;
        self.core.handle_timeout(clock::boot_time());
        self.execute().await?;
        while self.ending.is_none() {
            let wake_up = self.wake_up();
            let event = tokio::select! {
                biased;
                _ = &mut stop => Event::Stop,
                why = self.workers.ended() => Event::WorkerEnded(why),
                event = self.portal.next() => Event::Portal(event),
                change = self.watch.changed() => { change?; Event::NetworkChanged }
                request = self.observed.next() => Event::Status(request),
                _ = drain.recv() => Event::Drain,
                _ = load.tick() => Event::Load,
                () = sleep_until(wake_up) => Event::Timeout,
            };
            if matches!(event, Event::Stop) {
                return Ok(());
            }
            self.handle(event)?;
            self.execute().await?;
        }
        match self.ending.take() {
            Some(Ending::NotEnrolled(why)) => Err(RelayError::NotEnrolled(why)),
            Some(Ending::Revoked(why)) => Err(RelayError::Revoked(why)),
            Some(Ending::Failed(why)) => Err(RelayError::Refused(why)),
            None => Ok(()),
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), RelayError> {
        let now = clock::boot_time();
        match event {
            Event::Stop | Event::Timeout => self.core.handle_timeout(now),
            Event::WorkerEnded(why) => return Err(RelayError::Worker(why)),
            Event::Portal(event) => self.handle_portal(event, now)?,
            Event::NetworkChanged => self.handle_network_change(now),
            Event::Load => {
                let report = self.workers.report();
                let ends = (report.gateways, report.clients);
                let load = self.load.look(ends, report.counters.bytes);
                self.core.handle_load(load);
                if self.tls.renew(clock::unix_time()) {
                    self.core.handle_tls(self.tls.place(), now);
                }
            }
            Event::Drain => {
                let on = !self.core.drains_itself();
                tracing::info!(on, "drain");
                self.core.handle_drain(on);
            }
            Event::Status(request) => {
                // The process that asked may be gone.
                let _unheard = request.answer.send(Ok(self.status()));
            }
        }
        Ok(())
    }

    async fn execute(&mut self) -> Result<(), RelayError> {
        while let Some(output) = self.core.poll_output() {
            match output {
                Output::Connect => self.portal.link.connect(),
                Output::Disconnect => self.portal.link.disconnect().await,
                Output::ToPortal(message) => self.portal.link.send(encode(&message)).await,
                Output::Portals(portals) => self.portal.learn(&portals),
                Output::Identity { relay, key } => {
                    self.workers.tell(&Command::Identity { relay, key })?;
                }
                Output::Withdraw {
                    gateway,
                    client,
                    until,
                } => self.workers.tell(&Command::Withdraw {
                    gateway,
                    client,
                    until,
                })?,
                Output::Drain(on) => self.workers.tell(&Command::Drain(on))?,
                Output::End(ending) => self.ending = Some(ending),
            }
        }
        self.announce();
        Ok(())
    }

    /// Reports the state to a service manager and to health checks.
    fn announce(&mut self) {
        let not_ready = self.core.not_ready();
        self.observed.beat(not_ready.map(str::to_owned));
        let is_connected = self.core.session().is_open();
        if is_connected {
            self.portal.link.welcomed();
        }
        if is_connected && !self.announced.was_connected {
            tracing::info!(portal = self.portal.link.url(), "connected to the portal");
        }
        self.announced.was_connected = is_connected;
        let summary = match not_ready {
            Some(why) => format!("not ready: {why}"),
            None if is_connected => "ready".to_owned(),
            None => "ready; the portal is not reached".to_owned(),
        };
        // A machine that starts must not wait for a portal, unless that is asked for.
        let is_started = is_connected || !self.settings.exit_when_unreachable;
        if is_started && !self.announced.is_started {
            self.announced.is_started = true;
            notify_ready(&summary);
        } else if summary != self.announced.summary {
            notify_status(&summary);
        }
        self.announced.summary = summary;
    }

    fn wake_up(&self) -> Instant {
        let now = clock::boot_time();
        let longest = self.observed.longest_rest();
        let due = self.core.poll_timeout();
        let sleep = due.map_or(longest, |due| due.saturating_since(now).min(longest));
        Instant::now() + sleep
    }

    /// Leaves: the portal hears it at once and gives ends another relay, then the workers end.
    async fn finish(mut self) {
        self.portal.link.disconnect().await;
        self.tls.stop();
        self.workers.stop();
    }
}

/// The addresses at which ends reach the relay, each with the main port.
fn addresses(settings: &Settings, watch: &NetworkWatch) -> Vec<SocketAddr> {
    let given = settings.addresses.clone();
    let ips = match given.is_empty() {
        true => watch.candidates(),
        false => given,
    };
    let with_port = |ip| SocketAddr::new(ip, settings.port);
    ips.into_iter().map(with_port).collect()
}
