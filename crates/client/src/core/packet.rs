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
}

impl PacketFacts {
    /// The facts about `packet`, an IP packet or a superframe; `None` where it is no such thing.
    /// `size_bytes` is how much memory is kept for it.
    #[must_use]
    pub fn of(packet: &[u8], size_bytes: usize) -> Option<Self> {
        let ip = IpView::parse(packet).ok()?;
        Some(Self {
            destination: ip.destination(),
            service: Service::of(&ip),
            size_bytes,
        })
    }
}

/// What the sender of a packet that goes nowhere hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Access is denied: ICMP "administratively prohibited".
    Prohibited,
    /// There is no way now: ICMP "unreachable".
    Unreachable,
}
