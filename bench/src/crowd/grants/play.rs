//! The hub, the core of the gateway, and the messages between them and to the clients.

use super::account::{
    self, GATEWAY, GATEWAY_TOKEN, client_id, client_key, gateway_key, resource_id, token_id,
};
use anyhow::{Context, Result, bail, ensure};
use culvert_base::{BootTime, UnixTime};
use culvert_gateway_core::{Gateway, Options, Output as GatewayOutput, append_to_log, begin_log};
use culvert_hub::{ClientJoin, Directory, GatewayJoin, Hub, Output, PortalKeys, SessionId};
use culvert_ids::GrantId;
use culvert_policy::ClientFacts;
use culvert_wire::messages::{FromClient, FromGateway, ToClient};
use culvert_wire::{Cipher, Decoded, Timestamp, decode, encode};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Requests of clients that the hub takes between two answers of the gateway: some of the 1,024 commands that wait for a
/// portal's hub.
const ASKS_AT_ONCE: usize = 64;

/// The session of the gateway; a client's is its number and this.
const FIRST_CLIENT: u64 = 1_000;

pub(super) struct Play {
    hub: Hub,
    gateway: Gateway,
    clients: u32,
    grants: u32,
    batch: usize,
    began: Instant,
    unix_ms: u64,
    /// Time that was let pass besides.
    ahead: Duration,
    sessions: BTreeMap<u32, SessionId>,
    gateway_session: SessionId,
    next_session: u64,
    next_request: u64,
    seq: u64,
    to_hub: VecDeque<(u32, FromClient)>,
    answers: VecDeque<String>,
    to_gateway: VecDeque<String>,
    /// The client and the place of the resource of each request that waits.
    requests: BTreeMap<u64, (u32, u32)>,
    /// The grants that clients were told.
    known: BTreeMap<(u32, u32), GrantId>,
    denied: usize,
    hub_time: Duration,
    gateway_time: Duration,
    log: Vec<u8>,
    log_len: u64,
    log_writes: u64,
    is_connecting: bool,
}

