//! The four messages of §5.4: bytes become a type at the border, once.
//!
//! Parsing checks the type, the reserved zeros and the exact length; what is inside is for the
//! handshake to judge. Nothing is copied.

use crate::crypto::MAC_LEN;
use crate::ids::Index;

/// Bytes of a handshake initiation.
pub const INITIATION_LEN: usize = 148;
/// Bytes of a handshake response.
pub const RESPONSE_LEN: usize = 92;
/// Bytes of a cookie reply.
pub const COOKIE_REPLY_LEN: usize = 64;
/// Bytes of the header of a data message: type, receiver index, counter.
pub const DATA_HEADER_LEN: usize = 16;
/// Bytes of the shortest data message, a keepalive: header and tag.
pub const DATA_LEN_MIN: usize = DATA_HEADER_LEN + 16;

/// Type and reserved zeros of each message, as on the wire.
pub(crate) const INITIATION_TYPE: [u8; 4] = [1, 0, 0, 0];
pub(crate) const RESPONSE_TYPE: [u8; 4] = [2, 0, 0, 0];
pub(crate) const COOKIE_REPLY_TYPE: [u8; 4] = [3, 0, 0, 0];
pub(crate) const DATA_TYPE: [u8; 4] = [4, 0, 0, 0];

/// The type that a datagram claims to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageType {
    /// §5.4.2.
    Initiation,
    /// §5.4.3.
    Response,
    /// §5.4.7.
    CookieReply,
    /// §5.4.6.
    Data,
}

/// Looks at type and reserved zeros alone, to sort datagrams by who handles them; `None` for what
/// is no WireGuard message.
pub fn message_type(datagram: &[u8]) -> Option<MessageType> {
    match *datagram.first_chunk()? {
        INITIATION_TYPE => Some(MessageType::Initiation),
        RESPONSE_TYPE => Some(MessageType::Response),
        COOKIE_REPLY_TYPE => Some(MessageType::CookieReply),
        DATA_TYPE => Some(MessageType::Data),
        _ => None,
    }
}

/// A well-formed message.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {
    /// §5.4.2, initiator to responder.
    Initiation(Initiation<'a>),
    /// §5.4.3, responder to initiator.
    Response(Response<'a>),
    /// §5.4.7, from a responder under load.
    CookieReply(CookieReply<'a>),
    /// §5.4.6; what follows the header is left to [`Transport`](crate::Transport).
    Data(DataHeader),
}

impl<'a> Message<'a> {
    /// Parses a whole datagram; `None` where it is no WireGuard message.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        match message_type(datagram)? {
            MessageType::Initiation => Initiation::parse(datagram).map(Self::Initiation),
            MessageType::Response => Response::parse(datagram).map(Self::Response),
            MessageType::CookieReply => CookieReply::parse(datagram).map(Self::CookieReply),
            MessageType::Data => DataHeader::parse(datagram).map(Self::Data),
        }
    }
}

/// The two MACs that end every initiation and response (§5.4.4), and what they cover.
#[derive(Clone, Copy, Debug)]
pub struct Macs<'a> {
    /// The part that `mac1` covers: the message up to it.
    pub before_mac1: &'a [u8],
    /// The part that `mac2` covers: the message up to it, `mac1` included.
    pub before_mac2: &'a [u8],
    /// Shows that the sender knows the receiver's public key.
    pub mac1: &'a [u8; MAC_LEN],
    /// Shows that the sender owns its address, where the receiver asked for that.
    pub mac2: &'a [u8; MAC_LEN],
}

impl<'a> Macs<'a> {
    fn parse(message: &'a [u8]) -> Option<Self> {
        let (before_mac2, mac2) = message.split_last_chunk()?;
        let (before_mac1, mac1) = before_mac2.split_last_chunk()?;
        Some(Self {
            before_mac1,
            before_mac2,
            mac1,
            mac2,
        })
    }
}

/// A handshake initiation.
#[derive(Clone, Copy, Debug)]
pub struct Initiation<'a> {
    /// The index under which the initiator wants its answer.
    pub sender: Index,
    /// The initiator's ephemeral public key.
    pub ephemeral: &'a [u8; 32],
    /// The initiator's static public key, sealed.
    pub sealed_static: &'a [u8; 48],
    /// The TAI64N stamp, sealed.
    pub sealed_timestamp: &'a [u8; 28],
    /// `mac1` and `mac2`.
    pub macs: Macs<'a>,
}

