//! A gateway without packets: it takes every grant that it is given.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::GrantId;
use culvert_link::Connection;
use culvert_wire::messages::{FromGateway, ToGateway, decode_sequenced};
use culvert_wire::{Cipher, Decoded, GrantClaims, PROTOCOL, encode};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::dialer::Dialer;

/// The first wait of the real one, without its random part, and the longest random part.
const COME_BACK: Duration = Duration::from_secs(1);
const SPREAD_MS: u64 = 1_000;

/// Ends of a token: what it begins with, and the bytes of its signature.
const TOKEN_HEADER: &str = "v4.public.";
const SIGNATURE_LEN: usize = 64;

/// Something happened to a gateway.
#[derive(Debug)]
pub(super) struct GatewayEvent {
    pub(super) gateway: usize,
    pub(super) at: Instant,
    pub(super) what: Heard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Welcome,
    /// Its session is over; it comes back.
    Lost,
    Revoke(GrantId),
    /// Anything else.
    Other,
}

/// A gateway that runs for as long as the benchmark does.
struct Gateway {
    number: usize,
    events: UnboundedSender<GatewayEvent>,
    grants: BTreeSet<GrantId>,
}

/// Connects, again and again.
pub(super) async fn live(number: usize, mut dialer: Dialer, events: UnboundedSender<GatewayEvent>) {
    let mut gateway = Gateway {
        number,
        events,
        grants: BTreeSet::new(),
    };
    // Prime to the spread, so that no two of some hundred wait equally long.
    let wait = COME_BACK + Duration::from_millis(number as u64 * 101 % SPREAD_MS);
    loop {
        if let Ok(mut connected) = dialer.connect().await {
            // It ends with the portal, which the clients notice too.
            let _ended = gateway.converse(&mut connected.connection).await;
            gateway.tell(Heard::Lost);
        }
        sleep(wait).await;
    }
}

impl Gateway {
    fn tell(&self, what: Heard) {
        let (gateway, at) = (self.number, Instant::now());
        // Without a listener the measurement is already complete.
        let _ = self.events.send(GatewayEvent { gateway, at, what });
    }

    async fn converse(&mut self, connection: &mut Connection) -> Result<()> {
        let sender = connection.sender();
        sender.send(encode(&self.hello()?)).await?;
        loop {
            let text = connection.receive().await?;
            let Decoded::Known(message) = decode_sequenced::<ToGateway>(&text)?.message else {
                self.tell(Heard::Other);
                continue;
            };
            match message {
                ToGateway::Welcome { grants, .. } => {
                    self.grants = grants.into_iter().collect();
                    self.tell(Heard::Welcome);
                }
                ToGateway::Grant {
                    token, replaces, ..
                } => {
                    self.tell(Heard::Other);
                    let grant = claims(&token).context("a grant's token")?.grant;
                    if let Some(replaced) = replaces {
                        self.grants.remove(&replaced);
                    }
                    self.grants.insert(grant);
                    let names = Vec::new();
                    sender
                        .send(encode(&FromGateway::GrantAccepted { grant, names }))
                        .await?;
                }
                ToGateway::Revoke { grant } => {
                    self.grants.remove(&grant);
                    self.tell(Heard::Revoke(grant));
                }
                _ => self.tell(Heard::Other),
            }
        }
    }

    fn hello(&self) -> Result<FromGateway> {
        Ok(FromGateway::Hello {
            protocols: vec![PROTOCOL],
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: format!("gateway-{}", self.number),
            name: format!("gateway {}", self.number),
            public_key: super::client::key(2, self.number),
            ciphers: vec![Cipher::Aes256Gcm],
            candidates: vec!["192.0.2.1:51820".parse()?],
            draining: false,
            grants: self.grants.iter().copied().collect(),
            more_grants: false,
            features: Vec::new(),
        })
    }
}

/// The claims of a grant. Its signature is for gateways that let packets through.
fn claims(token: &str) -> Option<GrantClaims> {
    let bytes = URL_SAFE_NO_PAD
        .decode(token.strip_prefix(TOKEN_HEADER)?)
        .ok()?;
    let payload = bytes.get(..bytes.len().checked_sub(SIGNATURE_LEN)?)?;
    serde_json::from_slice(payload).ok()
}
