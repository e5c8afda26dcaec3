//! The packet workers and the control thread between TUN, session and UDP.
//!
//! [`Device::start`] creates an interface and N equal workers. A worker carries a batch the whole way
//! on its own thread, in both directions ([`worker`]). One control thread ([`control`]) does
//! handshakes, timers and configuration. It publishes peers, keys and routes as one immutable
//! [`Snapshot`](culvert_datapath::Snapshot) that workers load once per turn. The decisions of a worker are
//! in `culvert-datapath`. Nothing on the packet road allocates per packet,
//! waits for the control thread, or holds a lock over a batch.

#![forbid(unsafe_code)]

mod clock;
mod configuration;
mod control;
mod device;
mod entropy;
mod error;
mod flows;
mod published;
mod sockets;
mod status;
mod store;
mod sync;
mod traffic;
mod wake_flag;
mod worker;

pub use clock::{boot_time, unix_time};
pub use configuration::{
    BULK_QUEUES_PER_WORKER, Change, Configuration, GateKind, MAX_CANDIDATES, MAX_WORKERS, Options,
    PeerChange, PeerConfiguration,
};
pub use culvert_base::AllowedIpChange;
pub use device::{Device, default_workers};
pub use error::EngineError;
pub use flows::TakenFlows;
pub use status::{
    BatchStatus, DropStatus, FeatureStatus, ForeignSource, HandshakeStatus, PathMessageStatus,
    PeerStatus, Status, WatchedPeer, WorkerStatus,
};
pub use store::{DescriptorStore, StoredDescriptors};
