//! A client without packets.

use culvert_base::BootTime;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use culvert_control::{ControlSession, ControlState, HELLO_LIMIT_MS};
use culvert_ids::{GrantId, ResourceId};
use culvert_link::Connection;
use culvert_wire::messages::{FromClient, Sequenced, ToClient, decode_sequenced};
use culvert_wire::{Cipher, Decoded, PROTOCOL, PublicKey, encode};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::dialer::Dialer;

/// The time within which the portal must answer `hello`.
const HELLO_LIMIT: Duration = Duration::from_millis(HELLO_LIMIT_MS);

/// Something happened to a client.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) client: usize,
    pub(super) at: Instant,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// An attempt to connect failed; there will be another.
    Failed(String),
    /// It is welcome, and has access to this.
    Served(ResourceId),
    /// The portal told it something by itself: the kind of the message, and the resource that it is about.
    Told(&'static str, Option<ResourceId>),
    /// Its session is over; it comes back.
    Lost,
    /// The portal does not want it.
    Ended(String),
}

pub(super) struct Client {
    number: usize,
    events: UnboundedSender<Event>,
    bytes: Arc<AtomicU64>,
    start: Instant,
    session: ControlSession,
    random: u64,
    held: BTreeMap<GrantId, ResourceId>,
    requests: u64,
    /// Its place among those that come for the first time.
    place: Option<OwnedSemaphorePermit>,
}

/// Says hello, and hears that it is welcome.
pub(crate) async fn greet(connection: &mut Connection) -> Result<()> {
    let sender = connection.sender();
    sender.send(encode(&hello(0))).await?;
    let text = timeout(HELLO_LIMIT, connection.receive()).await;
    let text = text.context("no welcome came")??;
    match decode_sequenced::<ToClient>(&text)?.message {
        Decoded::Known(ToClient::Welcome { .. }) => Ok(()),
        Decoded::Known(other) => bail!("not welcome: {other:?}"),
        Decoded::Unknown { kind } => bail!("the portal says `{kind}`"),
    }
}

impl Client {
    pub(super) fn new(
        number: usize,
        events: UnboundedSender<Event>,
        bytes: Arc<AtomicU64>,
    ) -> Self {
        Self {
            number,
            events,
            bytes,
            start: Instant::now(),
            session: ControlSession::new(BootTime::ZERO),
            random: number as u64,
            held: BTreeMap::new(),
            requests: 0,
            place: None,
        }
    }

    /// Begins once all may and there is a place for it. It lives until the portal turns it away for good.
    pub(super) async fn live(
        mut self,
        mut dialer: Dialer,
        (mut begun, places): (watch::Receiver<bool>, Arc<Semaphore>),
    ) {
        if begun.wait_for(|begun| *begun).await.is_err() {
            return;
        }
        self.place = places.acquire_owned().await.ok();
        self.start = Instant::now();
        while let Some(due) = self.session.next_timeout() {
            sleep(due.saturating_since(self.now())).await;
            let now = self.now();
            if self.session.begin_attempt(now) {
                self.attempt(&mut dialer).await;
            }
        }
    }

    /// A clock of its own, which begins with it.
    fn now(&self) -> BootTime {
        BootTime::ZERO.saturating_add(self.start.elapsed())
    }

    fn tell(&self, what: What) {
        let (client, at) = (self.number, Instant::now());
        // Without a listener the measurement is already complete.
        let _ = self.events.send(Event { client, at, what });
    }

    async fn attempt(&mut self, dialer: &mut Dialer) {
        let (error, retry_after_ms) = match dialer.connect().await {
            Ok(mut connected) => {
                let portal = connected.portal_time.unwrap_or_default();
                self.session.connected(portal, self.now());
                let (error, wait) = self.converse(&mut connected.connection).await;
                if self.session.is_open() {
                    self.tell(What::Lost);
                }
                (error, wait)
            }
            Err(error) if error.is_unauthorized() => {
                self.session.end(self.now(), error.to_string());
                return self.tell(What::Ended(error.to_string()));
            }
            Err(error) => (error.to_string(), error.retry_after_ms()),
        };
        if *self.session.state() == ControlState::Ended {
            return self.tell(What::Ended(error));
        }
        if !self.session.is_open() {
            self.tell(What::Failed(error.clone()));
        }
        let random = [self.draw(), self.draw()];
        let now = self.now();
        self.session.lost(Some(error), retry_after_ms, random, now);
    }

