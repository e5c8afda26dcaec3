//! The kinds of datagrams that a relay forwards, by the fields that are not encrypted (WireGuard paper, section 5.4).

use crate::message::{HEAD_LEN, KIND_PROBE, KIND_PROBE_ANSWER, PROBE_LEN, is_culvert_message};

/// Bytes of an initiation.
pub(crate) const INITIATION_LEN: usize = 148;
/// The place of an initiation's first MAC.
pub(crate) const INITIATION_MAC1: usize = 116;
const RESPONSE_LEN: usize = 92;
const COOKIE_REPLY_LEN: usize = 64;
const DATA_MIN_LEN: usize = 32;

/// An index or a tag, as it is on the wire.
pub(crate) type Number = [u8; 4];

/// The kind of a datagram, and the numbers by which a relay finds its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The first message of a handshake.
    Initiation { sender: Number },
    /// The second one.
    Response { sender: Number, receiver: Number },
    /// A cookie reply or data.
    Other { receiver: Number },
    /// A probe or its answer.
    Probe { sender: Number, receiver: Number },
    /// A message for the relay itself.
    Control,
    /// None of these.
    Malformed,
}

impl Record {
    pub(crate) fn of(datagram: &[u8]) -> Self {
        let Some(&[kind, a, b, c, i, j, k, l]) = datagram.first_chunk() else {
            return Self::Malformed;
        };
        let first = [i, j, k, l];
        match (kind, [a, b, c], datagram.len()) {
            (4, [0, 0, 0], DATA_MIN_LEN..) | (3, [0, 0, 0], COOKIE_REPLY_LEN) => {
                Self::Other { receiver: first }
            }
            (1, [0, 0, 0], INITIATION_LEN) => Self::Initiation { sender: first },
            (2, [0, 0, 0], RESPONSE_LEN) => match second(datagram) {
                Some(receiver) => Self::Response {
                    sender: first,
                    receiver,
                },
                None => Self::Malformed,
            },
            _ if is_culvert_message(datagram) => Self::of_culvert(datagram, first),
            _ => Self::Malformed,
        }
    }

    fn of_culvert(datagram: &[u8], first: Number) -> Self {
        match (datagram[HEAD_LEN - 1], datagram.len()) {
            (KIND_PROBE | KIND_PROBE_ANSWER, PROBE_LEN) => match second(datagram) {
                Some(sender) => Self::Probe {
                    sender,
                    receiver: first,
                },
                None => Self::Malformed,
            },
            (KIND_PROBE | KIND_PROBE_ANSWER, _) => Self::Malformed,
            _ => Self::Control,
        }
    }
}

/// The number behind the first one.
fn second(datagram: &[u8]) -> Option<Number> {
    datagram.get(8..)?.first_chunk().copied()
}
