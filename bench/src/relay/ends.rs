//! Ends of a relay: registered, each with a socket.

use anyhow::{Context, Result, ensure};
use culvert_base::{BootTime, Destination, Family, PresharedKey, PublicKey};
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_relay_core::Registration;
use culvert_relay_core::registration::{Output, Permission};
use culvert_udp::{ReceiveBatch, Socket};
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayClaims;
use pasetors::keys::SymmetricKey;
use pasetors::version4::{LocalToken, V4};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(super) const RELAY: RelayId = RelayId::from_bytes([1; 16]);

/// The key of the relay's tokens.
pub(super) const PORTAL_KEY: [u8; 32] = [42; 32];

/// The limit for a registration, on a machine that is busy with something else too.
const SOON: Duration = Duration::from_secs(10);

/// An end that is registered.
pub(super) struct End {
    pub(super) socket: Socket,
    pub(super) relay: Destination,
}

/// A token and its key, for a client (or, with `None`, the gateway) at one port.
pub(super) fn permission(port: u16, client: Option<u32>) -> Result<Permission> {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&client.unwrap_or(u32::MAX).to_be_bytes());
    let mut key = [7; 32];
    key[..16].copy_from_slice(&id);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let unix_ms = u64::try_from(now.as_millis())?;
    let claims = RelayClaims {
        relay: RELAY,
        port,
        gateway: GatewayId::from_bytes([port.to_be_bytes()[1]; 16]),
        client: client.map(|_| ClientId::from_bytes(id)),
        public_key: PublicKey::from_bytes(key),
        key: PresharedKey::from_bytes(key),
        rate_bytes_per_s: u64::MAX,
        iat: Timestamp::from_unix_ms(unix_ms),
        exp: Timestamp::from_unix_ms(unix_ms + 3_600_000),
    };
    let portal = SymmetricKey::<V4>::from(&PORTAL_KEY)
        .ok()
        .context("a key has 32 bytes")?;
    let payload = serde_json::to_vec(&claims)?;
    let token = LocalToken::encrypt(&portal, &payload, None, None);
    Ok(Permission {
        token: token.ok().context("no token was made")?,
        key: claims.key,
    })
}

impl End {
    /// Registers a client, or with `None` the gateway.
    pub(super) fn register(relay: SocketAddr, client: Option<u32>) -> Result<Self> {
        let socket = Socket::bind(Family::V4, 0, 0)?;
        Self::register_from(socket, relay, relay.port(), client)
    }

    /// The same from a given socket, with the relay's gateway port at another address.
    pub(super) fn register_from(
        socket: Socket,
        relay: SocketAddr,
        gateway_port: u16,
        client: Option<u32>,
    ) -> Result<Self> {
        let began = Instant::now();
        let now = || BootTime::ZERO.saturating_add(began.elapsed());
        let seed = [client.unwrap_or(0) as u8; 32];
        let permission = permission(gateway_port, client)?;
        let mut registration = Registration::new(&[relay], permission, seed, now());
        let end = Self {
            socket,
            relay: Destination {
                address: relay,
                source: None,
            },
        };
        let mut batch = ReceiveBatch::new(1);
        while registration.relay().is_none() {
            ensure!(began.elapsed() < SOON, "the relay does not register an end");
            registration.handle_timeout(now());
            while let Some(output) = registration.poll_output() {
                match output {
                    Output::Send { datagram, .. } => end.send(datagram.as_bytes(), usize::MAX)?,
                    Output::Refused(reason) => anyhow::bail!("the relay refuses an end: {reason}"),
                    _ => {}
                }
            }
            end.socket.receive_batch(&mut batch)?;
            for run in batch.iter_mut() {
                registration.handle_datagram(run.source, run.bytes, now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(end)
    }

    /// Sends to the relay.
    pub(super) fn send(&self, datagrams: &[u8], stride: usize) -> Result<()> {
        let stride = stride.min(datagrams.len());
        Ok(self.socket.send(datagrams, stride, &self.relay, 0)?)
    }
}

/// A record of WireGuard's data for the owner of an index.
pub(super) fn record(kind: u8, number: u32, len: usize) -> Vec<u8> {
    let mut record = vec![0xee; len];
    record[..4].copy_from_slice(&[kind, 0, 0, 0]);
    record[4..8].copy_from_slice(&number.to_le_bytes());
    record
}
