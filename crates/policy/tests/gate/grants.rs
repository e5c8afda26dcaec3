//! Packets that grants let pass.

use crate::packets::{echo, other, tcp, udp};
use crate::setup::{
    CLIENT, CLIENT_V6, EXPIRY_MS, NAME, OTHER_CLIENT, OTHER_PEER, PEER, Setup, grant, named,
};
use culvert_base::BootTime;
use culvert_policy::GrantError;
use culvert_policy::gate::{
    ClientGrants, DropReason, GateTable, Grant, MAX_NAMES_PER_GRANT, Mapping, PeerKey, Reach,
};
use std::collections::BTreeSet;
use std::net::IpAddr;

const SERVER: &str = "10.0.0.1";

#[test]
fn a_table_without_clients_admits_nothing() {
    let mut setup = Setup::new(vec![grant(1, "0.0.0.0/0", &["any"])]);
    setup.table = GateTable::new();
    setup.assert_refuses(
        &tcp((CLIENT, 5000), (SERVER, 443)),
        DropReason::ForgedSource,
    );
    setup.assert_no_answer(&tcp((SERVER, 443), (CLIENT, 5000)), DropReason::NotAFlow);
}

#[test]
fn without_a_grant_nothing_passes() {
    let mut setup = Setup::new(vec![]);
    setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, 443)), DropReason::NoGrant);
}

#[test]
fn an_empty_filter_denies() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &[])]);
    for packet in [
        tcp((CLIENT, 5000), (SERVER, 443)),
        udp((CLIENT, 5000), (SERVER, 53)),
        echo(CLIENT, SERVER, 7, false),
        other(CLIENT, SERVER, 47),
    ] {
        setup.assert_refuses(&packet, DropReason::Protocol);
    }
}

#[test]
fn filters_allow_what_they_name_and_nothing_else() {
    let mut setup = Setup::new(vec![grant(
        1,
        "10.0.0.0/8",
        &["tcp 443", "tcp 8000-8100", "udp 53"],
    )]);
    for port in [443, 8000, 8050, 8100] {
        setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, port)));
    }
    for port in [442, 444, 7999, 8101, 53] {
        setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, port)), DropReason::Port);
    }
    setup.assert_sends(&udp((CLIENT, 5000), (SERVER, 53)));
    setup.assert_refuses(&udp((CLIENT, 5000), (SERVER, 443)), DropReason::Port);
    setup.assert_refuses(&echo(CLIENT, SERVER, 7, false), DropReason::Protocol);
    setup.assert_refuses(&other(CLIENT, SERVER, 47), DropReason::Protocol);
    // The source port is nobody's business, and does not help.
    setup.assert_sends(&tcp((CLIENT, 22), (SERVER, 443)));
    setup.assert_refuses(&tcp((CLIENT, 443), (SERVER, 22)), DropReason::Port);
}

#[test]
fn any_allows_every_protocol() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 1)));
    setup.assert_sends(&udp((CLIENT, 5000), (SERVER, 1)));
    setup.assert_sends(&echo(CLIENT, SERVER, 7, false));
    setup.assert_sends(&other(CLIENT, SERVER, 47));
    setup.assert_answers(&other(SERVER, CLIENT, 47));
}

#[test]
fn a_grant_reaches_its_range_and_nothing_beside_it() {
    let mut setup = Setup::new(vec![
        grant(1, "10.1.0.0/16", &["any"]),
        grant(2, "fd01::/64", &["any"]),
    ]);
    setup.assert_sends(&tcp((CLIENT, 5000), ("10.1.255.255", 1)));
    setup.assert_refuses(&tcp((CLIENT, 5000), ("10.2.0.0", 1)), DropReason::NoGrant);
    setup.assert_sends(&tcp((CLIENT_V6, 5000), ("fd01::ffff", 1)));
    setup.assert_refuses(
        &tcp((CLIENT_V6, 5000), ("fd01:0:0:1::", 1)),
        DropReason::NoGrant,
    );
}

