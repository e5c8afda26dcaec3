//! Datagrams at a gateway port of a relay.

use crate::input::Input;
use culvert_base::{BootTime, PresharedKey, UnixTime};
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_relay_core::message::{Ask, Message, REGISTER_MAX_LEN, Register, Transaction};
use culvert_relay_core::relay::{Now, Relay, RelaySettings, Run};
use culvert_relay_core::{SharedBudget, is_culvert_message};
use culvert_wire::messages::RelayClaims;
use culvert_wire::{PublicKey, Timestamp};
use pasetors::keys::SymmetricKey;
use pasetors::version4::{LocalToken, V4};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

const PORT: u16 = 3479;
const PORTAL_KEY: [u8; 32] = [42; 32];
const RELAY: RelayId = RelayId::from_bytes([1; 16]);
const START_MS: u64 = 1_700_000_000_000;

/// Addresses of the gateway, of a client, and of a stranger.
fn source(number: u8) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, number % 3], 51_820))
}

fn claims(client: Option<ClientId>) -> RelayClaims {
    RelayClaims {
        relay: RELAY,
        port: PORT,
        gateway: GatewayId::from_bytes([2; 16]),
        client,
        public_key: PublicKey::from_bytes([3; 32]),
        key: PresharedKey::from_bytes([4; 32]),
        rate_bytes_per_s: u64::MAX,
        iat: Timestamp::from_unix_ms(START_MS),
        exp: Timestamp::from_unix_ms(START_MS + 3_600_000),
    }
}

fn new_relay() -> Relay {
    let mut relay = Relay::new(RelaySettings {
        ports: vec![PORT],
        clients_per_port: 4,
        workers: NonZeroU32::MIN,
        seed: [9; 32],
        total: Arc::new(SharedBudget::new(None)),
    });
    relay.set_identity(RELAY, &PresharedKey::from_bytes(PORTAL_KEY));
    relay
}

const fn now(millis: u64) -> Now {
    Now {
        boot: BootTime::from_millis(1_000_000 + millis),
        unix: UnixTime::from_millis(START_MS + millis),
    }
}

/// Registers an end, as its own state machine would.
fn register(relay: &mut Relay, source: SocketAddr, client: Option<ClientId>) {
    let claims = claims(client);
    let key = SymmetricKey::<V4>::from(&PORTAL_KEY).expect("a key has 32 bytes");
    let payload = serde_json::to_vec(&claims).expect("claims are written");
    let token = LocalToken::encrypt(&key, &payload, None, None).expect("the token is made");
    let transaction = Transaction([5; 16]);
    let ask = Ask { transaction }.encode();
    let challenge = relay.handle_run(0, &run(source, &ask, ask.len()), now(0));
    let Some(Message::Challenge(challenge)) = Message::parse(challenge.replies[0].datagram())
    else {
        panic!("a question is answered by a challenge");
    };
    let mut out = [0; REGISTER_MAX_LEN];
    let key = claims.key.as_bytes();
    let len = Register::write(transaction, challenge.cookie, &token, key, &mut out)
        .expect("the token is short");
    let answer = relay.handle_run(0, &run(source, &out[..len], len), now(0));
    let answer = Message::parse(answer.replies[0].datagram());
    assert!(matches!(answer, Some(Message::Registered(_))), "{answer:?}");
}

const fn run(source: SocketAddr, bytes: &[u8], stride: usize) -> Run<'_> {
    Run {
        source,
        local: None,
        bytes,
        stride,
    }
}

/// Batches of anybody are forwarded in order, whole datagrams and between registered ends alone; answers are no longer
/// than their questions; and nobody registers by bytes that the portal did not make.
///
/// # Panics
/// If a property does not hold.
pub fn relay(data: &[u8]) {
    let mut relay = new_relay();
    register(&mut relay, source(0), None);
    register(&mut relay, source(1), Some(ClientId::from_bytes([7; 16])));
    let mut input = Input::new(data);
    let mut millis = 0;
    while !input.is_empty() {
        let (from, stride) = (source(input.u8()), usize::from(input.u8()).max(1));
        let len = usize::from(input.u16());
        millis += u64::from(input.u8()) * 100;
        let bytes = input.take(len);
        relay.handle_timeout(now(millis));
        let (gateways, clients) = (relay.gateways(), relay.clients());
        let decisions = relay.handle_run(0, &run(from, bytes, stride), now(millis));
        let answered: usize = decisions
            .replies
            .iter()
            .map(|reply| reply.datagram().len())
            .sum();
        assert!(
            answered <= bytes.len(),
            "an answer is longer than its question"
        );
        let mut last = 0;
        for send in &decisions.sends {
            assert!(last <= send.start && send.start < send.end && send.end <= bytes.len());
            assert_eq!(send.start % stride, 0, "a datagram is cut");
            assert!(
                send.end % stride == 0 || send.end == bytes.len(),
                "a datagram is cut"
            );
            assert_ne!(send.to.address, from, "a record goes back to its sender");
            assert!([source(0), source(1)].contains(&send.to.address));
            last = send.end;
        }
        if from == source(2) {
            assert!(decisions.sends.is_empty(), "a stranger is forwarded");
        }
        assert!(relay.gateways() <= gateways && relay.clients() <= clients);
    }
    if let Some(message) = Message::parse(data) {
        assert!(is_culvert_message(data), "{message:?}");
    }
}

/// A record of a kind with a number behind it.
fn record(kind: u8, number: u8, len: usize) -> Vec<u8> {
    let mut record = vec![0; len];
    record[0] = kind;
    record[4] = number;
    record
}

/// A batch of a sender.
fn batch(from: u8, stride: u8, bytes: &[u8]) -> Vec<u8> {
    let len = (bytes.len() as u16).to_be_bytes();
    [&[from, stride][..], &len, &[1], bytes].concat()
}

/// Each kind of record and message, of each sender.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for from in 0..3 {
        for (kind, len) in [(1, 148), (2, 92), (3, 64), (4, 32), (4, 96)] {
            seeds.push(batch(from, len as u8, &record(kind, 7, len)));
        }
        for kind in 1..=10 {
            for len in [12, 21, 28, 36, 38, 64, 120] {
                let mut message = record(b'C', 7, len);
                message[1..4].copy_from_slice(&[b'V', b'R', kind]);
                seeds.push(batch(from, len as u8, &message));
            }
        }
    }
    // A client claims an index, and a batch of the gateway comes for it and for another.
    let claim = batch(1, 148, &record(1, 7, 148));
    let records: Vec<u8> = [7, 7, 8, 7]
        .iter()
        .flat_map(|number| record(4, *number, 48))
        .collect();
    seeds.push([claim, batch(0, 48, &records)].concat());
    seeds
}
