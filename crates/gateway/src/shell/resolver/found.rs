//! The addresses that the DNS told of one name.

use culvert_gateway_core::Resolution;
use hickory_resolver::proto::rr::{RData, Record};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The answers for both address families together.
#[derive(Default)]
pub(super) struct Found {
    pub(super) ipv4: Vec<Ipv4Addr>,
    pub(super) ipv6: Vec<Ipv6Addr>,
    /// The shortest time to live.
    pub(super) ttl_s: Option<u32>,
    /// The lookup of a family failed.
    pub(super) has_failed: bool,
    /// Families for which the answer was that there is no such name.
    pub(super) missing: u8,
}

impl Found {
    pub(super) fn take(&mut self, records: &[Record]) {
        for record in records {
            self.ttl_s = Some(self.ttl_s.map_or(record.ttl, |ttl_s| ttl_s.min(record.ttl)));
            match record.data {
                RData::A(address) => self.ipv4.push(address.0),
                RData::AAAA(address) => self.ipv6.push(address.0),
                _ => {}
            }
        }
    }

    /// True where the DNS says that the name exists, and no address.
    pub(super) fn is_without_addresses(&self) -> bool {
        let is_empty = self.ipv4.is_empty() && self.ipv6.is_empty();
        is_empty && !self.has_failed && self.missing == 0
    }

    pub(super) fn resolution(self) -> Resolution {
        let Self { ipv4, ipv6, .. } = self;
        match (ipv4.is_empty() && ipv6.is_empty(), self.has_failed) {
            (false, has_failed) => Resolution::Found {
                ipv4,
                ipv6,
                // The family whose lookup failed is looked up again soon.
                ttl_s: if has_failed {
                    0
                } else {
                    self.ttl_s.unwrap_or_default()
                },
            },
            (true, true) => Resolution::NoAnswer,
            // A server that denies the name for one family alone has it.
            (true, false) if self.missing == 2 => Resolution::NotFound,
            (true, false) => Resolution::NoAddress,
        }
    }
}
