//! The shared parts of the portal's crates: refusals of requests, the bounds of connections and
//! requests, counters, and the clock.

#![forbid(unsafe_code)]

mod body;
mod bounds;
mod certificate_state;
mod class;
mod clock;
mod connection;
mod evictions;
mod extract;
mod fault;
mod instant;
mod limits;
mod metrics;
mod notice;
mod places;
mod portal_metrics;
mod problem;
mod problems;
mod public_address;
mod rate_limit;
mod tables;
mod uri;

pub use body::{MAX_BODY_BYTES, limit_for, read_body};
pub use bounds::Bounds;
pub use certificate_state::CertificateState;
pub use class::Class;
pub use clock::{Birth, birth, boot_time, now};
pub use connection::Connection;
pub use evictions::Evictions;
pub use extract::{ActorInPath, Id, bearer};
pub use fault::{Fault, obstacle};
pub use instant::{
    Ago, Ahead, Lifetime, parse_ago, parse_ago_at, parse_ahead, parse_ahead_at, parse_lifetime,
};
pub use limits::{DESCRIPTORS_NEEDED, Limits, MAX_SESSIONS};
pub use metrics::{LiveMetrics, MEDIA_TYPE, Metrics, UnwrittenRecords};
pub use notice::Notice;
pub use places::{Place, Places};
pub use portal_metrics::{Leadership, PortalMetrics};
pub use problem::{render, take_problem};
pub use problems::Problems;
pub use public_address::{Origin, ProxysWord, PublicAddress, UnnamedClient};
pub use rate_limit::RateLimit;
pub use uri::{MAX_ADDRESS_BYTES, check_address, no_route};
