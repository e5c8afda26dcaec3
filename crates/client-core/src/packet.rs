//! What the client needs to know of a packet that has no route yet.

use culvert_packet::ip::IpView;
use culvert_policy::Service;
use std::net::IpAddr;

/// What a packet asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketFacts {
    /// Where it goes.
    pub destination: IpAddr,
    /// What it wants there; `None` for a fragment that does not say.
    pub service: Option<Service>,
    /// How much memory it takes, in bytes.
    pub size_bytes: usize,
    /// Whether all of it is here, so that it can go on: a gateway that refuses one quotes its start.
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

/// What the sender of a packet that goes nowhere hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketRefusal {
    /// Access is denied: ICMP "administratively prohibited".
    Prohibited,
    /// There is no way now: ICMP "unreachable".
    Unreachable,
}
