//! A relay, and what its ends and its portal say to it.

use culvert_base::{BootTime, PresharedKey, PublicKey, UnixTime};
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_relay_core::message::{
    Ask, Message, REGISTER_MAX_LEN, Refresh, RefusalReason, Register, Transaction,
};
use culvert_relay_core::relay::{Now, Relay, RelaySettings, Run};
use culvert_relay_core::{SharedBudget, mac::Mac};
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayClaims;
use pasetors::keys::SymmetricKey;
use pasetors::version4::{LocalToken, V4};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The first gateway port.
pub(crate) const PORT: u16 = 3479;

/// The portal's key of tokens.
pub(crate) const PORTAL_KEY: [u8; 32] = [42; 32];

pub(crate) const RELAY: RelayId = RelayId::from_bytes([1; 16]);
pub(crate) const GATEWAY: GatewayId = GatewayId::from_bytes([2; 16]);

/// The address of the gateway, as the relay sees it.
pub(crate) fn gateway_at() -> SocketAddr {
    "192.0.2.1:51820".parse().unwrap()
}

/// The address of a client, as the relay sees it.
pub(crate) fn client_at(number: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, number], 40_000))
}

pub(crate) fn client(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

pub(crate) fn public_key(client: Option<ClientId>) -> PublicKey {
    let byte = client.map_or(0, |client| client.as_bytes()[0]);
    PublicKey::from_bytes([byte; 32])
}

pub(crate) struct World {
    pub(crate) relay: Relay,
    pub(crate) now: Now,
    transactions: u64,
}

/// A datagram of the relay, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn settings() -> RelaySettings {
    RelaySettings {
        ports: vec![PORT, PORT + 1],
        clients_per_port: 16,
        workers: NonZeroU32::MIN,
        seed: [9; 32],
        total: Arc::new(SharedBudget::new(None)),
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(settings())
    }

    pub(crate) fn with(settings: RelaySettings) -> Self {
        let mut relay = Relay::new(settings);
        relay.set_identity(RELAY, &PresharedKey::from_bytes(PORTAL_KEY));
        let now = Now {
            boot: BootTime::from_millis(1_000_000),
            unix: UnixTime::from_millis(1_700_000_000_000),
        };
        Self {
            relay,
            now,
            transactions: 0,
        }
    }

    /// Both clocks go on, and the relay sees it.
    pub(crate) fn pass(&mut self, span: Duration) {
        self.now.boot = self.now.boot.saturating_add(span);
        self.now.unix = self.now.unix.saturating_add(span);
        self.relay.handle_timeout(self.now);
    }

    pub(crate) fn claims(&self, client: Option<ClientId>) -> RelayClaims {
        let byte = client.map_or(100, |client| client.as_bytes()[0]);
        RelayClaims {
            relay: RELAY,
            port: PORT,
            gateway: GATEWAY,
            client,
            public_key: public_key(client),
            key: PresharedKey::from_bytes([byte; 32]),
            rate_bytes_per_s: 1 << 40,
            iat: Timestamp::from(self.now.unix),
            exp: Timestamp::from(self.now.unix.saturating_add(Duration::from_secs(3_600))),
        }
    }

    pub(crate) fn transaction(&mut self) -> Transaction {
        self.transactions += 1;
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&self.transactions.to_be_bytes());
        Transaction(bytes)
    }

    /// A batch comes to the first gateway port.
    pub(crate) fn receive(&mut self, source: SocketAddr, bytes: &[u8], stride: usize) -> Vec<Sent> {
        self.receive_at(0, source, bytes, stride)
    }

    /// A batch comes to the gateway port at this place. Forwarded datagrams come first, then answers.
    pub(crate) fn receive_at(
        &mut self,
        port: usize,
        source: SocketAddr,
        bytes: &[u8],
        stride: usize,
    ) -> Vec<Sent> {
        let run = Run {
            source,
            local: None,
            bytes,
            stride,
        };
        let decisions = self.relay.handle_run(port, &run, self.now);
        let sends = decisions.sends.iter().map(|send| Sent {
            to: send.to.address,
            bytes: bytes[send.start..send.end].to_vec(),
        });
        let replies = decisions.replies.iter().map(|reply| Sent {
            to: source,
            bytes: reply.datagram().to_vec(),
        });
        sends.chain(replies).collect()
    }

    pub(crate) fn one(&mut self, source: SocketAddr, datagram: &[u8]) -> Vec<Sent> {
        self.receive(source, datagram, datagram.len().max(1))
    }

    /// The cookie that the first port gives an address.
    pub(crate) fn cookie(&mut self, source: SocketAddr) -> Mac {
        let transaction = self.transaction();
        let sent = self.one(source, &Ask { transaction }.encode());
        let Some(Message::Challenge(challenge)) = Message::parse(&sent[0].bytes) else {
            panic!("a question is answered by a challenge");
        };
        assert_eq!(challenge.mapped, source);
        challenge.cookie
    }

    /// Registers an end with these claims. The end has the key of its claims.
    pub(crate) fn register(
        &mut self,
        source: SocketAddr,
        claims: &RelayClaims,
    ) -> Result<Transaction, RefusalReason> {
        self.register_by(&PORTAL_KEY, source, claims)
    }

    /// The same with a token of another key of the portal.
    pub(crate) fn register_by(
        &mut self,
        portal_key: &[u8; 32],
        source: SocketAddr,
        claims: &RelayClaims,
    ) -> Result<Transaction, RefusalReason> {
        let cookie = self.cookie(source);
        let transaction = self.transaction();
        let token = token_by(portal_key, claims);
        let datagram = signed(transaction, cookie, &token, claims.key.as_bytes());
        let sent = self.one(source, &datagram);
        answer(&sent).map(|()| transaction)
    }

    /// A gateway and clients with these numbers, all registered.
    pub(crate) fn populated(clients: impl IntoIterator<Item = u8>) -> Self {
        let mut world = Self::new();
        world.register(gateway_at(), &world.claims(None)).unwrap();
        for number in clients {
            let claims = world.claims(Some(client(number)));
            world.register(client_at(number), &claims).unwrap();
        }
        world
    }

    /// An end's sign of life.
    pub(crate) fn refresh(
        &mut self,
        source: SocketAddr,
        claims: &RelayClaims,
        transaction: Transaction,
        counter: u64,
    ) -> Vec<Sent> {
        let key = refresh_key(claims, transaction);
        let question = Refresh::question(counter, &key);
        self.one(source, &question.encode_question())
    }
}

