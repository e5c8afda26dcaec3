//! The decisions of a worker about packets, without a kernel: frames, datagrams and time in; batches, frames and counters
//! out.
//!
//! [`DataPath`] carries both directions of one worker. It reads and writes through its [`Shell`], which the engine makes
//! of kernel devices and the simulation of queues in memory. A [`Snapshot`] says which peers, keys and routes there are.
//! [`WorkerCounters`] count what was carried, and by which reason what was [`Dropped`].
//!
//! The road out ([`outbound`]): a frame of the TUN is routed to a peer, judged by the gate, cut into records of a batch, and the
//! batch is sealed and sent. The road in ([`inbound`]): records are opened, their packets checked, coalesced, judged and
//! written to the TUN ([`delivery`]). A frame that has no key yet waits ([`staging`]).

#![forbid(unsafe_code)]

mod allowed_ips;
mod batch;
mod busy_poll;
mod codel;
mod context;
mod copies;
mod counter;
mod counters;
mod data_path;
mod delivery;
mod endpoint_watch;
mod event;
mod frame;
mod gate;
mod gates;
mod icmp_rate;
mod inbound;
mod interrupt_moderation;
mod key_table;
mod lane;
mod mechanisms;
mod mix;
mod mtu_answers;
mod offload_retry;
mod outbound;
mod own;
mod peer;
mod peer_keys;
mod peer_table;
mod queue_bound;
mod queues;
mod refusal;
mod refusals;
mod route;
mod send_limit;
mod sending;
mod service_routes;
mod shell;
mod snapshot;
mod splitter;
mod staging;
mod superframes;
mod sync;
#[cfg(test)]
mod testing;
mod traffic;
mod transmit;
mod turns;
mod unrouted;

pub use allowed_ips::AllowedIps;
pub use counter::Counter;
pub use counters::{BatchSizes, Dropped, WorkerCounters};
pub use data_path::{DataPath, Options, Rest};
pub use endpoint_watch::EndpointWatch;
pub use event::{
    Command, Event, HandshakeMessage, MAX_PATH_MESSAGE_LEN, OuterMessage, PATH_MESSAGE_PREFIX,
    PathMessage,
};
pub use gates::{EndedFlow, Gates, SWEEP_INTERVAL};
pub use interrupt_moderation::PAUSE;
pub use key_table::{KeyTable, Receiving};
pub use lane::Lane;
pub use mechanisms::{Mechanism, Mechanisms, NoSuchMechanism};
pub use mix::Mix;
pub use outbound::MIN_PATH_MTU;
pub use peer::{Peer, ip_and_udp_len};
pub use peer_table::PeerTable;
pub use refusal::RouteRefusal;
pub use route::Route;
pub use sending::Sending;
pub use service_routes::ServiceRoutes;
pub use shell::{
    Datagrams, Ended, QueueCredit, Ready, Receive, Received, Renewed, SendFault, Shell,
};
pub use snapshot::{Inside, Snapshot};
pub use traffic::TrafficCounters;
pub use unrouted::Unrouted;
