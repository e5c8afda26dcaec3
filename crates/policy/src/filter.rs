//! The protocols and ports of a resource that may be used.

use crate::FilterError;
use culvert_base::quotable;
use culvert_packet::ip::{IpView, Protocol};
use std::fmt;
use std::str::FromStr;

/// Ranges of ports that filters may have for each of TCP and UDP. A resource with more is a
/// network of its own; 64 ranges take 256 bytes, and a search looks at 7 of them.
pub const MAX_PORT_RANGES: usize = 64;

/// One thing that is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Filter {
    /// Every protocol and port.
    Any,
    /// TCP to these ports.
    Tcp(Ports),
    /// UDP to these ports.
    Udp(Ports),
    /// Echo and the other queries of ICMP and ICMPv6. Errors about an allowed flow pass in any
    /// case.
    Icmp,
}

/// Consecutive ports, at least one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Every port.
    pub const ALL: Self = Self {
        first: 0,
        last: u16::MAX,
    };

    /// The ports from `first` to `last`, both included.
    ///
    /// # Errors
    /// [`FilterError::Reversed`].
    pub const fn new(first: u16, last: u16) -> Result<Self, FilterError> {
        if first > last {
            return Err(FilterError::Reversed { first, last });
        }
        Ok(Self { first, last })
    }

    /// One port.
    #[must_use]
    pub const fn one(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// True for port 0 alone.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.last == 0
    }

    /// The lowest.
    #[must_use]
    pub const fn first(self) -> u16 {
        self.first
    }

    /// The highest.
    #[must_use]
    pub const fn last(self) -> u16 {
        self.last
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(out, "{}", self.first)
        } else {
            write!(out, "{}-{}", self.first, self.last)
        }
    }
}

impl fmt::Debug for Ports {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for Ports {
    type Err = FilterError;

    /// Reads `443` or `8000-8100`.
    fn from_str(text: &str) -> Result<Self, FilterError> {
        let port = |digits: &str| {
            let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
            let number = digits.parse().ok().filter(|_| plain);
            number.ok_or_else(|| FilterError::Ports(quotable(text)))
        };
        match text.split_once('-') {
            None => port(text).map(Self::one),
            Some((first, last)) => Self::new(port(first)?, port(last)?),
        }
    }
}

/// The services of a resource that may be used. Without filters: none.
///
/// Kept in one form, so that equal permissions are equal: ports sorted, ranges that touch joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filters {
    any: bool,
    icmp: bool,
    tcp: Vec<Ports>,
    udp: Vec<Ports>,
}

impl Filters {
    /// Allows what one of the filters allows; with none, nothing.
    ///
    /// # Errors
    /// [`FilterError::TooManyRanges`] where more than [`MAX_PORT_RANGES`] are left for a protocol
    /// once those that touch are joined.
    pub fn new(filters: impl IntoIterator<Item = Filter>) -> Result<Self, FilterError> {
        let mut all = Self::default();
        for filter in filters {
            match filter {
                Filter::Any => all.any = true,
                Filter::Icmp => all.icmp = true,
                Filter::Tcp(ports) => all.tcp.push(ports),
                Filter::Udp(ports) => all.udp.push(ports),
            }
        }
        join(&mut all.tcp)?;
        join(&mut all.udp)?;
        if all.any {
            all = Self::any();
        }
        Ok(all)
    }

