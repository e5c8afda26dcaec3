//! The measured quantities and their units.

use std::fmt;

use crate::flood::Sending;

/// One row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    /// TCP throughput in bits of payload a second.
    Tcp(Flows, &'static str),
    /// The highest rate of UDP payload, in bits a second, of datagrams this large that arrives with
    /// next to no loss.
    UdpLossFree {
        sending: Sending,
        payload_bytes: u32,
    },
    /// Mean round-trip time of an idle tunnel in milliseconds.
    IdlePing,
    /// Median of the same.
    IdlePingMedian,
    /// Mean round-trip time under one TCP connection, in milliseconds.
    LoadedPing,
    /// Median of the same.
    LoadedPingMedian,
    /// The longest of those, in milliseconds.
    LoadedPingMax,
    /// The share of them that had no answer within a second, in percent.
    LoadedPingLost,
    /// TCP throughput during the latency measurement, in bits a second.
    LoadedTcp,
    /// Segments that TCP sends again meanwhile.
    LoadedRetransmissions,
    /// Processor time of both ends, in seconds a gigabyte of payload carried by TCP.
    CpuPerGigabyte,
    /// Segments that TCP took for reordered, in all throughput measurements of a turn.
    Reordered,
    /// Segments that arrived before an earlier one, in all throughput measurements of a turn.
    OutOfOrder,
    /// TCP throughput on a link shaped to so many Gbit/s, in bits a second.
    LinkTcp { gbit: u32 },
    /// Mean round-trip time under that load, in milliseconds.
    LinkPing { gbit: u32 },
    /// The most memory one end had resident after all of it, in bytes.
    PeakMemory,
}

/// The connections of a TCP measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Flows {
    /// One from client to server.
    One,
    /// One from server to client.
    OneReverse,
    /// Four from client to server.
    Four,
}

/// The direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

impl Metric {
    pub(crate) fn better(self) -> Better {
        match self {
            Self::Tcp(..) | Self::UdpLossFree { .. } | Self::LoadedTcp | Self::LinkTcp { .. } => {
                Better::Higher
            }
            Self::IdlePing
            | Self::IdlePingMedian
            | Self::LoadedPing
            | Self::LoadedPingMedian
            | Self::LoadedPingMax
            | Self::LoadedPingLost
            | Self::LoadedRetransmissions
            | Self::CpuPerGigabyte
            | Self::Reordered
            | Self::OutOfOrder
            | Self::LinkPing { .. }
            | Self::PeakMemory => Better::Lower,
        }
    }

    /// The unit that tables show, and how many of the measured unit make one of it.
    pub(crate) fn shown_unit(self) -> (&'static str, f64) {
        match self {
            Self::Tcp(..) | Self::UdpLossFree { .. } | Self::LoadedTcp | Self::LinkTcp { .. } => {
                ("Gbit/s", 1e9)
            }
            Self::IdlePing
            | Self::IdlePingMedian
            | Self::LoadedPing
            | Self::LoadedPingMedian
            | Self::LoadedPingMax
            | Self::LinkPing { .. } => ("ms", 1.0),
            Self::LoadedRetransmissions | Self::Reordered | Self::OutOfOrder => ("", 1.0),
            Self::LoadedPingLost => ("%", 1.0),
            Self::CpuPerGigabyte => ("s/GB", 1.0),
            Self::PeakMemory => ("MB", 1e6),
        }
    }

    /// The key in the JSON results, with the unit of its values.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Tcp(flows, congestion_control) => {
                format!("tcp_{}_{congestion_control}_bits_per_second", flows.key())
            }
            Self::UdpLossFree {
                sending: Sending::Datagrams,
                payload_bytes,
            } => format!("udp_loss_free_{payload_bytes}_bits_per_second"),
            Self::UdpLossFree {
                sending: Sending::Runs,
                payload_bytes,
            } => format!("udp_segmented_loss_free_{payload_bytes}_bits_per_second"),
            Self::IdlePing => "ping_idle_average_ms".to_owned(),
            Self::IdlePingMedian => "ping_idle_median_ms".to_owned(),
            Self::LoadedPing => "ping_under_load_average_ms".to_owned(),
            Self::LoadedPingMedian => "ping_under_load_median_ms".to_owned(),
            Self::LoadedPingMax => "ping_under_load_max_ms".to_owned(),
            Self::LoadedPingLost => "ping_under_load_lost_percent".to_owned(),
            Self::LoadedTcp => "tcp_under_ping_bits_per_second".to_owned(),
            Self::LoadedRetransmissions => "tcp_under_ping_retransmissions".to_owned(),
            Self::CpuPerGigabyte => "cpu_seconds_per_gigabyte".to_owned(),
            Self::Reordered => "tcp_reordered_segments".to_owned(),
            Self::OutOfOrder => "tcp_out_of_order_segments".to_owned(),
            Self::LinkTcp { gbit } => format!("link_{gbit}_gbit_tcp_bits_per_second"),
            Self::LinkPing { gbit } => format!("link_{gbit}_gbit_ping_average_ms"),
            Self::PeakMemory => "peak_memory_bytes".to_owned(),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(Flows::One, control) => write!(formatter, "TCP ×1 {control}"),
            Self::Tcp(Flows::OneReverse, control) => write!(formatter, "TCP ×1 reverse {control}"),
            Self::Tcp(Flows::Four, control) => write!(formatter, "TCP ×4 {control}"),
            Self::UdpLossFree {
                sending: Sending::Datagrams,
                payload_bytes,
            } => write!(formatter, "UDP {payload_bytes} B"),
            Self::UdpLossFree {
                sending: Sending::Runs,
                payload_bytes,
            } => write!(formatter, "UDP {payload_bytes} B in runs"),
            Self::IdlePing => formatter.write_str("ping, idle"),
            Self::IdlePingMedian => formatter.write_str("ping, idle, median"),
            Self::LoadedPing => formatter.write_str("ping under load"),
            Self::LoadedPingMedian => formatter.write_str("ping under load, median"),
            Self::LoadedPingMax => formatter.write_str("… longest"),
            Self::LoadedPingLost => formatter.write_str("… lost"),
            Self::LoadedTcp => formatter.write_str("… TCP meanwhile"),
            Self::LoadedRetransmissions => formatter.write_str("… sent again"),
            Self::CpuPerGigabyte => formatter.write_str("CPU of both ends"),
            Self::Reordered => formatter.write_str("TCP reordered"),
            Self::OutOfOrder => formatter.write_str("TCP out of order"),
            Self::LinkTcp { gbit } => write!(formatter, "{gbit} Gbit/s link, TCP"),
            Self::LinkPing { gbit } => write!(formatter, "{gbit} Gbit/s link, ping"),
            Self::PeakMemory => formatter.write_str("peak memory"),
        }
    }
}

impl Flows {
    /// All of them, in the order of measurement.
    pub(crate) const ALL: [Self; 3] = [Self::One, Self::OneReverse, Self::Four];

    fn key(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::OneReverse => "1_reverse",
            Self::Four => "4",
        }
    }
}
