//! The gateway with its connection to the portal, its tunnel, its resolver and its host.
//!
//! One task owns the core and carries out what it says. The files with `impl Shell` handle one kind of event each.

mod addresses;
mod announcer;
mod base;
mod devices;
mod endpoints;
mod grant_journal;
mod guard;
mod host;
mod host_events;
mod latest_writer;
mod load;
mod meter;
mod observation;
mod portal;
mod portal_events;
mod report;
mod resolver;
mod revocations;
mod site_dns;
mod streams;
mod traffic;
mod tunnel;
mod tunnel_events;

use crate::GatewayError;
use crate::observer::{Observed, StatusRequest};
use crate::settings::Settings;
use announcer::Announcer;
use base::Base;
use culvert_gateway_core::{Ending, Gateway, Output, Resolution};
use culvert_host::{Shutdown, StateDir, TableClaim, notify_stopping};
use culvert_ids::ClientId;
use culvert_link::{PortalEvent, write_log};
use culvert_relay_tls::StreamNews;
use culvert_session::PrivateKey;
use culvert_wire::encode;
use devices::Devices;
use meter::Meter;
use observation::Observation;
#[cfg(feature = "fuzzing")]
pub use resolver::resolution;
use site_dns::{LookedUp, Question};
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// The interval at which the load of the gateway is reported to the portal.
const LOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The interval at which ended flows are fetched: that at which the engine looks for them.
const FLOWS_INTERVAL: Duration = Duration::from_secs(1);

/// The interval at which it is looked whether clients do not answer.
const SILENCE_INTERVAL: Duration = Duration::from_millis(500);

/// The time that the gateway waits at its end for the portal to take the last flows.
const LAST_FLOWS_WAIT: Duration = Duration::from_secs(2);

/// The interval at which the kernel's table is checked if no change is reported: the gates do not
/// depend on it, but masquerading does.
const GUARD_INTERVAL: Duration = Duration::from_secs(2);

/// The interval at which it is looked whether plain WireGuard devices are somewhere else. Without news, a look costs the
/// read of a flag. A move is to be known to the portal within a second.
const ENDPOINTS_INTERVAL: Duration = Duration::from_millis(200);

/// A timer that is due for this long does not wait for other events to end.
const TIMER_SLACK: Duration = Duration::from_millis(100);

/// Runs a gateway until `stop` is there, or until it can't go on. Requests for its state, through
/// `observed` or at its socket, are answered meanwhile.
///
/// # Errors
/// [`GatewayError`] says what to do.
pub async fn run(
    settings: Settings,
    observed: Observed,
    stop: impl Future<Output = Shutdown>,
) -> Result<(), GatewayError> {
    culvert_host::require_tun_device()?;
    culvert_host::require_net_admin()?;
    culvert_host::require_nft()?;
    host::check_forwarding(settings.enable_forwarding)?;
    let state = StateDir::open(&settings.state_dir)?;
    // No other gateway may have either of them before this one has left.
    let _lock = state.lock()?;
    let _tables = TableClaim::take(&settings.routing)?;
    if let Some(confinement) = &settings.confinement {
        confinement.log();
    }
    if let Some(sandbox) = &settings.sandbox {
        sandbox.log();
    }
    let observation = Observation::start(observed, &settings.status_socket);
    let (base, key) = Base::load(settings, &state)?;
    let mut shell = Shell::start(base, key, state, observation).await?;
    let result = shell.serve(stop).await;
    notify_stopping("stopping");
    let shutdown = match &result {
        Ok(shutdown) => *shutdown,
        Err(_) => Shutdown::ForGood,
    };
    shell.finish(shutdown).await;
    result.map(drop)
}

/// The core and everything that it speaks with.
struct Shell {
    base: Base,
    core: Gateway,
    devices: Devices,
    meter: Meter,
    observation: Observation,
    announcer: Announcer,
    ending: Option<Ending>,
}

/// The event that woke the shell up.
enum Event {
    Stop(Shutdown),
    Timeout,
    Portal(PortalEvent),
    Resolved(culvert_policy::DomainName, Resolution),
    /// A client asks.
    Question(Box<Question>),
    /// A client's question has its answer.
    Answered(ClientId),
    /// A plain WireGuard device's question has its answer.
    LookedUp(LookedUp),
    /// Messages about paths may wait.
    Paths,
    /// A stream to a relay is open, or has ended.
    Stream(StreamNews<()>),
    /// It is time to look for clients that do not answer.
    Silence,
    /// It is time to look where plain WireGuard devices are.
    Endpoints,
    NetworkChanged,
    EndpointsChanged,
    /// IPv4 addresses are reached in another way.
    Nat64,
    Load,
    Flows,
    /// It is time to look at the kernel's table, which was perhaps changed by this program.
    Guard(Option<String>),
    Drain,
    Status(StatusRequest),
    Ended(Option<culvert_engine::EngineError>),
}

