//! The client: asks the portal for access, and keeps tunnels to gateways.
//!
//! [`core`] decides and does no I/O, so that tests and the simulation drive what is shipped; [`run`]
//! puts sockets, the data plane and the host around it. A running client tells its [`status`] to
//! whoever asks at its socket ([`ask_status`]).

#![forbid(unsafe_code)]

pub mod core;
mod error;
mod settings;
mod shell;
pub mod status;
mod status_socket;

pub use culvert_host::StatusError;
pub use error::ClientError;
pub use settings::{Enrolment, Settings};
pub use shell::run;
pub use status_socket::ask_status;
