//! A gateway without packets: it takes every grant that it is given.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::GrantId;
use culvert_link::{Connection, Destination, connect};
use culvert_wire::messages::{FromGateway, ToGateway, decode_sequenced};
use culvert_wire::{Cipher, Decoded, GATEWAY_SESSION_PATH, GrantClaims, PROTOCOL, encode};
use tokio::sync::oneshot;
use tokio::time::sleep;

/// The first wait of the real one.
const COME_BACK: Duration = Duration::from_secs(1);

/// Ends of a token: what it begins with, and the bytes of its signature.
const TOKEN_HEADER: &str = "v4.public.";
const SIGNATURE_LEN: usize = 64;

/// A gateway that runs for as long as the benchmark does.
pub(super) struct Gateway {
    messages: Arc<AtomicU64>,
}

impl Gateway {
    /// Connects, and returns once it is welcome.
    pub(super) async fn start(mut destination: Destination) -> Result<Self> {
        destination.path = GATEWAY_SESSION_PATH;
        let messages = Arc::new(AtomicU64::new(0));
        let (welcome, welcomed) = oneshot::channel();
        let mut life = Life {
            messages: Arc::clone(&messages),
            grants: BTreeSet::new(),
            welcome: Some(welcome),
        };
        tokio::spawn(async move {
            loop {
                if let Ok(mut connected) = connect(&destination).await {
                    // It ends with the portal, which the clients notice too.
                    let _ended = life.converse(&mut connected.connection).await;
                }
                sleep(COME_BACK).await;
            }
        });
        welcomed.await.context("the gateway is not welcome")?;
        Ok(Self { messages })
    }

    /// Messages that it has heard.
    pub(super) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }
}

struct Life {
    messages: Arc<AtomicU64>,
    grants: BTreeSet<GrantId>,
    welcome: Option<oneshot::Sender<()>>,
}

impl Life {
    async fn converse(&mut self, connection: &mut Connection) -> Result<()> {
        let sender = connection.sender();
        sender.send(encode(&self.hello()?)).await?;
        loop {
            let text = connection.receive().await?;
            self.messages.fetch_add(1, Ordering::Relaxed);
            let Decoded::Known(message) = decode_sequenced::<ToGateway>(&text)?.message else {
                continue;
            };
            match message {
                ToGateway::Welcome { grants, .. } => {
                    self.grants = grants.into_iter().collect();
                    if let Some(welcome) = self.welcome.take() {
                        let _ = welcome.send(());
                    }
                }
                ToGateway::Grant {
                    token, replaces, ..
                } => {
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
                }
                _ => {}
            }
        }
    }

    fn hello(&self) -> Result<FromGateway> {
        Ok(FromGateway::Hello {
            protocols: vec![PROTOCOL],
            version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: "gateway".to_owned(),
            name: "gateway".to_owned(),
            public_key: super::client::key(2, 0),
            ciphers: vec![Cipher::Aes256Gcm],
            candidates: vec!["192.0.2.1:51820".parse()?],
            draining: false,
            grants: self.grants.iter().copied().collect(),
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
