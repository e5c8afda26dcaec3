//! Resources begin flows at clients by a gateway's table: to the services that a grant opens, while it is in force.

use crate::packets::{ACK, FIN, RST, SYN, echo, fragments, other, tcp_with, udp, unreachable};
use crate::setup::{
    CLIENT, CLIENT_V6, NAME, OTHER_CLIENT, OTHER_PEER, PEER, Setup, filters, grant, named,
};
use culvert_base::BootTime;
use culvert_policy::Service;
use culvert_policy::gate::{DropReason, End, Grant};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

const SSH: (&str, u16) = (CLIENT, 22);
const MONITOR: (&str, u16) = ("10.0.0.1", 50_000);

/// A grant of a network that opens these services of the client's host.
fn opening(number: u64, to: &str, allowed: &[&str], inbound: &[&str]) -> Grant {
    Grant {
        inbound: filters(inbound),
        ..grant(number, to, allowed)
    }
}

#[test]
fn a_syn_of_a_resource_is_dropped_unless_its_grant_opens_the_port() {
    let syn = tcp_with(MONITOR, SSH, SYN, b"");
    let mut setup = Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])]);
    setup.assert_no_answer(&syn, DropReason::NotAFlow);
    setup.set(vec![opening(
        1,
        "10.0.0.0/8",
        &["any"],
        &["tcp 23", "udp 1-65535"],
    )]);
    setup.assert_no_answer(&syn, DropReason::NotOpened);
    setup.set(vec![opening(1, "10.0.0.0/8", &[], &["tcp 22"])]);
    setup.assert_answers(&syn);
    setup.assert_sends(&tcp_with(SSH, MONITOR, SYN | ACK, b""));
    setup.assert_answers(&tcp_with(MONITOR, SSH, ACK, b"data"));
    setup.assert_sends(&tcp_with(SSH, MONITOR, ACK, b"data"));
    // The resource allows nothing, so that the client begins nothing there.
    setup.assert_refuses(
        &tcp_with((CLIENT, 40_000), ("10.0.0.1", 443), SYN, b""),
        DropReason::Protocol,
    );
    let v6 = tcp_with(("fd00:10::1", 5_000), (CLIENT_V6, 22), SYN, b"");
    setup.assert_no_answer(&v6, DropReason::NotAFlow);
    setup.set(vec![opening(1, "fd00:10::/32", &[], &["tcp 22"])]);
    setup.assert_answers(&v6);
}

#[test]
fn udp_and_pings_are_opened_alone_and_other_protocols_never() {
    let mut setup = Setup::new(vec![opening(1, "10.0.0.0/8", &[], &["udp 161", "icmp"])]);
    setup.assert_answers(&udp(MONITOR, (CLIENT, 161)));
    setup.assert_sends(&udp((CLIENT, 161), MONITOR));
    setup.assert_no_answer(&udp(MONITOR, (CLIENT, 162)), DropReason::NotOpened);
    setup.assert_answers(&echo(MONITOR.0, CLIENT, 7, false));
    setup.assert_sends(&echo(CLIENT, MONITOR.0, 7, true));
    setup.assert_refuses(&echo(CLIENT, MONITOR.0, 8, true), DropReason::NotAFlow);
    setup.set(vec![opening(1, "10.0.0.0/8", &[], &["any"])]);
    for protocol in [47, 50, 132] {
        setup.assert_no_answer(&other(MONITOR.0, CLIENT, protocol), DropReason::NotAFlow);
    }
}

#[test]
fn only_packets_that_begin_something_do() {
    let mut setup = Setup::new(vec![opening(1, "10.0.0.0/8", &[], &["any"])]);
    for flags in [SYN | ACK, RST, RST | ACK, FIN, 0] {
        let packet = tcp_with(MONITOR, SSH, flags, b"");
        setup.assert_no_answer(&packet, DropReason::NotAFlow);
    }
    setup.assert_no_answer(&echo(MONITOR.0, CLIENT, 7, true), DropReason::NotAFlow);
    // After a restart of the gateway a connection goes on.
    setup.assert_answers(&tcp_with(MONITOR, SSH, ACK, b"data"));
}