    /// Allows nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            any: false,
            icmp: false,
            tcp: Vec::new(),
            udp: Vec::new(),
        }
    }

    /// Allows everything.
    #[must_use]
    pub const fn any() -> Self {
        let mut filters = Self::none();
        filters.any = true;
        filters
    }

    /// Allows what one of them allows. It may have more ranges than [`MAX_PORT_RANGES`]: it is looked up alone, never told.
    #[must_use]
    pub fn union<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut union = Self::none();
        for filters in all {
            union.any |= filters.any;
            union.icmp |= filters.icmp;
            union.tcp.extend_from_slice(&filters.tcp);
            union.udp.extend_from_slice(&filters.udp);
        }
        if union.any {
            return Self::any();
        }
        join_touching(&mut union.tcp);
        join_touching(&mut union.udp);
        union
    }

    /// True if nothing is allowed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.any && !self.icmp && self.tcp.is_empty() && self.udp.is_empty()
    }

    /// True if the service may be used.
    #[must_use]
    pub fn allows(&self, service: Service) -> bool {
        self.any
            || match service {
                Service::Tcp(port) => holds(&self.tcp, port),
                Service::Udp(port) => holds(&self.udp, port),
                Service::Icmp => self.icmp,
                Service::Other(_) => false,
            }
    }

    /// True if some service is allowed by both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let share = |own: &[Ports], others: &[Ports]| {
            own.iter().any(|own| {
                let apart = |other: &Ports| other.last < own.first || own.last < other.first;
                !others.iter().all(apart)
            })
        };
        match (self.any, other.any) {
            (true, _) => !other.is_empty(),
            (false, true) => !self.is_empty(),
            (false, false) => {
                (self.icmp && other.icmp)
                    || share(&self.tcp, &other.tcp)
                    || share(&self.udp, &other.udp)
            }
        }
    }

    /// True if anything of the service's protocol may be used, on whatever port.
    #[must_use]
    pub const fn allows_protocol(&self, service: Service) -> bool {
        self.any
            || match service {
                Service::Tcp(_) => !self.tcp.is_empty(),
                Service::Udp(_) => !self.udp.is_empty(),
                Service::Icmp => self.icmp,
                Service::Other(_) => false,
            }
    }

    /// The allowed services in a fixed order: the shortest list that makes equal filters.
    pub fn iter(&self) -> impl Iterator<Item = Filter> + '_ {
        let any = self.any.then_some(Filter::Any).into_iter();
        let tcp = self.tcp.iter().copied().map(Filter::Tcp);
        let udp = self.udp.iter().copied().map(Filter::Udp);
        let icmp = self.icmp.then_some(Filter::Icmp);
        any.chain(tcp).chain(udp).chain(icmp)
    }
}

/// The service at an address that a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// This port of TCP.
    Tcp(u16),
    /// This port of UDP.
    Udp(u16),
    /// ICMP of the address's family.
    Icmp,
    /// Another protocol, which only [`Filter::Any`] allows.
    Other(Protocol),
}

impl Service {
    /// The service that a packet is for; `None` of a fragment that does not say.
    #[must_use]
    pub fn of(packet: &IpView<'_>) -> Option<Self> {
        match (packet.protocol(), packet.is_later_fragment()) {
            (_, true) => None,
            (Protocol::TCP, false) => packet.ports().map(|(_, port)| Self::Tcp(port)),
            (Protocol::UDP, false) => packet.ports().map(|(_, port)| Self::Udp(port)),
            (Protocol::ICMP | Protocol::ICMPV6, false) => Some(Self::Icmp),
            (other, false) => Some(Self::Other(other)),
        }
    }
}

fn holds(ranges: &[Ports], port: u16) -> bool {
    let beyond = ranges.partition_point(|ports| ports.first <= port);
    ranges[..beyond]
        .last()
        .is_some_and(|ports| port <= ports.last)
}

/// Sorts the ranges and joins those that overlap or touch; refuses more than filters may have.
fn join(ranges: &mut Vec<Ports>) -> Result<(), FilterError> {
    join_touching(ranges);
    if ranges.len() > MAX_PORT_RANGES {
        return Err(FilterError::TooManyRanges);
    }
    Ok(())
}

