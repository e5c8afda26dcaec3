//! From the written form to the types that decide: what can't be converted is refused.

use super::{
    Condition, Filter, PortRange, Resource, Target, TargetKind, TimeWindow, ToldTarget, Weekday,
};
use crate::decode::MAX_KIND_CHARS;
use culvert_policy::{
    ConditionError, FilterError, PolicyError, Prefix, TargetError, Within, WithinError,
};
use std::net::IpAddr;

impl TryFrom<&Target> for culvert_policy::Target {
    type Error = TargetError;

    fn try_from(target: &Target) -> Result<Self, TargetError> {
        let text = target.address.trim();
        match target.kind {
            TargetKind::Cidr => text.parse().map(Self::Network),
            TargetKind::Address => {
                let address: Result<IpAddr, _> = text.parse();
                let address = address.map_err(|_| TargetError::Prefix(text.to_owned()))?;
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
    let conditions = written.iter().map(TryInto::try_into);
    let conditions = conditions.collect::<Result<Vec<_>, PolicyError>>()?;
    Ok(culvert_policy::Conditions::new(conditions)?)
}

impl TryFrom<&PortRange> for culvert_policy::Ports {
    type Error = FilterError;

    fn try_from(range: &PortRange) -> Result<Self, FilterError> {
        Self::new(range.first, range.last)
    }
}

impl TryFrom<&Condition> for culvert_policy::Condition {
    type Error = PolicyError;

    fn try_from(condition: &Condition) -> Result<Self, PolicyError> {
        Ok(match condition {
            Condition::Time { zone, windows } => {
                let windows = windows.iter().map(|window| time_window(window, zone));
                Self::Time(windows.collect::<Result<_, _>>()?)
            }
            Condition::PublicAddress { cidrs } => {
                let prefixes = cidrs.iter().map(|cidr| cidr.parse());
                Self::PublicAddress(prefixes.collect::<Result<_, TargetError>>()?)
            }
            Condition::Country { countries } => {
                let countries = countries.iter().map(|country| country.parse());
                Self::Country(countries.collect::<Result<_, ConditionError>>()?)
            }
            Condition::Verified => Self::Verified,
            Condition::Expires { at } => Self::Expires { at: at.unix_time() },
        })
    }
}

fn time_window(
    window: &TimeWindow,
    zone: &str,
) -> Result<culvert_policy::TimeWindow, ConditionError> {
    culvert_policy::TimeWindow::new(
        window.days.iter().map(|&day| day.into()).collect(),
        window.from.parse()?,
        window.until.parse()?,
        zone.parse()?,
    )
}

impl From<Weekday> for culvert_policy::Weekday {
    fn from(day: Weekday) -> Self {
        match day {
            Weekday::Mon => Self::Monday,
            Weekday::Tue => Self::Tuesday,
            Weekday::Wed => Self::Wednesday,
            Weekday::Thu => Self::Thursday,
            Weekday::Fri => Self::Friday,
            Weekday::Sat => Self::Saturday,
            Weekday::Sun => Self::Sunday,
        }
    }
}
