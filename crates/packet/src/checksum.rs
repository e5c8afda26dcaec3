//! The internet checksum: RFC 1071, its incremental update (RFC 1624), the pseudo-headers of
//! IPv4 (RFC 9293 §3.1) and IPv6 (RFC 8200 §8.1).

mod lanes;
mod pseudo_header;
mod sum;
mod transport;
#[cfg_attr(not(target_arch = "x86_64"), path = "checksum/base.rs")]
mod wide;

pub use pseudo_header::{pseudo_v4, pseudo_v6};
pub use sum::{Sum, update};
pub use transport::{ChecksumState, verify_transport};
