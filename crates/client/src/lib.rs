//! The client: asks the portal for access, and keeps tunnels to gateways.
//!
//! `culvert-client-core` decides and does no I/O, so that tests and the simulation drive what is shipped; [`run`]
//! puts sockets, the data plane and the host around it. A running client reports its [`status`] at its
//! socket ([`ask`]) and in its process ([`Observer`]). One that was given no token takes commands
//! there ([`Request`]).

#![forbid(unsafe_code)]

mod clean_up;
mod error;
mod observer;
mod request;
mod settings;
mod shell;
pub mod status;
mod upstream;
mod watch;

pub use clean_up::{clean_up_network, clean_up_resolver};
pub use culvert_host::{ErrorCode, StatusError};
pub use error::ClientError;
pub use observer::{Observed, Observer, ask, ask_log, ask_status, is_in_application};
pub use request::{PortalSignIn, Request, SecretText, SettingsChange, SignIn};
pub use settings::{DnsScope, Enrolment, Settings};
pub use shell::{DeviceSignIn, SignInEvent, run};
pub use upstream::{Upstream, UpstreamError};
pub use watch::{Differences, Mirror, WatchError, WatchMessage, Watcher};
