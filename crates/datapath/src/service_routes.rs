//! Addresses whose route is for some of their services alone.

use crate::AllowedIps;
use culvert_base::Prefix;
use culvert_packet::ip::IpView;
use culvert_policy::RoutedServices;
use std::collections::BTreeMap;

/// Ranges that have a route for some of their services. A packet for another one is handed to the owner of packets without
/// a route ([`crate::Unrouted`]), as if the range had none.
#[derive(Debug)]
pub struct ServiceRoutes {
    ranges: AllowedIps<u32>,
    services: Vec<RoutedServices>,
}

impl ServiceRoutes {
    /// The table of these ranges.
    #[must_use]
    pub fn new(ranges: BTreeMap<Prefix, RoutedServices>) -> Self {
        let numbers = ranges.keys().copied().zip(0..).collect();
        Self {
            ranges: AllowedIps::new(&numbers),
            services: ranges.into_values().collect(),
        }
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.services.is_empty()
    }

    /// True if the route of a packet's destination is not for its service.
    pub fn lacks_route(&self, packet: &[u8]) -> bool {
        let Ok(view) = IpView::parse(packet) else {
            return false;
        };
        let number = self.ranges.owner(view.destination());
        let services = number.and_then(|number| self.services.get(number as usize));
        services.is_some_and(|services| services.lacks_route_for(&view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_policy::{Filter, Filters, Ports};

    /// A packet of TCP to a port of 10.8.0.1 or [fd08::1].
    fn tcp(is_v4: bool, port: u16) -> Vec<u8> {
        let mut packet = match is_v4 {
            true => {
                let mut header = vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0];
                header.extend([10, 9, 0, 1, 10, 8, 0, 1]);
                header
            }
            false => {
                let mut header = vec![0x60, 0, 0, 0, 0, 20, 6, 64];
                header.extend([0xfd, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
                header.extend([0xfd, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
                header
            }
        };
        packet.extend([0x9c, 0x40]);
        packet.extend(port.to_be_bytes());
        packet.extend([0; 16]);
        packet
    }

    #[test]
    fn a_packet_lacks_a_route_by_the_longest_range_around_its_destination_and_its_port() {
        let filters = |port| Filters::new([Filter::Tcp(Ports::one(port))]).unwrap();
        let services = |routed, unrouted| {
            RoutedServices::new([&filters(routed)], [&filters(unrouted)]).unwrap()
        };
        let range = |text: &str, len| Prefix::new(text.parse().unwrap(), len).unwrap();
        let routes = ServiceRoutes::new(
            [
                (range("10.8.0.0", 16), services(443, 80)),
                (range("10.8.0.1", 32), services(80, 22)),
                (range("fd08::", 64), services(80, 22)),
            ]
            .into(),
        );
        for is_v4 in [true, false] {
            assert!(routes.lacks_route(&tcp(is_v4, 22)));
            assert!(!routes.lacks_route(&tcp(is_v4, 80)));
        }
        assert!(!routes.lacks_route(&[0x45]), "no packet");
    }
}