#[test]
fn a_flow_ends_at_once_where_its_grant_no_longer_opens_it() {
    for end in ["filters", "revocation", "expiry"] {
        let open = Grant {
            expires: BootTime::from_millis(1_060_000),
            ..opening(1, "10.0.0.0/8", &["tcp 443"], &["tcp 22"])
        };
        let mut setup = Setup::new(vec![open]);
        setup.assert_answers(&tcp_with(MONITOR, SSH, SYN, b""));
        setup.assert_sends(&tcp_with(SSH, MONITOR, SYN | ACK, b""));
        match end {
            "filters" => setup.set(vec![grant(1, "10.0.0.0/8", &["tcp 443"])]),
            "revocation" => setup.set(vec![]),
            _ => setup.now_ms = 1_060_000,
        }
        let (now, gate) = (setup.now(), &mut setup.gate);
        gate.sweep(&setup.table, now, 1_000);
        let records = setup.ended();
        assert_eq!(records.len(), 1, "{end}");
        assert!(records[0].is_inbound && matches!(records[0].ended, Some(End::Denied(_))));
        assert!(setup.answer(&tcp_with(MONITOR, SSH, ACK, b"")).is_err());
        assert!(setup.send(&tcp_with(SSH, MONITOR, ACK, b"")).is_err());
    }
}

#[test]
fn the_record_of_a_flow_says_who_began_it_and_to_which_port() {
    let mut setup = Setup::new(vec![opening(1, "10.0.0.0/8", &["any"], &["any"])]);
    setup.assert_answers(&tcp_with(MONITOR, SSH, SYN, b""));
    setup.assert_answers(&echo(MONITOR.0, CLIENT, 7, false));
    setup.assert_sends(&tcp_with((CLIENT, 40_000), ("10.0.0.1", 443), SYN, b""));
    setup.set(vec![]);
    let (now, gate) = (setup.now(), &mut setup.gate);
    gate.sweep(&setup.table, now, 1_000);
    let mut records = setup.ended();
    records.sort_by_key(|record| (record.protocol.0, record.client_port));
    let ends: Vec<_> = records
        .iter()
        .map(|it| (it.is_inbound, it.client_port, it.remote_port))
        .collect();
    assert_eq!(
        ends,
        [(true, 7, 0), (true, 22, 50_000), (false, 40_000, 443)]
    );
    assert!(records.iter().all(|it| it.peer == PEER));
}

#[test]
fn nothing_begins_between_clients_or_from_the_gateways_machine_or_by_a_name() {
    let mut setup = Setup::new(vec![opening(1, "0.0.0.0/0", &["any"], &["any"])]);
    let syn = |from| tcp_with((from, 50_000), SSH, SYN, b"");
    setup.assert_no_answer(&syn(OTHER_CLIENT), DropReason::NotAFlow);
    setup.assert_no_answer(&syn("127.0.0.1"), DropReason::NotForwarded);
    let own: IpAddr = "10.0.0.254".parse().unwrap();
    setup.table.set_host_addresses([own].into());
    setup.assert_no_answer(&syn("10.0.0.254"), DropReason::HostAddress);
    setup.assert_answers(&syn("10.0.0.2"));
    let to_nobody = tcp_with(MONITOR, ("100.64.9.9", 22), SYN, b"");
    setup.assert_no_answer(&to_nobody, DropReason::NotAFlow);
    let to_other = tcp_with(MONITOR, (OTHER_CLIENT, 22), SYN, b"");
    setup.assert_no_answer(&to_other, DropReason::NotAFlow);
    setup.set(vec![Grant {
        inbound: filters(&["any"]),
        ..named(1, &[(NAME, "10.9.9.9")], &["any"])
    }]);
    for from in [NAME, "10.9.9.9"] {
        setup.assert_no_answer(&syn(from), DropReason::NotAFlow);
    }
}

