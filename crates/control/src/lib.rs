//! The control session of clients and gateways with the portal, without I/O.
//!
//! [`ControlSession`] decides when to connect and what counts as a session, and keeps the portal's clock;
//! `docs/access.md` describes it. [`Backoff`] spreads attempts, and [`PortalAddresses`] says
//! where each of them goes. [`Repeats`] and [`RepeatedEvents`] bound what is logged
//! about it. [`PortalStatus`] is the session as the status of a role tells it.
//!
//! Time and random numbers are arguments.

#![forbid(unsafe_code)]

mod backoff;
mod portals;
mod repeats;
mod session;
mod status;

pub use backoff::Backoff;
pub use portals::{ATTEMPT_LIMIT, Attempt, PortalAddresses, Trust};
pub use repeats::{RepeatedEvents, Repeats};
pub use session::{ControlSession, ControlState, HELLO_LIMIT_MS, OutOfOrder, stamp_epoch};
pub use status::{CLOCK_TOLERANCE_MS, CounterStatus, DropStatus, PortalState, PortalStatus};
