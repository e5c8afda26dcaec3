//! The gateway with its connection to the portal, its tunnel, its resolver and its host.

mod endpoints;
mod grant_journal;
mod host;
mod latest_writer;
mod load;
mod report;
mod resolver;
mod revocations;
mod site_dns;
mod traffic;
mod tunnel;

use crate::GatewayError;
use crate::observer::{Observed, StatusRequest};
use crate::settings::Settings;
use crate::status::SCHEMA_VERSION;
use culvert_aead::Suite;
use culvert_base::BootTime;
use culvert_control::{Repeats, stamp_epoch};
use culvert_gateway_core::{Ending, Gateway, NotAsked, Options, Output, Resolution};
use culvert_host::{
    HostAccess, Identity, NetworkWatch, Shutdown, StateDir, StatusSocket, TableClaim, WatchOptions,
    notify_stopping,
};
use culvert_ids::ClientId;
use culvert_link::{ConnectError, Connected, Connection, Destination, connect, write_log};
use culvert_session::PrivateKey;
use culvert_wire::{Cipher, GATEWAY_SESSION_PATH, PublicKey, encode};
use endpoints::Endpoints;
use grant_journal::GrantJournal;
use hickory_resolver::proto::op::ResponseCode;
use host::Host;
use load::Load;
use resolver::Resolver;
#[cfg(feature = "fuzzing")]
pub use resolver::resolution;
use site_dns::{Question, SiteDns};
use std::collections::BTreeSet;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use traffic::Traffic;
use tunnel::Tunnel;

/// The interval at which the load of the gateway is reported to the portal.
const LOAD_INTERVAL: Duration = Duration::from_secs(5);

/// The interval at which ended flows are fetched: that at which the engine looks for them.
const FLOWS_INTERVAL: Duration = Duration::from_secs(1);

/// The time that the gateway waits at its end for the portal to take the last flows.
const LAST_FLOWS_WAIT: Duration = Duration::from_secs(2);

/// The interval at which the kernel's table is checked if no change is reported: the gates do not
/// depend on it, but masquerading does.
const GUARD_INTERVAL: Duration = Duration::from_secs(2);

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
    let mut shell = Shell::start(settings, observed).await?;
    let result = shell.serve(stop).await;
    notify_stopping("stopping");
    let shutdown = match &result {
        Ok(shutdown) => *shutdown,
        Err(_) => Shutdown::ForGood,
    };
    shell.finish(shutdown).await;
    result.map(drop)
}

struct Shell {
    settings: Settings,
    core: Gateway,
    journal: GrantJournal,
    _lock: culvert_host::StateLock,
    _tables: TableClaim,
    tunnel: Tunnel,
    host: Host,
    watch: NetworkWatch,
    endpoints: Endpoints,
    resolver: Resolver,
    site_dns: SiteDns,
    connection: Option<Connection>,
    attempt: Option<JoinHandle<Result<Connected, ConnectError>>>,
    load: Load,
    traffic: Traffic,
    observed: Observed,
    _status_socket: Option<StatusSocket>,
    /// The reason why there is none.
    socket_problem: Option<String>,
    machine: String,
    public_key: PublicKey,
    began: BootTime,
    /// True if there was ever a connection.
    has_connected: bool,
    /// True if there was a session at the last look.
    was_connected: bool,
    /// True once the log says that the gateway waits to be verified.
    was_awaiting: bool,
    /// True if the service manager knows that the gateway has started.
    is_announced: bool,
    summary: String,
    repeats: Repeats,
    ending: Option<Ending>,
}

/// The event that woke the shell up.
enum Event {
    Stop(Shutdown),
    Timeout,
    Attempt(Result<Connected, ConnectError>),
    Text(String),
    Closed(String),
    Resolved(culvert_policy::DomainName, Resolution),
    /// A client asks.
    Question(Question),
    /// A client's question has its answer.
    Answered(ClientId),
    NetworkChanged,
    EndpointsChanged,
    Load,
    Flows,
    /// It is time to look at the kernel's table, which was perhaps changed by this program.
    Guard(Option<String>),
    Drain,
    Status(StatusRequest),
    Ended(Option<culvert_engine::EngineError>),
}

