//! The plan from the present state to the wanted one, as requests to the kernel in a safe order.
//! Wanted parts are added before anything is removed, and packets are refused before they are led
//! into the tunnel.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;

use culvert_netlink::packet::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use culvert_netlink::route::RouteNetlinkMessage;
use culvert_netlink::route::address::{AddressMessage, AddressScope};
use culvert_netlink::route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage,
};
use culvert_netlink::route::route::RouteMessage;
use culvert_netlink::route::rule::RuleMessage;

use super::message::{
    Route, Target, address_message, address_of, destination, is_alone, rule_table,
};
use super::rule::{Rule, RuleKind};
use super::wanted::{Routing, Table, Wanted};
use crate::Family;

/// The wanted parts that exist already, and the existing ones that are not wanted.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    pub(super) link: Link,
    pub(super) ipv6: Ipv6,
    /// All rules, those of others too.
    pub(super) rules: Vec<RuleMessage>,
    /// The routes in our tables.
    pub(super) routes: Vec<RouteMessage>,
    /// The addresses of the interface.
    pub(super) addresses: Vec<AddressMessage>,
}

/// The state of the interface.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) up: bool,
    pub(super) mtu_bytes: u32,
    /// True if it gives itself an IPv6 address when it comes up.
    pub(super) makes_own_address: bool,
    /// True if it may have IPv6 addresses.
    pub(super) has_ipv6: bool,
}

/// The IPv6 support of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Ipv6 {
    #[default]
    On,
    /// The host has it, the tunnel's interface may not: IPv6 resources must still not be reached by
    /// another way.
    OffOnInterface,
    /// The kernel runs without.
    Off,
}

/// One request, and what it is in words.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) text: String,
    pub(super) request: RouteNetlinkMessage,
    pub(super) flags: u16,
}

impl Step {
    fn new(text: impl Display, request: RouteNetlinkMessage, flags: u16) -> Self {
        Self {
            text: text.to_string(),
            request,
            flags,
        }
    }
}

/// The steps from `current` to `wanted`; none if they are alike.
pub(super) fn plan(wanted: &Wanted, current: &Current) -> Vec<Step> {
    let routes = wanted_routes(wanted, current);
    let rules = wanted_rules(wanted, current);
    let existing: BTreeSet<Route> = current.routes.iter().filter_map(Route::read).collect();
    let missing = |kind: fn(&Target) -> bool| {
        let missing = routes.difference(&existing);
        missing
            .copied()
            .filter(move |route| kind(&route.target))
            .map(add_route)
    };
    let mut steps = Vec::new();
    steps.extend(missing(|target| matches!(target, Target::Unreachable)));
    steps.extend(add_rules(&rules, current));
    steps.extend(set_link(wanted, current));
    steps.extend(missing(|target| matches!(target, Target::Tunnel(_))));
    steps.extend(remove_rules(&wanted.routing, &rules, current));
    steps.extend(remove_routes(&routes, current));
    steps.extend(remove_addresses(&wanted.addresses, current));
    steps
}

/// The steps that remove all that [`plan`] would set up, whatever is left of it.
pub(super) fn removal(routing: &Routing, current: &Current) -> Vec<Step> {
    let mut steps = Vec::new();
    steps.extend(remove_rules(routing, &[], current));
    steps.extend(remove_routes(&BTreeSet::new(), current));
    steps.extend(remove_addresses(&[], current));
    steps
}

fn wanted_routes(wanted: &Wanted, current: &Current) -> BTreeSet<Route> {
    let mut routes = BTreeSet::new();
    for prefix in &wanted.prefixes {
        let prefix = prefix.trunc();
        let table = wanted.routing.table_for(prefix);
        let family = Family::of(prefix.addr());
        let mut wants = |target| {
            routes.insert(Route {
                prefix,
                table,
                target,
            })
        };
        match (family, current.ipv6) {
            (Family::V6, Ipv6::Off) => {}
            (Family::V6, Ipv6::OffOnInterface) => {
                wants(Target::Unreachable);
            }
            (Family::V4, _) | (Family::V6, Ipv6::On) => {
                wants(Target::Unreachable);
                wants(Target::Tunnel(current.link.index));
            }
        }
    }
    routes
}

fn wanted_rules(wanted: &Wanted, current: &Current) -> Vec<Rule> {
    let families = match current.ipv6 {
        Ipv6::Off => &[Family::V4][..],
        Ipv6::On | Ipv6::OffOnInterface => &[Family::V4, Family::V6],
    };
    let rules_of = |&family| Rule::of(wanted, family);
    families.iter().flat_map(rules_of).collect()
}

fn add_route(route: Route) -> Step {
    // Something else may lead there by the same metric.
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    let request = RouteNetlinkMessage::NewRoute(route.message());
    Step::new(format_args!("add {route}"), request, flags)
}

fn add_rules(wanted: &[Rule], current: &Current) -> Vec<Step> {
    let existing: Vec<Rule> = current.rules.iter().filter_map(Rule::read).collect();
    let missing = wanted.iter().filter(|rule| !existing.contains(rule));
    let add = |rule: &Rule| {
        let request = RouteNetlinkMessage::NewRule(rule.message());
        Step::new(
            format_args!("add {rule}"),
            request,
            NLM_F_CREATE | NLM_F_EXCL,
        )
    };
    missing.map(add).collect()
}