#[test]
fn the_more_specific_grant_decides_alone() {
    let grants = vec![
        grant(1, "10.0.0.0/8", &["any"]),
        grant(2, "10.0.0.1/32", &["tcp 443"]),
    ];
    let mut setup = Setup::new(grants.clone());
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 443)));
    setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, 22)), DropReason::Port);
    setup.assert_sends(&tcp((CLIENT, 5000), ("10.0.0.2", 22)));
    // Nor does it fall to the wider one when it expires.
    let mut expired = grants;
    expired[1].expires = setup.now();
    setup.set(expired);
    setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, 22)), DropReason::Expired);
}

#[test]
fn alike_resources_allow_what_any_of_them_allows() {
    let mut short = grant(1, "10.0.0.1/32", &["tcp 443"]);
    short.expires = BootTime::from_millis(2_000_000);
    let mut setup = Setup::new(vec![short, grant(2, "10.0.0.1/32", &["tcp 22", "udp 443"])]);
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 443)));
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 22)));
    setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, 80)), DropReason::Port);
    setup.now_ms = 2_000_000;
    setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, 443)), DropReason::Port);
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 22)));
}

#[test]
fn an_expired_grant_denies_on_the_very_instant() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let (query, answer) = (
        tcp((CLIENT, 5000), (SERVER, 443)),
        tcp((SERVER, 443), (CLIENT, 5000)),
    );
    setup.now_ms = EXPIRY_MS - 1;
    setup.assert_sends(&query);
    setup.assert_answers(&answer);
    setup.now_ms = EXPIRY_MS;
    // The flow is known and the table the same: expiry counts all the same, in both directions.
    setup.assert_no_answer(&answer, DropReason::Expired);
    setup.assert_refuses(&query, DropReason::Expired);
    setup.assert_no_answer(&answer, DropReason::NotAFlow);
}

#[test]
fn a_renewed_grant_goes_on_without_a_gap() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let (query, answer) = (
        tcp((CLIENT, 5000), (SERVER, 443)),
        tcp((SERVER, 443), (CLIENT, 5000)),
    );
    setup.now_ms = EXPIRY_MS - 1;
    setup.assert_sends(&query);
    let mut renewed = grant(1, "10.0.0.0/8", &["any"]);
    renewed.id = grant(9, "10.0.0.0/8", &[]).id;
    renewed.expires = BootTime::from_millis(2 * EXPIRY_MS);
    setup.set(vec![grant(1, "10.0.0.0/8", &["any"]), renewed.clone()]);
    setup.now_ms = EXPIRY_MS;
    setup.assert_answers(&answer);
    setup.assert_sends(&query);
    let flow = setup.gate.flows().next().unwrap();
    assert_eq!(flow.grant, renewed.id);
    assert_eq!((flow.to_remote.packets, flow.to_client.packets), (2, 1));
    assert!(setup.ended().is_empty());
}

#[test]
fn a_revoked_grant_cuts_live_flows_at_once() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let (query, answer) = (
        tcp((CLIENT, 5000), (SERVER, 443)),
        tcp((SERVER, 443), (CLIENT, 5000)),
    );
    setup.assert_sends(&query);
    setup.assert_answers(&answer);
    setup.set(vec![]);
    setup.assert_no_answer(&answer, DropReason::NoGrant);
    setup.assert_refuses(&query, DropReason::NoGrant);
    assert_eq!(setup.gate.flow_count(), 0);
}

#[test]
fn changed_filters_cut_the_flows_that_they_no_longer_allow() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["tcp 22", "tcp 443"])]);
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 22)));
    setup.assert_sends(&tcp((CLIENT, 5000), (SERVER, 443)));
    setup.set(vec![grant(1, "10.0.0.0/8", &["tcp 443"])]);
    setup.assert_no_answer(&tcp((SERVER, 22), (CLIENT, 5000)), DropReason::Port);
    setup.assert_answers(&tcp((SERVER, 443), (CLIENT, 5000)));
    setup.assert_refuses(&tcp((CLIENT, 5000), (SERVER, 22)), DropReason::Port);
}