impl Play {
    pub(super) fn new(clients: u32, grants: u32, batch: usize) -> Result<Self> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let unix_ms = u64::try_from(unix.as_millis())?;
        let directory = Directory::new(account::snapshot(clients, grants));
        let keys = PortalKeys::new(&[7; 32], &[8; 32])?;
        let hub = Hub::new(
            directory,
            Box::new(keys),
            &[1; 32],
            Vec::new(),
            BTreeMap::new(),
            Timestamp::from_unix_ms(unix_ms),
        );
        let options = Options {
            machine: "gateway".to_owned(),
            name: "gateway".to_owned(),
            version: "1".to_owned(),
            public_key: gateway_key(),
            ciphers: vec![Cipher::Aes256Gcm],
        };
        let candidates = vec!["192.0.2.1:51820".parse()?];
        let gateway = Gateway::new(options, candidates, [9; 32], BootTime::from_millis(1_000));
        let mut play = Self {
            hub,
            gateway,
            clients,
            grants,
            batch,
            began: Instant::now(),
            unix_ms,
            ahead: Duration::ZERO,
            sessions: BTreeMap::new(),
            gateway_session: SessionId(0),
            next_session: FIRST_CLIENT,
            next_request: 0,
            seq: 0,
            to_hub: VecDeque::new(),
            answers: VecDeque::new(),
            to_gateway: VecDeque::new(),
            requests: BTreeMap::new(),
            known: BTreeMap::new(),
            denied: 0,
            hub_time: Duration::ZERO,
            gateway_time: Duration::ZERO,
            log: Vec::new(),
            log_len: 0,
            log_writes: 0,
            is_connecting: false,
        };
        play.connect_gateway()?;
        Ok(play)
    }

    pub(super) const fn clients(&self) -> u32 {
        self.clients
    }

    pub(super) const fn grants_each(&self) -> u32 {
        self.grants
    }

    pub(super) fn wanted(&self) -> usize {
        (self.clients * self.grants) as usize
    }

    /// Grants in force at the gateway.
    pub(super) fn in_force(&self) -> usize {
        self.gateway.grants().count()
    }

    pub(super) fn timed_out(&self) -> u64 {
        self.hub.status().counters.offers_timed_out
    }

    pub(super) const fn denied(&self) -> usize {
        self.denied
    }

    pub(super) const fn hub_time(&self) -> Duration {
        self.hub_time
    }

    pub(super) const fn gateway_time(&self) -> Duration {
        self.gateway_time
    }

    pub(super) const fn log_len(&self) -> u64 {
        self.log_len
    }

    pub(super) const fn log_writes(&self) -> u64 {
        self.log_writes
    }

    pub(super) const fn reset_times(&mut self) {
        self.hub_time = Duration::ZERO;
        self.gateway_time = Duration::ZERO;
    }

    /// True if nobody waits for anything.
    pub(super) fn is_idle(&self) -> bool {
        self.to_hub.is_empty()
            && self.answers.is_empty()
            && self.to_gateway.is_empty()
            && self.hub.status().asks == 0
    }

    fn boot(&self) -> BootTime {
        BootTime::from_millis(1_000).saturating_add(self.began.elapsed() + self.ahead)
    }

    fn now(&self) -> Timestamp {
        let since = self.began.elapsed() + self.ahead;
        let since_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Timestamp::from_unix_ms(self.unix_ms + since_ms)
    }

    /// Every client comes.
    pub(super) fn join_all(&mut self) -> Result<Duration> {
        let began = Instant::now();
        for number in 0..self.clients {
            self.join(number);
        }
        self.deliver()?;
        Ok(began.elapsed())
    }

    fn join(&mut self, number: u32) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        self.sessions.insert(number, session);
        let join = ClientJoin {
            client: client_id(number),
            token: token_id(number),
            public_key: client_key(number),
            ciphers: vec![Cipher::Aes256Gcm],
            seen: ClientFacts::default(),
            features: Vec::new(),
        };
        let now = self.now();
        self.in_hub(|hub| hub.handle_client_joined(session, join, now));
    }

    /// Every client asks for everything.
    pub(super) fn ask_all(&mut self) {
        for place in 0..self.grants {
            for number in 0..self.clients {
                self.ask(number, place);
            }
        }
    }

    fn ask(&mut self, client: u32, place: u32) {
        let request = self.next_request;
        self.next_request += 1;
        self.requests.insert(request, (client, place));
        let message = FromClient::RequestAccess {
            request,
            resource: resource_id(client, place, self.grants),
            names: Vec::new(),
            avoid: Vec::new(),
        };
        self.to_hub.push_back((client, message));
    }

    /// Goes on until that is so.
    pub(super) fn run_until(&mut self, is_done: impl Fn(&Self) -> bool) -> Result<()> {
        let limit = Instant::now() + Duration::from_secs(120);
        while !is_done(self) {
            ensure!(Instant::now() < limit, "it does not come to an end");
            self.turn()?;
        }
        Ok(())
    }

    /// Some requests and all answers go to the hub, and what comes out to the gateway.
    fn turn(&mut self) -> Result<()> {
        for _ in 0..ASKS_AT_ONCE {
            let Some((client, message)) = self.to_hub.pop_front() else {
                break;
            };
            let Some(session) = self.sessions.get(&client).copied() else {
                continue;
            };
            let now = self.now();
            self.in_hub(|hub| hub.handle_client_message(session, message, now));
        }
        let now = self.now();
        if self.hub.poll_timeout().is_some_and(|at| at <= now) {
            self.in_hub(|hub| hub.handle_timeout(now));
        }
        self.deliver()
    }

    /// Passes messages on until none is left but requests of clients.
    fn deliver(&mut self) -> Result<()> {
        loop {
            self.gateway_turn()?;
            let Some(text) = self.answers.pop_front() else {
                if self.to_gateway.is_empty() && self.gateway.waiting_grants() == 0 {
                    return Ok(());
                }
                continue;
            };
            self.answer(&text)?;
            while let Some(text) = self.answers.pop_front() {
                self.answer(&text)?;
            }
        }
    }

    fn answer(&mut self, text: &str) -> Result<()> {
        let began = Instant::now();
        let message = match decode::<FromGateway>(text)? {
            Decoded::Known(message) => message,
            Decoded::Unknown { kind } => bail!("a message of kind {kind}"),
        };
        self.hub_time += began.elapsed();
        let (session, now) = (self.gateway_session, self.now());
        match message {
            FromGateway::Hello {
                public_key,
                ciphers,
                candidates,
                draining,
                grants,
                more_grants,
                features,
                ..
            } => {
                let join = GatewayJoin {
                    gateway: GATEWAY,
                    token: GATEWAY_TOKEN,
                    public_key,
                    ciphers,
                    candidates,
                    draining,
                    grants,
                    more_grants,
                    features,
                };
                self.in_hub(|hub| hub.handle_gateway_joined(session, join, now));
            }
            message => self.in_hub(|hub| hub.handle_gateway_message(session, message, now)),
        }
        Ok(())
    }

    /// Lets the hub do something, and takes what comes out.
    fn in_hub(&mut self, event: impl FnOnce(&mut Hub)) {
        let began = Instant::now();
        event(&mut self.hub);
        let mut told = Vec::new();
        while let Some(output) = self.hub.poll_output() {
            match output {
                Output::ToGateway { session, message } if session == self.gateway_session => {
                    self.to_gateway.push_back(encode(&message));
                }
                Output::ToClient { message, .. } => {
                    // As the session does it.
                    drop(encode(&message));
                    told.push(message.message);
                }
                Output::ToGateway { .. }
                | Output::ToRelay { .. }
                | Output::Close { .. }
                | Output::SaveGrants(_)
                | Output::EndGrants(_)
                | Output::Seen(_)
                | Output::AccessLog(_)
                | Output::Flows { .. }
                | Output::Traffic { .. } => {}
            }
        }
        while self.hub.poll_log().is_some() {}
        self.hub_time += began.elapsed();
        for message in told {
            match message {
                ToClient::AccessGranted { request, grant, .. } => {
                    if let Some(pair) = self.requests.remove(&request) {
                        self.known.insert(pair, grant);
                    }
                }
                ToClient::AccessDenied { request, .. } => {
                    self.requests.remove(&request);
                    self.denied += 1;
                }
                _ => {}
            }
        }
    }

    /// The gateway takes some messages, then what follows is carried out.
    fn gateway_turn(&mut self) -> Result<()> {
        let began = Instant::now();
        let now = self.boot();
        for _ in 0..self.batch {
            let Some(text) = self.to_gateway.pop_front() else {
                break;
            };
            self.gateway.take_text(&text, now);
        }
        self.gateway.finish_texts(now);
        if self.gateway.poll_timeout().is_some_and(|at| at <= now) {
            self.gateway.handle_timeout(now);
        }
        self.execute()?;
        self.gateway_time += began.elapsed();
        if std::mem::take(&mut self.is_connecting) {
            self.open_connection()?;
        }
        Ok(())
    }

    fn execute(&mut self) -> Result<()> {
        while self.gateway.poll_log().is_some() {}
        while let Some(output) = self.gateway.poll_output() {
            match output {
                GatewayOutput::ToPortal(message) => self.answers.push_back(encode(&message)),
                GatewayOutput::Persist(changes) => {
                    let before = self.log.len();
                    match changes.is_whole {
                        true => self.log = begin_log(1, &changes).0,
                        false => drop(append_to_log(&mut self.log, &changes)),
                    }
                    self.log_len += self.log.len().saturating_sub(before) as u64;
                    self.log_writes += 1;
                }
                GatewayOutput::Connect => self.is_connecting = true,
                GatewayOutput::End(ending) => bail!("the gateway ends: {ending}"),
                GatewayOutput::Disconnect => bail!(
                    "the gateway breaks off: {}",
                    self.gateway.last_error().unwrap_or("for no reason")
                ),
                _ => {}
            }
        }
        Ok(())
    }

    /// The gateway's next connection.
    fn open_connection(&mut self) -> Result<()> {
        self.gateway_session = SessionId(self.gateway_session.0 + 1);
        self.to_gateway.clear();
        self.answers.clear();
        let unix = UnixTime::from_millis(self.now().unix_ms());
        self.gateway.handle_connected(unix, self.boot());
        self.execute()
    }

    fn connect_gateway(&mut self) -> Result<()> {
        let now = self.boot();
        self.gateway.handle_timeout(now);
        self.gateway_turn()?;
        self.deliver()?;
        ensure!(self.gateway.is_connected(), "the gateway is not welcome");
        Ok(())
    }

    /// The gateway's connection breaks, and its next one follows.
    pub(super) fn reconnect_gateway(&mut self) -> Result<()> {
        let (session, now) = (self.gateway_session, self.now());
        self.in_hub(|hub| hub.handle_interrupted(session, now));
        let now = self.boot();
        self.gateway
            .handle_disconnected("cut".to_owned(), None, now);
        self.execute()?;
        let due = self
            .gateway
            .poll_timeout()
            .context("it does not try again")?;
        self.ahead += due.saturating_since(now);
        while !self.gateway.is_connected() {
            self.ahead += Duration::from_millis(10);
            self.connect_gateway_once()?;
        }
        Ok(())
    }

    fn connect_gateway_once(&mut self) -> Result<()> {
        self.gateway.handle_timeout(self.boot());
        self.gateway_turn()?;
        self.deliver()
    }

    /// A client asks for the first of its resources, which it has or has given back.
    pub(super) fn renew(&mut self, number: u32) -> Result<()> {
        self.ask(number, 0);
        self.run_until(Self::is_idle)
    }

    pub(super) fn release(&mut self, number: u32) -> Result<()> {
        let grant = self.known.remove(&(number, 0));
        let grant = grant.context("a client has no grant to give back")?;
        self.to_hub
            .push_back((number, FromClient::ReleaseAccess { grant }));
        self.run_until(Self::is_idle)
    }

    pub(super) fn rejoin(&mut self, number: u32) -> Result<()> {
        if let Some(session) = self.sessions.remove(&number) {
            let now = self.now();
            self.in_hub(|hub| hub.handle_left(session, now));
        }
        self.join(number);
        self.deliver()
    }

    /// An administrator revokes a client. Returns the time until the gateway lets nothing of it pass.
    pub(super) fn revoke(&mut self, number: u32) -> Result<Duration> {
        let began = Instant::now();
        let mut row = account::client(number);
        row.revoked = Some(self.now());
        self.seq += 1;
        let (change, now) = (account::change(self.seq, row, self.now()), self.now());
        let mut result = Ok(());
        self.in_hub(|hub| result = hub.handle_changes(&[change], now));
        result?;
        self.sessions.remove(&number);
        while !self.to_gateway.is_empty() {
            self.gateway_turn()?;
        }
        let took = began.elapsed();
        self.deliver()?;
        let own = self.known.range((number, 0)..(number + 1, 0));
        let own: Vec<GrantId> = own.map(|(_, grant)| *grant).collect();
        let is_left = self.gateway.grants().any(|grant| own.contains(&grant));
        ensure!(!is_left, "a grant of client {number} is still in force");
        Ok(took)
    }

    /// A client's token is another one: its expiry is far off.
    pub(super) fn edit_token(&mut self, number: u32) -> Result<()> {
        let mut row = account::token(number);
        row.expires = Some(Timestamp::from_unix_ms(self.unix_ms + 1_000_000_000));
        self.seq += 1;
        let (change, now) = (account::change(self.seq, row, self.now()), self.now());
        let mut result = Ok(());
        self.in_hub(|hub| result = hub.handle_changes(&[change], now));
        result?;
        self.run_until(Self::is_idle)
    }

    /// Lets time pass.
    pub(super) fn pass(&mut self, span: Duration) -> Result<()> {
        self.ahead += span;
        self.turn()
    }

    /// The gateway is woken up although nothing is due.
    pub(super) fn tick(&mut self) {
        let began = Instant::now();
        self.gateway.handle_timeout(self.boot());
        let _due = self.gateway.poll_timeout();
        self.gateway_time += began.elapsed();
    }
}
