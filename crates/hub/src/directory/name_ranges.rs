//! The ranges of the account for addresses of names.

use culvert_policy::Prefix;
use culvert_wire::messages::{Ranges, WantedName};
use std::net::IpAddr;

/// Where the addresses of names are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameRanges {
    ipv4: Prefix,
    ipv6: Prefix,
}

impl NameRanges {
    pub(super) fn new(ranges: &Ranges) -> Option<Self> {
        Some(Self {
            ipv4: ranges.names_ipv4.parse().ok()?,
            ipv6: ranges.names_ipv6.parse().ok()?,
        })
    }

    pub(crate) fn hold(&self, name: &WantedName) -> bool {
        self.ipv4.contains(IpAddr::V4(name.ipv4)) && self.ipv6.contains(IpAddr::V6(name.ipv6))
    }
}
