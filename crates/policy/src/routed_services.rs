//! The services of an address that have a route, where several resources share it.

use crate::{Filters, Service};
use culvert_packet::icmp::is_icmp_error;
use culvert_packet::ip::IpView;

/// The services of one range of addresses that several resources share: some of the resources are granted and give the
/// range its route, others are not granted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedServices {
    routed: Filters,
    unrouted: Filters,
}

impl RoutedServices {
    /// The services of resources with a grant, and of those without. `None` where no service lacks a route.
    #[must_use]
    pub fn new<'a>(
        granted: impl IntoIterator<Item = &'a Filters>,
        others: impl IntoIterator<Item = &'a Filters>,
    ) -> Option<Self> {
        let all = Self {
            routed: Filters::union(granted),
            unrouted: Filters::union(others),
        };
        let lacks_some = Filters::union([&all.routed, &all.unrouted]) != all.routed;
        lacks_some.then_some(all)
    }

    /// True if a service is only one of a resource without a grant: the route of the range is not
    /// for it.
    #[must_use]
    pub fn lacks_route(&self, service: Service) -> bool {
        self.unrouted.allows(service) && !self.routed.allows(service)
    }

    /// True if a packet is for such a service. Fragments go where their datagram's first one went,
    /// and ICMP errors belong to existing flows.
    #[must_use]
    pub fn lacks_route_for(&self, packet: &IpView<'_>) -> bool {
        let service = Service::of(packet);
        service.is_some_and(|service| self.lacks_route(service) && !is_icmp_error(packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Ports};

    fn tcp(port: u16) -> Filters {
        Filters::new([Filter::Tcp(Ports::one(port))]).unwrap()
    }

    #[test]
    fn a_service_of_a_resource_without_a_grant_lacks_a_route_unless_a_granted_one_has_it() {
        let ssh_and_web = Filters::union([&tcp(22), &tcp(80)]);
        let services = RoutedServices::new([&tcp(80)], [&ssh_and_web]).unwrap();
        assert!(services.lacks_route(Service::Tcp(22)));
        assert!(!services.lacks_route(Service::Tcp(80)));
        assert!(!services.lacks_route(Service::Tcp(23)), "of no resource");
        assert!(!services.lacks_route(Service::Udp(22)));
    }

    #[test]
    fn no_service_lacks_a_route_where_granted_resources_have_all_of_them() {
        let any = Filters::any();
        assert_eq!(RoutedServices::new([&any], [&tcp(22)]), None);
        assert_eq!(RoutedServices::new([&tcp(22)], []), None);
        let anything_else = RoutedServices::new([&tcp(22)], [&any]).unwrap();
        assert!(anything_else.lacks_route(Service::Icmp));
        assert!(!anything_else.lacks_route(Service::Tcp(22)));
    }

    #[test]
    fn a_union_may_have_more_ranges_than_the_filters_of_one_resource() {
        let many: Vec<Filters> = (0..200).map(|number| tcp(2 * number + 1)).collect();
        let union = Filters::union(&many);
        assert!(union.allows(Service::Tcp(399)) && !union.allows(Service::Tcp(398)));
    }

    #[test]
    fn an_error_of_icmp_goes_with_the_flows_that_there_are() {
        let services = RoutedServices::new([&tcp(80)], [&Filters::any()]).unwrap();
        let mut packet = [0_u8; 28];
        packet[..4].copy_from_slice(&[0x45, 0, 0, 28]);
        packet[8..10].copy_from_slice(&[64, 1]);
        for (kind, lacks) in [(8, true), (3, false)] {
            packet[20] = kind;
            let view = IpView::parse(&packet).unwrap();
            assert_eq!(services.lacks_route_for(&view), lacks, "type {kind}");
        }
    }
}
