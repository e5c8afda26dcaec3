//! The outputs of a [`Handshaker`](super::Handshaker), for its owner to carry out.

use crate::ids::PeerId;
use crate::parse::INITIATION_LEN;
use crate::transport::Role;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use std::net::SocketAddr;

/// An effect, to be carried out in the order in which
/// [`poll_output`](super::Handshaker::poll_output) returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// The peer's transports changed. Workers must have the new ones before anything after this is
    /// carried out: a responder's keys can receive before its response leaves.
    KeysChanged {
        /// The peer.
        peer: PeerId,
    },
    /// An initiation or a response is to be sent.
    Send {
        /// The receiver.
        peer: PeerId,
        /// The message.
        datagram: HandshakeDatagram,
        /// The destination.
        to: Destination,
    },
    /// A cookie reply is to be sent to an address that need not be a peer's.
    SendCookieReply {
        /// The message.
        datagram: HandshakeDatagram,
        /// The source address of the message that it answers.
        to: SocketAddr,
    },
    /// Packets that wait for the peer are to be sent under its current keys; if none waits, a
    /// keepalive: an empty packet.
    SendKeepalive {
        /// The receiver.
        peer: PeerId,
    },
    /// The response to an initiation of ours came from `to`, which shows that the path leads there and back: send there
    /// from here on. A responder moves its peer's endpoint by itself, with the peer's data.
    Roamed {
        /// The peer.
        peer: PeerId,
        /// The outer source of the response.
        to: SocketAddr,
    },
    /// The peer does not answer: the source address with which we send to it may be the reason, so
    /// let the routing table choose again.
    ForgetSource {
        /// The peer.
        peer: PeerId,
    },
    /// The peer did not answer for [`REKEY_ATTEMPT_TIME`](crate::REKEY_ATTEMPT_TIME): drop the
    /// packets that wait for it.
    DropStaged {
        /// The peer.
        peer: PeerId,
    },
    /// A session is established at both ends.
    HandshakeCompleted {
        /// The peer.
        peer: PeerId,
        /// Our role in the handshake.
        role: Role,
        /// The time until the answer to our message of the handshake came: the round trip of the path, and the
        /// peer's processing.
        round_trip: Duration,
    },
}

impl Output {
    /// The peer that the output speaks of; none for a cookie reply.
    pub fn peer(&self) -> Option<PeerId> {
        match *self {
            Self::KeysChanged { peer }
            | Self::Send { peer, .. }
            | Self::SendKeepalive { peer }
            | Self::Roamed { peer, .. }
            | Self::ForgetSource { peer }
            | Self::DropStaged { peer }
            | Self::HandshakeCompleted { peer, .. } => Some(peer),
            Self::SendCookieReply { .. } => None,
        }
    }
}

/// The destination of a handshake message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To the peer's endpoint.
    Peer,
    /// To where the message that this one answers came from.
    Reply(SocketAddr),
}

/// A handshake message, held inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HandshakeDatagram {
    bytes: [u8; INITIATION_LEN],
    len: usize,
}

impl HandshakeDatagram {
    pub(super) fn new<const LEN: usize>(message: &[u8; LEN]) -> Self {
        const { assert!(LEN <= INITIATION_LEN) };
        let mut bytes = [0; INITIATION_LEN];
        bytes[..LEN].copy_from_slice(message);
        Self { bytes, len: LEN }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Deref for HandshakeDatagram {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for HandshakeDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HandshakeDatagram(type {}, {} bytes)",
            self.bytes[0], self.len
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_shows_its_type_and_length_and_no_bytes() {
        let datagram = HandshakeDatagram::new(&[2; 92]);
        assert_eq!(
            format!("{datagram:?}"),
            "HandshakeDatagram(type 2, 92 bytes)"
        );
    }
}
