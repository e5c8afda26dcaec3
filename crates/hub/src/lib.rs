//! Messages of the portal to clients, gateways and relays: the decisions for all sessions of one account. The
//! hub has no clock, randomness or I/O of its own, so tests and a simulation run the code that is
//! shipped.
//!
//! Events go in through `handle_*`, each with the time. Effects come out of [`Hub::poll_output`], to be
//! polled until it is empty after every call. [`Hub::poll_timeout`] says when [`Hub::handle_timeout`]
//! is due at the latest.
//!
//! Three rules hold throughout. A grant is out only while [`Directory`] allows it: each change makes
//! the hub review the grants that it affects, and no others. An unknown fact denies. And the hub never
//! takes a grant away because the portal itself has a fault: an error of the store reaches it in no
//! form.

#![forbid(unsafe_code)]

mod directory;
mod election;
mod endpoints;
mod grants;
mod hub;
pub mod limits;
mod name_asks;
mod output;
mod outside;
mod random;
mod reasons;
mod relays;
mod returning;
mod session;
mod sessions;
mod signing;
mod slots;
mod timers;
mod views;

pub use directory::{Directory, FeedError};
pub use election::{Elected, Election, LEASE_MARGIN, MISFIT_PAUSE, Term};
pub use endpoints::CountryOf;
pub use hub::{ClientJoin, GatewayJoin, Hub, RelayJoin};
pub use output::{Output, SessionId};
pub use reasons::OWNER_RETRY_AFTER_S;
pub use session::Facts;
pub use signing::{PORTAL_SECRET_LEN, PortalKeys, SignError, Signer};
pub use views::{
    Bar, ClientView, Counters, DeviceEndpointView, Explained, ExplainedPolicies, GatewayView,
    HubStatus, JudgedAddress, PathView, PolicyView, RelayView, UnmetKind, UnmetView,
};
