//! Others begin flows at a client's host to exactly the services that the rules open, for as long as they do.

use crate::client::{GATEWAY, HOME, HOME_V6, Host, PORT, WEB};
use crate::packets::{ACK, FIN, RST, SYN, echo, fragments, other, tcp_with, udp, unreachable};
use crate::setup::filters;
use culvert_base::BootTime;
use culvert_policy::gate::{
    ClientGate, DropReason, Frame, InboundRule, InboundRules, Later, Seed, TunnelAddresses, Verdict,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SSH: (&str, u16) = (HOME, 22);
const MONITOR: (&str, u16) = ("10.0.0.1", 50_000);

fn rule(range: &str, services: &[&str], until_s: u64) -> InboundRule {
    InboundRule {
        range: range.parse().unwrap(),
        services: filters(services),
        expires: BootTime::from_millis(until_s * 1_000),
    }
}

fn rules(rules: &[(&str, &[&str])]) -> InboundRules {
    let rules = rules.iter();
    let rules = rules.map(|(range, services)| rule(range, services, 1_000_000_000));
    let tunnel = ["100.64.0.0/10", "fd00::/64"];
    InboundRules::new(rules, tunnel.map(|range| range.parse().unwrap()).to_vec())
}

fn open(services: &[&str]) -> Host {
    let mut host = Host::new();
    host.rules = rules(&[("10.0.0.0/24", services), ("fd10::/64", services)]);
    host
}

#[test]
fn a_connection_to_an_opened_port_comes_in_and_to_no_other() {
    let mut host = open(&["tcp 22"]);
    let syn = tcp_with(MONITOR, SSH, SYN, b"");
    assert_eq!(host.hear(GATEWAY, &syn), Ok(()));
    host.send(&tcp_with(SSH, MONITOR, SYN | ACK, b""));
    for packet in [
        syn.clone(),
        tcp_with(MONITOR, SSH, ACK, b"hello"),
        tcp_with(MONITOR, SSH, FIN | ACK, b""),
    ] {
        assert_eq!(host.hear(GATEWAY, &packet), Ok(()));
    }
    let v6 = tcp_with(("fd10::1", 50_000), (HOME_V6, 22), SYN, b"");
    assert_eq!(host.hear(GATEWAY, &v6), Ok(()));
    for (packet, reason) in [
        (
            tcp_with(MONITOR, (HOME, 23), SYN, b""),
            DropReason::NotOpened,
        ),
        (
            tcp_with(("10.0.1.1", 50_000), SSH, SYN, b""),
            DropReason::NotOpened,
        ),
        (udp(MONITOR, SSH), DropReason::NotAFlow),
        (echo(MONITOR.0, HOME, 7, false), DropReason::NotOpened),
        (
            tcp_with(MONITOR, ("100.64.0.10", 22), SYN, b""),
            DropReason::ForeignDestination,
        ),
        (
            tcp_with((HOME, 50_000), SSH, SYN, b""),
            DropReason::ForgedSource,
        ),
        (
            tcp_with((MONITOR.0, 50_001), SSH, SYN | ACK, b""),
            DropReason::NotAFlow,
        ),
        (
            tcp_with((MONITOR.0, 50_001), SSH, RST, b""),
            DropReason::NotAFlow,
        ),
    ] {
        assert_eq!(host.hear(GATEWAY, &packet), Err(reason), "{packet:?}");
    }
}

#[test]
fn nothing_comes_in_without_rules() {
    let mut host = Host::new();
    for (packet, reason) in [
        (tcp_with(MONITOR, SSH, SYN, b""), DropReason::NotOpened),
        (tcp_with(MONITOR, SSH, ACK, b""), DropReason::NotAFlow),
        (udp(MONITOR, (HOME, 161)), DropReason::NotAFlow),
        (echo(MONITOR.0, HOME, 7, false), DropReason::NotOpened),
    ] {
        assert_eq!(host.hear(GATEWAY, &packet), Err(reason));
    }
    assert_eq!(host.gate.flow_count(host.now()), 0);
}

#[test]
fn udp_and_pings_come_in_where_they_are_opened() {
    let mut host = open(&["udp 161", "icmp"]);
    let ask = udp(MONITOR, (HOME, 161));
    assert_eq!(host.hear(GATEWAY, &ask), Ok(()));
    host.send(&udp((HOME, 161), MONITOR));
    let ping = echo(MONITOR.0, HOME, 7, false);
    assert_eq!(host.hear(GATEWAY, &ping), Ok(()));
    assert_eq!(host.hear(GATEWAY, &ping), Ok(()));
    // No answer begins anything.
    let answer = echo(MONITOR.0, HOME, 0, true);
    assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
    // An answer to what the host asks by the same identifier is of another flow.
    host.send(&echo(HOME, MONITOR.0, 9, false));
    assert_eq!(host.hear(GATEWAY, &echo(MONITOR.0, HOME, 9, true)), Ok(()));
    // Later than any flow lasts.
    host.now_s += 10_000;
    assert_eq!(host.hear(GATEWAY, &ask), Ok(()));
}

#[test]
fn only_tcp_udp_and_icmp_can_be_opened() {
    let mut host = open(&["any"]);
    for protocol in [4, 47, 50, 132] {
        let packet = other(MONITOR.0, HOME, protocol);
        assert_eq!(host.hear(GATEWAY, &packet), Err(DropReason::NotAFlow));
    }
    assert_eq!(host.hear(GATEWAY, &udp(MONITOR, (HOME, 9))), Ok(()));
}

#[test]
fn a_narrower_resource_that_opens_nothing_is_cut_out_and_so_are_other_clients() {
    let mut host = Host::new();
    host.rules = rules(&[("0.0.0.0/0", &["tcp 22"]), ("10.0.0.1/32", &[])]);
    let syn = |from| tcp_with((from, 50_000), SSH, SYN, b"");
    assert_eq!(host.hear(GATEWAY, &syn("10.0.0.2")), Ok(()));
    for from in ["10.0.0.1", "100.64.0.10", "100.127.255.255"] {
        assert_eq!(
            host.hear(GATEWAY, &syn(from)),
            Err(DropReason::NotOpened),
            "{from}"
        );
    }
}

#[test]
fn a_flow_that_began_outside_ends_with_its_rule_and_not_by_what_the_host_sends() {
    let mut host = open(&["tcp 22", "udp 161"]);
    let (syn, data) = (
        tcp_with(MONITOR, SSH, SYN, b""),
        tcp_with(MONITOR, SSH, ACK, b"data"),
    );
    let ask = udp(MONITOR, (HOME, 161));
    for packet in [&syn, &data, &ask] {
        assert_eq!(host.hear(GATEWAY, packet), Ok(()));
    }
    host.send(&tcp_with(SSH, MONITOR, ACK, b"data"));
    let error = unreachable("10.0.0.254", HOME, &tcp_with(SSH, MONITOR, ACK, b""), 48);
    assert_eq!(host.hear(GATEWAY, &error), Ok(()));
    for closed in [
        rules(&[("10.0.0.0/24", &["tcp 23"])]),
        InboundRules::default(),
        InboundRules::new([rule("10.0.0.0/24", &["any"], host.now_s)], Vec::new()),
    ] {
        host.rules = closed;
        assert_eq!(host.hear(GATEWAY, &syn), Err(DropReason::NotOpened));
        assert_eq!(host.hear(GATEWAY, &data), Err(DropReason::NotOpened));
        assert_eq!(host.hear(GATEWAY, &error), Err(DropReason::NotAFlow));
        // The host repeats what was not acknowledged.
        host.send(&tcp_with(SSH, MONITOR, ACK, b"data"));
        host.send(&udp((HOME, 161), MONITOR));
        assert_eq!(host.hear(GATEWAY, &data), Err(DropReason::NotOpened));
        assert!(host.hear(GATEWAY, &ask).is_err());
    }
    host.rules = rules(&[("10.0.0.0/24", &["tcp 22"])]);
    assert_eq!(host.hear(GATEWAY, &data), Ok(()));
}

#[test]
fn what_the_host_began_needs_no_rule_and_is_not_begun_anew_from_outside() {
    let mut host = open(&["any"]);
    host.send(&tcp_with((HOME, PORT), WEB, SYN, b""));
    let syn = tcp_with(WEB, (HOME, PORT), SYN, b"");
    assert_eq!(host.hear(GATEWAY, &syn), Err(DropReason::NotOpened));
    let answer = tcp_with(WEB, (HOME, PORT), SYN | ACK, b"");
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    host.rules = InboundRules::default();
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
}

#[test]
fn fragments_of_an_opened_flow_come_in_while_it_is_open() {
    let mut host = open(&["udp 161"]);
    let whole = crate::packets::udp_with(MONITOR, (HOME, 161), &[7; 64]);
    let [first, later] = fragments(&whole, 32, 9);
    assert_eq!(host.hear(GATEWAY, &first), Ok(()));
    assert_eq!(host.hear(GATEWAY, &later), Ok(()));
    host.rules = InboundRules::default();
    assert_eq!(host.hear(GATEWAY, &later), Err(DropReason::NotAFlow));
}

#[test]
fn no_flood_from_outside_displaces_what_the_host_began() {
    let mut host = Host::with_max_flows(64);
    host.rules = rules(&[("10.0.0.0/8", &["udp 161"])]);
    let own: Vec<_> = (0..32_u16).map(|number| (HOME, 40_000 + number)).collect();
    for from in &own {
        host.send(&udp(*from, ("10.1.0.1", 53)));
    }
    let answers = |host: &mut Host| {
        let answers = own.iter().map(|from| udp(("10.1.0.1", 53), *from));
        let came: Vec<bool> = answers
            .map(|answer| host.hear(GATEWAY, &answer).is_ok())
            .collect();
        came.iter().filter(|came| **came).count()
    };
    let before = answers(&mut host);
    assert!(before > 20, "{before}");
    for port in 1..5_000 {
        let _is_full = host.hear(GATEWAY, &udp(("10.2.0.1", port), (HOME, 161)));
    }
    assert_eq!(answers(&mut host), before);
    assert!(host.gate.flow_count(host.now()) <= before + 32);
}

#[test]
fn a_gate_asks_no_rules_where_there_are_none() {
    let gate = ClientGate::with_max_flows(Seed::new([3; 32]), 64);
    let home = TunnelAddresses {
        v4: HOME.parse().unwrap(),
        v6: HOME_V6.parse().unwrap(),
    };
    let now = BootTime::from_millis(1_000_000);
    let mut syn = tcp_with(MONITOR, SSH, SYN, b"");
    let frame = Frame::packet(&mut syn);
    let verdict = gate.admit(now, GATEWAY, Some(home), None, |_| true, &frame);
    assert_eq!(verdict, Verdict::Drop(DropReason::NotOpened));
}

const REMOTES: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.1.0.1"];
const PORTS: [u16; 3] = [22, 161, 40_000];
const FLAGS: [u8; 8] = [SYN, SYN | ACK, ACK, FIN | ACK, RST, RST | ACK, FIN, 0];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    is_tcp: bool,
    port: u16,
    remote: usize,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Name, u8),
    Hear(Name, u8),
    Error(Name),
    /// This remote may use these of the ports, and no others, for so many seconds.
    Open(usize, Vec<u16>, u64),
    Wait(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Live {
    is_inbound: bool,
    last_s: u64,
    is_answered: bool,
    has_finished: bool,
    is_finished: bool,
    is_reset: bool,
}

impl Live {
    fn is_closed(&self) -> bool {
        self.is_reset || self.has_finished && self.is_finished
    }

    fn lasts(&self, name: Name, now_s: u64) -> bool {
        let idle_s = match name.is_tcp {
            false => 300,
            true if self.is_closed() => 30,
            true if self.is_answered => 7_440,
            true => 240,
        };
        now_s - self.last_s < idle_s
    }
}

#[derive(Default)]
struct Model {
    flows: BTreeMap<Name, Live>,
    opened: BTreeMap<usize, (Vec<u16>, u64)>,
}

impl Model {
    fn is_open(&self, name: Name, now_s: u64) -> bool {
        let opened = self.opened.get(&name.remote);
        opened.is_some_and(|(ports, until_s)| ports.contains(&name.port) && now_s < *until_s)
    }

    fn send(&mut self, name: Name, flags: u8, now_s: u64) {
        let flags = if name.is_tcp { flags } else { 0 };
        let live = self.flows.get_mut(&name);
        let live = live.filter(|live| live.lasts(name, now_s));
        if let Some(live) = live.filter(|live| flags & SYN == 0 || !live.is_closed()) {
            live.last_s = now_s;
            live.has_finished |= flags & FIN != 0;
            live.is_reset |= flags & RST != 0;
            live.is_answered |= live.is_inbound;
        } else if !name.is_tcp || [SYN, ACK].contains(&(flags & (SYN | ACK | RST))) {
            let live = Live {
                last_s: now_s,
                is_answered: flags & ACK != 0,
                has_finished: flags & FIN != 0,
                ..Live::default()
            };
            self.flows.insert(name, live);
        }
    }

    fn hear(&mut self, name: Name, flags: u8, now_s: u64) -> Result<(), DropReason> {
        let flags = if name.is_tcp { flags } else { 0 };
        let is_open = self.is_open(name, now_s);
        let is_syn = flags & (SYN | ACK) == SYN;
        let begins = !name.is_tcp || [SYN, ACK].contains(&(flags & (SYN | ACK | RST)));
        let known = self.flows.get(&name).copied();
        let known = known.filter(|live| live.lasts(name, now_s));
        let reason = match (is_syn, known) {
            (true, _) => DropReason::NotOpened,
            (false, Some(live)) if live.is_inbound => DropReason::NotOpened,
            (false, _) => DropReason::NotAFlow,
        };
        let passes = match known {
            Some(live) if !live.is_inbound && !is_syn => Some(live),
            Some(live) if is_open && live.is_inbound && !(is_syn && live.is_closed()) => Some(live),
            Some(live) if !live.is_closed() => None,
            _ if is_open && begins && (known.is_none() || is_syn) => Some(Live {
                is_inbound: true,
                last_s: now_s,
                ..Live::default()
            }),
            _ => None,
        };
        let mut live = passes.ok_or(reason)?;
        if !live.is_closed() {
            live.last_s = now_s;
        }
        live.is_answered |= !live.is_inbound;
        live.is_finished |= flags & FIN != 0;
        live.is_reset |= flags & RST != 0;
        self.flows.insert(name, live);
        Ok(())
    }

    fn rules(&self) -> InboundRules {
        let rules = self.opened.iter().map(|(remote, (ports, until_s))| {
            let each = ports
                .iter()
                .flat_map(|port| [format!("tcp {port}"), format!("udp {port}")]);
            let services: Vec<String> = each.collect();
            let services: Vec<&str> = services.iter().map(String::as_str).collect();
            rule(&format!("{}/32", REMOTES[*remote]), &services, *until_s)
        });
        InboundRules::new(rules, Vec::new())
    }
}

fn packet(name: Name, flags: u8, comes_in: bool) -> Vec<u8> {
    let (own, remote) = ((HOME, name.port), (REMOTES[name.remote], 50_000));
    let (from, to) = if comes_in {
        (remote, own)
    } else {
        (own, remote)
    };
    match name.is_tcp {
        true => tcp_with(from, to, flags, b"data"),
        false => udp(from, to),
    }
}

fn names() -> impl Strategy<Value = Name> {
    let port = prop::sample::select(&PORTS[..]);
    (any::<bool>(), port, 0..REMOTES.len()).prop_map(|(is_tcp, port, remote)| Name {
        is_tcp,
        port,
        remote,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let flags = || prop::sample::select(&FLAGS[..]);
    let ports = prop::sample::subsequence(&PORTS[..], 0..=PORTS.len());
    let until_s = prop::sample::select(&[0_u64, 30, 100_000][..]);
    prop_oneof![
        4 => (names(), flags()).prop_map(|(name, flags)| Step::Send(name, flags)),
        6 => (names(), flags()).prop_map(|(name, flags)| Step::Hear(name, flags)),
        1 => names().prop_map(Step::Error),
        2 => (0..REMOTES.len(), ports, until_s)
            .prop_map(|(remote, ports, until_s)| Step::Open(remote, ports, until_s)),
        1 => prop::sample::select(&[1_u64, 29, 30, 60, 239, 300, 7_440][..]).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn what_begins_outside_is_what_the_model_of_rules_lets_in(
        steps in prop::collection::vec(steps(), 1..200),
    ) {
        // Room for all 18 names in whichever buckets they are.
        let mut host = Host::with_max_flows(1 << 12);
        let mut model = Model::default();
        for step in steps {
            let now_s = host.now_s;
            match step {
                Step::Send(name, flags) => {
                    host.send(&packet(name, flags, false));
                    model.send(name, flags, now_s);
                }
                Step::Hear(name, flags) => {
                    let verdict = host.verdict(GATEWAY, &packet(name, flags, true), Later::default());
                    let heard = match verdict {
                        Verdict::Drop(reason) => Err(reason),
                        Verdict::Admit(_) | Verdict::AdmitFirst(_) => Ok(()),
                    };
                    let expected = model.hear(name, flags, now_s);
                    prop_assert_eq!(heard, expected, "{:?} {}", name, flags);
                }
                Step::Error(name) => {
                    let error = unreachable("10.77.0.1", HOME, &packet(name, ACK, false), 48);
                    let live = model.flows.get(&name).filter(|live| live.lasts(name, now_s));
                    let passes = live.is_some_and(|live| !live.is_inbound || model.is_open(name, now_s));
                    let expected = if passes { Ok(()) } else { Err(DropReason::NotAFlow) };
                    prop_assert_eq!(host.hear(GATEWAY, &error), expected, "{:?}", name);
                }
                Step::Open(remote, ports, for_s) => {
                    model.opened.insert(remote, (ports, now_s + for_s));
                    host.rules = model.rules();
                }
                Step::Wait(span_s) => host.now_s += span_s,
            }
            let now_s = host.now_s;
            let lasting = model.flows.iter().filter(|(name, live)| live.lasts(**name, now_s));
            prop_assert_eq!(host.gate.flow_count(host.now()), lasting.count());
        }
    }
}