#[test]
fn a_source_address_must_be_the_peers_own() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let packet = tcp((CLIENT, 5000), (SERVER, 443));
    assert_eq!(
        setup.send_from(OTHER_PEER, &packet),
        Err(DropReason::ForgedSource)
    );
    assert_eq!(
        setup.send_from(PeerKey(77), &packet),
        Err(DropReason::ForgedSource)
    );
    setup.assert_sends(&packet);
    // Not even for a flow that is there; and it stays.
    assert_eq!(
        setup.send_from(OTHER_PEER, &packet),
        Err(DropReason::ForgedSource)
    );
    setup.assert_answers(&tcp((SERVER, 443), (CLIENT, 5000)));
    setup.assert_refuses(
        &tcp((OTHER_CLIENT, 5000), (SERVER, 443)),
        DropReason::ForgedSource,
    );
    setup.assert_refuses(&tcp((SERVER, 443), (SERVER, 443)), DropReason::ForgedSource);
}

#[test]
fn an_address_that_moves_to_another_client_takes_no_flow_along() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let packet = tcp((CLIENT, 5000), (SERVER, 443));
    setup.assert_sends(&packet);
    setup.table.remove_client(PEER);
    let grants = vec![grant(1, "10.0.0.0/8", &["any"])];
    let moved = ClientGrants::new(OTHER_PEER, vec![CLIENT.parse().unwrap()], grants).unwrap();
    setup.table.set_client(moved).unwrap();
    setup.assert_no_answer(&tcp((SERVER, 443), (CLIENT, 5000)), DropReason::NotAFlow);
    setup.assert_refuses(&packet, DropReason::ForgedSource);
    assert_eq!(
        setup.send_from(OTHER_PEER, &packet).as_deref(),
        Ok(packet.as_slice())
    );
}

/// Addresses, as clouds document them and as RFCs write them, that no grant leads to. They repeat
/// no constant of the code.
#[test]
fn nothing_is_forwarded_to_the_gateway_itself_or_to_a_single_link() {
    let mut setup = Setup::new(everywhere());
    for address in [
        // The gateway itself, its links, groups.
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.1.1",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        // Metadata services: Amazon and most others, its ECS, Scaleway, Tencent, Azure, Alibaba, Oracle Classic.
        "169.254.169.254",
        "169.254.170.2",
        "169.254.42.42",
        "169.254.0.23",
        "168.63.129.16",
        "100.100.100.200",
        "192.0.0.192",
        "::",
        "::1",
        "fe80::1",
        "febf:ffff::1",
        // Site-local addresses, of the first site and the last.
        "fec0::1",
        "feff:ffff::1",
        "ff02::1",
        "ff0e::1",
        // OpenStack, Amazon, its Pod Identity, Google, Oracle, Scaleway, Linode, Alibaba.
        "fe80::a9fe:a9fe",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "fd00:100::100:200",
    ] {
        assert_never_forwarded(&mut setup, address);
    }
}

