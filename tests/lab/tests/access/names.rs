//! Names whose addresses are few, none, or others than before.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{
    Download, Names, PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, RecordKind, ask_at,
};
use culvert_lab::{Family, Namespace, wait_until};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Instant;

/// Response codes (RFC 1035, §4.1.1).
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// The usual access, to every name below `corp.example`.
fn bed() -> Bed {
    Bed::with_access(1, &access().replace(PRIVATE_NAME, "*.corp.example")).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The words of the web server about a connection to a name, if it answers.
fn fetch(bed: &Bed, name: &str, family: &str) -> Option<String> {
    let line = format!("curl {family} -fsS -m 8 http://{name}/");
    bed.product.client.run_with_dns(&line).ok()
}

#[test]
fn a_name_that_does_not_exist_behind_the_gateway_does_not_exist_for_the_client() {
    let bed = bed();
    for kind in [RecordKind::A, RecordKind::Aaaa] {
        let answer = bed.product.client.ask("nothing.corp.example", kind);
        let answer = answer.unwrap();
        assert_eq!((answer.code, answer.addresses), (NO_SUCH_NAME, vec![]));
    }
    assert_eq!(fetch(&bed, "nothing.corp.example", ""), None);
}

/// RFC 2181, section 11: any bytes may be in a label. A label that looks like Punycode may be none.
#[test]
fn labels_that_no_host_has_are_found_as_the_site_has_them() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let stub = SocketAddr::new(client.address().unwrap(), 53);
    let longest = "x".repeat(63);
    for label in [
        "a_b",
        "end_",
        "_",
        "__",
        "_a",
        "xn--a",
        "xn--",
        "xn--zzzzzzz",
        "xn--99zzzz-_",
        "-a-",
        "ab--cd",
        "my printer",
        "a*b",
        "*",
        "a/b",
        "a@b",
        "a:b",
        "a\"b",
        "(a)",
        "a;b",
        "a\\b",
        "$",
        "0",
        "0x7f",
        &longest,
    ] {
        let name = format!("{label}.corp.example");
        let text = b"\x05hello";
        names.set(&name, &[address(PRIVATE_V4)]);
        names.set_record(&name, RecordKind::Txt, text);
        let answer = ask_at(&client.namespace, stub, &name, RecordKind::A).unwrap();
        assert_eq!(
            (answer.code, answer.addresses.len()),
            (NO_ERROR, 1),
            "{name}"
        );
        let answer = ask_at(&client.namespace, stub, &name, RecordKind::Txt).unwrap();
        assert_eq!(
            (answer.code, answer.records),
            (NO_ERROR, vec![text.to_vec()]),
            "{name}"
        );
    }
}