impl Shell {
    async fn start(settings: Settings, observed: Observed) -> Result<Self, GatewayError> {
        culvert_host::require_tun_device()?;
        culvert_host::require_net_admin()?;
        culvert_host::require_nft()?;
        host::check_forwarding(settings.enable_forwarding)?;
        let state = StateDir::open(&settings.state_dir)?;
        let lock = state.lock()?;
        let tables = TableClaim::take(&settings.routing)?;
        if let Some(confinement) = &settings.confinement {
            confinement.log();
        }
        if let Some(sandbox) = &settings.sandbox {
            sandbox.log();
        }
        let (status_socket, socket_problem) = status_socket(&settings, &observed);
        let identity = Identity::load(&state, settings.id.as_deref())?;
        let key = PrivateKey::from_bytes(*identity.key.expose());
        let public_key = PublicKey::from_bytes(*key.public_key().as_bytes());
        let tunnel = Tunnel::start(&settings, key)?;
        let watch = NetworkWatch::open(WatchOptions {
            own_interfaces: vec![settings.interface.clone()],
            routing: settings.routing,
            destinations: Vec::new(),
            debounce: culvert_host::DEBOUNCE,
        })
        .await?;
        let endpoints = Endpoints::start(settings.public_endpoints.clone());
        let public = endpoints.addresses.borrow().clone();
        let candidates = candidates(public, watch.candidates(), settings.listen_port);
        let options = Options {
            machine: identity.machine.clone(),
            name: settings.name.clone(),
            version: settings.version.clone(),
            public_key,
            ciphers: ciphers(),
        };
        let seed = getrandom::u64()
            .map_err(std::io::Error::other)
            .map_err(GatewayError::system("draw random bytes"))?;
        let now = culvert_engine::boot_time();
        let mut core = Gateway::new(options, candidates, seed, now);
        core.handle_host_addresses(unserved(&settings, &watch), now);
        if let Some(persisted) = grant_journal::read(&state) {
            core.handle_persisted(persisted, culvert_engine::unix_time(), now);
        }
        Ok(Self {
            host: Host::new(&settings)?,
            resolver: Resolver::new(),
            site_dns: SiteDns::new(),
            settings,
            core,
            journal: GrantJournal::start(state)?,
            _lock: lock,
            _tables: tables,
            tunnel,
            watch,
            endpoints,
            connection: None,
            attempt: None,
            load: Load::default(),
            traffic: Traffic::default(),
            observed,
            _status_socket: status_socket,
            socket_problem,
            machine: identity.machine,
            public_key,
            began: now,
            has_connected: false,
            was_connected: false,
            was_awaiting: false,
            is_announced: false,
            summary: String::new(),
            repeats: Repeats::default(),
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
        flows.set_missed_tick_behavior(MissedTickBehavior::Delay);
        load.set_missed_tick_behavior(MissedTickBehavior::Delay);
        guard.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let drain_signal = tokio::signal::unix::SignalKind::user_defined1();
        let mut drain = tokio::signal::unix::signal(drain_signal)
            .map_err(GatewayError::system("wait for a signal"))?;
        self.core.handle_timeout(culvert_engine::boot_time());
        self.carry_out().await?;
        while self.ending.is_none() {
            let wake_up = self.wake_up();
            let event = tokio::select! {
                biased;
                shutdown = &mut stop => Event::Stop(shutdown),
                result = &mut self.tunnel.ended => Event::Ended(result.ok().flatten()),
                text = next_text(&mut self.connection) => text,
                result = finished(&mut self.attempt) => Event::Attempt(result),
                Some((name, said)) = self.resolver.answers.recv() => Event::Resolved(name, said),
                Some(question) = self.site_dns.questions.recv() => Event::Question(question),
                Some(client) = self.site_dns.answered.recv() => Event::Answered(client),
                change = self.watch.changed() => { change?; Event::NetworkChanged }
                Ok(()) = self.endpoints.addresses.changed() => Event::EndpointsChanged,
                request = self.observed.next() => Event::Status(request),
                _ = drain.recv() => Event::Drain,
                by = self.host.heard() => Event::Guard(by),
                _ = guard.tick() => Event::Guard(None),
                _ = load.tick() => Event::Load,
                _ = flows.tick() => Event::Flows,
                () = sleep_until(wake_up) => Event::Timeout,
            };
            if let Some(shutdown) = self.handle(event).await? {
                return Ok(shutdown);
            }
            self.carry_out().await?;
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
            Event::Attempt(Ok(connected)) => {
                let own = culvert_engine::unix_time();
                let epoch = stamp_epoch(connected.portal_time, own, now);
                self.tunnel.stamp_from(epoch)?;
                let portal = connected.portal_time.unwrap_or(own);
                self.connection = Some(connected.connection);
                self.has_connected = true;
                self.core.handle_connected(portal, now);
            }
            Event::Attempt(Err(error)) => {
                self.warn("the portal can't be reached", &error.to_string(), now);
                match error {
                    ConnectError::Unauthorized => {
                        self.core.handle_unauthorized(error.to_string(), now);
                    }
                    error if self.settings.exit_when_unreachable && !self.has_connected => {
                        return Err(GatewayError::Unreachable(error.to_string()));
                    }
                    error => {
                        let retry_after_ms = error.retry_after_ms();
                        let why = error.to_string();
                        self.core.handle_disconnected(why, retry_after_ms, now);
                    }
                }
            }
            Event::Text(text) => self.core.handle_text(&text, now),
            Event::Closed(why) => {
                self.warn("the session with the portal has ended", &why, now);
                self.connection = None;
                self.core.handle_disconnected(why, None, now);
            }
            Event::Resolved(name, said) => self.core.handle_resolved(&name, said, now),
            Event::Question(question) => self.take_question(question, now),
            Event::Answered(client) => self.core.handle_question_answered(client),
            Event::NetworkChanged => {
                let addresses = unserved(&self.settings, &self.watch);
                self.core.handle_host_addresses(addresses, now);
                self.leave_a_lost_address(now);
                self.set_candidates(now);
                self.host.restore().await?;
            }
            Event::EndpointsChanged => self.set_candidates(now),
            Event::Load => {
                // Not every change of them is told, such as that of a bridge for containers.
                let addresses = unserved(&self.settings, &self.watch);
                self.core.handle_host_addresses(addresses, now);
                self.site_dns.try_again(now).await;
                let carried = self.tunnel.carried()?;
                self.traffic.look(&carried, now);
                self.core.handle_load(self.load.next(&carried, now));
                for drop in carried.drops {
                    let what = format!("{} {}", drop.stage, drop.reason);
                    tracing::debug!(what, count = drop.count, "dropped so far");
                }
            }
            Event::Flows => {
                let taken = self.tunnel.take_flows(false)?;
                self.core.handle_flows(taken.records, taken.lost, now);
            }
            Event::Status(request) => {
                // The process that asked may be gone.
                let _unheard = request.answer.send(Ok(self.status()?));
            }
            Event::Guard(by) => {
                let mut is_guarded = self.host.is_guarded(by.as_deref()).await?;
                if !is_guarded {
                    self.core.handle_guard(false, now);
                    self.carry_out().await?;
                    is_guarded = self.host.guard().await?;
                }
                if is_guarded {
                    self.core.handle_guard(true, culvert_engine::boot_time());
                }
            }
            Event::Drain => {
                let on = !self.core.is_draining();
                tracing::info!(on, "drain");
                self.core.handle_drain(on);
            }
        }
        Ok(None)
    }

    /// Gives up a session whose address this machine no longer has: the next one tells the portal at
    /// once where clients may reach the gateway now.
    fn leave_a_lost_address(&mut self, now: BootTime) {
        let lost = |connection: &mut Connection| !connection.has_its_address();
        if self.connection.take_if(lost).is_some() {
            let why = "this machine no longer has the address of the connection";
            self.warn("the session with the portal has ended", why, now);
            self.core.handle_disconnected(why.to_owned(), None, now);
        }
    }

    /// Logs what is wrong with the portal; the same again once a minute.
    fn warn(&mut self, what: &str, why: &str, now: BootTime) {
        let portal = &self.settings.enrolment.portal.url;
        match self.repeats.count(why, now) {
            None => {}
            Some(0) => tracing::warn!(portal, why, "{what}"),
            Some(repeated) => tracing::warn!(portal, why, repeated, "{what}"),
        }
    }

    fn take_question(&mut self, question: Question, now: BootTime) {
        let name = match question.name() {
            Ok(name) => name,
            Err(code) => return question.refuse(code),
        };
        match self.core.handle_question(question.from, &name, now) {
            Ok(client) => {
                let resolver = self.resolver.current();
                self.site_dns.look_up(question, client, resolver);
            }
            Err(NotAsked::NotGranted) => question.refuse(ResponseCode::Refused),
            Err(NotAsked::TooMany) => question.refuse(ResponseCode::ServFail),
        }
    }

    fn set_candidates(&mut self, now: BootTime) {
        let public = self.endpoints.addresses.borrow_and_update().clone();
        let candidates = candidates(public, self.watch.candidates(), self.settings.listen_port);
        self.core.handle_candidates(candidates, now);
    }

    /// The next output of the core. Its log lines are written before.
    fn next_output(&mut self) -> Option<Output> {
        while let Some(line) = self.core.poll_log() {
            write_log(&line);
        }
        self.core.poll_output()
    }

    async fn carry_out(&mut self) -> Result<(), GatewayError> {
        while let Some(output) = self.next_output() {
            match output {
                Output::Connect => {
                    let destination = Destination {
                        portal: self.settings.enrolment.portal.clone(),
                        path: GATEWAY_SESSION_PATH,
                        bearer: self.settings.enrolment.bearer.clone(),
                        mark: Some(self.settings.routing.mark.get()),
                        look_up: |host, port| Box::pin(culvert_host::look_up(host, port)),
                        addresses: None,
                    };
                    let attempt = async move { connect(&destination).await };
                    self.attempt = Some(tokio::spawn(attempt));
                }
                Output::Disconnect => {
                    if let Some(connection) = self.connection.take() {
                        connection.close().await;
                    }
                }
                Output::ToPortal(message) => {
                    if let Some(connection) = &self.connection {
                        // If it has ended, the next event says so.
                        let _ended = connection.sender().send(encode(&message)).await;
                    }
                }
                Output::End(ending) => self.ending = Some(ending),
                Output::Interface(interface) => {
                    let addresses: [IpAddr; 2] = [interface.ipv4.into(), interface.ipv6.into()];
                    let ranges: Vec<_> = self
                        .core
                        .machine_ranges()
                        .into_iter()
                        .filter_map(|range| ipnet::IpNet::new(range.address(), range.len()).ok())
                        .collect();
                    self.host.set_up(addresses, &ranges).await?;
                    if let Some(at) = self.core.site_dns() {
                        let now = culvert_engine::boot_time();
                        self.site_dns.answer_at(at, now).await;
                    }
                }
                Output::Engine { peers, table } => self.tunnel.apply(peers, table)?,
                Output::NamesInUse => self.look_at_names()?,
                Output::Resolve(name) => self.resolver.ask(name),
                Output::Void(grants) => self.journal.void(&grants),
                Output::Persist(persisted) => self.journal.persist(*persisted),
            }
        }
        self.tell();
        Ok(())
    }

    /// Tells the core which names have flows. Those that have ended come along, and are told of as always.
    fn look_at_names(&mut self) -> Result<(), GatewayError> {
        let taken = self.tunnel.take_flows(true)?;
        let (lasting, ended): (Vec<_>, Vec<_>) = taken
            .records
            .into_iter()
            .partition(|flow| flow.ended.is_none());
        let in_use = lasting.iter().map(|flow| (flow.client, flow.visible));
        let in_use = in_use.collect();
        let now = culvert_engine::boot_time();
        self.core.handle_flows(ended, taken.lost, now);
        self.core.handle_names_in_use(&in_use, now);
        Ok(())
    }

    fn wake_up(&self) -> Instant {
        let now = culvert_engine::boot_time();
        let longest = self.observed.longest_rest();
        let due = self.core.poll_timeout();
        let sleep = due.map_or(longest, |due| due.saturating_since(now).min(longest));
        Instant::now() + sleep
    }

    /// Leaves: the portal hears it at once and sends clients elsewhere, then the tunnel goes, then its
    /// guard. For a restart, tunnel and guard stay.
    async fn finish(mut self, shutdown: Shutdown) {
        if tokio::time::timeout(LAST_FLOWS_WAIT, self.tell_last_flows())
            .await
            .is_err()
        {
            tracing::warn!("the portal did not take all flows before the end");
        }
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
        match shutdown {
            Shutdown::ForGood => {
                self.tunnel.stop();
                self.host.remove().await;
            }
            Shutdown::ForRestart => self.tunnel.leave(),
        }
        // A grant that was revoked a moment ago must not come back with the next start.
        if let Some(persisted) = self.core.persisted() {
            self.journal.persist(persisted);
        }
        self.journal.finish().await;
    }
}

impl Shell {
    /// Tells the portal of the flows that end with the gateway, as far as it wants to know.
    async fn tell_last_flows(&mut self) {
        let Ok(taken) = self.tunnel.take_flows(true) else {
            return;
        };
        let now = culvert_engine::boot_time();
        self.core.handle_flows(taken.records, taken.lost, now);
        loop {
            if self.carry_out().await.is_err() || self.core.flows_are_told() {
                return;
            }
            match next_text(&mut self.connection).await {
                Event::Text(text) => {
                    let now = culvert_engine::boot_time();
                    self.core.handle_text(&text, now);
                }
                _ => return,
            }
        }
    }
}

async fn next_text(connection: &mut Option<Connection>) -> Event {
    match connection {
        Some(connection) => match connection.receive().await {
            Ok(text) => Event::Text(text),
            Err(closed) => Event::Closed(closed.to_string()),
        },
        None => std::future::pending().await,
    }
}

async fn finished(
    attempt: &mut Option<JoinHandle<Result<Connected, ConnectError>>>,
) -> Result<Connected, ConnectError> {
    let Some(task) = attempt else {
        return std::future::pending().await;
    };
    let result = task.await;
    *attempt = None;
    result.unwrap_or_else(|error| {
        Err(ConnectError::Local {
            what: "run an attempt to connect",
            source: std::io::Error::other(error),
        })
    })
}

/// The addresses of the gateway for clients: those it was told first, then its own.
/// The addresses of this machine where no client is served.
fn unserved(settings: &Settings, watch: &NetworkWatch) -> BTreeSet<IpAddr> {
    match settings.host_access {
        HostAccess::Deny => watch.all_addresses().clone(),
        HostAccess::Allow => BTreeSet::new(),
    }
}

fn candidates(public: Vec<SocketAddr>, own: Vec<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let own = own
        .into_iter()
        .map(|address| SocketAddr::new(address, port));
    let mut candidates = Vec::new();
    for candidate in public.into_iter().chain(own) {
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    candidates.truncate(culvert_engine::MAX_CANDIDATES);
    candidates
}

/// Suites that this processor does fast.
fn ciphers() -> Vec<Cipher> {
    let mut ciphers = vec![Cipher::ChaCha20Poly1305];
    if Suite::Aes256Gcm.is_fast() {
        ciphers.push(Cipher::Aes256Gcm);
    }
    ciphers
}

/// Opens the socket at which the gateway tells its state. Clients do not depend on it, nor does the
/// gateway: another one of this machine may have the usual path.
fn status_socket(
    settings: &Settings,
    observed: &Observed,
) -> (Option<StatusSocket>, Option<String>) {
    match observed.bind(&settings.status_socket, SCHEMA_VERSION) {
        Ok(socket) => (Some(socket), None),
        Err(error) => {
            let problem = format!("`culvert gateway status` is not answered: {error}");
            tracing::warn!("{problem}");
            (None, Some(problem))
        }
    }
}