fn join_touching(ranges: &mut Vec<Ports>) {
    ranges.sort_unstable();
    // `dedup_by` gives the later one first and drops it.
    ranges.dedup_by(|next, remaining| {
        let touches = next.first <= remaining.last.saturating_add(1);
        if touches {
            remaining.last = remaining.last.max(next.last);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_filters_allow_nothing() {
        for filters in [
            Filters::default(),
            Filters::none(),
            Filters::new([]).unwrap(),
        ] {
            assert!(filters.is_empty());
            for service in [
                Service::Tcp(443),
                Service::Udp(53),
                Service::Icmp,
                Service::Other(Protocol(47)),
            ] {
                assert!(!filters.allows(service), "{service:?}");
                assert!(!filters.allows_protocol(service), "{service:?}");
            }
        }
    }

    #[test]
    fn only_any_allows_other_protocols() {
        let all_listed = [
            Filter::Tcp(Ports::ALL),
            Filter::Udp(Ports::ALL),
            Filter::Icmp,
        ];
        let listed = Filters::new(all_listed).unwrap();
        assert!(!listed.allows(Service::Other(Protocol(47))));
        assert!(Filters::any().allows(Service::Other(Protocol(47))));
    }

    #[test]
    fn tcp_does_not_allow_udp_nor_the_reverse() {
        let tcp = Filters::new([Filter::Tcp(Ports::one(53))]).unwrap();
        assert!(tcp.allows(Service::Tcp(53)) && !tcp.allows(Service::Udp(53)));
        let udp = Filters::new([Filter::Udp(Ports::one(53))]).unwrap();
        assert!(udp.allows(Service::Udp(53)) && !udp.allows(Service::Tcp(53)));
        assert!(!udp.allows_protocol(Service::Tcp(53)));
    }

    #[test]
    fn ports_read_what_they_write_and_nothing_else() {
        for text in ["0", "443", "8000-8100", "0-65535"] {
            assert_eq!(text.parse::<Ports>().unwrap().to_string(), text);
        }
        for text in [
            "", "-", "1-", "-1", "+1", "65536", "http", "1-2-3", "9-1", "80 - 90",
        ] {
            assert!(text.parse::<Ports>().is_err(), "{text}");
        }
    }

    #[test]
    fn more_ranges_than_the_bound_are_refused() {
        let sparse = |count: u16| Filters::new((0..count).map(|n| Filter::Tcp(Ports::one(n * 2))));
        assert!(sparse(MAX_PORT_RANGES as u16).is_ok());
        assert_eq!(
            sparse(MAX_PORT_RANGES as u16 + 1),
            Err(FilterError::TooManyRanges)
        );
        // Ranges that touch become one range.
        let dense = (0..1000).map(|port| Filter::Udp(Ports::one(port)));
        assert_eq!(Filters::new(dense).unwrap().iter().count(), 1);
    }

    fn any_filters() -> impl Strategy<Value = Filters> {
        let ports = |(first, more): (u16, u16)| Ports::new(first, first + more).unwrap();
        let one = prop_oneof![
            1 => Just(Filter::Any),
            2 => Just(Filter::Icmp),
            4 => (0_u16..20, 0_u16..3).prop_map(move |range| Filter::Tcp(ports(range))),
            4 => (0_u16..20, 0_u16..3).prop_map(move |range| Filter::Udp(ports(range))),
        ];
        prop::collection::vec(one, 0..3).prop_map(|filters| Filters::new(filters).unwrap())
    }

    proptest! {
        #[test]
        fn filters_overlap_where_both_allow_a_service(one in any_filters(), other in any_filters()) {
            let ports = (0..25).flat_map(|port| [Service::Tcp(port), Service::Udp(port)]);
            let naive = ports
                .chain([Service::Icmp])
                .any(|service| one.allows(service) && other.allows(service));
            prop_assert_eq!(one.overlaps(&other), naive);
            prop_assert_eq!(other.overlaps(&one), naive);
        }

        #[test]
        fn joined_ranges_allow_what_the_given_ones_allow(
            ranges in prop::collection::vec((0_u16..200, 0_u16..10), 0..30),
            probes in prop::collection::vec(0_u16..220, 20),
        ) {
            let given: Vec<Ports> = ranges.iter().map(|&(first, more)| Ports::new(first, first + more).unwrap()).collect();
            let filters = Filters::new(given.iter().copied().map(Filter::Tcp)).unwrap();
            for port in probes {
                let naive = given.iter().any(|ports| (ports.first..=ports.last).contains(&port));
                prop_assert_eq!(filters.allows(Service::Tcp(port)), naive);
            }
            prop_assert_eq!(Filters::new(filters.iter()).unwrap(), filters);
        }
    }
}
