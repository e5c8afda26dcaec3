//! The client's gate, which hashes, packs and overwrites, against a model that keeps every flow of the host in a map.

use crate::client::{GATEWAY, HOME, Host};
use crate::packets::{ACK, FIN, RST, SYN, echo, tcp_with, udp, unreachable};
use culvert_policy::gate::DropReason;
use proptest::prelude::*;
use std::collections::BTreeMap;

const REMOTES: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.1.0.1"];
const PORTS: [u16; 3] = [22, 53, 443];
const FLAGS: [u8; 8] = [SYN, SYN | ACK, ACK, FIN | ACK, RST, RST | ACK, FIN, 0];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Protocol {
    Tcp,
    Udp,
    Echo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    protocol: Protocol,
    port: u16,
    remote: usize,
    remote_port: u16,
}

#[derive(Clone, Debug)]
enum Step {
    /// With these flags, if it is of TCP.
    Send(Name, u8),
    Hear(Name, u8),
    Error(Name),
    Wait(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Live {
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

    fn idle_s(&self, protocol: Protocol) -> u64 {
        match protocol {
            Protocol::Udp => 300,
            Protocol::Echo => 60,
            Protocol::Tcp if self.is_closed() => 30,
            Protocol::Tcp if self.is_answered => 7_440,
            Protocol::Tcp => 240,
        }
    }
}

#[derive(Default)]
struct Model(BTreeMap<Name, Live>);

impl Model {
    fn live(&mut self, name: Name, now_s: u64) -> Option<&mut Live> {
        let live = self.0.get_mut(&name)?;
        (now_s - live.last_s < live.idle_s(name.protocol)).then_some(live)
    }

    fn send(&mut self, name: Name, flags: u8, now_s: u64) {
        let is_tcp = name.protocol == Protocol::Tcp;
        let is_syn = is_tcp && flags & SYN != 0;
        if let Some(live) = self
            .live(name, now_s)
            .filter(|live| !(is_syn && live.is_closed()))
        {
            live.last_s = now_s;
            if is_tcp {
                live.has_finished |= flags & FIN != 0;
                live.is_reset |= flags & RST != 0;
            }
            return;
        }
        let begins = match flags & (SYN | ACK | RST) {
            _ if !is_tcp => true,
            SYN | ACK => true,
            _ => false,
        };
        if begins {
            let live = Live {
                last_s: now_s,
                is_answered: is_tcp && flags & ACK != 0,
                has_finished: is_tcp && flags & FIN != 0,
                ..Live::default()
            };
            self.0.insert(name, live);
        }
    }

    fn hear(&mut self, name: Name, flags: u8, now_s: u64) -> Result<(), DropReason> {
        let is_tcp = name.protocol == Protocol::Tcp;
        if is_tcp && flags & (SYN | ACK) == SYN {
            return Err(DropReason::NotOpened);
        }
        let live = self.live(name, now_s).ok_or(DropReason::NotAFlow)?;
        if !live.is_closed() {
            live.last_s = now_s;
        }
        live.is_answered = true;
        if is_tcp {
            live.is_finished |= flags & FIN != 0;
            live.is_reset |= flags & RST != 0;
        }
        Ok(())
    }
}

/// The packet of the host, or the answer to it.
fn packet(name: Name, flags: u8, is_answer: bool) -> Vec<u8> {
    let own = (HOME, name.port);
    let remote = (REMOTES[name.remote], name.remote_port);
    let (from, to) = match is_answer {
        true => (remote, own),
        false => (own, remote),
    };
    match name.protocol {
        Protocol::Tcp => tcp_with(from, to, flags, b"data"),
        Protocol::Udp => udp(from, to),
        Protocol::Echo => echo(from.0, to.0, name.port, is_answer),
    }
}

fn names() -> impl Strategy<Value = Name> {
    let protocols = prop_oneof![
        Just(Protocol::Tcp),
        Just(Protocol::Udp),
        Just(Protocol::Echo)
    ];
    let ports = (0..PORTS.len(), 0..PORTS.len());
    (protocols, ports, 0..REMOTES.len()).prop_map(|(protocol, (port, remote_port), remote)| Name {
        protocol,
        port: 40_000 + PORTS[port],
        remote,
        remote_port: match protocol {
            Protocol::Echo => 0,
            Protocol::Tcp | Protocol::Udp => PORTS[remote_port],
        },
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let flags = || prop::sample::select(&FLAGS[..]);
    prop_oneof![
        4 => (names(), flags()).prop_map(|(name, flags)| Step::Send(name, flags)),
        4 => (names(), flags()).prop_map(|(name, flags)| Step::Hear(name, flags)),
        1 => names().prop_map(Step::Error),
        1 => prop::sample::select(&[1_u64, 29, 30, 60, 239, 300, 7_440][..]).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn what_comes_in_is_what_the_model_of_all_flows_lets_in(
        steps in prop::collection::vec(steps(), 1..200),
    ) {
        // Room for all 36 names in whichever buckets they are.
        let mut host = Host::with_max_flows(1 << 12);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Send(name, flags) => {
                    host.send(&packet(name, flags, false));
                    model.send(name, flags, host.now_s);
                }
                Step::Hear(name, flags) => {
                    let heard = host.hear(GATEWAY, &packet(name, flags, true));
                    let expected = model.hear(name, flags, host.now_s);
                    prop_assert_eq!(heard, expected, "{:?}", name);
                }
                Step::Error(name) => {
                    let error = unreachable("10.77.0.1", HOME, &packet(name, ACK, false), 48);
                    let expected = match model.live(name, host.now_s) {
                        Some(_) => Ok(()),
                        None => Err(DropReason::NotAFlow),
                    };
                    prop_assert_eq!(host.hear(GATEWAY, &error), expected, "{:?}", name);
                }
                Step::Wait(span_s) => host.now_s += span_s,
            }
            let now_s = host.now_s;
            let lasting = model.0.iter().filter(|(name, live)| {
                now_s - live.last_s < live.idle_s(name.protocol)
            });
            prop_assert_eq!(host.gate.flow_count(host.now()), lasting.count());
        }
    }
}
