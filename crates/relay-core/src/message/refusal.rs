//! The reasons for which a relay refuses a registration.

use std::fmt;

/// The reason for which a relay refuses a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalReason {
    /// The cookie is none of the relay's, or has expired: ask again.
    Cookie,
    /// The token is none of the portal's for this relay, or the proof does not fit it.
    Token,
    /// The token is for another relay, or for another port of it.
    OtherRelay,
    /// The token has expired, or was issued in the future.
    Expired,
    /// The portal withdrew the token, or a later one is in use.
    Outdated,
    /// The relay takes no new ends.
    Draining,
    /// The relay holds no more ends.
    Full,
    /// The end registers too often.
    TooOften,
    /// A reason of a later version.
    Other(u8),
}

impl RefusalReason {
    /// All reasons of this version.
    pub const ALL: [Self; 8] = [
        Self::Cookie,
        Self::Token,
        Self::OtherRelay,
        Self::Expired,
        Self::Outdated,
        Self::Draining,
        Self::Full,
        Self::TooOften,
    ];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Token => "token",
            Self::OtherRelay => "other_relay",
            Self::Expired => "expired",
            Self::Outdated => "outdated",
            Self::Draining => "draining",
            Self::Full => "full",
            Self::TooOften => "too_often",
            Self::Other(_) => "other",
        }
    }

    /// The byte on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u8 {
        match self {
            Self::Cookie => 1,
            Self::Token => 2,
            Self::OtherRelay => 3,
            Self::Expired => 4,
            Self::Outdated => 5,
            Self::Draining => 6,
            Self::Full => 7,
            Self::TooOften => 8,
            Self::Other(byte) => byte,
        }
    }

    /// The reason that a byte on the wire stands for.
    #[must_use]
    pub const fn from_wire(byte: u8) -> Self {
        match byte {
            1 => Self::Cookie,
            2 => Self::Token,
            3 => Self::OtherRelay,
            4 => Self::Expired,
            5 => Self::Outdated,
            6 => Self::Draining,
            7 => Self::Full,
            8 => Self::TooOften,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Cookie => "the cookie is unknown or has expired",
            Self::Token => "the token is not the portal's for this relay",
            Self::OtherRelay => "the token is for another relay or port",
            Self::Expired => "the token has expired, or its issue lies in the future",
            Self::Outdated => "the token was withdrawn, or a later one is in use",
            Self::Draining => "the relay drains and takes no new ends",
            Self::Full => "the relay holds no more ends",
            Self::TooOften => "too many registrations",
            Self::Other(byte) => return write!(out, "for reason {byte} of a later version"),
        };
        out.write_str(text)
    }
}