/// The key of signs of life, by its definition and not by the crate's function.
pub(crate) fn refresh_key(claims: &RelayClaims, Transaction(number): Transaction) -> [u8; 32] {
    use blake2::digest::{KeyInit, Mac as _, consts::U32};
    let mut mac = blake2::Blake2sMac::<U32>::new_from_slice(claims.key.as_bytes()).unwrap();
    mac.update(b"culvert relay refresh");
    mac.update(&number);
    mac.finalize().into_bytes().into()
}

/// A registration that holds, for the wire.
pub(crate) fn registration(transaction: Transaction, cookie: Mac, claims: &RelayClaims) -> Vec<u8> {
    signed(transaction, cookie, &token(claims), claims.key.as_bytes())
}

pub(crate) fn signed(
    transaction: Transaction,
    cookie: Mac,
    token: &str,
    key: &[u8; 32],
) -> Vec<u8> {
    let mut out = [0; REGISTER_MAX_LEN];
    let len = Register::write(transaction, cookie, token, key, &mut out).unwrap();
    out[..len].to_vec()
}

pub(crate) fn token(claims: &RelayClaims) -> String {
    token_by(&PORTAL_KEY, claims)
}

pub(crate) fn token_by(key: &[u8; 32], claims: &RelayClaims) -> String {
    let key = SymmetricKey::<V4>::from(key).unwrap();
    let payload = serde_json::to_vec(claims).unwrap();
    LocalToken::encrypt(&key, &payload, None, None).unwrap()
}

/// The relay's answer to a registration.
pub(crate) fn answer(sent: &[Sent]) -> Result<(), RefusalReason> {
    match Message::parse(&sent[0].bytes) {
        Some(Message::Registered(_)) => Ok(()),
        Some(Message::Refused(refused)) => Err(refused.reason),
        other => panic!("no answer to a registration: {other:?}"),
    }
}

/// A WireGuard record of a kind, with the number behind its kind.
pub(crate) fn record(kind: u8, number: u32, len: usize) -> Vec<u8> {
    let mut record = vec![0xee; len];
    record[..4].copy_from_slice(&[kind, 0, 0, 0]);
    record[4..8].copy_from_slice(&number.to_le_bytes());
    record
}

/// An initiation of an end that chose `sender` as its index.
pub(crate) fn initiation(sender: u32) -> Vec<u8> {
    record(1, sender, 148)
}

/// Data for the end that chose `receiver`.
pub(crate) fn data(receiver: u32, len: usize) -> Vec<u8> {
    record(4, receiver, len)
}