#[test]
fn nothing_is_forwarded_to_a_refused_ipv4_address_however_ipv6_writes_it() {
    let mut setup = Setup::new(everywhere());
    for address in [
        // IPv4-compatible, IPv4-mapped, IPv4-translated.
        "::127.0.0.1",
        "::10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:169.254.169.254",
        "::ffff:0:127.0.0.1",
        // NAT64 (RFC 6052 §2.4 shows where 192.0.2.33 is at each length).
        "64:ff9b::169.254.169.254",
        "64:ff9b::127.0.0.1",
        "64:ff9b::100.100.100.200",
        "64:ff9b::168.63.129.16",
        "64:ff9b::192.0.0.192",
        "64:ff9b::255.255.255.255",
        "64:ff9b::0.0.0.0",
        "64:ff9b:1::169.254.169.254",
        "64:ff9b:1:fffe::169.254.169.254",
        "64:ff9b:1:a9fe:a9:fe00::",
        "64:ff9b:1:a9:fe:a9fe::",
        "64:ff9b:1:abcd:a9:fea9:fe00::",
        // 6to4, Teredo's server and client, ISATAP.
        "2002:a9fe:a9fe::1",
        "2002:7f00:1::1",
        "2001:0:a9fe:a9fe:0:1234:f5ff:fffe",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "2001:db8::5efe:169.254.169.254",
        "2001:db8::200:5efe:127.0.0.1",
    ] {
        assert_never_forwarded(&mut setup, address);
    }
    for address in [
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "64:ff9b:1:a00:0:100::",
        "64:ff9b:2::169.254.169.254",
        "::ffff:0:10.0.0.1",
        "2002:a00:1::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::5efe:10.0.0.1",
        "2001:db8::a9fe:a9fe",
        "fd20:ce::253",
        "fd00:ec3::254",
    ] {
        setup.assert_sends(&udp((CLIENT_V6, 5000), (address, 80)));
        let mapping = Mapping::new("fd00:1::1".parse().unwrap(), address.parse().unwrap());
        assert!(mapping.is_ok(), "{address}");
    }
}

fn everywhere() -> Vec<Grant> {
    vec![grant(1, "0.0.0.0/0", &["any"]), grant(2, "::/0", &["any"])]
}

/// Neither by its address nor by a name that has it.
fn assert_never_forwarded(setup: &mut Setup, address: &'static str) {
    let resolved: IpAddr = address.parse().unwrap();
    let (client, visible) = match resolved {
        IpAddr::V4(_) => (CLIENT, NAME),
        IpAddr::V6(_) => (CLIENT_V6, "fd00:1::1"),
    };
    setup.assert_refuses(
        &udp((client, 5000), (address, 80)),
        DropReason::NotForwarded,
    );
    assert_eq!(
        Mapping::new(visible.parse().unwrap(), resolved),
        Err(GrantError::NotForwarded(resolved)),
        "{address}"
    );
}

#[test]
fn a_table_refuses_what_would_be_ambiguous_and_leaves_the_client_without_grants() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let epoch = setup.table.epoch();
    let client = ClientGrants::new(PEER, vec![OTHER_CLIENT.parse().unwrap()], vec![]).unwrap();
    let refused = setup.table.set_client(client);
    assert_eq!(
        refused,
        Err(GrantError::AddressTaken(OTHER_CLIENT.parse().unwrap()))
    );
    assert!(setup.table.epoch() > epoch);
    assert!(setup.table.client(PEER).is_none());
    setup.assert_refuses(
        &tcp((CLIENT, 5000), (SERVER, 443)),
        DropReason::ForgedSource,
    );
    let twice = named(1, &[(NAME, "10.0.0.1"), (NAME, "10.0.0.2")], &["any"]);
    let refused = ClientGrants::new(PEER, vec![], vec![twice]).unwrap_err();
    assert_eq!(refused, GrantError::Ambiguous(NAME.parse().unwrap()));
    let families = Mapping::new(NAME.parse().unwrap(), "fd01::1".parse().unwrap());
    assert!(matches!(families, Err(GrantError::Families { .. })));
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let names: BTreeSet<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(names.len(), DropReason::ALL.len());
    let shown: BTreeSet<_> = DropReason::ALL.iter().map(ToString::to_string).collect();
    assert!(names.iter().all(|name| shown.contains(*name)));
    let fits = |name: &str| {
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    assert!(names.iter().all(|name| fits(name)));
}