impl<'a> Initiation<'a> {
    /// `None` where `datagram` is not an initiation of exactly [`INITIATION_LEN`] bytes.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let rest = body::<INITIATION_LEN>(datagram, INITIATION_TYPE)?;
        let (sender, rest) = rest.split_first_chunk()?;
        let (ephemeral, rest) = rest.split_first_chunk()?;
        let (sealed_static, rest) = rest.split_first_chunk()?;
        let (sealed_timestamp, _) = rest.split_first_chunk()?;
        Some(Self {
            sender: Index::from_wire(*sender),
            ephemeral,
            sealed_static,
            sealed_timestamp,
            macs: Macs::parse(datagram)?,
        })
    }
}

/// A handshake response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The index under which the responder will receive data.
    pub sender: Index,
    /// The `sender` of the initiation that this answers.
    pub receiver: Index,
    /// The responder's ephemeral public key.
    pub ephemeral: &'a [u8; 32],
    /// Nothing, sealed: shows that the responder knows all the keys.
    pub sealed_nothing: &'a [u8; 16],
    /// `mac1` and `mac2`.
    pub macs: Macs<'a>,
}

impl<'a> Response<'a> {
    /// `None` where `datagram` is not a response of exactly [`RESPONSE_LEN`] bytes.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let rest = body::<RESPONSE_LEN>(datagram, RESPONSE_TYPE)?;
        let (sender, rest) = rest.split_first_chunk()?;
        let (receiver, rest) = rest.split_first_chunk()?;
        let (ephemeral, rest) = rest.split_first_chunk()?;
        let (sealed_nothing, _) = rest.split_first_chunk()?;
        Some(Self {
            sender: Index::from_wire(*sender),
            receiver: Index::from_wire(*receiver),
            ephemeral,
            sealed_nothing,
            macs: Macs::parse(datagram)?,
        })
    }
}

/// A cookie reply.
#[derive(Clone, Copy, Debug)]
pub struct CookieReply<'a> {
    /// The `sender` of the handshake message that this answers.
    pub receiver: Index,
    /// The nonce under which the cookie is sealed.
    pub nonce: &'a [u8; 24],
    /// The cookie, sealed with the `mac1` of the message that this answers.
    pub sealed_cookie: &'a [u8; 32],
}

impl<'a> CookieReply<'a> {
    /// `None` where `datagram` is not a cookie reply of exactly [`COOKIE_REPLY_LEN`] bytes.
    pub fn parse(datagram: &'a [u8]) -> Option<Self> {
        let rest = body::<COOKIE_REPLY_LEN>(datagram, COOKIE_REPLY_TYPE)?;
        let (receiver, rest) = rest.split_first_chunk()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let (sealed_cookie, _) = rest.split_first_chunk()?;
        Some(Self {
            receiver: Index::from_wire(*receiver),
            nonce,
            sealed_cookie,
        })
    }
}

/// The header of a data message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The receiver's index of the key pair that sealed the packet.
    pub receiver: Index,
    /// The nonce under which the packet was sealed.
    pub counter: u64,
}

impl DataHeader {
    /// `None` where `datagram` is not a data message or too short to hold a header and a tag.
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let (header, rest) = datagram.split_first_chunk::<DATA_HEADER_LEN>()?;
        if rest.len() < DATA_LEN_MIN - DATA_HEADER_LEN {
            return None;
        }
        let [k0, k1, k2, k3, r0, r1, r2, r3, counter @ ..] = *header;
        ([k0, k1, k2, k3] == DATA_TYPE).then(|| Self {
            receiver: Index::from_wire([r0, r1, r2, r3]),
            counter: u64::from_le_bytes(counter),
        })
    }

    /// The header as it is sent.
    pub fn to_bytes(self) -> [u8; DATA_HEADER_LEN] {
        let mut bytes = [0; DATA_HEADER_LEN];
        bytes[..4].copy_from_slice(&DATA_TYPE);
        bytes[4..8].copy_from_slice(&self.receiver.to_wire());
        bytes[8..].copy_from_slice(&self.counter.to_le_bytes());
        bytes
    }
}

