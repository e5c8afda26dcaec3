//! The process around the API and the sessions: TLS, limits, the state directory, health, metrics.

mod address;
mod address_port;
mod backup;
mod certificate;
mod health;
mod hello;
mod home;
mod io;
mod listener;
mod moving;
mod options;
mod own_certificate;
mod portal;
mod publisher;
mod request;
mod secrets;
mod validity;

pub use home::{HandedOut, Home, Published};
pub use options::{CertificateFiles, Options};
pub use own_certificate::OwnCertificates;
pub use portal::{Portal, SetupState};
pub use secrets::{new_secrets_key, sealer};

#[cfg(feature = "fuzzing")]
pub(crate) use listener::protocol;