/// Makes the interface as wanted: addresses before it comes up, so that nobody uses it without.
fn set_link(wanted: &Wanted, current: &Current) -> Vec<Step> {
    let link = current.link;
    let mut steps = Vec::new();
    if link.makes_own_address && current.ipv6 == Ipv6::On {
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        let ipv6 = AfSpecUnspec::Inet6(vec![mode]);
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::AfSpecUnspec(vec![ipv6])];
        steps.push(link_step(
            link,
            "keep the interface from giving itself an address",
            message,
        ));
    }
    if link.mtu_bytes != wanted.mtu_bytes {
        let text = format_args!("set the MTU to {} bytes", wanted.mtu_bytes);
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::Mtu(wanted.mtu_bytes)];
        steps.push(link_step(link, text, message));
    }
    steps.extend(add_addresses(&wanted.addresses, current));
    if !link.up {
        let mut message = LinkMessage::default();
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        steps.push(link_step(link, "bring the interface up", message));
    }
    steps
}

fn link_step(link: Link, text: impl Display, mut message: LinkMessage) -> Step {
    message.header.index = link.index;
    Step::new(text, RouteNetlinkMessage::SetLink(message), 0)
}

fn add_addresses(wanted: &[IpAddr], current: &Current) -> Vec<Step> {
    let exists = |address: &IpAddr| {
        let mut messages = current.addresses.iter();
        messages.any(|message| address_of(message) == Some(*address) && is_alone(message, *address))
    };
    let possible = |address: &IpAddr| address.is_ipv4() || current.ipv6 == Ipv6::On;
    let missing: BTreeSet<&IpAddr> = wanted
        .iter()
        .filter(|address| possible(address) && !exists(address))
        .collect();
    let add = |&address: &IpAddr| {
        let message = address_message(current.link.index, address);
        let request = RouteNetlinkMessage::NewAddress(message);
        Step::new(
            format_args!("add address {address}"),
            request,
            NLM_F_CREATE | NLM_F_REPLACE,
        )
    };
    missing.into_iter().map(add).collect()
}

/// Removes the rules that are ours and not wanted: those that lead to our tables, and those that are
/// as we make them, where we make them.
fn remove_rules(routing: &Routing, wanted: &[Rule], current: &Current) -> Vec<Step> {
    let tables = routing.tables().map(Table::get);
    let mut remaining: Vec<Rule> = Vec::new();
    let mut steps = Vec::new();
    for message in &current.rules {
        let rule = Rule::read(message);
        let ours = tables.contains(&rule_table(message))
            || rule.is_some_and(|rule| {
                matches!(rule.kind, RuleKind::Local(_))
                    && rule.preference == routing.preference.get() + 10
            });
        if !ours {
            continue;
        }
        match rule {
            // Once: a rule that is there twice is removed once.
            Some(rule) if wanted.contains(&rule) && !remaining.contains(&rule) => {
                remaining.push(rule);
            }
            rule => {
                let text = rule.map_or_else(
                    || "remove a foreign rule to our tables".to_owned(),
                    |rule| format!("remove {rule}"),
                );
                let request = RouteNetlinkMessage::DelRule(message.clone());
                steps.push(Step::new(text, request, 0));
            }
        }
    }
    steps
}

/// Removes unwanted routes from our tables: routes into the tunnel before those that refuse.
fn remove_routes(wanted: &BTreeSet<Route>, current: &Current) -> Vec<Step> {
    let unwanted =
        |message: &&RouteMessage| Route::read(message).is_none_or(|route| !wanted.contains(&route));
    let refuses = |message: &&RouteMessage| {
        Route::read(message).is_some_and(|route| route.target == Target::Unreachable)
    };
    let (last, first): (Vec<_>, Vec<_>) = current.routes.iter().filter(unwanted).partition(refuses);
    let remove = |message: &RouteMessage| {
        let text = match (Route::read(message), destination(message)) {
            (Some(route), _) => format!("remove {route}"),
            (None, Some(prefix)) => format!("remove a foreign route {prefix} from our table"),
            (None, None) => "remove a foreign route from our table".to_owned(),
        };
        Step::new(text, RouteNetlinkMessage::DelRoute(message.clone()), 0)
    };
    first.into_iter().chain(last).map(remove).collect()
}

/// Removes addresses that are not wanted, but those that the kernel gave the link.
fn remove_addresses(wanted: &[IpAddr], current: &Current) -> Vec<Step> {
    let mut steps = Vec::new();
    for message in &current.addresses {
        let Some(address) = address_of(message) else {
            continue;
        };
        let stays = wanted.contains(&address) && is_alone(message, address);
        if stays || message.header.scope == AddressScope::Link {
            continue;
        }
        let request = RouteNetlinkMessage::DelAddress(message.clone());
        steps.push(Step::new(
            format_args!("remove address {address}"),
            request,
            0,
        ));
    }
    steps
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