/// A way in which something is wrong with a name, and what the site's DNS is told for that.
type Fault = (&'static str, fn(&Names, &str));

/// The ways in which the site has no answer for a name.
const FAULTS: [Fault; 16] = [
    ("servfail", |names, name| names.set_fault(name, 2)),
    ("refused", |names, name| names.set_fault(name, 5)),
    ("formerr", |names, name| names.set_fault(name, 1)),
    ("notimp", |names, name| names.set_fault(name, 4)),
    ("yxdomain", |names, name| names.set_fault(name, 6)),
    ("nxrrset", |names, name| names.set_fault(name, 8)),
    ("notauth", |names, name| names.set_fault(name, 9)),
    ("unassigned", |names, name| names.set_fault(name, 15)),
    ("silent", |names, name| names.set_silent(name)),
    ("cutoff", |names, name| {
        names.set(name, &[]);
        names.set_cut_off(name);
    }),
    ("loop1", |names, name| names.set_alias(name, name)),
    ("loop2", |names, name| {
        let other = format!("other-{name}");
        names.set_alias(name, &other);
        names.set_alias(&other, name);
    }),
    ("loop3", |names, name| {
        let (second, third) = (format!("second-{name}"), format!("third-{name}"));
        names.set_alias(name, &second);
        names.set_alias(&second, &third);
        names.set_alias(&third, name);
    }),
    ("into-loop", |names, name| {
        let beside = format!("beside-{name}");
        names.set_alias(name, &beside);
        names.set_alias(&beside, &beside);
    }),
    ("alias-of-servfail", |names, name| {
        let target = format!("target-{name}");
        names.set_alias(name, &target);
        names.set_fault(&target, 2);
    }),
    ("alias-of-silent", |names, name| {
        let target = format!("target-{name}");
        names.set_alias(name, &target);
        names.set_silent(&target);
    }),
];

/// The number of good names beside each one that the site has no answer for.
const GOOD: usize = 15;

/// The ways in which the whole of the site's DNS goes away: at its own machine, and at the gateway's.
const AWAY: [(bool, &str, &str); 6] = [
    (
        true,
        "nft 'add table inet away; add chain inet away in { type filter hook input priority 0; }; \
            add rule inet away in meta l4proto { tcp, udp } th dport 53 drop'",
        "nft delete table inet away",
    ),
    (
        true,
        "nft 'add table inet away; add chain inet away in { type filter hook input priority 0; }; \
            add rule inet away in meta l4proto { tcp, udp } th dport 53 reject'",
        "nft delete table inet away",
    ),
    (
        true,
        "nft 'add table inet away; add chain inet away in { type filter hook input priority 0; }; \
            add rule inet away in meta l4proto { tcp, udp } th dport 53 reject with icmpx admin-prohibited'",
        "nft delete table inet away",
    ),
    (
        true,
        "ip address del 10.50.0.53/32 dev lo",
        "ip address add 10.50.0.53/32 dev lo",
    ),
    (
        false,
        "ip route add unreachable 10.50.0.53/32",
        "ip route del unreachable 10.50.0.53/32",
    ),
    (
        false,
        "ip route add blackhole 10.50.0.53/32",
        "ip route del blackhole 10.50.0.53/32",
    ),
];

#[test]
fn a_name_that_the_site_has_no_answer_for_is_servfail_and_harms_no_other_name() {
    let mut toml = access();
    for (fault, _) in FAULTS {
        write!(
            toml,
            "\n[[resource]]\nname = \"{fault}\"\nsite = \"lab\"\nkind = \"dns\"\n\
             address = \"*.{fault}.example\"\nfilters = [{{ protocol = \"tcp\", ports = [80] }}]\n\
             [[policy]]\nname = \"names {fault}\"\ngroup = \"staff\"\nresource = \"{fault}\"\n"
        )
        .unwrap();
    }
    let bed = Bed::with_access(1, &toml).unwrap();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let stub = SocketAddr::new(client.address().unwrap(), 53);
    let ask = |name: &str, kind| ask_at(&client.namespace, stub, name, kind).unwrap();
    let kinds = [RecordKind::A, RecordKind::Aaaa, RecordKind::Srv];
    thread::scope(|scope| {
        for (fault, declare) in FAULTS {
            scope.spawn(move || {
                let bad = format!("bad.{fault}.example");
                declare(names, &bad);
                for number in 0..GOOD {
                    // First before there is access, then beside names that have it.
                    if number % 5 == 0 {
                        for kind in kinds {
                            assert_eq!(ask(&bad, kind).code, SERVER_FAILURE, "{bad} {kind:?}");
                        }
                    }
                    let good = format!("good{number}.{fault}.example");
                    names.set(&good, &[address(PRIVATE_V4)]);
                    let answer = ask(&good, RecordKind::A);
                    assert_eq!(
                        (answer.code, answer.addresses.len()),
                        (NO_ERROR, 1),
                        "{good}"
                    );
                }
            });
        }
    });
    for (number, (is_at_site, begin, end)) in AWAY.into_iter().enumerate() {
        let machine = match is_at_site {
            true => &bed.product.private,
            false => &bed.product.gateways[0].namespace,
        };
        machine.shell(begin).unwrap();
        // One resource for each way: a site that is known to be silent is asked more rarely.
        let domain = format!("{}.example", FAULTS[number].0);
        let name = format!("new-{number}.{domain}");
        names.set(&name, &[address(PRIVATE_V4)]);
        for kind in kinds {
            assert_eq!(ask(&name, kind).code, SERVER_FAILURE, "{begin}: {kind:?}");
        }
        machine.shell(end).unwrap();
        let name = format!("back-{number}.{domain}");
        names.set(&name, &[address(PRIVATE_V4)]);
        wait_until("names to be found again", SOON, || {
            ask(&name, RecordKind::A).addresses.len() == 1
        })
        .unwrap();
    }
}

/// Addresses that nothing is forwarded to, as a name may have them: the gateway itself, its links, groups, the tunnel, and
/// metadata services, in every spelling.
const NEVER: [&str; 32] = [
    "127.0.0.1",
    "127.8.8.8",
    "0.0.0.0",
    "169.254.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "224.0.0.251",
    "255.255.255.255",
    "100.64.0.1",
    "::1",
    "::",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::",
    "64:ff9b:1::7f00:1",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2001:0:102:304::80ff:fffe",
    "2001:db8::5efe:7f00:1",
    "fe80::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:2021:1111::1",
];

#[test]
fn a_name_that_leads_to_what_nothing_is_forwarded_to_has_no_address_and_nothing_leaves_the_gateway()
{
    let everything = "\n[[resource]]\nname = \"all of IPv6\"\nsite = \"lab\"\nkind = \"cidr\"\n\
                      address = \"::/0\"\nfilters = [{ protocol = \"any\" }]\n\
                      [[policy]]\nname = \"all\"\ngroup = \"staff\"\nresource = \"all of IPv6\"\n";
    let toml = access().replace(PRIVATE_NAME, "*.corp.example") + everything;
    let bed = Bed::with_access(1, &toml).unwrap();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let stub = SocketAddr::new(client.address().unwrap(), 53);
    let ask = |name: &str, kind| ask_at(&client.namespace, stub, name, kind).unwrap();
    for (number, never) in NEVER.into_iter().enumerate() {
        let (alone, beside) = (
            format!("alone{number}.corp.example"),
            format!("beside{number}.corp.example"),
        );
        let never = address(never);
        let (kind, good) = match never {
            IpAddr::V4(_) => (RecordKind::A, address(PRIVATE_V4)),
            IpAddr::V6(_) => (RecordKind::Aaaa, address(PRIVATE_V6)),
        };
        names.set(&alone, &[never]);
        let answer = ask(&alone, kind);
        assert_eq!(
            (answer.code, answer.addresses),
            (NO_ERROR, vec![]),
            "{never}"
        );
        // Beside an address that may be used it is passed over.
        names.set(&beside, &[never, good]);
        assert_eq!(ask(&beside, kind).addresses.len(), 1, "{never}");
        let family = if never.is_ipv4() { "-4" } else { "-6" };
        let said = fetch(&bed, &beside, family).unwrap_or_default();
        assert!(
            said.trim_end().ends_with(&good.to_string()),
            "{never}: {said}"
        );
    }
    // The same addresses within a resource of all addresses.
    bed.comes_to_reach(PRIVATE_V6, WEB_PORT).unwrap();
    let gateway = &bed.product.gateways[0];
    // A host sends nothing with the others by itself, or knows them for its own.
    let of_host = ["::", "fe80", "ff", "fd00:2021"];
    let is_sent = |never: &&str| {
        never.contains(':') && !of_host.iter().any(|prefix| never.starts_with(prefix))
    };
    let spelled: Vec<&str> = NEVER.into_iter().filter(is_sent).collect();
    assert!(spelled.len() > 10, "{spelled:?}");
    gateway
        .namespace
        .shell(&format!(
            "nft 'add table inet left; add chain inet left out {{ type filter hook postrouting priority 0; }}; \
             add rule inet left out oifname != \"culvert*\" ip6 daddr {{ {} }} counter'",
            spelled.join(", ")
        ))
        .unwrap();
    let pings: String = spelled
        .iter()
        .map(|never| format!("ping -6 -c 2 -i 0.2 -W 1 {never} >/dev/null & "))
        .collect();
    client.namespace.shell(&format!("{pings} wait")).unwrap();
    let counted = gateway
        .namespace
        .run("nft list chain inet left out")
        .unwrap();
    assert!(counted.contains("packets 0 "), "{counted}");
    let drops = gateway.status().unwrap()["drops"].clone();
    let drops = drops.as_array().unwrap();
    let refused = drops.iter().find(|drop| drop["reason"] == "not_forwarded");
    let refused = refused.map_or(0, |drop| drop["count"].as_u64().unwrap());
    assert!(refused >= spelled.len() as u64, "{drops:?}");
}

#[test]
fn a_name_with_ipv6_alone_has_no_ipv4_address_and_is_reached() {
    let bed = bed();
    let names = &bed.product.names;
    names.set("six.corp.example", &[address(PRIVATE_V6)]);
    let client = &bed.product.client;
    let answer = client.ask("six.corp.example", RecordKind::A).unwrap();
    assert_eq!((answer.code, answer.addresses), (NO_ERROR, vec![]));
    let answer = client.ask("six.corp.example", RecordKind::Aaaa).unwrap();
    assert_eq!(answer.code, NO_ERROR);
    assert_eq!(answer.addresses.len(), 1);
    assert_ne!(
        answer.addresses,
        [address(PRIVATE_V6)],
        "another stands for it"
    );
    // A program that knows both families takes the one there is.
    let said = fetch(&bed, "six.corp.example", "").unwrap();
    assert!(said.trim_end().ends_with(PRIVATE_V6), "{said}");
    assert_eq!(fetch(&bed, "six.corp.example", "-4"), None);
}

#[test]
fn a_silent_name_does_not_hold_up_one_that_is_asked_for_beside_it() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let mut times = Vec::new();
    for number in 0..8 {
        let good = format!("good{number}.corp.example");
        let silent = format!("silent{number}.corp.example");
        names.set(&good, &[address(PRIVATE_V4)]);
        names.set_silent(&silent);
        thread::scope(|scope| {
            let silence = scope.spawn(|| client.ask(&silent, RecordKind::A));
            wait_until("the silent name to be asked for", SOON, || {
                !names.asked(&silent).is_empty()
            })
            .unwrap();
            let begun = Instant::now();
            let answer = client.ask(&good, RecordKind::A).unwrap();
            times.push(begun.elapsed().as_millis());
            assert_eq!((answer.code, answer.addresses.len()), (NO_ERROR, 1));
            assert!(!silence.is_finished(), "it was waited for");
            assert_eq!(silence.join().unwrap().unwrap().code, SERVER_FAILURE);
        });
    }
    println!("a name beside a silent one takes {times:?} ms");
}

