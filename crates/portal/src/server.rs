//! The process around the API and the sessions: TLS, limits, the state directory, health, metrics.

mod address;
mod backup;
mod bounds;
mod certificate;
mod connection;
mod evictions;
mod health;
mod hello;
mod home;
mod io;
mod listener;
mod metrics;
mod notice;
mod options;
mod places;
mod portal;
mod public_address;
mod rate_limit;
mod request;
mod secrets;

pub use bounds::DESCRIPTORS_NEEDED;
pub use home::Home;
pub use options::{CertificateFiles, Options};
pub use portal::{Portal, SetupState};
pub use public_address::PublicAddress;
pub use secrets::{new_secrets_key, sealer};

pub(crate) use connection::Connection;
pub(crate) use evictions::Evictions;
#[cfg(feature = "fuzzing")]
pub(crate) use listener::protocol;
pub(crate) use metrics::Metrics;
pub(crate) use notice::Notice;
pub(crate) use places::{Place, Places};
#[cfg(feature = "fuzzing")]
pub(crate) use public_address::Origin;
pub(crate) use public_address::UnnamedClient;
pub(crate) use rate_limit::RateLimit;
pub(crate) use request::{check_address, no_route};
