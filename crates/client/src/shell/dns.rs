//! DNS over the kernel's sockets: queries from programs to the core, answers back, and queries to
//! upstream resolvers.

mod listener;
mod tls;
mod upstream;

pub(crate) use listener::{Admit, Listeners};
pub(crate) use tls::TlsServers;
pub(crate) use upstream::{Server, ask_upstream};

use culvert_dns::{ForwardId, Transport};
use std::net::SocketAddr;
use tokio::sync::mpsc;

/// Messages that wait for the core, which takes one in microseconds.
pub(crate) const MAX_WAITING_MESSAGES: usize = 1024;

/// Input for the core.
#[derive(Debug)]
pub(crate) enum DnsEvent {
    /// A program asks.
    Query {
        bytes: Vec<u8>,
        transport: Transport,
        from: SocketAddr,
    },
    /// An upstream resolver answered.
    Answer {
        bytes: Vec<u8>,
        transport: Transport,
        from: SocketAddr,
    },
    /// An upstream resolver can't be reached.
    Unreachable(ForwardId),
}

/// The way to the core.
pub(crate) type DnsEvents = mpsc::Sender<DnsEvent>;