impl Shell {
    async fn start(
        base: Base,
        key: PrivateKey,
        state: StateDir,
        observation: Observation,
    ) -> Result<Self, GatewayError> {
        let (mut devices, persisted) = Devices::start(&base.settings, key, state).await?;
        let mut core = base.core(devices.addresses.candidates())?;
        let now = culvert_engine::boot_time();
        core.handle_host_addresses(devices.addresses.unserved(), now);
        if let Some(persisted) = persisted {
            core.handle_persisted(persisted, culvert_engine::unix_time(), now);
        }
        Ok(Self {
            base,
            core,
            devices,
            meter: Meter::default(),
            observation,
            announcer: Announcer::default(),
            ending: None,
        })
    }

    async fn serve(
        &mut self,
        stop: impl Future<Output = Shutdown>,
    ) -> Result<Shutdown, GatewayError> {
        let mut stop = std::pin::pin!(stop);
        let mut load = interval(LOAD_INTERVAL);
        let mut guard = interval(GUARD_INTERVAL);
        let mut flows = interval(FLOWS_INTERVAL);
        let mut silence = interval(SILENCE_INTERVAL);
        let mut endpoints = interval(ENDPOINTS_INTERVAL);
        flows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        load.set_missed_tick_behavior(MissedTickBehavior::Delay);
        guard.set_missed_tick_behavior(MissedTickBehavior::Delay);
        silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
        endpoints.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let drain_signal = tokio::signal::unix::SignalKind::user_defined1();
        let mut drain = tokio::signal::unix::signal(drain_signal)
            .map_err(GatewayError::system("wait for a signal"))?;
        self.core.handle_timeout(culvert_engine::boot_time());
        self.execute().await?;
        while self.ending.is_none() {
            let wake_up = self.wake_up();
            let devices = &mut self.devices;
            let event = tokio::select! {
                biased;
                shutdown = &mut stop => Event::Stop(shutdown),
                result = &mut devices.tunnel.ended => Event::Ended(result.ok().flatten()),
                event = devices.portal.next() => Event::Portal(event),
                Some((name, said)) = devices.resolver.answers.recv() => Event::Resolved(name, said),
                Some(client) = devices.site_dns.answered.recv() => Event::Answered(client),
                Some(said) = devices.site_dns.plain.looked_up.recv() => Event::LookedUp(said),
                change = devices.addresses.watch.changed() => { change?; Event::NetworkChanged }
                Ok(()) = devices.addresses.endpoints.addresses.changed() => Event::EndpointsChanged,
                Ok(()) = devices.nat64.found.changed() => Event::Nat64,
                news = devices.streams.next() => Event::Stream(news),
                request = self.observation.next() => Event::Status(request),
                _ = drain.recv() => Event::Drain,
                by = devices.host.guard.heard() => Event::Guard(by),
                _ = guard.tick() => Event::Guard(None),
                _ = load.tick() => Event::Load,
                _ = flows.tick() => Event::Flows,
                _ = silence.tick() => Event::Silence,
                _ = endpoints.tick() => Event::Endpoints,
                () = sleep_until(wake_up) => Event::Timeout,
                // Last, because clients and strangers send as much of it as they like.
                () = devices.tunnel.path_messages.woken() => Event::Paths,
                Some(question) = devices.site_dns.questions.recv() => Event::Question(Box::new(question)),
            };
            if let Some(shutdown) = self.handle(event).await? {
                return Ok(shutdown);
            }
            self.catch_up();
            self.execute().await?;
        }
        match self.ending.take() {
            Some(Ending::NotEnrolled(why)) => Err(GatewayError::NotEnrolled(why)),
            Some(Ending::Revoked(why)) => Err(GatewayError::Revoked(why)),
            Some(Ending::Failed(why)) => Err(GatewayError::Refused(why)),
            None => Ok(Shutdown::ForGood),
        }
    }

    /// Says how it ends, where it is over.
    async fn handle(&mut self, event: Event) -> Result<Option<Shutdown>, GatewayError> {
        let now = culvert_engine::boot_time();
        match event {
            Event::Stop(shutdown) => return Ok(Some(shutdown)),
            Event::Ended(Some(error)) => return Err(error.into()),
            Event::Ended(None) => {
                let source = std::io::Error::other("somebody deleted it");
                return Err(GatewayError::system("keep the interface")(source));
            }
            Event::Timeout => self.core.handle_timeout(now),
            Event::Portal(event) => self.handle_portal_events(event, now).await?,
            Event::Resolved(name, said) => self.core.handle_resolved(&name, said, now),
            Event::Question(question) => self.take_question(*question, now),
            Event::Answered(client) => self.core.handle_question_answered(client),
            Event::LookedUp(said) => {
                let LookedUp {
                    client,
                    query,
                    answer,
                } = said;
                self.core
                    .handle_plain_looked_up(client, query, answer.as_deref(), now);
            }
            // They are taken after each event.
            Event::Paths => {}
            Event::Stream(news) => self.handle_stream(news, now),
            Event::Silence => self.watch_for_silence(now)?,
            Event::Endpoints => self
                .core
                .handle_heard(self.devices.tunnel.take_heard()?, now),
            Event::NetworkChanged => self.handle_network(now).await?,
            Event::EndpointsChanged => self.set_candidates(now),
            Event::Nat64 => {
                let prefix = *self.devices.nat64.found.borrow_and_update();
                self.core.handle_nat64(prefix, now);
            }
            Event::Load => self.handle_load(now).await?,
            Event::Flows => self.handle_flows(now)?,
            Event::Status(request) => {
                // The process that asked may be gone.
                let _unheard = request.answer.send(Ok(self.status()?));
            }
            Event::Guard(by) => self.check_guard(by.as_deref(), now).await?,
            Event::Drain => {
                let on = !self.core.is_draining();
                tracing::info!(on, "drain");
                self.core.handle_drain(on);
            }
        }
        Ok(None)
    }

