//! Measurements of a tunnel: throughput, loss, round-trip times, reordering, processor time,
//! memory.

mod iperf;
mod ping;
mod tcp_counters;
mod usage;

pub use iperf::{IperfServer, TcpLoad, TcpReport, UdpReport};
pub use ping::{PingReport, start_ping};
pub use tcp_counters::TcpCounters;
pub use usage::{Usage, busy_of_machine};
