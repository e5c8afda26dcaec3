//! The portal: it knows who may use what, and introduces clients to gateways.
//!
//! - [`server`]: the process: TLS, the state directory, limits, health and metrics;
//! - `api`: the REST API under `/api/v1`, and the document that describes it.
//!
//! The layers below have crates of their own. They are the console (`culvert_console`), the rules about permissions
//! (`culvert_portal_service`) and proofs of identity (`culvert_portal_auth`). The WebSockets of clients and gateways
//! (`culvert_control_server`) surround the hub (`culvert_hub`), which decides. Log sinks are in `culvert_log_sinks`.

#![forbid(unsafe_code)]

mod api;
mod error;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod server;

pub use api::openapi;
pub use error::PortalError;
pub use server::{
    CertificateFiles, HandedOut, Home, Options, OwnCertificates, Portal, Published, SetupState,
    new_secrets_key, sealer,
};
