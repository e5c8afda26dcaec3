//! An end with a socket: it registers, and sends and receives records.

use crate::portal::{DEADLINE, PORTAL_KEY, RELAY};
use culvert_base::{BootTime, Destination, Family, PresharedKey, PublicKey};
use culvert_ids::{ClientId, GatewayId};
use culvert_relay_core::Registration;
use culvert_relay_core::is_culvert_message;
use culvert_relay_core::registration::{Output, Permission};
use culvert_udp::{ReceiveBatch, Socket};
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayClaims;
use pasetors::keys::SymmetricKey;
use pasetors::version4::{LocalToken, V4};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) const GATEWAY: GatewayId = GatewayId::from_bytes([2; 16]);

pub(crate) fn client(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

pub(crate) fn unix_now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_unix_ms(since.as_millis() as u64)
}

/// An end at one port of the relay.
pub(crate) struct End {
    pub(crate) socket: Socket,
    pub(crate) registration: Registration,
    pub(crate) outputs: Vec<Output>,
    relay: SocketAddr,
    began: Instant,
}

/// A batch that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) stride: usize,
    pub(crate) class: u8,
}

fn permission(port: u16, client: Option<ClientId>) -> Permission {
    let number = client.map_or(100, |client| client.as_bytes()[0]);
    let key = PresharedKey::from_bytes([number; 32]);
    let now = unix_now();
    let claims = RelayClaims {
        relay: RELAY,
        port,
        gateway: GATEWAY,
        client,
        public_key: PublicKey::from_bytes([number; 32]),
        key: key.clone(),
        rate_bytes_per_s: 1 << 40,
        iat: now,
        exp: Timestamp::from_unix_ms(now.unix_ms() + 3_600_000),
    };
    let portal_key = SymmetricKey::<V4>::from(&PORTAL_KEY).unwrap();
    let payload = serde_json::to_vec(&claims).unwrap();
    Permission {
        token: LocalToken::encrypt(&portal_key, &payload, None, None).unwrap(),
        key,
    }
}

impl End {
    /// An end that begins to register; without a client it is the gateway.
    pub(crate) fn new(relay: SocketAddr, client: Option<ClientId>) -> Self {
        let socket = Socket::bind(Family::of(relay.ip()), 0, 0).unwrap();
        Self::through(socket, relay, relay.port(), client)
    }

    /// The same from a given socket, with the relay's gateway port at another address.
    pub(crate) fn through(
        socket: Socket,
        relay: SocketAddr,
        gateway_port: u16,
        client: Option<ClientId>,
    ) -> Self {
        let permission = permission(gateway_port, client);
        let number = client.map_or(0, |client| client.as_bytes()[0]);
        let registration = Registration::new(&[relay], permission, [number; 32], BootTime::ZERO);
        Self {
            socket,
            registration,
            outputs: Vec::new(),
            relay,
            began: Instant::now(),
        }
    }

    fn now(&self) -> BootTime {
        BootTime::ZERO.saturating_add(self.began.elapsed())
    }

    /// Sends to the relay.
    pub(crate) fn send(&self, datagrams: &[u8], stride: usize, class: u8) {
        let to = Destination {
            address: self.relay,
            source: None,
        };
        self.socket.send(datagrams, stride, &to, class).unwrap();
    }

    /// Does what is due, and returns the batches that came.
    pub(crate) fn turn(&mut self) -> Vec<Batch> {
        let mut batch = ReceiveBatch::new(4);
        self.socket.receive_batch(&mut batch).unwrap();
        let now = self.now();
        let mut batches = Vec::new();
        for run in batch.iter_mut() {
            if is_culvert_message(run.bytes) {
                for datagram in run.bytes.chunks(run.stride) {
                    self.registration.handle_datagram(run.source, datagram, now);
                }
            } else {
                batches.push(Batch {
                    bytes: run.bytes.to_vec(),
                    stride: run.stride,
                    class: run.class,
                });
            }
        }
        self.registration.handle_timeout(now);
        while let Some(output) = self.registration.poll_output() {
            match output {
                Output::Send { datagram, .. } => {
                    let bytes = datagram.as_bytes();
                    self.send(bytes, bytes.len(), 0);
                }
                output => self.outputs.push(output),
            }
        }
        batches
    }

    /// Asks whether the relay lives.
    pub(crate) fn check(&mut self) {
        let now = self.now();
        self.registration.check(now);
    }

    /// Takes turns until `is_done` says so.
    pub(crate) fn until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + DEADLINE;
        while !is_done(self) {
            assert!(Instant::now() < limit, "{:?}", self.outputs);
            self.turn();
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Registers.
    pub(crate) fn register(&mut self) {
        self.until(|end| end.registration.relay().is_some());
    }

    /// The bytes of the batches that come, until there are `len` of them.
    pub(crate) fn receive(&mut self, len: usize) -> Vec<Batch> {
        let limit = Instant::now() + DEADLINE;
        let mut batches: Vec<Batch> = Vec::new();
        while batches.iter().map(|batch| batch.bytes.len()).sum::<usize>() < len {
            assert!(Instant::now() < limit, "{batches:?}");
            batches.extend(self.turn());
            std::thread::sleep(Duration::from_millis(2));
        }
        batches
    }
}
