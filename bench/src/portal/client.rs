//! A client without packets.

use culvert_base::BootTime;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use culvert_control::{ControlSession, ControlState, HELLO_LIMIT_MS};
use culvert_ids::{GrantId, ResourceId};
use culvert_link::{Connection, Destination, connect};
use culvert_wire::messages::{FromClient, Sequenced, ToClient, decode_sequenced};
use culvert_wire::{Cipher, Decoded, PROTOCOL, PublicKey, encode};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

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
    /// The portal told it something by itself: the kind of the message.
    Told(&'static str),
    /// Its session is over; it comes back.
    Lost,
    /// The portal does not want it.
    Ended(String),
}

struct Client {
    number: usize,
    events: UnboundedSender<Event>,
    bytes: Arc<AtomicU64>,
    start: Instant,
    session: ControlSession,
    random: u64,
    held: Option<(GrantId, ResourceId)>,
    requests: u64,
}

/// Lives until the portal turns it away for good.
pub(super) async fn live(
    number: usize,
    destination: Destination,
    events: UnboundedSender<Event>,
    bytes: Arc<AtomicU64>,
    mut begun: watch::Receiver<bool>,
) {
    if begun.wait_for(|begun| *begun).await.is_err() {
        return;
    }
    let mut client = Client {
        number,
        events,
        bytes,
        start: Instant::now(),
        session: ControlSession::new(BootTime::ZERO),
        random: number as u64,
        held: None,
        requests: 0,
    };
    while let Some(due) = client.session.next_timeout() {
        sleep(due.saturating_since(client.now())).await;
        let now = client.now();
        if client.session.begin_attempt(now) {
            client.attempt(&destination).await;
        }
    }
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
    /// A clock of its own, which begins with it.
    fn now(&self) -> BootTime {
        BootTime::ZERO.saturating_add(self.start.elapsed())
    }

    fn tell(&self, what: What) {
        let (client, at) = (self.number, Instant::now());
        // Without a listener the measurement is already complete.
        let _ = self.events.send(Event { client, at, what });
    }

    async fn attempt(&mut self, destination: &Destination) {
        let (error, retry_after_ms) = match connect(destination).await {
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
                    match self.held {
                        Some((grant, resource)) if grants.contains(&grant) => {
                            self.tell(What::Served(resource));
                        }
                        _ => {
                            let first = resources.iter().map(|resource| resource.id).min();
                            let resource = first.context("no resource in welcome")?;
                            sender.send(encode(&self.ask(resource))).await?;
                        }
                    }
                }
                ToClient::AccessGranted {
                    grant, resource, ..
                } => {
                    self.held = Some((grant, resource));
                    self.tell(What::Served(resource));
                }
                ToClient::GatewayDraining { .. } => {}
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
                    self.held = self.held.filter(|(held, _)| *held != grant);
                    self.tell(What::Told("access_revoked"));
                }
                ToClient::GatewayLost { .. } => self.tell(What::Told("gateway_lost")),
                ToClient::GatewayMoved { .. } => self.tell(What::Told("gateway_moved")),
                ToClient::ResourceSet { .. } => self.tell(What::Told("resource_set")),
                ToClient::ResourceRemoved { .. } => self.tell(What::Told("resource_removed")),
                ToClient::DnsSet { .. } => self.tell(What::Told("dns_set")),
                ToClient::PortalsSet { .. } => self.tell(What::Told("portals_set")),
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
pub(super) fn key(side: u8, number: usize) -> PublicKey {
    let mut key = [side; 32];
    key[..8].copy_from_slice(&(number as u64).to_le_bytes());
    PublicKey::from_bytes(key)
}
