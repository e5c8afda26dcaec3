//! The rules of `docs/access.md`, once more and in the plainest way: who may use what, and until
//! when. Nothing of the crates that decide is used.

use super::catalog::{Destination, START_UNIX_MS};
use super::config::Config;
use culvert_ids::{ClientId, GroupId, ResourceId};
use culvert_policy::{Prefix, Service};
use culvert_store::{Actor, Client, Entity, Gateway, Policy, Resource, Token, TokenScope};
use culvert_wire::model::{
    Condition, Filter, Target, TargetKind, TimeWindow, Weekday, WrittenCountries, WrittenExpires,
    WrittenPublicAddresses, WrittenTimes, WrittenVerified,
};
use std::collections::BTreeSet;
use std::net::IpAddr;

const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// The time for which windows are followed: beyond any grant of a run.
const LONGEST_MS: u64 = 4 * 3_600_000;

/// Access that no time ends.
pub(crate) const FOR_EVER: u64 = u64::MAX;

/// Until when the client may use the resource, in Unix milliseconds of the portal's clock; none
/// where it may not now.
pub(crate) fn allowed_until(
    config: &Config,
    client: ClientId,
    resource: ResourceId,
    unix_ms: u64,
) -> Option<u64> {
    let row: Client = config.row(client)?;
    let actor: Actor = config.row(row.actor)?;
    let _exists: Resource = config.row(resource)?;
    if row.revoked.is_some() || actor.disabled {
        return None;
    }
    let token = client_token_of(config, &row)?;
    if token.revoked.is_some() {
        return None;
    }
    let token_ends = token
        .expires
        .map_or(FOR_EVER, culvert_wire::Timestamp::unix_ms);
    if token_ends <= unix_ms {
        return None;
    }
    let groups = groups_of(config, &row);
    let policies = config.rows().filter_map(|entity| match entity {
        Entity::Policy(policy) => Some(policy),
        _ => None,
    });
    let policies = policies.filter(|policy| {
        !policy.disabled && policy.resource == resource && groups.contains(&policy.group)
    });
    let seen = config.seen.get(&client).copied();
    let ends = policies.filter_map(|policy| policy_until(policy, &row, seen, unix_ms));
    Some(ends.max()?.min(token_ends))
}

/// True if the gateway is verified, or the account does not require it.
pub(crate) fn is_verified_as_required(config: &Config, gateway: &Gateway) -> bool {
    gateway.verified.is_some() || !config.requires_verified_gateways()
}

/// The resources that a client is told of: those that a policy joins with one of its groups under
/// whatever conditions.
pub(crate) fn shown(config: &Config, client: ClientId) -> BTreeSet<ResourceId> {
    let Some(row) = config.row::<Client>(client) else {
        return BTreeSet::new();
    };
    let groups = groups_of(config, &row);
    let policies = config.rows().filter_map(|entity| match entity {
        Entity::Policy(policy) if !policy.disabled && groups.contains(&policy.group) => {
            Some(policy.resource)
        }
        _ => None,
    });
    policies
        .filter(|id| config.row::<Resource>(*id).is_some())
        .collect()
}

/// True if an address may use a service of a client's own host. Of ranges around the address the longest decides alone, and a
/// resource opens something while the client has access to it.
pub(crate) fn may_begin(
    config: &Config,
    client: ClientId,
    from: IpAddr,
    service: Service,
    unix_ms: u64,
) -> bool {
    let shown = shown(config, client);
    let rows = shown.iter().filter_map(|id| config.row::<Resource>(*id));
    let around: Vec<_> = rows
        .filter(|row| leads_to(&row.target, Destination::Address(from)))
        .collect();
    let best = around.iter().map(|row| rank(&row.target)).max();
    let mut longest = around.iter().filter(|row| Some(rank(&row.target)) == best);
    longest.any(|row| {
        allows(&row.inbound, service) && allowed_until(config, client, row.id, unix_ms).is_some()
    })
}

