//! The control channel of clients, gateways and relays, from their side: a WebSocket over TLS 1.3 to the
//! portal, and how long to wait before the next attempt. `docs/access.md` describes it.
//!
//! [`connect()`] and [`connect_over`] make a [`Connection`], which carries texts: what they mean is for `culvert-wire` and
//! the roles. A [`PortalLink`] holds one attempt or one connection after the other. [`open`] and [`open_by`] stop at TLS, for whoever speaks HTTP with the portal; [`probe()`] says
//! which step of the way fails, and [`race`] connects to whichever address answers first. [`connect_tcp`] does so through
//! an [`HttpProxy`] too. [`trusting_authorities`] and [`pinned`] are the TLS of other servers. [`write_log`] writes the lines of a core. Its state without I/O is in `culvert-control`.

#![forbid(unsafe_code)]

mod connect;
mod connection;
mod error;
mod log;
mod look_up;
mod nat64;
mod nat64_search;
mod portal_link;
mod probe;
mod proxy;
mod tcp;
mod tls;

pub use connect::{
    Connected, Credential, Destination, check_url, connect, connect_over, open, open_by,
};
pub use connection::{
    Closed, Connection, MAX_WAITING_MESSAGES, PING_INTERVAL, SILENCE_LIMIT, Sender,
};
pub use error::ConnectError;
pub use log::write_log;
pub use look_up::{LookUp, system_look_up};
pub use nat64::{Nat64, default_sources, find_nat64, source_to};
pub use nat64_search::Nat64Search;
pub use portal_link::{PortalEvent, PortalLink};
pub use probe::{PortalAnswer, Probe, probe, probe_tls};
pub use proxy::{HttpProxy, ProxyCredentials, ProxyCredentialsError, ProxyUrlError};
pub use tcp::{Way, connect_tcp, race};
pub use tls::{is_wrong_certificate, pinned, trusting_authorities};
