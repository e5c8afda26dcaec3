//! A client without packets, as far as its control session goes: it wants all its resources at once.

use crate::portal::client::key;
use crate::portal::dialer::Dialer;
use anyhow::{Context, Result, bail};
use culvert_control::HELLO_LIMIT_MS;
use culvert_ids::{ClientId, ResourceId};
use culvert_link::Connection;
use culvert_wire::messages::{FromClient, ToClient, decode_sequenced};
use culvert_wire::{Cipher, Decoded, PROTOCOL, encode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

const HELLO_LIMIT: Duration = Duration::from_millis(HELLO_LIMIT_MS);

/// The wait after an attempt that failed, and after a denial: the shortest of the real one.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Something happened to a member.
pub(super) struct Event {
    pub(super) member: usize,
    pub(super) at: Instant,
    pub(super) what: What,
}

pub(super) enum What {
    /// It has a session, and may use so many resources.
    Welcome(ClientId, usize),
    Granted,
    Denied(String),
    /// The attempt or the session ended; it tries again.
    Lost(String),
}

/// A member, and the rest of the world for it.
pub(super) struct Member {
    pub(super) number: usize,
    pub(super) events: UnboundedSender<Event>,
    /// Members that are on their way at a time.
    pub(super) places: Arc<Semaphore>,
    /// True once all may ask.
    pub(super) asks: watch::Receiver<bool>,
}

impl Member {
    /// Connects until a session comes about, and lives until that ends.
    pub(super) async fn live(mut self, mut dialer: Dialer) {
        loop {
            let place = Arc::clone(&self.places).acquire_owned().await.ok();
            let ended = match dialer.connect().await {
                Ok(mut connected) => match self.greet(&mut connected.connection).await {
                    Ok(resources) => {
                        drop(place);
                        self.converse(&mut connected.connection, &resources).await
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error.into()),
            };
            let why = ended
                .err()
                .map_or_else(String::new, |error| format!("{error:#}"));
            self.tell(What::Lost(why));
            sleep(AGAIN_AFTER).await;
        }
    }

    fn tell(&self, what: What) {
        let (member, at) = (self.number, Instant::now());
        // Without a listener the measurement is already complete.
        let _ = self.events.send(Event { member, at, what });
    }

    async fn greet(&self, connection: &mut Connection) -> Result<Vec<ResourceId>> {
        let sender = connection.sender();
        sender.send(encode(&hello(self.number))).await?;
        let text = timeout(HELLO_LIMIT, connection.receive()).await;
        let text = text.context("no welcome came")??;
        match decode_sequenced::<ToClient>(&text)?.message {
            Decoded::Known(ToClient::Welcome {
                client, resources, ..
            }) => {
                self.tell(What::Welcome(client, resources.len()));
                Ok(resources.iter().map(|resource| resource.id).collect())
            }
            Decoded::Known(other) => bail!("not welcome: {other:?}"),
            Decoded::Unknown { kind } => bail!("the portal says `{kind}`"),
        }
    }

    async fn converse(
        &mut self,
        connection: &mut Connection,
        resources: &[ResourceId],
    ) -> Result<()> {
        let sender = connection.sender();
        let mut has_asked = false;
        let mut requests = 0;
        loop {
            let text = tokio::select! {
                may = may_ask(&mut self.asks), if !has_asked => {
                    may?;
                    has_asked = true;
                    for resource in resources {
                        requests += 1;
                        sender.send(encode(&ask(requests, *resource))).await?;
                    }
                    continue;
                }
                text = connection.receive() => text?,
            };
            let Decoded::Known(message) = decode_sequenced::<ToClient>(&text)?.message else {
                continue;
            };
            match message {
                ToClient::AccessGranted { .. } => self.tell(What::Granted),
                ToClient::AccessDenied {
                    resource, reason, ..
                } => {
                    self.tell(What::Denied(reason.text));
                    sleep(AGAIN_AFTER).await;
                    requests += 1;
                    sender.send(encode(&ask(requests, resource))).await?;
                }
                ToClient::Refused { reason, .. } => bail!("{}", reason.text),
                _ => {}
            }
        }
    }
}

/// Returns once all may ask.
async fn may_ask(asks: &mut watch::Receiver<bool>) -> Result<()> {
    let may = asks.wait_for(|asks| *asks).await;
    may.map(drop).context("nobody will say that it may ask")
}

/// The name under which the portal knows a member.
fn name(number: usize) -> String {
    format!("machine-{number}")
}

fn ask(request: u64, resource: ResourceId) -> FromClient {
    FromClient::RequestAccess {
        request,
        resource,
        names: Vec::new(),
        avoid: Vec::new(),
    }
}

fn hello(number: usize) -> FromClient {
    FromClient::Hello {
        protocols: vec![PROTOCOL],
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: name(number),
        name: name(number),
        public_key: key(1, number),
        ciphers: vec![Cipher::Aes256Gcm],
        features: Vec::new(),
        os: None,
    }
}
