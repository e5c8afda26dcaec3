//! Messages between portal, client and gateway, as described in `docs/access.md`.
//!
//! - [`messages`]: the sessions' JSON messages, and [`decode()`] for what a stranger sent;
//! - [`model`]: resources, filters and conditions in the form in which the sessions, the API, the
//!   database and `access.toml` write them;
//! - [`token`]: the one string that a machine needs to enrol;
//! - [`api`]: what the REST API takes and shows;
//! - [`GrantClaims`]: what the portal signs.
//!
//! These types are as received: a name may be too long, a network may have host bits. Code that
//! acts on them converts them to the types of `culvert-policy` first ([`model`] has the
//! conversions), and refuses values that cannot be converted.
//!
//! Pure: no clock, no randomness, no I/O.

#![forbid(unsafe_code)]

pub mod api;
mod authority;
mod cipher;
mod decode;
mod grant;
pub mod messages;
pub mod model;
pub mod port;
mod portal_key;
pub mod token;
pub mod words;

pub use authority::{AuthorityError, check_authority};
pub use cipher::Cipher;
pub use culvert_base::{KeyError, PresharedKey, PublicKey};
pub use culvert_policy::Timestamp;
pub use decode::{DecodeError, Decoded, MAX_MESSAGE_LEN, Message, decode, encode};
pub use grant::{GrantClaims, GrantTarget};
pub use portal_key::PortalKey;

/// The version of the session protocol that this build speaks.
///
/// A client or gateway offers all that it speaks in `hello`; the portal chooses the highest that it
/// speaks too, or refuses.
pub const PROTOCOL: u32 = 1;

/// Path of the clients' sessions on the portal.
pub const CLIENT_SESSION_PATH: &str = "/api/v1/session/client";

/// Path of the gateways' sessions on the portal.
pub const GATEWAY_SESSION_PATH: &str = "/api/v1/session/gateway";

/// Path of the relays' sessions on the portal.
pub const RELAY_SESSION_PATH: &str = "/api/v1/session/relay";

/// The header with the UDP port at which the portal tells ends their own address, in the answer that opens a session. It
/// is of the portal that the end has reached, which another one may lead.
pub const UDP_PORT_HEADER: &str = "culvert-udp-port";

/// Path of the links of other portals, at the portal that leads.
pub const PORTAL_LINK_PATH: &str = "/api/v1/session/portal";