    /// Does after each event what must not wait for others to end: one kind of event may always be there.
    fn catch_up(&mut self) {
        let now = culvert_engine::boot_time();
        self.serve_clients(now);
        let due = self.core.poll_timeout();
        if due.is_some_and(|due| now.has_passed(due, TIMER_SLACK)) {
            self.core.handle_timeout(now);
        }
    }

    fn write_logs(&mut self) {
        while let Some(line) = self.core.poll_log() {
            write_log(&line);
        }
    }

    /// The next output of the core. Its log lines are written before.
    fn next_output(&mut self) -> Option<Output> {
        self.write_logs();
        self.core.poll_output()
    }

    async fn execute(&mut self) -> Result<(), GatewayError> {
        while let Some(output) = self.next_output() {
            match output {
                Output::Connect => self.devices.portal.link.connect(),
                Output::Disconnect => self.devices.portal.link.disconnect().await,
                Output::ToPortal(message) => self.devices.portal.link.send(encode(&message)).await,
                Output::Portals(portals) => self.devices.portal.learn(&portals),
                Output::End(ending) => self.ending = Some(ending),
                Output::Interface(interface) => self.set_up(interface).await?,
                Output::Engine { peers, table } => self.devices.tunnel.apply(peers, table)?,
                Output::Inbound(ranges) => self.devices.host.set_inbound(ranges).await?,
                Output::SendPathMessage { datagram, to } => {
                    self.devices.tunnel.send_path_message(&datagram, to);
                }
                Output::OpenTls { relay, place } => self.open_stream(relay, place),
                Output::MoveClients { from, to } => self.devices.tunnel.move_clients(from, to)?,
                Output::CloseTls(relay) => self.devices.streams.close((), relay),
                Output::NamesInUse => self.look_at_names()?,
                Output::Resolve(name) => self.devices.resolver.ask(name),
                Output::AnswerPlain {
                    answer,
                    to,
                    transport,
                } => {
                    self.devices.site_dns.plain.answer(answer, to, transport);
                }
                Output::LookUp {
                    client,
                    id,
                    query,
                    transport,
                } => {
                    let resolver = self.devices.resolver.current();
                    let plain = &self.devices.site_dns.plain;
                    plain.look_up(client, (id, transport), &query, resolver);
                }
                Output::Void(grants) => self.devices.journal.void(&grants),
                Output::Persist(changes) => {
                    if !self.devices.journal.persist(*changes) {
                        self.core.persist_anew();
                    }
                }
            }
        }
        self.tell();
        Ok(())
    }

    /// Reports the state to a service manager and to health checks.
    fn tell(&mut self) {
        let not_ready = self.not_ready();
        self.observation.beat(not_ready);
        let (summary, is_connected) = (self.core.summary(), self.core.is_connected());
        if is_connected {
            self.devices.portal.link.welcomed();
        }
        let awaits_verification = self.core.awaits_verification();
        let portal = self.devices.portal.link.url();
        self.announcer.tell(
            &self.base,
            portal,
            summary,
            is_connected,
            awaits_verification,
        );
    }

    fn wake_up(&self) -> Instant {
        let now = culvert_engine::boot_time();
        let longest = self.observation.longest_rest();
        let due = self.core.poll_timeout();
        let sleep = due.map_or(longest, |due| due.saturating_since(now).min(longest));
        Instant::now() + sleep
    }

    /// Leaves: the portal hears it at once and sends clients elsewhere, then the tunnel goes, then its
    /// guard. For a restart, tunnel and guard stay.
    async fn finish(mut self, shutdown: Shutdown) {
        let told = tokio::time::timeout(LAST_FLOWS_WAIT, self.tell_last_flows()).await;
        if !matches!(told, Ok(true)) {
            tracing::warn!("the portal did not take all flows before the end");
        }
        let changes = self.core.take_changes();
        self.devices.close(shutdown, changes).await;
    }
}
