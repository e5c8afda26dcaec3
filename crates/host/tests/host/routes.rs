//! Interface, rules and routes: the kernel's decisions with them, and their leftovers.

use std::io;
use std::net::UdpSocket;

use culvert_host::{
    Applied, Exemption, HostError, MAX_PREFIXES, Mark, Network, Note, Preference, Routing, Table,
    Wanted,
};

use crate::support::{inside, is_as_reviewed, namespace, run, shell};
use crate::tunnel_host::{Host, RESOURCES, wanted};

#[test]
fn resources_are_reached_through_the_tunnel_with_its_address() {
    let host = Host::new();
    host.apply(&wanted(&RESOURCES));
    for (to, source) in [
        ("10.1.2.3", "100.64.0.5"),
        ("fd00:77::3", "fd00:2021:1111::5"),
    ] {
        let route = host.route(to);
        assert!(route.contains("dev cv0 table 17238"), "{route}");
        assert!(route.contains(&format!("src {source} ")), "{route}");
    }
    let link = run(&host.namespace, "ip address show dev cv0");
    assert!(link.contains("mtu 1420") && link.contains("UP"), "{link}");
    assert!(link.contains("inet 100.64.0.5/32 scope global"), "{link}");
    assert!(
        link.contains("inet6 fd00:2021:1111::5/128 scope global"),
        "{link}"
    );
    assert!(
        !link.contains("fe80:") && !link.contains("tentative"),
        "{link}"
    );
    // Neither an address nor a resource shows in the host's own table.
    let main = ["-4", "-6"].map(|family| run(&host.namespace, &format!("ip {family} route")));
    assert!(!main.concat().contains("cv0"), "{main:?}");
}

#[test]
fn what_is_no_resource_goes_its_usual_way() {
    let host = Host::new();
    let before = ["10.2.0.1", "10.200.1.2", "fd00:78::1"].map(|to| host.route(to));
    host.apply(&wanted(&RESOURCES));
    assert_eq!(
        ["10.2.0.1", "10.200.1.2", "fd00:78::1"].map(|to| host.route(to)),
        before
    );
}

#[test]
fn no_route_that_the_local_network_hands_out_leads_a_resource_elsewhere() {
    let host = Host::new();
    // The routes that a DHCP server can give a host with option 121 (CVE-2024-3661).
    run(&host.namespace, "ip route add 10.1.2.0/24 via 10.200.1.2");
    run(
        &host.namespace,
        "ip -6 route add fd00:77::3/128 via fd00:200:1::2",
    );
    host.apply(&wanted(&RESOURCES));
    assert!(host.route("10.1.2.3").contains("dev cv0"));
    assert!(host.route("fd00:77::3").contains("dev cv0"));
}

#[test]
fn marked_packets_never_go_into_the_tunnel() {
    let host = Host::new();
    host.apply(&wanted(&[
        "0.0.0.0/0",
        "::/0",
        "10.1.0.0/16",
        "fd00:77::/64",
    ]));
    for to in ["10.1.2.3", "fd00:77::3", "192.0.2.1", "2001:db8::1"] {
        assert!(host.route(to).contains("dev cv0"), "{to}");
        assert!(
            host.route(&format!("{to} mark 0x43")).contains("dev veth1"),
            "{to}"
        );
    }
}

