//! Typed identifiers of what the portal manages.
//!
//! An id is 16 bytes: 48 bits of Unix time in milliseconds, then 80 random bits, as in a UUID of
//! version 7 without its marks. Ids therefore sort by time of birth, which databases like and
//! which settles ties ("the older resource wins"). In text it is a prefix that says what it names,
//! `_`, and 26 characters of Crockford's base 32 in lower case: `res_01jd7m2v9q8k4x0c5t3w6y1z2a`.
//!
//! Pure: the clock and the random bytes are arguments.

#![forbid(unsafe_code)]

mod base32;
mod kinds;

pub use kinds::{
    AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, IdentityId, MembershipId, PolicyId,
    PortalId, ProviderId, RelayId, ResourceId, SiteId, TokenId,
};

/// Bytes of an id.
pub const ID_LEN: usize = 16;

/// Random bytes that a new id takes.
pub const RANDOM_LEN: usize = 10;

/// The reason why a text is not an id of the kind that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The prefix is another one, or missing.
    #[error("expected an id that begins with `{expected}_`")]
    Prefix {
        /// The prefix that the id should have.
        expected: &'static str,
    },
    /// The text after the prefix is not 26 characters of base 32.
    #[error("an id has 26 letters and digits after `{prefix}_`, without i, l, o and u")]
    Text {
        /// The kind's prefix.
        prefix: &'static str,
    },
}
