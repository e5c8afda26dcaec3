//! A relay, with the messages of a real one and tokens that are numbers.

use super::{Payload, World, ms};
use culvert_base::PresharedKey;
use culvert_ids::RelayId;
use culvert_path::{RelayGrant, TlsPlace};
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{Challenge, Refresh, Registered, Unknown};
use culvert_relay_core::registration::Permission;
use culvert_wire::token::CertificatePin;
use std::net::SocketAddr;
use std::time::Duration;

/// The life of a registration, in seconds: longer than any world.
const LIFETIME_S: u16 = 3_600;

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    pub(crate) is_dead: bool,
    /// By end: the address from which it has registered, and the key of its signs of life.
    ends: [Option<(SocketAddr, [u8; 32])>; 2],
    pub(super) delay: Duration,
}

impl Relay {
    pub(super) fn new(number: usize) -> Self {
        Self {
            address: SocketAddr::from(([192, 0, 2, u8::try_from(number).unwrap() + 1], 3479)),
            is_dead: false,
            ends: [None; 2],
            delay: ms(15 + 10 * number as u64),
        }
    }

    /// The permission of an end.
    pub(super) fn grant(&self, number: usize, end: usize) -> RelayGrant {
        RelayGrant {
            relay: relay_id(number),
            addresses: vec![self.address],
            tls: Some(TlsPlace {
                addresses: vec![SocketAddr::new(self.address.ip(), 443)],
                pin: CertificatePin::of(b"a certificate"),
                gateway_port: self.address.port(),
            }),
            permission: Permission {
                token: end.to_string(),
                key: PresharedKey::from_bytes(key_of(end)),
            },
        }
    }

    fn end_at(&self, source: SocketAddr) -> Option<usize> {
        let is_there = |end: &Option<(SocketAddr, _)>| end.is_some_and(|(at, _)| at == source);
        self.ends.iter().position(is_there)
    }

    /// The answer to a message for the relay itself.
    fn answer(&mut self, source: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        match Message::parse(bytes)? {
            Message::Ask(ask) => {
                let challenge = Challenge {
                    transaction: ask.transaction,
                    cookie: Mac::from_bytes([1; 16]),
                    mapped: source,
                };
                Some(challenge.encode().to_vec())
            }
            Message::Register(register) => {
                let end: usize = register.token.parse().unwrap();
                assert!(register.is_by(&key_of(end)));
                let key = register.transaction.refresh_key(&key_of(end));
                self.ends[end] = Some((source, *key));
                let answer = Registered::new(register.transaction, LIFETIME_S, &key_of(end));
                Some(answer.encode().to_vec())
            }
            Message::Refresh(question) => {
                let known = self.end_at(source).and_then(|end| self.ends[end]);
                match known.filter(|(_, key)| question.is_question_by(key)) {
                    Some((_, key)) => {
                        let answer = Refresh::answer(question.counter, &key);
                        Some(answer.encode_answer().to_vec())
                    }
                    None => unknown(bytes),
                }
            }
            other => panic!("no message for a relay: {other:?}"),
        }
    }
}

impl World {
    /// At a relay.
    pub(super) fn forward(&mut self, relay: usize, source: SocketAddr, payload: Payload) {
        let it = &mut self.relays[relay];
        if it.is_dead {
            return;
        }
        if let Payload::Control(bytes) = payload {
            if let Some(answer) = it.answer(source, &bytes) {
                self.send_from_relay(relay, source, Payload::Control(answer));
            }
            return;
        }
        let Some(sender) = it.end_at(source) else {
            let unknown = unknown(&[0; 32]).unwrap();
            return self.send_from_relay(relay, source, Payload::Control(unknown));
        };
        if let Some((to, _)) = it.ends[1 - sender] {
            self.send_from_relay(relay, to, payload);
        }
    }
}

fn unknown(datagram: &[u8]) -> Option<Vec<u8>> {
    Some(Unknown::to(datagram)?.encode().to_vec())
}

fn key_of(end: usize) -> [u8; 32] {
    [u8::try_from(end).unwrap() + 1; 32]
}

pub(crate) fn relay_id(number: usize) -> RelayId {
    RelayId::from_bytes([u8::try_from(number).unwrap() + 1; 16])
}
