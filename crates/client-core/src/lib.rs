//! The client without I/O: its requests to the portal, the gateway of each packet, and packets that wait.
//!
//! [`Client`] gets connections, messages, packets without a route, DNS queries, what is known of peers
//! and the time through `handle_*`, and says what is to be done through [`Client::poll_output`]. Call
//! any `handle_*`, then [`Client::poll_output`] until it returns `None`, and carry out the outputs in
//! that order; then sleep until [`Client::poll_timeout`] at the latest and call
//! [`Client::handle_timeout`]. At [`Client::poll_report`], tell it of the peers; first of the two if both are due.
//!
//! Instants are those of the host's boot-time clock ([`BootTime`](culvert_base::BootTime)), and random
//! numbers come from a seed. A packet is any type of its owner (`P`): the core looks at its
//! [`PacketFacts`] alone and gives it back.
//!
//! A range without a live grant has no route to a gateway: the data plane's ranges are derived from the
//! grants after every event. The range of a narrower resource is cut out of a wider one.

#![forbid(unsafe_code)]

mod access;
mod accesses;
mod answers;
mod applications;
mod ask;
mod asking;
mod changed;
mod client;
mod counters;
mod counting;
mod directory;
mod domains;
mod ended;
mod failover;
mod gateway;
mod gateways;
mod grant;
mod guard;
mod inbound;
mod journal;
mod listing;
mod log;
mod messages;
mod names;
mod network;
mod opening;
mod options;
mod os_release;
mod outbox;
mod output;
mod packet;
mod packets;
mod paths;
mod peers;
mod portal;
mod queries;
mod reason;
mod relaying;
mod remembered;
mod report;
mod resources;
mod routes;
mod same_target;
mod service_routes;
mod sign_in;
pub mod status;
mod subtract;

pub use access::{
    DENIAL_SHOWN_MS, MAX_DENIAL_MS, MAX_HELD_PER_RESOURCE, MAX_WANTED_NAMES, MIN_DENIAL_MS,
};
pub use accesses::{
    ANSWER_LIMIT_MS, MAX_ACCESSES, MAX_HELD_BYTES, MAX_IN_FLIGHT, OFFLINE_LIMIT_MS,
};
pub use changed::ChangedResources;
pub use client::Client;
pub use counters::Counters;
pub use culvert_control::HELLO_LIMIT_MS;
pub use directory::{MAX_RESOURCES, MAX_SAME_TARGET};
pub use domains::{Domains, MAX_DOMAINS};
pub use ended::MAX_ENDED;
pub use gateway::PeerReport;
pub use gateways::AVOID_MS;
pub use grant::MAX_NAMES_PER_GRANT;
pub use guard::GuardRules;
pub use journal::{Found, Journal, Since};
pub use names::DNS_PORT;
pub use options::Options;
pub use os_release::{MAX_OS_RELEASE_LEN, parse_os_release};
pub use output::{Ending, Output, Peer, PeerUpdate};
pub use packet::{PacketFacts, PacketRefusal};
pub use peers::MAX_RANGES;
pub use remembered::{MAX_REMEMBERED, MAX_STORED_DESTINATIONS_LEN, Remembered};
pub use report::View;
pub use sign_in::{
    Approved, BrowserSignIn, SignInFailure, SignInFault, SignInRequest, SignInStatus,
};