#[test]
fn the_longest_range_decides_alone() {
    let wide = opening(1, "10.0.0.0/8", &["any"], &["any"]);
    let narrow = grant(2, "10.0.0.0/24", &["any"]);
    let mut setup = Setup::new(vec![wide, narrow]);
    let syn = |from| tcp_with((from, 50_000), SSH, SYN, b"");
    setup.assert_no_answer(&syn("10.0.0.1"), DropReason::NotAFlow);
    setup.assert_answers(&syn("10.0.1.1"));
}

#[test]
fn nobody_else_answers_a_flow_and_errors_about_it_pass() {
    let mut setup = Setup::new(vec![opening(1, "10.0.0.0/8", &[], &["udp 161"])]);
    let ask = udp(MONITOR, (CLIENT, 161));
    setup.assert_answers(&ask);
    let answer = udp((CLIENT, 161), MONITOR);
    assert_eq!(
        setup.send_from(OTHER_PEER, &answer),
        Err(DropReason::ForgedSource)
    );
    setup.assert_sends(&unreachable(CLIENT, MONITOR.0, &ask, 200));
    setup.assert_answers(&unreachable("10.0.0.254", CLIENT, &answer, 200));
    let [first, later] = fragments(
        &crate::packets::udp_with(MONITOR, (CLIENT, 161), &[7; 64]),
        32,
        9,
    );
    setup.assert_answers(&first);
    setup.assert_answers(&later);
}

#[test]
fn a_port_that_is_used_again_begins_another_flow() {
    let mut setup = Setup::new(vec![opening(1, "10.0.0.0/8", &[], &["tcp 22", "udp 161"])]);
    let syn = tcp_with(MONITOR, SSH, SYN, b"");
    setup.assert_answers(&syn);
    setup.assert_answers(&syn);
    setup.assert_sends(&tcp_with(SSH, MONITOR, RST | ACK, b""));
    setup.assert_answers(&syn);
    assert_eq!(setup.ended().len(), 1);
    setup.assert_answers(&udp(MONITOR, (CLIENT, 161)));
    setup.now_ms += 301_000;
    setup.assert_answers(&udp(MONITOR, (CLIENT, 161)));
}

#[derive(Clone, Debug)]
enum Step {
    Begin(Name),
    Answer(Name),
    Wait(u64),
    Set(Vec<(Grant, u64)>),
    Sweep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    remote: usize,
    port: u16,
}

const REMOTES: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.1.0.1"];

/// Every packet is searched for in all grants; only who spoke last is remembered.
#[derive(Default)]
struct Model {
    grants: Vec<Grant>,
    flows: BTreeMap<Name, u64>,
}

impl Model {
    fn opens(&self, name: Name, now_ms: u64) -> Result<(), DropReason> {
        let from: IpAddr = REMOTES[name.remote].parse().unwrap();
        let len = |grant: &Grant| match &grant.reach {
            culvert_policy::gate::Reach::Addresses(range) => {
                range.contains(from).then(|| range.len())
            }
            culvert_policy::gate::Reach::Names(_) => None,
        };
        let longest = self.grants.iter().filter_map(len).max();
        let now = BootTime::from_millis(now_ms);
        let live: Vec<_> = self
            .grants
            .iter()
            .filter(|grant| len(grant).is_some() && len(grant) == longest && now < grant.expires)
            .collect();
        if live
            .iter()
            .any(|grant| grant.inbound.allows(Service::Udp(name.port)))
        {
            return Ok(());
        }
        match live.iter().any(|grant| !grant.inbound.is_empty()) {
            true => Err(DropReason::NotOpened),
            false => Err(DropReason::NotAFlow),
        }
    }