    /// From hello to the end of the session: why it ended, and when to come back at the earliest.
    async fn converse(&mut self, connection: &mut Connection) -> (String, Option<u64>) {
        match self.hear_all(connection).await {
            Ok(retry_after_s) => ("refused".to_owned(), Some(u64::from(retry_after_s) * 1_000)),
            Err(error) => (format!("{error:#}"), None),
        }
    }

    async fn hear_all(&mut self, connection: &mut Connection) -> Result<u32> {
        let sender = connection.sender();
        sender.send(encode(&hello(self.number))).await?;
        loop {
            let message = self.hear(connection).await?;
            match message {
                ToClient::Welcome {
                    resources, grants, ..
                } => {
                    self.session.open(self.now());
                    self.held.retain(|grant, _| grants.contains(grant));
                    for resource in self.held.values() {
                        self.tell(What::Served(*resource));
                    }
                    if self.held.is_empty() {
                        let first = resources.iter().map(|resource| resource.id).min();
                        let resource = first.context("no resource in welcome")?;
                        sender.send(encode(&self.ask(resource))).await?;
                    }
                }
                ToClient::AccessGranted {
                    grant, resource, ..
                } => {
                    self.held.insert(grant, resource);
                    self.place = None;
                    self.tell(What::Served(resource));
                }
                ToClient::GatewayDraining { .. } | ToClient::EndedAccessSet { .. } => {}
                ToClient::AccessDenied {
                    resource, reason, ..
                } => {
                    // As the real one: not at once again.
                    self.tell(What::Failed(format!("denied: {}", reason.text)));
                    sleep(Duration::from_secs(1)).await;
                    sender.send(encode(&self.ask(resource))).await?;
                }
                ToClient::Refused {
                    reason,
                    retry_after_s,
                } => match retry_after_s {
                    Some(retry_after_s) => return Ok(retry_after_s),
                    None => {
                        self.session.end(self.now(), reason.text.clone());
                        bail!("{}", reason.text);
                    }
                },
                ToClient::AccessRevoked { grant, .. } => {
                    let resource = self.held.remove(&grant);
                    self.tell(What::Told("access_revoked", resource));
                }
                ToClient::GatewayLost { .. } => self.tell(What::Told("gateway_lost", None)),
                ToClient::GatewayMoved { .. } => self.tell(What::Told("gateway_moved", None)),
                ToClient::ResourceSet { resource } => {
                    self.tell(What::Told("resource_set", Some(resource.id)));
                    // Somebody uses it at once.
                    sender.send(encode(&self.ask(resource.id))).await?;
                }
                ToClient::ResourceRemoved { resource } => {
                    self.tell(What::Told("resource_removed", Some(resource)));
                }
                ToClient::DnsSet { .. } => self.tell(What::Told("dns_set", None)),
                ToClient::PortalsSet { .. } => self.tell(What::Told("portals_set", None)),
                ToClient::RelayPlacesSet { .. } | ToClient::RelaysSet { .. } => {
                    self.tell(What::Told("relays_set", None));
                }
                ToClient::Unsupported { kind } => bail!("the portal does not know `{kind}`"),
            }
        }
    }

    async fn hear(&mut self, connection: &mut Connection) -> Result<ToClient> {
        let text = match self.session.is_open() {
            true => connection.receive().await?,
            false => timeout(HELLO_LIMIT, connection.receive())
                .await
                .context("no welcome came")??,
        };
        self.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        let Sequenced {
            epoch,
            seq,
            message,
        } = decode_sequenced::<ToClient>(&text)?;
        self.session.take_place(epoch, seq)?;
        match message {
            Decoded::Known(message) => Ok(message),
            Decoded::Unknown { kind } => bail!("the portal says `{kind}`"),
        }
    }

    fn ask(&mut self, resource: ResourceId) -> FromClient {
        self.requests += 1;
        FromClient::RequestAccess {
            request: self.requests,
            resource,
            names: Vec::new(),
            avoid: Vec::new(),
        }
    }

    /// SplitMix64 of the client's number: another wait for each, the same in every run.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn hello(number: usize) -> FromClient {
    FromClient::Hello {
        protocols: vec![PROTOCOL],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: format!("machine-{number}"),
        name: format!("machine {number}"),
        public_key: key(1, number),
        ciphers: vec![Cipher::Aes256Gcm],
        features: Vec::new(),
        os: None,
    }
}

/// A public key that nobody has the private key of: no packet is sent.
pub(crate) fn key(side: u8, number: usize) -> PublicKey {
    let mut key = [side; 32];
    key[..8].copy_from_slice(&(number as u64).to_le_bytes());
    PublicKey::from_bytes(key)
}
