//! The portal: it knows who may use what, and introduces clients to gateways.
//!
//! - [`server`]: the process: TLS, the state directory, limits, health and metrics;
//! - `api`: the REST API under `/api/v1`, and the document that describes it.
//!
//! What they stand on has crates of its own: the console (`culvert_console`), the rules about who may do what
//! (`culvert_portal_service`), proofs of who people are (`culvert_portal_auth`), the WebSockets of clients and gateways
//! (`culvert_control_server`) around the hub (`culvert_hub`), which decides, and log sinks (`culvert_log_sinks`).

#![forbid(unsafe_code)]

mod api;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod server;

pub use api::openapi;
pub use error::PortalError;
pub use server::{CertificateFiles, Home, Options, Portal, SetupState, new_secrets_key, sealer};
