//! The parts that the measurements share.

use std::net::{Ipv4Addr, SocketAddr};

pub(super) const MAIN_PORT: u16 = 3478;
pub(super) const FIRST_PORT: u16 = 3479;
pub(super) const GATEWAY_PORTS: &str = "3479-3481";

/// Bytes of a record, and records of a batch.
pub(super) const RECORD: usize = 1_420;
pub(super) const BATCH: usize = 44;

/// The throughput of one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) gbit_per_s: f64,
    /// Gigabits for each second of the server's processor time.
    pub(super) gbit_per_core: f64,
    pub(super) lost: u64,
}

pub(super) fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

pub(super) fn batch(record: &[u8]) -> Vec<u8> {
    record.repeat(BATCH)
}
