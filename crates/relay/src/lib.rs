//! The relay: forwards WireGuard's records between ends that cannot reach each other.
//!
//! `culvert-relay-core` decides and does no I/O. Here are its sockets and threads:
//!
//! - A *worker* is a thread with whole gateway ports, and their tables. It carries records in the batches in which the
//!   kernel joined them, and no tokio is on their road.
//! - *TLS streams* have threads of their own, which hand datagrams to the workers on loopback.
//! - The *event loop* owns the session with the portal. It sends commands to the workers, and reads their reports.

#![forbid(unsafe_code)]

mod clock;
mod error;
mod exchange;
mod load;
mod observer;
mod portal;
mod settings;
mod shell;
mod sockets;
pub mod status;
mod tls;
mod worker;
mod workers;

pub use culvert_host::StatusError;
pub use culvert_relay_tls::{CertificateError, Certificates};
pub use error::RelayError;
pub use exchange::{Command, Report, SendCounters};
pub use observer::{Observed, Observer, ask_status};
pub use settings::{
    Enrolment, PortRange, PortRangeError, Settings, TlsListen, TlsListenError, TlsSettings,
};
pub use shell::run;
pub use sockets::Sockets;
pub use workers::Workers;
