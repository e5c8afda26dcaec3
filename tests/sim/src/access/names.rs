//! The DNS behind gateways.

use super::catalog::Destination;
use culvert_gateway_core::Resolution;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// For how long an answer may be kept, in seconds.
pub(crate) const TTL_S: u32 = 10;

/// The DNS records of each name.
#[derive(Debug, Default)]
pub struct NameServers {
    records: BTreeMap<&'static str, Record>,
    /// Nobody answers.
    pub(crate) is_silent: bool,
}

#[derive(Debug, Default)]
struct Record {
    addresses: Vec<IpAddr>,
    /// True for each family (IPv4, IPv6) of which it has had an address from the beginning on.
    always: [bool; 2],
    /// Every address that the name has ever had: a flow keeps its address while it lasts.
    ever: BTreeSet<IpAddr>,
}

impl NameServers {
    /// The name has these addresses from here on.
    pub(crate) fn set(&mut self, name: &'static str, addresses: &[&str]) {
        let is_new = !self.records.contains_key(name);
        let record = self.records.entry(name).or_default();
        let addresses = addresses.iter().filter_map(|text| text.parse().ok());
        record.addresses = addresses.collect();
        record.ever.extend(record.addresses.iter().copied());
        for (always, is_ipv4) in record.always.iter_mut().zip([true, false]) {
            let mut addresses = record.addresses.iter();
            // A loopback address leads to the gateway itself, and is no address of a name.
            let has = addresses.any(|it| it.is_ipv4() == is_ipv4 && !it.is_loopback());
            *always = has && (*always || is_new);
        }
    }

    /// True if the name has an address of the family and was never without one; a missing address
    /// is remembered for minutes.
    pub(crate) fn has_always_had(&self, name: &str, is_ipv4: bool) -> bool {
        let record = self.records.get(name);
        record.is_some_and(|record| record.always[usize::from(!is_ipv4)])
    }

    /// True if the name has, or ever had, the address.
    pub(crate) fn ever_had(&self, name: &str, address: IpAddr) -> bool {
        let record = self.records.get(name);
        record.is_some_and(|record| record.ever.contains(&address))
    }

    /// The names that have, or have ever had, the address.
    pub(crate) fn having(&self, address: IpAddr) -> Vec<Destination> {
        let having = self.records.iter();
        let having = having.filter(|(_, record)| record.ever.contains(&address));
        having.map(|(name, _)| Destination::Name4(name)).collect()
    }

    pub(crate) fn resolve(&self, name: &str) -> Resolution {
        if self.is_silent {
            return Resolution::NoAnswer;
        }
        let addresses = self.records.get(name).map(|record| &record.addresses);
        let Some(addresses) = addresses.filter(|addresses| !addresses.is_empty()) else {
            return Resolution::NotFound;
        };
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        for address in addresses {
            match address {
                IpAddr::V4(address) => ipv4.push(*address),
                IpAddr::V6(address) => ipv6.push(*address),
            }
        }
        Resolution::Found {
            ipv4,
            ipv6,
            ttl_s: TTL_S,
        }
    }
}