#[test]
fn packets_that_carry_the_tunnel_stay_out_of_it_whatever_their_mark() {
    let host = Host::new();
    run(&host.namespace, "sysctl -q -w net.ipv4.ip_forward=1");
    let mut all = wanted(&["0.0.0.0/0", "::/0", "192.0.2.0/24", "2001:db8::/64"]);
    all.exemptions = vec![
        Exemption::UdpFrom(51_820),
        Exemption::TcpTo("192.0.2.1:443".parse().expect("one")),
        Exemption::TcpTo("[2001:db8::1]:443".parse().expect("one")),
    ];
    host.apply(&all);
    for to in ["192.0.2.1", "2001:db8::1", "198.51.100.1", "2001:db8:9::1"] {
        for mark in ["", "mark 0x1", "mark 0x20043", "mark 0xffffffff"] {
            let datagram = |port| host.route(&format!("{to} ipproto udp sport {port} {mark}"));
            assert!(datagram(51_820).contains("dev veth1"), "{to} {mark}");
            assert!(datagram(51_821).contains("dev cv0"), "{to} {mark}");
            let segment =
                |port| host.route(&format!("{to} ipproto tcp sport 51820 dport {port} {mark}"));
            let is_portal = to == "192.0.2.1" || to == "2001:db8::1";
            let device = if is_portal { "dev veth1" } else { "dev cv0" };
            assert!(segment(443).contains(device), "{to} {mark}");
            assert!(segment(444).contains("dev cv0"), "{to} {mark}");
        }
    }
    // Packets that are only forwarded are not the tunnel's.
    let forwarded = "198.51.100.1 from 10.200.1.77 iif veth1 ipproto udp sport 51820 dport 9";
    let route = host.route(forwarded);
    assert!(route.contains("dev cv0"), "{route}");
    assert_eq!(host.apply(&all).changes, Vec::<String>::new());
    // Another port, and another portal.
    all.exemptions = vec![Exemption::UdpFrom(7)];
    host.apply(&all);
    let rules = run(&host.namespace, "ip rule");
    assert!(
        rules.contains("sport 7 ") && !rules.contains("51820"),
        "{rules}"
    );
    let before = host.everything();
    assert!(before.contains("goto"), "{before}");
    host.remove(&all);
    let after = host.everything();
    assert!(!after.contains("goto") && !after.contains("nop"), "{after}");
}

#[test]
fn a_tunnel_for_everything_leaves_the_local_network_alone_and_nothing_else() {
    let host = Host::new();
    run(&host.namespace, "ip route add 10.3.0.0/16 via 10.200.1.2");
    // The routes that a DHCP server can give a host with option 121, and with a mask that is too
    // short.
    run(&host.namespace, "ip route add 192.0.0.0/8 via 10.200.1.2");
    run(&host.namespace, "ip route add 198.0.0.0/7 dev veth1");
    let applied = host.apply(&wanted(&["0.0.0.0/0", "10.1.0.0/16"]));
    assert!(host.route("198.51.100.1").contains("dev cv0 table 17239"));
    assert!(host.route("192.0.2.1").contains("dev cv0 table 17239"));
    assert!(host.route("10.1.2.3").contains("dev cv0 table 17238"));
    assert!(
        host.route("10.3.0.1").contains("dev veth1"),
        "a private network with a route of its own"
    );
    assert!(
        host.route("10.200.1.2").contains("dev veth1"),
        "the local network"
    );
    assert!(
        host.route("2001:db8::1").contains("dev veth1"),
        "the other family"
    );
    assert!(
        applied
            .changes
            .iter()
            .any(|change| change.contains("suppress_prefixlength 0"))
    );
    // No more than is needed: without it, the rules for it go.
    host.apply(&wanted(&["10.1.0.0/16"]));
    assert!(host.route("192.0.2.1").contains("dev veth1"));
    assert!(!run(&host.namespace, "ip rule").contains("suppress"));
}

#[test]
fn a_crash_leaves_resources_unreachable() {
    let mut host = Host::new();
    host.apply(&wanted(&["0.0.0.0/0", "10.1.0.0/16", "fd00:77::/64"]));
    host.crash();
    assert!(run(&host.namespace, "ip link").contains("veth1"));
    assert!(!run(&host.namespace, "ip link").contains("cv0"));
    for to in ["10.1.2.3", "fd00:77::3", "192.0.2.1"] {
        assert!(
            host.route(to).contains("No route to host"),
            "{to}: {}",
            host.route(to)
        );
        // The view of a program on the host, at once.
        let connected = host.namespace.inside(|| {
            let socket = UdpSocket::bind(if to.contains(':') {
                "[::]:0"
            } else {
                "0.0.0.0:0"
            })?;
            Ok(socket.connect((to, 80)).map_err(|error| error.kind()))
        });
        assert_eq!(
            connected.expect("a socket"),
            Err(io::ErrorKind::HostUnreachable),
            "{to}"
        );
    }
    assert!(
        host.route("10.1.2.3 mark 0x43").contains("dev veth1"),
        "the tunnel's own packets"
    );
}

