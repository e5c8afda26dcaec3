//! The facts about a packet that has no route yet.

use culvert_packet::ip::IpView;
use culvert_policy::Service;
use std::net::IpAddr;

/// The destination of a packet, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFacts {
    /// The address that it is for.
    pub destination: IpAddr,
    /// The service that it is for; `None` for a fragment that does not say.
    pub service: Option<Service>,
    /// The memory that it takes, in bytes.
    pub size_bytes: usize,
    /// True if all of it is here, so that it can go on: a gateway that refuses one quotes its start.
    pub is_whole: bool,
}

impl PacketFacts {
    /// The facts about `packet`, an IP packet or a superframe; `None` where it is no such thing.
    /// `size_bytes` is how much memory is kept for it.
    #[must_use]
    pub fn of(packet: &[u8], size_bytes: usize) -> Option<Self> {
        IpView::parse(packet)
            .ok()
            .map(|ip| Self::of_view(&ip, size_bytes, true))
    }

    /// The same of the start of a packet, as a gateway quotes it.
    #[must_use]
    pub fn of_quoted(packet: &[u8], size_bytes: usize) -> Option<Self> {
        let whole = Self::of(packet, size_bytes);
        whole.or_else(|| {
            let ip = IpView::parse_quoted(packet).ok()?;
            Some(Self::of_view(&ip, size_bytes, false))
        })
    }

    fn of_view(ip: &IpView<'_>, size_bytes: usize, is_whole: bool) -> Self {
        Self {
            destination: ip.destination(),
            service: Service::of(ip),
            size_bytes,
            is_whole,
        }
    }
}

/// The message to the sender of a packet that goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketRefusal {
    /// Access is denied: ICMP "administratively prohibited".
    Prohibited,
    /// There is no way now: ICMP "unreachable".
    Unreachable,
}
