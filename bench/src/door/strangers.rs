//! The strangers at the door.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that strangers of one site go to.
pub(super) const TARGET_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

/// The networks of the strangers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Strangers {
    OneAddress,
    /// Each connection from another /64 of one /48, until all 65,536 were used.
    OneSite,
}

impl Strangers {
    /// The end that is flooded.
    pub(super) const fn target(self) -> IpAddr {
        match self {
            Self::OneAddress => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::OneSite => IpAddr::V6(TARGET_V6),
        }
    }

    /// The number of their addresses.
    pub(super) const fn addresses(self) -> usize {
        match self {
            Self::OneAddress => 1,
            Self::OneSite => 0x1_0000,
        }
    }

    /// The address of a connection or initiation, by its number.
    pub(super) fn address(self, number: usize) -> IpAddr {
        match self {
            Self::OneAddress => IpAddr::V4(Ipv4Addr::new(127, 0, 0, 5)),
            Self::OneSite => {
                let network = u16::try_from(number % 0x1_0000).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, network, 0, 0, 0, 1))
            }
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::OneAddress => "of one address",
            Self::OneSite => "of the 65,536 /64 of one /48",
        }
    }
}
