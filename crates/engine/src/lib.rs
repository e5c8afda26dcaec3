//! The packet workers and the control thread between TUN, session and UDP.
//!
//! [`Device::start`] creates an interface and N equal workers. A worker carries a batch the whole way
//! on its own thread, in both directions ([`worker`]); one control thread ([`control`]) does
//! handshakes, timers and configuration, and publishes peers, keys and routes as one immutable
//! [`snapshot`] that workers load once per turn. Nothing on the packet road allocates per packet,
//! waits for the control thread, or holds a lock over a batch.

#![forbid(unsafe_code)]

mod allowed_ips;
mod clock;
mod configuration;
mod control;
mod counters;
mod device;
mod entropy;
mod error;
mod flows;
mod gates;
mod mechanisms;
mod offload_retry;
mod peer;
mod published;
mod service_routes;
mod snapshot;
mod status;
mod store;
mod sync;
mod turns;
mod unrouted;
mod wake_flag;
mod worker;

pub use allowed_ips::{AllowedIps, Prefix};
pub use configuration::{
    AllowedIpChange, Change, Configuration, Inside, MAX_CANDIDATES, MAX_WORKERS, Options,
    PeerChange, PeerConfiguration, Refusal,
};
pub use counters::{BatchSizes, Counter, Dropped, WorkerCounters};
pub use device::{BULK_QUEUES_PER_WORKER, Device, default_workers};
pub use error::EngineError;
pub use flows::TakenFlows;
pub use gates::boot_time_ms;
pub use mechanisms::{Mechanism, Mechanisms, NoSuchMechanism};
pub use service_routes::ServiceRoutes;
pub use status::{
    BatchStatus, DropStatus, FeatureStatus, ForeignSource, HandshakeStatus, PeerStatus, Status,
    WorkerStatus,
};
pub use store::{DescriptorStore, Kept};
pub use unrouted::Unrouted;