#[test]
fn a_name_that_moves_leads_new_flows_to_the_new_address_and_keeps_the_old_ones() {
    const NAME: &str = "moves.corp.example";
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    names.set(NAME, &[address(PRIVATE_V4)]);
    let said = fetch(&bed, NAME, "-4").unwrap();
    assert!(said.trim_end().ends_with(PRIVATE_V4), "{said}");
    let stands_for_it = client.ask(NAME, RecordKind::A).unwrap().addresses[0];
    let download = Download::start(&client.namespace, stands_for_it, WEB_PORT).unwrap();
    names.set(NAME, &[address(PRIVATE_OTHER_V4)]);
    wait_until("new connections to follow the name", SOON, || {
        fetch(&bed, NAME, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_OTHER_V4))
    })
    .unwrap();
    let now = client.ask(NAME, RecordKind::A).unwrap().addresses;
    assert_eq!(now, [stands_for_it], "for the client it is where it was");
    download.goes_on(crate::common::SECOND).unwrap();
}

#[test]
fn a_family_that_the_gateway_can_not_carry_is_not_handed_out() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let gateway = &bed.product.gateways[0].namespace;
    let both = [address(PRIVATE_V4), address(PRIVATE_V6)];
    names.set("before.corp.example", &both);
    let answer = client.ask("before.corp.example", RecordKind::Aaaa).unwrap();
    assert_eq!(answer.addresses.len(), 1);
    // As where a machine has no IPv6 beyond its own network, or a route that leads nowhere, in all ways to say so.
    let alone = [
        (
            "sysctl -qw net.ipv6.conf.all.forwarding=0",
            "sysctl -qw net.ipv6.conf.all.forwarding=1",
            Family::V6,
        ),
        (
            "ip route add unreachable fd50::10/128",
            "ip route del unreachable fd50::10/128",
            Family::V6,
        ),
        (
            "ip route add blackhole fd50::10/128",
            "ip route del blackhole fd50::10/128",
            Family::V6,
        ),
        (
            "ip route add prohibit fd50::10/128",
            "ip route del prohibit fd50::10/128",
            Family::V6,
        ),
        (
            "ip -6 rule add to fd50::10 unreachable pref 1",
            "ip -6 rule del pref 1",
            Family::V6,
        ),
        (
            "ip -6 rule add to fd50::10 prohibit pref 1",
            "ip -6 rule del pref 1",
            Family::V6,
        ),
        (
            "ip -6 rule add to fd50::10 blackhole pref 1",
            "ip -6 rule del pref 1",
            Family::V6,
        ),
        (
            "ip route add unreachable 10.50.0.10/32",
            "ip route del unreachable 10.50.0.10/32",
            Family::V4,
        ),
        (
            "ip route add blackhole 10.50.0.10/32",
            "ip route del blackhole 10.50.0.10/32",
            Family::V4,
        ),
        (
            "ip -4 rule add to 10.50.0.10 prohibit pref 1",
            "ip -4 rule del pref 1",
            Family::V4,
        ),
    ];
    for (number, (begin, end, lost)) in alone.into_iter().enumerate() {
        gateway.shell(begin).unwrap();
        let name = format!("after{number}.corp.example");
        names.set(&name, &both);
        for (family, kind, address, option) in [
            (Family::V4, RecordKind::A, PRIVATE_V4, "-4"),
            (Family::V6, RecordKind::Aaaa, PRIVATE_V6, "-6"),
        ] {
            let answer = client.ask(&name, kind).unwrap();
            let count = usize::from(family != lost);
            assert_eq!(
                (answer.code, answer.addresses.len()),
                (NO_ERROR, count),
                "{begin}"
            );
            if family == lost {
                assert_eq!(fetch(&bed, &name, option), None, "{begin}");
            } else {
                // A program that knows both families takes the one there is.
                let said = fetch(&bed, &name, "").unwrap();
                assert!(said.trim_end().ends_with(address), "{begin}: {said}");
            }
        }
        gateway.shell(end).unwrap();
    }
    names.set("again.corp.example", &both);
    for kind in [RecordKind::A, RecordKind::Aaaa] {
        let answer = client.ask("again.corp.example", kind).unwrap();
        assert_eq!(answer.addresses.len(), 1, "what was wrong is right again");
    }
}

