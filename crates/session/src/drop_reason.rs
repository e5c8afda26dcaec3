//! The reasons why a handshake datagram is refused.

/// The reason why [`Handshaker::handle_datagram`](crate::Handshaker::handle_datagram) refused a
/// datagram. All but [`Down`](Self::Down) and [`NoPrivateKey`](Self::NoPrivateKey) are the sender's
/// doing, and [`Superseded`](Self::Superseded) is nobody's; no refusal changes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DropReason {
    /// Local: the interface is down.
    #[error("the interface is down")]
    Down,
    /// Local: there is no private key yet.
    #[error("no private key is set")]
    NoPrivateKey,
    /// No handshake message: wrong type, reserved bits or length.
    #[error("malformed handshake message")]
    Malformed,
    /// `mac1` is wrong: the sender does not know our public key.
    #[error("invalid mac1")]
    InvalidMac1,
    /// We are under load and the message has no valid `mac2`; a cookie reply was sent.
    #[error("no valid cookie while under load")]
    CookieRequired,
    /// We are under load and the source, which owns its address, sends too many.
    #[error("handshake rate limit of the source exceeded")]
    RateLimited,
    /// The handshake does not decrypt: other keys, another pre-shared key, another suite, or
    /// tampering.
    #[error("the handshake message is not authentic")]
    NotAuthentic,
    /// A Diffie-Hellman result was all zeros.
    #[error("a public key of low order")]
    LowOrderKey,
    /// Authentic, but from a key that is no peer's.
    #[error("unknown peer")]
    UnknownPeer,
    /// From a peer that is configured for the other suite.
    #[error("the peer is configured for another cipher suite")]
    WrongSuite,
    /// The TAI64N stamp is not greater than the last one: a replay.
    #[error("replayed handshake initiation")]
    ReplayedInitiation,
    /// The peer exceeds [`INITIATION_BURST`](crate::INITIATION_BURST) and
    /// [`INITIATION_INTERVAL`](crate::INITIATION_INTERVAL).
    #[error("too many handshake initiations from the peer")]
    InitiationFlood,
    /// No handshake or key pair of ours has the receiver index.
    #[error("unknown receiver index")]
    UnknownIndex,
    /// A response to an initiation that was answered before. The copies of an initiation that went by several paths are
    /// each answered, and one answer is enough.
    #[error("the initiation was answered before")]
    DuplicateResponse,
    /// Local: while the message was worked on, its peer, our key or the link went, or a later message of the peer came.
    #[error("superseded while it was worked on")]
    Superseded,
    /// A cookie reply that answers nothing we sent, or does not decrypt.
    #[error("invalid cookie reply")]
    InvalidCookieReply,
}

impl DropReason {
    /// Every reason, in order, for tables of counters.
    pub const ALL: [Self; 16] = [
        Self::Down,
        Self::NoPrivateKey,
        Self::Malformed,
        Self::InvalidMac1,
        Self::CookieRequired,
        Self::RateLimited,
        Self::NotAuthentic,
        Self::LowOrderKey,
        Self::UnknownPeer,
        Self::WrongSuite,
        Self::ReplayedInitiation,
        Self::InitiationFlood,
        Self::UnknownIndex,
        Self::DuplicateResponse,
        Self::Superseded,
        Self::InvalidCookieReply,
    ];

    /// The place of the reason in [`ALL`](Self::ALL), for indexing a table of counters.
    pub const fn position(self) -> usize {
        self as usize
    }

    /// A stable name for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::NoPrivateKey => "no_private_key",
            Self::Malformed => "malformed",
            Self::InvalidMac1 => "invalid_mac1",
            Self::CookieRequired => "cookie_required",
            Self::RateLimited => "rate_limited",
            Self::NotAuthentic => "not_authentic",
            Self::LowOrderKey => "low_order_key",
            Self::UnknownPeer => "unknown_peer",
            Self::WrongSuite => "wrong_suite",
            Self::ReplayedInitiation => "replayed_initiation",
            Self::InitiationFlood => "initiation_flood",
            Self::UnknownIndex => "unknown_index",
            Self::DuplicateResponse => "duplicate_response",
            Self::Superseded => "superseded",
            Self::InvalidCookieReply => "invalid_cookie_reply",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_stands_at_its_position() {
        for (position, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.position(), position);
        }
    }

    #[test]
    fn a_metric_is_named_as_the_reason_is() {
        for reason in DropReason::ALL {
            let mut name = String::new();
            for letter in format!("{reason:?}").chars() {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.extend(letter.to_lowercase());
            }
            assert_eq!(reason.name(), name);
        }
    }
}