#[test]
fn an_interface_that_goes_down_leaves_resources_unreachable() {
    let host = Host::new();
    host.apply(&wanted(&RESOURCES));
    run(&host.namespace, "ip link set cv0 down");
    for to in ["10.1.2.3", "fd00:77::3"] {
        assert!(host.route(to).contains("No route to host"), "{to}");
    }
    host.apply(&wanted(&RESOURCES));
    for to in ["10.1.2.3", "fd00:77::3"] {
        assert!(host.route(to).contains("dev cv0"), "{to}");
    }
}

#[test]
fn the_next_life_takes_over_what_a_crash_left_and_removes_the_rest() {
    let mut host = Host::new();
    host.apply(&wanted(&["10.1.0.0/16", "10.2.0.0/16"]));
    host.crash();
    host.start();
    let changes = host.apply(&wanted(&["10.2.0.0/16", "10.3.0.0/16"])).changes;
    assert_eq!(
        changes,
        [
            "add unreachable route 10.3.0.0/16, table 17238",
            "keep the interface from giving itself an address",
            "set the MTU to 1420 bytes",
            "add address 100.64.0.5",
            "add address fd00:2021:1111::5",
            "bring the interface up",
            "add route 10.2.0.0/16 into the tunnel, table 17238",
            "add route 10.3.0.0/16 into the tunnel, table 17238",
            "remove unreachable route 10.1.0.0/16, table 17238",
        ]
    );
    assert!(host.route("10.1.2.3").contains("dev veth1"));
}

#[test]
fn applying_twice_changes_nothing_the_second_time() {
    let host = Host::new();
    let wanted = wanted(&[
        "0.0.0.0/0",
        "::/0",
        "10.1.0.0/16",
        "10.1.2.3/8",
        "fd00:77::/64",
    ]);
    assert!(!host.apply(&wanted).changes.is_empty());
    let before = host.everything();
    assert_eq!(host.apply(&wanted).changes, [""; 0]);
    assert_eq!(host.everything(), before);
}

#[test]
fn only_the_difference_is_changed() {
    let host = Host::new();
    host.apply(&wanted(&RESOURCES));
    let mut changed = wanted(&["10.1.0.0/16", "10.9.0.0/16"]);
    changed.addresses = vec!["100.64.0.6".parse().expect("an address")];
    assert_eq!(
        host.apply(&changed).changes,
        [
            "add unreachable route 10.9.0.0/16, table 17238",
            "add address 100.64.0.6",
            "add route 10.9.0.0/16 into the tunnel, table 17238",
            "remove route fd00:77::/64 into the tunnel, table 17238",
            "remove unreachable route fd00:77::/64, table 17238",
            "remove address 100.64.0.5",
            "remove address fd00:2021:1111::5",
        ]
    );
}

#[test]
fn thousands_of_prefixes_come_and_go() {
    let host = Host::new();
    let many: Vec<String> = (0..3000)
        .map(|n| format!("10.{}.{}.0/24", n / 250, n % 250))
        .collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(host.apply(&wanted(&many)).changes.len() >= 6000);
    assert_eq!(host.apply(&wanted(&many)).changes, Vec::<String>::new());
    assert!(host.route("10.11.249.1").contains("dev cv0"));
    assert_eq!(
        host.apply(&wanted(&["10.1.2.0/24"])).changes.len(),
        2 * 2999
    );
    assert!(host.route("10.1.2.1").contains("dev cv0"));
    assert!(host.route("10.11.249.1").contains("dev veth1"));
}

#[test]
fn an_orderly_end_leaves_the_host_as_it_was() {
    let host = Host::new();
    run(
        &host.namespace,
        "ip rule add from 10.5.0.0/16 lookup 99 pref 5010",
    );
    run(
        &host.namespace,
        "ip rule add to 10.0.0.0/8 lookup main suppress_prefixlength 0 pref 5020",
    );
    run(
        &host.namespace,
        "ip route add 10.6.0.0/16 via 10.200.1.2 table 99",
    );
    run(
        &host.namespace,
        "ip -6 route add unreachable fd00:6::/64 table 99",
    );
    let before = host.everything();
    let wanted = wanted(&["0.0.0.0/0", "::/0", "10.1.0.0/16", "fd00:77::/64"]);
    host.apply(&wanted);
    assert_ne!(host.everything(), before);
    host.remove(&wanted);
    assert_eq!(host.everything(), before);
    assert!(!run(&host.namespace, "ip address show dev cv0").contains("inet"));
    host.remove(&wanted);
    assert_eq!(host.everything(), before);
}