/// The ways in which a name may lose the address that it had.
const LOSSES: [Fault; 7] = [
    ("empty", |names, name| names.set(name, &[])),
    ("missing", |names, name| names.remove(name)),
    ("other-family", |names, name| {
        names.set(name, &[address(PRIVATE_V6)]);
    }),
    ("loopback", |names, name| {
        names.set(name, &[address("127.0.0.1")]);
    }),
    ("text", |names, name| {
        names.remove(name);
        names.set_record(name, RecordKind::Txt, b"\x05moved");
    }),
    ("alias-of-none", |names, name| {
        names.remove(name);
        names.set_alias(name, "nothing.corp.example");
    }),
    ("alias-of-empty", |names, name| {
        names.set("empty.example", &[]);
        names.remove(name);
        names.set_alias(name, "empty.example");
    }),
];

#[test]
fn a_connection_to_a_name_that_loses_its_addresses_goes_on() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let name_of = |loss: &str| format!("{loss}.corp.example");
    let mut connections = Vec::new();
    for (loss, _) in LOSSES {
        let name = name_of(loss);
        names.set(&name, &[address(PRIVATE_V4)]);
        fetch(&bed, &name, "-4").unwrap();
        let stands_for_it = client.ask(&name, RecordKind::A).unwrap().addresses[0];
        let download = Download::start(&client.namespace, stands_for_it, WEB_PORT).unwrap();
        connections.push((loss, stands_for_it, download));
    }
    for (loss, lose) in LOSSES {
        lose(names, &name_of(loss));
    }
    for (loss, stands_for_it, download) in &connections {
        wait_until("new connections to be refused", SOON, || {
            let line = format!("curl -s -o /dev/null -m 1 http://{stands_for_it}/");
            client.run(&line).is_err()
        })
        .unwrap_or_else(|error| panic!("{loss}: {error}"));
        download.goes_on(crate::common::SECOND).unwrap();
    }
    let drops = bed.product.gateways[0].status().unwrap().to_string();
    assert!(drops.contains("no_address"), "{drops}");
    for (loss, ..) in &connections {
        names.set(&name_of(loss), &[address(PRIVATE_OTHER_V4)]);
    }
    for (loss, _, download) in &connections {
        let name = name_of(loss);
        wait_until("new connections to be led again", SOON, || {
            fetch(&bed, &name, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_OTHER_V4))
        })
        .unwrap_or_else(|error| panic!("{loss}: {error}"));
        download.goes_on(crate::common::SECOND).unwrap();
    }
}

