//! The client: asks the portal for access, and keeps tunnels to gateways.
//!
//! [`core`] decides and does no I/O, so that tests and the simulation drive what is shipped; [`run`]
//! puts sockets, the data plane and the host around it. A running client tells its [`status`] to
//! whoever asks at its socket ([`ask_status`]), or in its process ([`Observer`]).

#![forbid(unsafe_code)]

pub mod core;
mod error;
mod observer;
mod settings;
mod shell;
pub mod status;

pub use culvert_host::StatusError;
pub use error::ClientError;
pub use observer::{Observed, Observer, ask_access, ask_status};
pub use settings::{Enrolment, Settings};
pub use shell::run;