#[test]
fn a_gateway_beside_a_client_that_takes_everything_leaves_its_rules_alone() {
    let host = Host::new();
    let client = wanted(&["0.0.0.0/0", "::/0", "10.1.0.0/16", "fd00:77::/64"]);
    host.apply(&client);
    let of_client = host.everything();
    let _second = host.tunnel("cv1");
    let mut gateway = wanted(&["100.64.0.0/11", "fd00:2021:1111::/113"]);
    gateway.interface = "cv1".parse().expect("a name");
    gateway.addresses = vec!["100.64.0.6".parse().expect("an address")];
    gateway.routing = Routing::GATEWAY;
    host.apply(&gateway);
    let applied = host.apply(&client);
    assert_eq!(applied.changes, Vec::<String>::new(), "nothing was taken");
    // Its own table first, then the gateway's, then everything else.
    for (to, device) in [
        ("10.1.2.3", "cv0"),
        ("100.64.1.9", "cv1"),
        ("198.51.100.1", "cv0"),
        ("10.200.1.2", "veth1"),
    ] {
        let route = host.route(to);
        assert!(route.contains(&format!("dev {device}")), "{to}: {route}");
    }
    host.remove(&gateway);
    assert_eq!(host.everything(), of_client);
}

#[test]
fn leftovers_are_removed_with_or_without_an_interface() {
    let mut host = Host::new();
    let before = host.everything();
    let wanted = wanted(&["0.0.0.0/0", "::/0", "10.1.0.0/16", "fd00:77::/64"]);
    let clean_up = |host: &Host| {
        inside(&host.namespace, async || {
            Ok(Network::open()?
                .clean_up_leftovers(&Routing::CLIENT)
                .await?)
        })
    };
    for orderly in [true, false] {
        host.apply(&wanted);
        host.crash();
        assert_ne!(host.everything(), before);
        if orderly {
            host.remove(&wanted);
        } else {
            assert!(!clean_up(&host).is_empty());
        }
        assert_eq!(host.everything(), before);
        assert_eq!(clean_up(&host), Vec::<String>::new());
        host.start();
    }
}

#[test]
fn what_others_put_into_our_tables_goes_and_what_they_take_out_comes_back() {
    let host = Host::new();
    host.apply(&wanted(&RESOURCES));
    let before = host.everything();
    for harm in [
        "ip route add blackhole 10.1.2.0/24 table 17238",
        "ip route add 10.1.3.0/24 via 10.200.1.2 table 17238",
        "ip route add 10.1.4.0/24 table 17238 nexthop via 10.200.1.2 nexthop dev cv0",
        "ip route add default via 10.200.1.2 table 17239",
        "ip -6 route add fd00:77::1 via fd00:200:1::2 table 17238",
        "ip -6 route add prohibit fd00:77::2 table 17238",
        "ip route replace 10.1.0.0/16 via 10.200.1.2 metric 100 table 17238",
        "ip -6 route replace fd00:77::/64 via fd00:200:1::2 metric 100 table 17238",
        "ip route del unreachable 10.1.0.0/16 table 17238",
        "ip rule add fwmark 9 lookup 17238 pref 4000",
        "ip rule add iif lo lookup 17239 pref 4001",
        "ip -6 rule add to fd00:78::/64 lookup 17238 pref 4002",
        "ip rule del pref 5010",
        "ip -6 rule del pref 5010",
        "ip route flush table 17238",
        "ip -6 route flush table 17238",
        "ip address add 100.64.0.77/24 dev cv0",
        "ip address del 100.64.0.5/32 dev cv0",
        "ip -6 address flush dev cv0",
        "ip link set cv0 mtu 1300",
    ] {
        run(&host.namespace, harm);
        let changes = host.apply(&wanted(&RESOURCES)).changes;
        assert!(!changes.is_empty(), "{harm}");
        assert_eq!(host.everything(), before, "{harm}: {changes:?}");
        assert_eq!(
            host.apply(&wanted(&RESOURCES)),
            Applied::default(),
            "{harm}: {changes:?}"
        );
        assert!(
            host.route("10.1.2.3")
                .contains("dev cv0 table 17238 src 100.64.0.5"),
            "{harm}"
        );
        assert!(
            host.route("fd00:77::3").contains("dev cv0 table 17238"),
            "{harm}"
        );
    }
}