/// The interface by which a namespace reaches an address, and its number.
fn interface_to(namespace: &Namespace, address: IpAddr) -> (String, u32) {
    let route = namespace
        .run(&format!("ip -o route get {address}"))
        .unwrap();
    let mut words = route.split_whitespace();
    let name = words.find(|word| *word == "dev").and_then(|_| words.next());
    let name = name.unwrap().to_owned();
    let link = namespace
        .run(&format!("ip -o link show dev {name}"))
        .unwrap();
    let (number, _) = link.split_once(':').unwrap();
    (name, number.parse().unwrap())
}

#[test]
fn a_gateway_asks_a_dns_server_with_a_link_local_address_on_its_interface() {
    let bed = bed();
    let (gateway, private) = (&bed.product.gateways[0], &bed.product.private);
    let (own, own_number) = interface_to(&gateway.namespace, PRIVATE_V4.parse().unwrap());
    let (theirs, number) = interface_to(private, gateway.private_address(Family::V4));
    private
        .run(&format!("ip address add fe80::53/64 dev {theirs} nodad"))
        .unwrap();
    let linked = Names::start_on_link(private, "fe80::53".parse().unwrap(), number).unwrap();
    // A file that is mounted there is written in place.
    let configuration = gateway.token_file().with_file_name("resolv.conf");
    for (number, text) in [
        format!("nameserver fe80::53%{own}\n"),
        format!("nameserver fe80::53%{own}\nnameserver 192.0.2.1\n"),
        // The interface by its number, as some programs write it.
        format!("nameserver fe80::53%{own_number}\n"),
        format!("nameserver FE80:0:0:0::0053%{own}\n"),
        format!("  nameserver\tfe80::53%{own}\t# of the router\n"),
        format!("nameserver 192.0.2.1\nnameserver fe80::53%{own}\noptions timeout:1\n"),
        format!("nameserver fe80::53%{own}\nnameserver fe80::53%gone0\n"),
        format!("nameserver fe80::99%{own}\nnameserver fe80::53%{own}"),
        format!("search lan\nnameserver fe80::53%{own}\r\noptions edns0 trust-ad\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("linked{number}.corp.example");
        linked.set(&name, &[address(PRIVATE_V4)]);
        std::fs::write(&configuration, &text).unwrap();
        wait_until("the name to be found", SOON, || {
            fetch(&bed, &name, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_V4))
        })
        .unwrap_or_else(|error| panic!("{text:?}: {error}"));
    }
    std::fs::write(&configuration, "nameserver fe80::53%gone0\n").unwrap();
    wait_until("the problem to be told", SOON, || {
        let _unknown = bed.product.client.ask("other.corp.example", RecordKind::A);
        let status = gateway.status().unwrap().to_string();
        status.contains("fe80::53%gone0")
    })
    .unwrap();
}

