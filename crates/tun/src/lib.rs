//! The Linux TUN device: queues and their bounds, offloads, flow steering, link events.
//!
//! A [`Device`] is one TUN interface with one or more [`Queue`]s. Every frame that crosses a queue is a virtio-net
//! header of `VNET_HEADER_BYTES` followed by one IP packet. The packet may be a *superframe*: up to 64 KiB of one TCP
//! or UDP flow that the kernel would otherwise have cut into packets. One read or write then carries some 45 packets.
//!
//! ```text
//!   app ─ TCP/UDP ─ IP ─▶ steering program ─▶ bound ─▶ queue 0 (must not wait) ─▶ Queue::receive_batch
//!                                        └──▶ bound ─▶ queue 1… (bulk, by flow)
//!   app ◀ TCP/UDP ◀ IP ◀─────────────────────────────────────────────────────────  Queue::send
//! ```
//!
//! Nothing here blocks and nothing here knows an async runtime: descriptors are non-blocking and offered as
//! [`AsFd`](std::os::fd::AsFd) for the caller's own poll. The device lives as long as its last descriptor.

mod bound;
mod device;
mod error;
mod fault;
mod ioctl;
mod link;
mod offload;
mod queue;
mod steering;
mod takeover;
mod watch;

pub use bound::{BoundState, MIN_SINGLES_BOUND_BYTES, QueueCredit};
pub use culvert_bpf::ProgramOff;
pub use device::{Device, Options};
pub use error::TunError;
pub use fault::queue_fault;
pub use offload::{Feature, OffReason, OffloadGroup, Offloads};
pub use queue::{FrameBatch, MAX_FRAMES_PER_BATCH, Queue};
pub use steering::{MAX_QUEUES, Steering, SteeringState};
pub use watch::{LinkEvent, LinkWatch};
