//! Probes: tests of a path between the two ends of a pair, direct or through a relay.
//!
//! Both ends have the pair's preshared key. From it come a key and two tags of four bytes, one of each end. A probe
//! bears the tag of its receiver where a record has its receiver index, so a relay forwards it in the same way.
//!
//! [`PairProbes`] writes and opens probes; it decides nothing about paths.

use crate::mac::{KEY_LEN, Mac, derive};
use crate::message::{KIND_PROBE, KIND_PROBE_ANSWER, Message, PROBE_LEN, Probe, Tag};
use culvert_base::PresharedKey;
use zeroize::{Zeroize, ZeroizeOnDrop};

const KEY_LABEL: &[u8] = b"culvert probe key";
const CLIENT_LABEL: &[u8] = b"culvert probe tag client";
const GATEWAY_LABEL: &[u8] = b"culvert probe tag gateway";

/// An end of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairEnd {
    /// The client.
    Client,
    /// The gateway.
    Gateway,
}

/// A probe, or the answer to one, that the other end of the pair has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthenticProbe {
    /// The other end asks; [`PairProbes::answer`] answers it, to the address from which it came.
    Question {
        /// The number to be repeated.
        nonce: [u8; 8],
    },
    /// The other end answers.
    Answer {
        /// The number of the probe that it answers.
        nonce: [u8; 8],
    },
}

/// The probes of one pair, as one of its ends sees them.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PairProbes {
    key: [u8; KEY_LEN],
    #[zeroize(skip)]
    own: Tag,
    #[zeroize(skip)]
    peer: Tag,
}

impl PairProbes {
    /// Those of the end `own`. `None` without a preshared key: then anybody could write them.
    #[must_use]
    pub fn new(preshared: &PresharedKey, own: PairEnd) -> Option<Self> {
        if preshared.is_zero() {
            return None;
        }
        let [client, gateway] = [CLIENT_LABEL, GATEWAY_LABEL].map(|label| tag(preshared, label));
        let (own, peer) = match own {
            PairEnd::Client => (client, gateway),
            PairEnd::Gateway => (gateway, client),
        };
        let key = *derive(preshared.as_bytes(), &[KEY_LABEL]);
        Some(Self { key, own, peer })
    }

    /// The tag of this end: probes with it as receiver are for it.
    #[must_use]
    pub const fn own_tag(&self) -> Tag {
        self.own
    }

    /// The tag of the other end.
    #[must_use]
    pub const fn peer_tag(&self) -> Tag {
        self.peer
    }

    /// A probe, for the wire. The nonce is unpredictable, so that only the peer can answer it.
    #[must_use]
    pub fn question(&self, nonce: [u8; 8]) -> [u8; PROBE_LEN] {
        self.write(KIND_PROBE, nonce)
    }

    /// The answer to a probe of the other end, for the wire.
    #[must_use]
    pub fn answer(&self, nonce: [u8; 8]) -> [u8; PROBE_LEN] {
        self.write(KIND_PROBE_ANSWER, nonce)
    }

    /// The probe or answer in a message; `None` unless the other end has made it for this one.
    #[must_use]
    pub fn open(&self, message: &Message<'_>) -> Option<AuthenticProbe> {
        match *message {
            Message::Probe(probe) if self.is_authentic(KIND_PROBE, &probe) => {
                let nonce = probe.nonce;
                Some(AuthenticProbe::Question { nonce })
            }
            Message::ProbeAnswer(probe) if self.is_authentic(KIND_PROBE_ANSWER, &probe) => {
                let nonce = probe.nonce;
                Some(AuthenticProbe::Answer { nonce })
            }
            _ => None,
        }
    }

    fn is_authentic(&self, kind: u8, probe: &Probe) -> bool {
        (probe.receiver, probe.sender) == (self.own, self.peer)
            && probe.mac == Mac::of(&self.key, &[&probe.covered(kind)])
    }

    fn write(&self, kind: u8, nonce: [u8; 8]) -> [u8; PROBE_LEN] {
        let mut probe = Probe {
            receiver: self.peer,
            sender: self.own,
            nonce,
            mac: Mac::from_bytes([0; 16]),
        };
        probe.mac = Mac::of(&self.key, &[&probe.covered(kind)]);
        probe.write(kind)
    }
}

/// A tag identifies, and proves nothing: the first bytes of a MAC.
fn tag(preshared: &PresharedKey, label: &[u8]) -> Tag {
    let [a, b, c, d, ..] = *Mac::of(preshared.as_bytes(), &[label]).as_bytes();
    Tag([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(preshared: u8) -> (PairProbes, PairProbes) {
        let key = PresharedKey::from_bytes([preshared; 32]);
        let end = |end| PairProbes::new(&key, end).unwrap();
        (end(PairEnd::Client), end(PairEnd::Gateway))
    }

    fn open(by: &PairProbes, datagram: &[u8]) -> Option<AuthenticProbe> {
        by.open(&Message::parse(datagram)?)
    }

    #[test]
    fn each_end_opens_the_probes_and_answers_of_the_other() {
        let (client, gateway) = pair(1);
        let nonce = [5; 8];
        for (from, to) in [(&client, &gateway), (&gateway, &client)] {
            let question = open(to, &from.question(nonce));
            assert_eq!(question, Some(AuthenticProbe::Question { nonce }));
            let answer = open(from, &to.answer(nonce));
            assert_eq!(answer, Some(AuthenticProbe::Answer { nonce }));
        }
    }

    #[test]
    fn a_probe_that_is_sent_back_to_its_sender_is_none() {
        let (client, _) = pair(1);
        assert_eq!(open(&client, &client.question([5; 8])), None);
        assert_eq!(open(&client, &client.answer([5; 8])), None);
    }

    #[test]
    fn a_probe_that_is_made_an_answer_is_none() {
        let (client, gateway) = pair(1);
        let mut question = gateway.question([5; 8]);
        question[3] = KIND_PROBE_ANSWER;
        assert_eq!(open(&client, &question), None);
    }

    #[test]
    fn a_probe_of_another_pair_is_none() {
        let ((client, _), (_, other)) = (pair(1), pair(2));
        assert_eq!(open(&client, &other.question([5; 8])), None);
    }

    #[test]
    fn a_pair_without_a_preshared_key_has_no_probes() {
        assert!(PairProbes::new(&PresharedKey::NONE, PairEnd::Client).is_none());
    }

    #[test]
    fn the_receivers_tag_is_where_a_record_has_its_receiver_index() {
        let (client, gateway) = pair(1);
        assert_eq!(client.question([5; 8])[4..8], gateway.own_tag().0);
        assert_eq!(client.peer_tag(), gateway.own_tag());
        assert_ne!(client.own_tag(), client.peer_tag());
    }

    proptest! {
        #[test]
        fn a_probe_with_one_bit_changed_is_none(place in 0..PROBE_LEN * 8, nonce in any::<[u8; 8]>()) {
            let (client, gateway) = pair(1);
            let mut question = gateway.question(nonce);
            question[place / 8] ^= 1 << (place % 8);
            prop_assert_eq!(open(&client, &question), None);
        }
    }
}
