//! The addresses of datagrams.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6 alone: IPv4 traffic does not appear here as mapped addresses.
    V6,
}

impl Family {
    /// The family of `ip` as it is written: sockets take the canonical form of a mapped address.
    #[must_use]
    pub const fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// As people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The address that stands for all of the family.
    #[must_use]
    pub const fn wildcard(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// One of our own addresses, and the interface a datagram for it came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalAddress {
    /// The address; never IPv4-mapped.
    pub ip: IpAddr,
    /// Interface index; 0 when unknown.
    pub interface: u32,
}

/// The destination of datagrams, and the one of our addresses that they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Destination {
    /// The peer.
    pub address: SocketAddr,
    /// The source address; `None` lets the host choose by its routes.
    pub source: Option<LocalAddress>,
}