#[test]
fn a_name_may_lead_to_one_address_by_many_entries_as_long_as_they_agree() {
    let agreed = named(1, &[(NAME, "10.0.0.1"), (NAME, "10.0.0.1")], &["any"]);
    let mut setup = Setup::new(vec![agreed]);
    let sent = setup.send(&tcp((CLIENT, 5000), (NAME, 443)));
    assert_eq!(sent.unwrap()[16..20], [10, 0, 0, 1]);
}

#[test]
fn a_grant_has_two_addresses_for_each_of_its_names() {
    let address = |number: usize| IpAddr::V6((0xFD01_u128 << 112 | number as u128).into());
    let of = |count: usize| {
        let mapping = |number| Mapping::new(address(number), address(number + 1)).unwrap();
        let grant = Grant {
            reach: Reach::Names((0..count).map(mapping).collect()),
            ..grant(1, "::/0", &["any"])
        };
        ClientGrants::new(PEER, vec![], vec![grant]).map(|_| ())
    };
    assert_eq!(of(2 * MAX_NAMES_PER_GRANT), Ok(()));
    let refused = of(2 * MAX_NAMES_PER_GRANT + 1);
    assert_eq!(refused, Err(GrantError::TooManyNames));
}

#[test]
fn a_table_tells_what_it_was_given() {
    let given = vec![grant(1, "10.0.0.0/8", &["any"])];
    let setup = Setup::new(given.clone());
    let client = setup.table.client(PEER).unwrap();
    assert_eq!(client.peer(), PEER);
    let addresses = [CLIENT, CLIENT_V6].map(|address| address.parse::<IpAddr>().unwrap());
    assert_eq!(client.addresses(), addresses);
    assert_eq!(client.grants(), given);
    let peers: Vec<_> = setup.table.clients().map(ClientGrants::peer).collect();
    assert_eq!(peers, [PEER, OTHER_PEER]);
}

#[test]
fn a_client_that_gets_other_addresses_gives_up_those_that_it_has_no_longer() {
    let of = |peer, addresses: &[&str]| {
        let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
        ClientGrants::new(peer, addresses, vec![]).unwrap()
    };
    let mut table = GateTable::new();
    let owner = |table: &GateTable, address: &str| {
        table
            .owner(address.parse().unwrap())
            .map(ClientGrants::peer)
    };
    table
        .set_client(of(PEER, &["100.64.0.1", "fd00::1"]))
        .unwrap();
    let before = table.clone();
    table
        .set_client(of(PEER, &["100.64.0.1", "fd00::7"]))
        .unwrap();
    assert_eq!(owner(&table, "100.64.0.1"), Some(PEER));
    assert_eq!(owner(&table, "fd00::7"), Some(PEER));
    assert_eq!(owner(&table, "fd00::1"), None);
    assert_eq!(
        owner(&before, "fd00::1"),
        Some(PEER),
        "what was published stays"
    );
    table.set_client(of(OTHER_PEER, &["fd00::1"])).unwrap();
    assert_eq!((table.client_count(), before.client_count()), (2, 1));
    // It has nothing at all after it wanted another one's.
    assert!(
        table
            .set_client(of(PEER, &["100.64.0.1", "fd00::1"]))
            .is_err()
    );
    assert_eq!(owner(&table, "100.64.0.1"), None);
    assert_eq!(owner(&table, "fd00::1"), Some(OTHER_PEER));
    assert_eq!(table.client_count(), 1);
}

#[test]
fn a_closed_table_cuts_what_its_open_one_admitted_and_opens_again() {
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    let query = udp((CLIENT, 5000), ("10.0.0.1", 53));
    setup.assert_sends(&query);
    let (open, closed) = (setup.table.clone(), setup.table.closed());
    assert!(closed.epoch() > open.epoch());
    let open_again = std::mem::replace(&mut setup.table, closed);
    setup.assert_refuses(&query, DropReason::ForgedSource);
    setup.table = open_again;
    setup.assert_sends(&query);
    let closed_again = setup.table.closed();
    assert!(closed_again.epoch() > open.epoch() + 1);
}
