//! The gateway: enforces grants, translates names, forwards to the resources of its site.
//!
//! `culvert-gateway-core` decides and does no I/O, so that simulations run what is shipped. [`run`] gives it a
//! connection to the portal, a tunnel, a resolver and a host.

#![forbid(unsafe_code)]

mod clean_up;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod observer;
mod settings;
mod shell;
pub mod status;

pub use clean_up::clean_up;
pub use culvert_host::StatusError;
pub use error::GatewayError;
pub use observer::{Observed, Observer, ask_status};
pub use settings::{Enrolment, PublicEndpoint, Settings};
pub use shell::run;