#[test]
fn two_tunnels_keep_out_of_each_others_tables() {
    let host = Host::new();
    run(&host.namespace, "ip tuntap add gw0 mode tun");
    let client = wanted(&RESOURCES);
    let gateway = Wanted {
        interface: "gw0".parse().expect("a name"),
        addresses: vec!["100.64.0.1".parse().expect("an address")],
        routing: Routing::GATEWAY,
        ..wanted(&["100.64.0.0/11"])
    };
    host.apply(&client);
    let alone = host.everything();
    host.apply(&gateway);
    assert!(host.route("100.64.9.9").contains("dev gw0"));
    assert_eq!(host.apply(&client), Applied::default());
    assert_eq!(host.apply(&gateway), Applied::default());
    host.remove(&gateway);
    assert_eq!(host.everything(), alone);
    assert!(host.route("10.1.2.3").contains("dev cv0"));
}

#[test]
fn other_numbers_are_used_as_told() {
    let host = Host::new();
    let before = host.everything();
    let mut wanted = wanted(&RESOURCES);
    // A table of the old kind, whose number fits into a byte.
    wanted.routing = Routing {
        mark: Mark::new(0x1000).expect("a mark"),
        table: Table::new(123).expect("a table"),
        default_table: Table::new(u32::MAX).expect("a table"),
        preference: Preference::new(70).expect("a preference"),
    };
    wanted.prefixes.push("0.0.0.0/0".parse().expect("a prefix"));
    host.apply(&wanted);
    assert_eq!(host.apply(&wanted), Applied::default());
    assert!(run(&host.namespace, "ip rule").contains("70:\tnot from all fwmark 0x1000 lookup 123"));
    assert!(host.route("10.1.2.3").contains("table 123"));
    assert!(host.route("192.0.2.1").contains("table 4294967295"));
    assert!(host.route("10.1.2.3 mark 0x1000").contains("dev veth1"));
    host.remove(&wanted);
    assert_eq!(host.everything(), before);
}

#[test]
fn a_host_without_ipv6_is_set_up_without_it_and_leaks_nothing() {
    let host = Host::new();
    run(
        &host.namespace,
        "sysctl -q -w net.ipv6.conf.cv0.disable_ipv6=1",
    );
    let applied = host.apply(&wanted(&RESOURCES));
    let [note @ Note::Ipv6OffOnInterface { .. }] = &applied.notes[..] else {
        panic!("expected a note, got {:?}", applied.notes);
    };
    assert!(host.route("10.1.2.3").contains("dev cv0"));
    assert!(
        host.route("fd00:77::3").contains("No route to host"),
        "not by the host's own IPv6"
    );
    // Off for all, as administrators do it.
    run(
        &host.namespace,
        "sysctl -q -w net.ipv6.conf.all.disable_ipv6=1",
    );
    host.apply(&wanted(&RESOURCES));
    assert!(host.route("10.1.2.3").contains("dev cv0"));
    run(
        &host.namespace,
        "sysctl -q -w net.ipv6.conf.all.disable_ipv6=0",
    );
    run(
        &host.namespace,
        "sysctl -q -w net.ipv6.conf.cv0.disable_ipv6=1",
    );
    // The note's own fix.
    let text = note.to_string();
    let fix = text.split('`').nth(1).expect("a command").to_owned();
    inside(&host.namespace, async || shell(&fix));
    assert_eq!(host.apply(&wanted(&RESOURCES)).notes, []);
    assert!(host.route("fd00:77::3").contains("dev cv0"));
}

#[test]
fn a_missing_interface_is_told_and_nothing_is_changed() {
    let mut host = Host::new();
    host.apply(&wanted(&RESOURCES));
    host.crash();
    let before = host.everything();
    let result = host.try_apply(&wanted(&["10.9.0.0/16"]));
    assert!(
        matches!(result, Err(HostError::NoInterface { .. })),
        "{result:?}"
    );
    assert_eq!(host.everything(), before);
}

