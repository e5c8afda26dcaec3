//! Plans against a model of the kernel, which follows requests as the real one does. After a plan
//! the state is the wanted one, whatever was there before, and others keep their entries. At no
//! step in between can a packet for a resource leave by another way.

use std::num::NonZeroU32;

use culvert_netlink::route::route::{RouteAttribute, RouteType};
use culvert_netlink::route::rule::{RuleAction, RuleAttribute};
use ipnet::IpNet;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::super::message::{address_family, local_ranges, table_of};
use super::super::wanted::{Exemption, Mark, Preference};
use super::*;

const INDEX: u32 = 7;

/// Follows one request as the kernel does.
fn follow(kernel: &mut Current, step: &Step) {
    match step.request.clone() {
        RouteNetlinkMessage::NewRoute(route) => {
            kernel.routes.retain(|other| place(other) != place(&route));
            kernel.routes.push(route);
        }
        RouteNetlinkMessage::DelRoute(route) => kernel.routes.retain(|other| *other != route),
        RouteNetlinkMessage::NewRule(rule) => kernel.rules.push(rule),
        RouteNetlinkMessage::DelRule(rule) => {
            let found = kernel.rules.iter().position(|other| *other == rule);
            kernel
                .rules
                .remove(found.expect("what is removed is there"));
        }
        RouteNetlinkMessage::NewAddress(address) => kernel.addresses.push(address),
        RouteNetlinkMessage::DelAddress(address) => {
            kernel.addresses.retain(|other| *other != address);
        }
        RouteNetlinkMessage::SetLink(link) => {
            assert_eq!(link.header.index, kernel.link.index);
            if link.header.change_mask.contains(LinkFlags::Up) {
                kernel.link.up = link.header.flags.contains(LinkFlags::Up);
            }
            for attribute in link.attributes {
                match attribute {
                    LinkAttribute::Mtu(mtu_bytes) => kernel.link.mtu_bytes = mtu_bytes,
                    _ => kernel.link.makes_own_address = false,
                }
            }
        }
        other => panic!("a plan has no such request: {other:?}"),
    }
}

/// The key of a route: there can be only one with the same.
fn place(route: &RouteMessage) -> (Option<IpNet>, u32, u32) {
    let priority = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Priority(priority) => Some(*priority),
            _ => None,
        });
    (destination(route), table_of(route), priority.unwrap_or(0))
}

/// True if packets to `prefix` can only go into the tunnel or nowhere.
fn is_guarded(kernel: &Current, routing: &Routing, prefix: IpNet) -> bool {
    let table = routing.table_for(prefix);
    let family = Family::of(prefix.addr());
    let led =
        kernel.rules.iter().filter_map(Rule::read).any(|rule| {
            rule.family == family && rule.kind == RuleKind::Unmarked(routing.mark, table)
        });
    let target = Target::Unreachable;
    let refused = kernel.routes.iter().filter_map(Route::read);
    led && refused.into_iter().any(|route| {
        route
            == Route {
                prefix,
                table,
                target,
            }
    })
}

fn is_addition(step: &Step) -> bool {
    matches!(
        step.request,
        RouteNetlinkMessage::NewRoute(_)
            | RouteNetlinkMessage::NewRule(_)
            | RouteNetlinkMessage::NewAddress(_)
            | RouteNetlinkMessage::SetLink(_)
    )
}

/// A rule of somebody else: to `main`, as Culvert's look but where it does not put them.
fn rule_of_others(family: Family) -> RuleMessage {
    let mut rule = Rule {
        family,
        preference: 77,
        kind: RuleKind::Local(local_ranges(family)[0]),
    }
    .message();
    rule.attributes
        .push(RuleAttribute::Iifname("eth0".to_owned()));
    rule
}

/// A rule that somebody else made to a table of ours.
fn rule_to_our_table(routing: &Routing) -> RuleMessage {
    let mut rule = RuleMessage::default();
    rule.header.family = address_family(Family::V4);
    rule.header.action = RuleAction::ToTable;
    rule.attributes = vec![
        RuleAttribute::Table(routing.table.get()),
        RuleAttribute::Priority(9),
    ];
    rule
}