/// The resource that an honest client uses; none if there is none, or if the page leaves the outcome open.
pub(crate) fn resource_for(
    config: &Config,
    client: ClientId,
    destination: Destination,
    service: Service,
) -> Option<Resource> {
    let shown = shown(config, client);
    let rows = shown.iter().filter_map(|id| config.row::<Resource>(*id));
    let matching: Vec<_> = rows
        .filter(|row| leads_to(&row.target, destination))
        .collect();
    let best = matching.iter().map(|row| rank(&row.target)).max()?;
    let equals: Vec<_> = matching
        .into_iter()
        .filter(|row| rank(&row.target) == best)
        .collect();
    // One address is in one site; who says that it is in two has two networks of the same numbers.
    let is_one_place = equals
        .windows(2)
        .all(|pair| pair[0].site == pair[1].site && same(&pair[0].target, &pair[1].target));
    if !is_one_place {
        return None;
    }
    equals.into_iter().find(|row| allows(&row.filters, service))
}

/// True if the destination is within a resource's target.
pub(crate) fn leads_to(target: &Target, destination: Destination) -> bool {
    match (target.kind, destination) {
        (TargetKind::Cidr, Destination::Address(address)) => {
            let range: Option<Prefix> = target.address.parse().ok();
            range.is_some_and(|range| range.contains(address))
        }
        (TargetKind::Address, Destination::Address(address)) => {
            target.address.parse() == Ok(address)
        }
        (TargetKind::Dns, Destination::Name4(name) | Destination::Name6(name)) => {
            matches(&target.address, name)
        }
        _ => false,
    }
}

/// True if filters allow a service.
pub(crate) fn allows(filters: &[Filter], service: Service) -> bool {
    filters.iter().any(|filter| match (filter, service) {
        (Filter::Any, _) | (Filter::Icmp, Service::Icmp) => true,
        (Filter::Tcp { ports }, Service::Tcp(port))
        | (Filter::Udp { ports }, Service::Udp(port)) => ports
            .iter()
            .any(|range| range.first <= port && port <= range.last),
        _ => false,
    })
}

fn policy_until(
    policy: &Policy,
    client: &Client,
    seen: Option<IpAddr>,
    unix_ms: u64,
) -> Option<u64> {
    let mut until = FOR_EVER;
    for condition in &policy.conditions {
        let end = match condition {
            Condition::Verified(WrittenVerified {}) => client.verified.map(|_| FOR_EVER),
            Condition::PublicAddress(WrittenPublicAddresses { cidrs }) => {
                let is_in = |cidr: &String| {
                    let range: Option<Prefix> = cidr.parse().ok();
                    range
                        .zip(seen)
                        .is_some_and(|(range, seen)| range.contains(seen))
                };
                cidrs.iter().any(is_in).then_some(FOR_EVER)
            }
            // There is no database of countries in a run.
            Condition::Country(WrittenCountries { .. }) => None,
            // No client of a run says its system.
            Condition::ClientOs(_) => None,
            Condition::Expires(WrittenExpires { at }) => {
                (unix_ms < at.unix_ms()).then(|| at.unix_ms())
            }
            Condition::Time(WrittenTimes { windows, .. }) => window_until(windows, unix_ms),
        };
        until = until.min(end?);
    }
    Some(until)
}

/// Windows open and close at full minutes, and every zone of a run is UTC.
fn window_until(windows: &[TimeWindow], unix_ms: u64) -> Option<u64> {
    let is_open = |at_ms: u64| windows.iter().any(|window| is_within(window, at_ms));
    if !is_open(unix_ms) {
        return None;
    }
    let first = unix_ms / MINUTE_MS * MINUTE_MS + MINUTE_MS;
    let minutes = (first..unix_ms + LONGEST_MS).step_by(60_000);
    Some(
        minutes
            .into_iter()
            .find(|at_ms| !is_open(*at_ms))
            .unwrap_or(FOR_EVER),
    )
}

