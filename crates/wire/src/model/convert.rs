//! From the written form to the types that decide: what can't be converted is refused.

use super::{Condition, Filter, PortRange, Resource, Target, TargetKind, ToldTarget};
use crate::decode::MAX_KIND_CHARS;
use culvert_base::quotable;
use culvert_policy::{
    FilterError, PolicyError, Prefix, PrefixError, TargetError, Within, WithinError,
};
use std::net::IpAddr;

impl TryFrom<&Target> for culvert_policy::Target {
    type Error = TargetError;

    fn try_from(target: &Target) -> Result<Self, TargetError> {
        let text = target.address.trim();
        match target.kind {
            TargetKind::Cidr => Ok(Self::Network(text.parse()?)),
            TargetKind::Address => {
                let address: Result<IpAddr, _> = text.parse();
                let address = address.map_err(|_| PrefixError::Form(quotable(text)))?;
                Ok(Self::Address(address))
            }
            TargetKind::Dns => text.parse().map(Self::Name),
        }
    }
}

impl TryFrom<&Resource> for culvert_policy::Resource {
    type Error = PolicyError;

    fn try_from(resource: &Resource) -> Result<Self, PolicyError> {
        Ok(Self {
            id: resource.id,
            site: resource.site,
            target: match &resource.target {
                ToldTarget::Known(target) => target.try_into()?,
                ToldTarget::Unknown { kind } => return Err(unknown_kind(kind).into()),
            },
            filters: filters(&resource.filters)?,
            inbound: inbound(&resource.target, &resource.inbound),
            applications: (&resource.applications).try_into()?,
            name: culvert_policy::ResourceName::new(&resource.name)?,
        })
    }
}

/// The kind comes from the network, and is cut to what may stand in a log.
fn unknown_kind(kind: &str) -> TargetError {
    let printable = kind.chars().filter(|letter| !letter.is_control());
    TargetError::Kind(printable.take(MAX_KIND_CHARS).collect())
}

/// The filters of one resource.
///
/// # Errors
/// [`FilterError`] where there are too many ranges, or one is reversed.
pub fn filters(written: &[Filter]) -> Result<culvert_policy::Filters, FilterError> {
    let mut filters = Vec::new();
    for filter in written {
        match filter {
            Filter::Any => filters.push(culvert_policy::Filter::Any),
            Filter::Icmp => filters.push(culvert_policy::Filter::Icmp),
            Filter::Tcp { ports } => {
                for range in ports {
                    filters.push(culvert_policy::Filter::Tcp(range.try_into()?));
                }
            }
            Filter::Udp { ports } => {
                for range in ports {
                    filters.push(culvert_policy::Filter::Udp(range.try_into()?));
                }
            }
        }
    }
    culvert_policy::Filters::new(filters)
}

/// The services of a client's host that a resource may use. Those that can't be open nothing, and neither do those of names:
/// nobody can tell by an address which name its packets are of.
fn inbound(target: &ToldTarget, written: &[Filter]) -> culvert_policy::Filters {
    let is_names = |target: &Target| target.kind == TargetKind::Dns;
    match target.known().is_some_and(is_names) {
        true => culvert_policy::Filters::none(),
        false => filters(written).unwrap_or_default(),
    }
}

/// The same filters as they are written: at most one for each protocol.
#[must_use]
pub fn written_filters(filters: &culvert_policy::Filters) -> Vec<Filter> {
    let (mut tcp, mut udp, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let range = |ports: culvert_policy::Ports| PortRange {
        first: ports.first(),
        last: ports.last(),
    };
    for filter in filters.iter() {
        match filter {
            culvert_policy::Filter::Any => written.push(Filter::Any),
            culvert_policy::Filter::Icmp => written.push(Filter::Icmp),
            culvert_policy::Filter::Tcp(ports) => tcp.push(range(ports)),
            culvert_policy::Filter::Udp(ports) => udp.push(range(ports)),
        }
    }
    let udp = (!udp.is_empty()).then_some(Filter::Udp { ports: udp });
    let tcp = (!tcp.is_empty()).then_some(Filter::Tcp { ports: tcp });
    tcp.into_iter().chain(udp).chain(written).collect()
}

/// The ranges that names of one resource may lead into.
///
/// # Errors
/// [`WithinError`] where one is none, or where there is none or there are too many.
pub fn within(written: &[String]) -> Result<Within, WithinError> {
    let ranges = written.iter().map(|range| range.parse::<Prefix>());
    Within::new(ranges.collect::<Result<Vec<_>, _>>()?)
}

/// All conditions of one policy.
///
/// # Errors
/// [`PolicyError`] says which part of which condition can't be.
pub fn conditions(written: &[Condition]) -> Result<culvert_policy::Conditions, PolicyError> {
    culvert_policy::Conditions::understand(written)
}

impl TryFrom<&PortRange> for culvert_policy::Ports {
    type Error = FilterError;

    fn try_from(range: &PortRange) -> Result<Self, FilterError> {
        Self::new(range.first, range.last)
    }
}