#[test]
fn a_gateway_starts_with_whatever_is_in_its_resolv_conf_and_takes_the_file_when_it_is_good() {
    let mut bed = bed();
    let long = "x".repeat(64);
    let good = bed.product.gateways[0].resolv_conf.clone();
    for (number, (text, is_good)) in [
        (String::new(), false),
        ("# nothing\n; here\n".to_owned(), false),
        ("search corp.example\noptions ndots:2\n".to_owned(), false),
        ("nameserver\n".to_owned(), false),
        (
            "nameserver none\nnameserver 10.50.0.256\nnameserver 10.50.0.53:53\n".to_owned(),
            false,
        ),
        ("\0\0\0\u{fffd}\u{202e}\n".to_owned(), false),
        (format!("search\n{good}"), true),
        (format!("search {long}.example ..\n{good}domain .\n"), true),
        (
            format!("\u{feff}# made elsewhere\r\n{}\r\n", good.trim()),
            true,
        ),
        (
            format!("nameserver ?\nsortlist x\noptions ndots:x timeout: attempts:-1\n{good}"),
            true,
        ),
        (format!("{}{good}", "# a comment\n".repeat(20_000)), true),
    ]
    .into_iter()
    .enumerate()
    {
        let gateway = &mut bed.product.gateways[0];
        gateway.resolv_conf.clone_from(&text);
        gateway.restart().unwrap();
        let shown: String = text.chars().take(80).collect();
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
        let (names, gateway) = (&bed.product.names, &bed.product.gateways[0]);
        let name = format!("found{number}.corp.example");
        names.set(&name, &[address(PRIVATE_V4)]);
        let problems = gateway.status().unwrap()["problems"].to_string();
        assert_eq!(
            problems.contains("/etc/resolv.conf"),
            !is_good,
            "{shown:?}: {problems}"
        );
        if !is_good {
            let answer = bed.product.client.ask("missed.corp.example", RecordKind::A);
            assert_eq!(answer.unwrap().code, SERVER_FAILURE, "{shown:?}");
            let configuration = gateway.token_file().with_file_name("resolv.conf");
            std::fs::write(configuration, &good).unwrap();
        }
        wait_until("the name to be found", SOON, || {
            fetch(&bed, &name, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_V4))
        })
        .unwrap_or_else(|error| panic!("{shown:?}: {error}"));
        let problems = bed.product.gateways[0].status().unwrap()["problems"].to_string();
        assert!(
            !problems.contains("/etc/resolv.conf"),
            "{shown:?}: {problems}"
        );
    }
}