/// A route that somebody else put into our table.
fn foreign_route(prefix: IpNet, routing: &Routing) -> RouteMessage {
    let table = routing.table_for(prefix);
    let mut route = Route {
        prefix,
        table,
        target: Target::Unreachable,
    }
    .message();
    route.header.kind = RouteType::BlackHole;
    route
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let prefixes = [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3/32",
        "::/0",
        "fd00::/64",
        "fd00::1/128",
    ];
    let addresses = ["100.64.0.1", "100.64.0.2", "fd00:2021::1", "fd00:2021::2"];
    (
        subsequence(prefixes.to_vec(), 0..=prefixes.len()),
        subsequence(addresses.to_vec(), 0..=addresses.len()),
        select(vec![1280, 1420]),
        select(vec![0x43, 0x44]),
        select(vec![5010, 6000]),
        exemptions(),
    )
        .prop_map(
            |(prefixes, addresses, mtu_bytes, mark, preference, exemptions)| Wanted {
                interface: "cv0".parse().expect("a name"),
                mtu_bytes,
                addresses: addresses
                    .iter()
                    .map(|address| address.parse().expect("one"))
                    .collect(),
                prefixes: prefixes
                    .iter()
                    .map(|prefix| prefix.parse().expect("one"))
                    .collect(),
                exemptions,
                routing: Routing {
                    mark: Mark::new(NonZeroU32::new(mark).expect("not zero").get())
                        .expect("a mark"),
                    preference: Preference::new(preference).expect("one"),
                    ..Routing::CLIENT
                },
            },
        )
}

fn exemptions() -> impl Strategy<Value = Vec<Exemption>> {
    let all = vec![
        Exemption::UdpFrom(51_820),
        Exemption::TcpTo("192.0.2.1:443".parse().expect("one")),
        Exemption::TcpTo("[2001:db8::1]:443".parse().expect("one")),
    ];
    let count = all.len();
    subsequence(all, 0..=count)
}

fn ipv6() -> impl Strategy<Value = Ipv6> {
    select(vec![Ipv6::On, Ipv6::On, Ipv6::OffOnInterface, Ipv6::Off])
}

/// A kernel as an earlier life left it, with entries of others. After a crash the interface is a new
/// one: its routes and addresses are gone.
fn kernel() -> impl Strategy<Value = Current> {
    (wanted(), ipv6(), any::<bool>(), any::<bool>()).prop_map(
        |(earlier, ipv6, crashed, foreign)| {
            let link = Link {
                index: INDEX,
                up: false,
                mtu_bytes: 1500,
                makes_own_address: true,
                has_ipv6: ipv6 == Ipv6::On,
            };
            let mut kernel = Current {
                link,
                ipv6,
                ..Current::default()
            };
            kernel.rules = [Family::V4, Family::V6].map(rule_of_others).to_vec();
            for step in plan(&earlier, &kernel) {
                follow(&mut kernel, &step);
            }
            if crashed {
                kernel.link = link;
                kernel.addresses.clear();
                kernel.routes.retain(|route| {
                    Route::read(route).is_some_and(|route| route.target == Target::Unreachable)
                });
            }
            if foreign {
                kernel.rules.push(rule_to_our_table(&earlier.routing));
                let prefix = "10.99.0.0/16".parse().expect("a prefix");
                kernel.routes.push(foreign_route(prefix, &earlier.routing));
            }
            kernel
        },
    )
}