    fn pass(&mut self, name: Name, now_ms: u64, begins: bool) -> bool {
        let lasts = self
            .flows
            .get(&name)
            .is_some_and(|last_ms| now_ms - last_ms < 300_000);
        let passes = self.opens(name, now_ms).is_ok() && (lasts || begins);
        match passes {
            true => self.flows.insert(name, now_ms),
            false => self.flows.remove(&name),
        };
        passes
    }
}

fn names() -> impl Strategy<Value = Name> {
    let port = prop::sample::select(&[53_u16, 161, 500][..]);
    (0..REMOTES.len(), port).prop_map(|(remote, port)| Name { remote, port })
}

fn grants() -> impl Strategy<Value = (Grant, u64)> {
    let to = prop::sample::select(&["10.0.0.0/8", "10.0.0.0/24", "10.0.0.1/32"][..]);
    let inbound = prop_oneof![
        Just(&["any"][..]),
        Just(&["udp 53-161"][..]),
        Just(&["udp 161", "tcp 53"][..]),
        Just(&[][..]),
    ];
    let lifetime_ms = prop::sample::select(&[0_u64, 1_000, 200_000, 100_000_000][..]);
    (1_u64..4, to, inbound, lifetime_ms).prop_map(|(number, to, inbound, lifetime_ms)| {
        // Nothing is allowed in the other direction, so that all that passes is by `inbound`.
        (opening(number, to, &[], inbound), lifetime_ms)
    })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => names().prop_map(Step::Begin),
        4 => names().prop_map(Step::Answer),
        2 => prop::sample::select(&[1_u64, 999, 60_000, 300_000][..]).prop_map(Step::Wait),
        2 => prop::collection::vec(grants(), 0..4).prop_map(Step::Set),
        1 => Just(Step::Sweep),
    ]
}

proptest! {
    #[test]
    fn what_begins_at_clients_is_what_a_search_of_all_grants_opens(
        steps in prop::collection::vec(steps(), 1..100),
    ) {
        let mut setup = Setup::new(vec![]);
        let mut model = Model::default();
        for step in steps {
            let now_ms = setup.now_ms;
            match step {
                Step::Begin(name) => {
                    let packet = udp((REMOTES[name.remote], 50_000), (CLIENT, name.port));
                    let expected = model.pass(name, now_ms, true);
                    prop_assert_eq!(setup.answer(&packet).is_ok(), expected, "{:?}", name);
                }
                Step::Answer(name) => {
                    let packet = udp((CLIENT, name.port), (REMOTES[name.remote], 50_000));
                    let expected = model.pass(name, now_ms, false);
                    prop_assert_eq!(setup.send(&packet).is_ok(), expected, "{:?}", name);
                }
                Step::Wait(ms) => setup.now_ms += ms,
                Step::Set(grants) => {
                    // Of one id there is one grant.
                    let by_id: BTreeMap<_, _> = grants.into_iter().map(|it| (it.0.id, it)).collect();
                    let ending = |(grant, lifetime_ms): (Grant, u64)| Grant {
                        expires: BootTime::from_millis(now_ms + lifetime_ms),
                        ..grant
                    };
                    model.grants = by_id.into_values().map(ending).collect();
                    setup.set(model.grants.clone());
                }
                Step::Sweep => {
                    let (now, gate) = (setup.now(), &mut setup.gate);
                    gate.sweep(&setup.table, now, 1_000);
                    let lasting: Vec<Name> = model.flows.iter()
                        .filter(|(name, last_ms)| {
                            now_ms - **last_ms < 300_000 && model.opens(**name, now_ms).is_ok()
                        })
                        .map(|(name, _)| *name)
                        .collect();
                    model.flows.retain(|name, _| lasting.contains(name));
                    prop_assert_eq!(setup.gate.flow_count(), model.flows.len());
                }
            }
        }
    }
}