#[test]
fn more_than_can_be_set_up_is_refused_before_anything_is_changed() {
    let host = Host::new();
    let before = host.everything();
    let mut wanted = wanted(&RESOURCES);
    wanted.prefixes = vec!["10.0.0.0/8".parse().expect("a prefix"); MAX_PREFIXES + 1];
    let result = host.try_apply(&wanted);
    assert!(
        matches!(result, Err(HostError::TooMany { .. })),
        "{result:?}"
    );
    assert_eq!(host.everything(), before);
}

#[test]
fn without_cap_net_admin_the_error_says_so() {
    let namespace = namespace();
    run(&namespace, "ip tuntap add cv0 mode tun");
    let result = inside(&namespace, async || {
        let sets = rustix::thread::CapabilitySets {
            effective: rustix::thread::CapabilitySet::empty(),
            permitted: rustix::thread::CapabilitySet::empty(),
            inheritable: rustix::thread::CapabilitySet::empty(),
        };
        rustix::thread::set_capabilities(None, sets)?;
        Ok(Network::open()?.apply(&wanted(&RESOURCES)).await)
    });
    assert!(
        matches!(result, Err(HostError::NeedsNetAdmin)),
        "{result:?}"
    );
}

#[test]
fn what_of_the_host_is_in_the_tunnels_way_is_named_with_the_fix() {
    let host = Host::new();
    let notes = |prefixes: &[&str]| {
        let applied = host.apply(&wanted(prefixes));
        let texts = applied.notes.iter().map(ToString::to_string);
        texts.collect::<Vec<_>>()
    };
    assert_eq!(notes(&["10.1.0.0/16", "0.0.0.0/0"]), [""; 0]);
    run(&host.namespace, "ip address add 100.100.7.7/10 dev veth1");
    let [taken] = &notes(&["10.1.0.0/16"])[..] else {
        panic!("one note");
    };
    assert!(
        taken.contains("100.64.0.5 lies in 100.64.0.0/10, the network of veth1"),
        "{taken}"
    );
    run(&host.namespace, "ip address del 100.100.7.7/10 dev veth1");
    let [own] = &notes(&["10.200.0.0/16"])[..] else {
        panic!("one note");
    };
    assert!(
        own.contains("10.200.0.0/16 holds this machine's own network (10.200.1.1 of veth1)"),
        "{own}"
    );
    run(&host.namespace, "ip rule add lookup main pref 100");
    // These are for packets of their own.
    run(
        &host.namespace,
        "ip rule add fwmark 0x7 lookup main pref 101",
    );
    run(&host.namespace, "ip rule add lookup local pref 102");
    run(&host.namespace, "ip rule add lookup main pref 6000");
    let [earlier] = &notes(&["10.1.0.0/16"])[..] else {
        panic!("one note");
    };
    assert!(earlier.contains("`ip rule list pref 100`"), "{earlier}");
    run(&host.namespace, "ip rule del pref 100");
    run(
        &host.namespace,
        "sysctl -q -w net.ipv4.conf.veth1.rp_filter=1",
    );
    assert_eq!(notes(&["10.1.0.0/16"]), [""; 0], "it does no harm then");
    let [strict] = &notes(&["0.0.0.0/0"])[..] else {
        panic!("one note");
    };
    assert!(
        strict.contains("sysctl -w net/ipv4/conf/veth1/rp_filter=2"),
        "{strict}"
    );
}

/// The host's rules and routes with these resources, beside its own.
const SHAPES: [(&str, &[&str], &str); 3] = [
    (
        "resources",
        &RESOURCES,
        include_str!("golden/resources.routes"),
    ),
    (
        "everything",
        &["0.0.0.0/0", "::/0", "10.1.0.0/16"],
        include_str!("golden/everything.routes"),
    ),
    ("nothing", &[], include_str!("golden/nothing.routes")),
];

#[test]
fn rules_and_routes_are_as_reviewed() {
    for (name, prefixes, golden) in SHAPES {
        let host = Host::new();
        host.apply(&wanted(prefixes));
        let lines = host.everything();
        // Some versions of `ip` end lines with a space.
        let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
        let text = lines.join("\n") + "\n";
        is_as_reviewed(&format!("{name}.routes"), &text, golden);
    }
}