/// The bytes after the type, if type and length are right.
fn body<const LEN: usize>(datagram: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    let (found, rest) = datagram.split_first_chunk::<4>()?;
    (*found == kind && datagram.len() == LEN).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_where_the_paper_puts_them() {
        let mut bytes: Vec<u8> = (0..148).collect();
        bytes[..4].copy_from_slice(&INITIATION_TYPE);
        let initiation = Initiation::parse(&bytes).unwrap();
        assert_eq!(initiation.sender, Index(0x0706_0504));
        assert_eq!(initiation.ephemeral[..], bytes[8..40]);
        assert_eq!(initiation.sealed_static[..], bytes[40..88]);
        assert_eq!(initiation.sealed_timestamp[..], bytes[88..116]);
        assert_eq!(initiation.macs.mac1[..], bytes[116..132]);
        assert_eq!(initiation.macs.mac2[..], bytes[132..]);
        assert_eq!(initiation.macs.before_mac1, &bytes[..116]);
        assert_eq!(initiation.macs.before_mac2, &bytes[..132]);

        bytes.truncate(92);
        bytes[..4].copy_from_slice(&RESPONSE_TYPE);
        let response = Response::parse(&bytes).unwrap();
        assert_eq!(response.sender, Index(0x0706_0504));
        assert_eq!(response.receiver, Index(0x0b0a_0908));
        assert_eq!(response.ephemeral[..], bytes[12..44]);
        assert_eq!(response.sealed_nothing[..], bytes[44..60]);
        assert_eq!(response.macs.mac1[..], bytes[60..76]);
        assert_eq!(response.macs.mac2[..], bytes[76..]);

        bytes.truncate(64);
        bytes[..4].copy_from_slice(&COOKIE_REPLY_TYPE);
        let reply = CookieReply::parse(&bytes).unwrap();
        assert_eq!(reply.receiver, Index(0x0706_0504));
        assert_eq!(reply.nonce[..], bytes[8..32]);
        assert_eq!(reply.sealed_cookie[..], bytes[32..]);

        bytes[..4].copy_from_slice(&DATA_TYPE);
        let header = DataHeader::parse(&bytes).unwrap();
        assert_eq!(header.receiver, Index(0x0706_0504));
        assert_eq!(header.counter, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(header.to_bytes()[..], bytes[..16]);
    }

    #[test]
    fn type_and_reserved_zeros_alone_sort_a_datagram() {
        for kind in 0..=u8::MAX {
            let expected = match kind {
                1 => Some(MessageType::Initiation),
                2 => Some(MessageType::Response),
                3 => Some(MessageType::CookieReply),
                4 => Some(MessageType::Data),
                _ => None,
            };
            assert_eq!(message_type(&[kind, 0, 0, 0]), expected);
            assert_eq!(message_type(&[kind, 0, 0, 0, 0xa5]), expected);
            assert_eq!(message_type(&[kind, 0, 0]), None);
            for reserved in [[1, 0, 0], [0, 1, 0], [0, 0, 1]] {
                let [a, b, c] = reserved;
                assert_eq!(message_type(&[kind, a, b, c]), None);
            }
        }
    }

    #[test]
    fn a_keepalive_is_the_shortest_data_message() {
        let mut bytes = vec![0; DATA_LEN_MIN];
        bytes[0] = 4;
        assert!(DataHeader::parse(&bytes).is_some());
        assert!(DataHeader::parse(&bytes[1..]).is_none());
        assert!(DataHeader::parse(&bytes[..DATA_LEN_MIN - 1]).is_none());
    }

    proptest! {
        #[test]
        fn only_the_exact_length_and_reserved_zeros_are_accepted(
            kind in 1u8..=3, reserved in any::<[u8; 3]>(), len in 0usize..200,
        ) {
            let mut bytes = vec![0xa5; len];
            for (byte, value) in bytes.iter_mut().zip([kind, reserved[0], reserved[1], reserved[2]]) {
                *byte = value;
            }
            let right_len = [INITIATION_LEN, RESPONSE_LEN, COOKIE_REPLY_LEN][usize::from(kind) - 1];
            let right = len == right_len && reserved == [0; 3];
            prop_assert_eq!(Message::parse(&bytes).is_some(), right);
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = Message::parse(&bytes);
        }
    }
}