/// A window that ends earlier in the day than it begins ends on the next day.
fn is_within(window: &TimeWindow, unix_ms: u64) -> bool {
    let minute_of_day = unix_ms / MINUTE_MS % (24 * 60);
    let minutes = |text: &str| -> Option<u64> {
        let (hours, minutes) = text.split_once(':')?;
        Some(hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?)
    };
    let (Some(from), Some(until)) = (minutes(&window.from), minutes(&window.until)) else {
        return false;
    };
    let began_today = window.days.contains(&weekday(unix_ms));
    let began_yesterday = window.days.contains(&weekday(unix_ms - DAY_MS));
    if from < until {
        return began_today && (from..until).contains(&minute_of_day);
    }
    (began_today && from <= minute_of_day) || (began_yesterday && minute_of_day < until)
}

/// The first of January 1970 was a Thursday.
pub(crate) fn weekday(unix_ms: u64) -> Weekday {
    match unix_ms / DAY_MS % 7 {
        0 => Weekday::Thursday,
        1 => Weekday::Friday,
        2 => Weekday::Saturday,
        3 => Weekday::Sunday,
        4 => Weekday::Monday,
        5 => Weekday::Tuesday,
        _ => Weekday::Wednesday,
    }
}

/// A window of less than a day, by minutes after the beginning of the run.
pub fn window(from_minute: u64, until_minute: u64) -> Condition {
    let text = |minute: u64| {
        let of_day = (START_UNIX_MS / MINUTE_MS + minute) % (24 * 60);
        format!("{:02}:{:02}", of_day / 60, of_day % 60)
    };
    Condition::Time(WrittenTimes {
        zone: "UTC".to_owned(),
        windows: vec![TimeWindow {
            days: vec![weekday(START_UNIX_MS + from_minute * MINUTE_MS)],
            from: text(from_minute),
            until: text(until_minute),
        }],
    })
}

fn client_token_of(config: &Config, client: &Client) -> Option<Token> {
    config.rows().find_map(|row| match row {
        Entity::Token(token) => {
            let is_its = token.scope
                == TokenScope::Client {
                    actor: client.actor,
                };
            is_its.then(|| token.clone())
        }
        _ => None,
    })
}

fn groups_of(config: &Config, client: &Client) -> BTreeSet<GroupId> {
    let memberships = config.rows().filter_map(|row| match row {
        Entity::Membership(row) if row.actor == client.actor => Some(row.group),
        _ => None,
    });
    memberships.collect()
}

fn same(one: &Target, other: &Target) -> bool {
    one.address == other.address
}

/// A more specific target has a greater rank. Of names: without wildcards before all, then more
/// literal labels, then without `**`, then fewer `*`.
fn rank(target: &Target) -> (usize, usize, bool, usize) {
    const NO_STARS: usize = 8;
    match target.kind {
        TargetKind::Cidr => {
            let len = target.address.rsplit('/').next();
            (
                len.and_then(|len| len.parse().ok()).unwrap_or(0),
                0,
                false,
                0,
            )
        }
        TargetKind::Address if target.address.contains(':') => (128, 0, false, 0),
        TargetKind::Address => (32, 0, false, 0),
        TargetKind::Dns => {
            let labels = || target.address.split('.');
            let literal = labels().filter(|label| !label.contains('*')).count();
            let stars = labels().filter(|label| *label == "*").count();
            let is_plain = literal == labels().count();
            let has_no_double = !labels().any(|label| label == "**");
            (
                usize::from(is_plain),
                literal,
                has_no_double,
                NO_STARS - stars.min(NO_STARS),
            )
        }
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    fn of_labels(pattern: &[&str], name: &[&str]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((&"**", rest)), Some(_)) => {
                (1..=name.len()).any(|taken| of_labels(rest, &name[taken..]))
            }
            (Some((&"*", rest)), Some((_, others))) => of_labels(rest, others),
            (Some((label, rest)), Some((other, others))) => {
                label.eq_ignore_ascii_case(other) && of_labels(rest, others)
            }
            _ => false,
        }
    }
    let pattern: Vec<_> = pattern.split('.').collect();
    let name: Vec<_> = name.split('.').collect();
    of_labels(&pattern, &name)
}
