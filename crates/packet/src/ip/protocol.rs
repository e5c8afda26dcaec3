//! The protocols behind an IP header, and the extension headers of IPv6.

/// A number of the IANA registry "Assigned Internet Protocol Numbers".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);

    pub(crate) const HOP_BY_HOP: Self = Self(0);
    pub(crate) const ROUTING: Self = Self(43);
    pub(crate) const FRAGMENT: Self = Self(44);
    pub(crate) const AUTHENTICATION: Self = Self(51);
    pub(crate) const DESTINATION_OPTIONS: Self = Self(60);

    /// True if this is an extension header of IPv6, so that the walk over them has not come to its end.
    pub(crate) fn is_extension(self) -> bool {
        matches!(
            self,
            Self::HOP_BY_HOP
                | Self::ROUTING
                | Self::FRAGMENT
                | Self::AUTHENTICATION
                | Self::DESTINATION_OPTIONS
        )
    }
}
