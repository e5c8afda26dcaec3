//! The process around the API and the sessions: TLS, limits, the state directory, health, metrics.

mod address;
mod backup;
mod certificate;
mod health;
mod hello;
mod home;
mod io;
mod listener;
mod moving;
mod options;
mod portal;
mod request;
mod secrets;
mod validity;

pub use home::Home;
pub use options::{CertificateFiles, Options};
pub use portal::{Portal, SetupState};
pub use secrets::{new_secrets_key, sealer};

#[cfg(feature = "fuzzing")]
pub(crate) use listener::protocol;