proptest! {
    #[test]
    fn a_plan_leads_to_where_nothing_is_left_to_do(wanted in wanted(), mut kernel in kernel()) {
        for step in plan(&wanted, &kernel) {
            follow(&mut kernel, &step);
        }
        let rest: Vec<_> = plan(&wanted, &kernel).into_iter().map(|step| step.text).collect();
        prop_assert_eq!(rest, Vec::<String>::new());
    }

    #[test]
    fn what_was_and_stays_a_resource_is_guarded_at_every_step(
        earlier in wanted(), wanted in wanted(), mut kernel in kernel()
    ) {
        // If the mark or the preference changes, both rules are there for a moment.
        let wanted = Wanted { routing: earlier.routing, ..wanted };
        for step in plan(&earlier, &kernel) {
            follow(&mut kernel, &step);
        }
        let both: Vec<IpNet> = wanted.prefixes.iter().copied()
            .filter(|prefix| is_guarded(&kernel, &wanted.routing, *prefix))
            .collect();
        for step in plan(&wanted, &kernel) {
            follow(&mut kernel, &step);
            for prefix in &both {
                prop_assert!(is_guarded(&kernel, &wanted.routing, *prefix), "{prefix}: {}", step.text);
            }
        }
        for prefix in &wanted.prefixes {
            let possible = kernel.ipv6 != Ipv6::Off || Family::of(prefix.addr()) == Family::V4;
            prop_assert_eq!(is_guarded(&kernel, &wanted.routing, *prefix), possible);
        }
    }

    #[test]
    fn additions_come_before_removals_and_refusing_before_leading(
        wanted in wanted(), mut kernel in kernel()
    ) {
        let steps = plan(&wanted, &kernel);
        let first_removal = steps.iter().position(|step| !is_addition(step));
        let late = steps.iter().skip(first_removal.unwrap_or(steps.len())).find(|step| is_addition(step));
        prop_assert!(late.is_none(), "{:?}", late.map(|step| &step.text));
        for step in steps {
            if let RouteNetlinkMessage::NewRoute(route) = &step.request
                && let Some(Route { prefix, target: Target::Tunnel(_), .. }) = Route::read(route)
            {
                prop_assert!(is_guarded(&kernel, &wanted.routing, prefix), "{prefix}");
            }
            follow(&mut kernel, &step);
        }
    }

    #[test]
    fn no_route_leads_into_the_tunnel_without_one_that_refuses_behind_it(
        wanted in wanted(), mut kernel in kernel()
    ) {
        let steps = plan(&wanted, &kernel);
        let more = removal(&wanted.routing, &steps.iter().fold(kernel.clone(), |mut kernel, step| {
            follow(&mut kernel, step);
            kernel
        }));
        for step in steps.iter().chain(&more) {
            follow(&mut kernel, step);
            let routes: BTreeSet<Route> = kernel.routes.iter().filter_map(Route::read).collect();
            for route in &routes {
                let refuses = Route { target: Target::Unreachable, ..*route };
                prop_assert!(routes.contains(&refuses), "{route}: {}", step.text);
            }
        }
    }

    #[test]
    fn others_keep_their_rules_and_a_removal_leaves_nothing_of_ours(
        wanted in wanted(), mut kernel in kernel()
    ) {
        let of_others = [Family::V4, Family::V6].map(rule_of_others);
        for step in plan(&wanted, &kernel) {
            follow(&mut kernel, &step);
        }
        for rule in &of_others {
            prop_assert!(kernel.rules.contains(rule));
        }
        for step in removal(&wanted.routing, &kernel) {
            follow(&mut kernel, &step);
        }
        // Of an earlier life with another preference, rules to `main` may be left: they decide as
        // the kernel's own does.
        kernel.rules.retain(|rule| !(Rule::read(rule).is_some_and(|rule| {
            matches!(rule.kind, RuleKind::Local(_))
        })));
        prop_assert_eq!(kernel.rules, of_others.to_vec());
        prop_assert_eq!(kernel.routes, Vec::new());
        prop_assert_eq!(kernel.addresses, Vec::new());
    }

    #[test]
    fn what_we_write_we_read_again(wanted in wanted(), ipv6 in ipv6()) {
        let link = Link { index: INDEX, ..Link::default() };
        let current = Current { link, ipv6, ..Current::default() };
        for route in wanted_routes(&wanted, &current) {
            prop_assert_eq!(Route::read(&route.message()), Some(route));
        }
        for rule in wanted_rules(&wanted, &current) {
            prop_assert_eq!(Rule::read(&rule.message()), Some(rule));
        }
    }
}
