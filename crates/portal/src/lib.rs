//! The portal: it knows who may use what, and introduces clients to gateways.
//!
//! - [`server`]: the process: TLS, the state directory, limits, health and metrics;
//! - `api`: the REST API under `/api/v1`, and the document that describes it;
//! - `service`: what an actor may do, whichever way the request came;
//! - [`sessions`]: the WebSockets of clients and gateways, around the hub (`culvert_hub`), which decides.

#![forbid(unsafe_code)]

mod api;
mod console;
mod error;
mod fault;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod machine_commands;
mod oidc;
mod outbound;
pub mod server;
mod service;
pub mod sessions;
mod sinks;
mod webauthn;

pub use api::openapi;
pub use error::PortalError;
pub use server::{
    CertificateFiles, DESCRIPTORS_NEEDED, Home, Options, Portal, PublicAddress, SetupState,
    new_secrets_key, sealer,
};
pub use service::{SetupToken, issue_setup_token};
