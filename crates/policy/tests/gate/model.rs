//! The gate, which remembers, against a model that remembers only who spoke last, and searches all
//! grants for every packet.

use crate::packets::{ACK, tcp_with, udp};
use crate::setup::{CLIENT, NAME, OTHER_PEER, PEER, Setup, filters, grant, named};
use culvert_base::BootTime;
use culvert_policy::Service;
use culvert_policy::gate::{DropReason, Grant, Reach};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The addresses that the client sends to; the last one stands for a name.
const REMOTES: [&str; 4] = ["10.0.0.1", "10.0.0.2", "10.1.0.1", NAME];
const RESOLVED: [&str; 2] = ["10.9.9.8", "10.9.9.9"];
const PORTS: [u16; 3] = [22, 53, 443];
const UDP_IDLE_MS: u64 = 300_000;
const TCP_OPENING_IDLE_MS: u64 = 240_000;
const TCP_IDLE_MS: u64 = 7_440_000;

#[derive(Clone, Debug)]
enum Step {
    /// From this source port to this remote and port.
    Send {
        flow: FlowName,
        is_forged: bool,
    },
    Answer {
        flow: FlowName,
    },
    Wait {
        ms: u64,
    },
    /// These grants, each ending so much later than now.
    Set {
        grants: Vec<(Grant, u64)>,
    },
    /// Something unrelated changes.
    Touch,
    Sweep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FlowName {
    is_tcp: bool,
    client_port: u16,
    remote: usize,
    port: u16,
}

#[derive(Clone, Debug)]
struct Live {
    last_ms: u64,
    is_answered: bool,
    resolved: Option<IpAddr>,
    resource: culvert_ids::ResourceId,
}

#[derive(Default)]
struct Model {
    grants: Vec<Grant>,
    flows: BTreeMap<FlowName, Live>,
}

impl Model {
    /// The grant that lets the flow pass, and where it leads.
    fn judge(&self, flow: FlowName, now_ms: u64) -> Result<(&Grant, Option<IpAddr>), DropReason> {
        let to: IpAddr = REMOTES[flow.remote].parse().unwrap();
        let leads = |grant: &Grant| match &grant.reach {
            Reach::Addresses(prefix) => prefix.contains(to).then_some((prefix.len(), None)),
            Reach::Names(names) => {
                let name = names.iter().find(|name| name.visible() == to);
                name.map(|name| (32, name.resolved()))
            }
        };
        let holding = self
            .grants
            .iter()
            .filter_map(|grant| leads(grant).map(|(len, to)| (grant, len, to)));
        let longest = holding
            .clone()
            .map(|(_, len, _)| len)
            .max()
            .ok_or(DropReason::NoGrant)?;
        let mut same_target: Vec<_> = holding.filter(|(_, len, _)| *len == longest).collect();
        same_target.sort_by_key(|(grant, ..)| {
            (grant.resource, std::cmp::Reverse(grant.expires), grant.id)
        });
        let service = flow.service();
        let current: Vec<_> = same_target
            .into_iter()
            .filter(|(grant, ..)| BootTime::from_millis(now_ms) < grant.expires)
            .collect();
        let chosen = current
            .iter()
            .find(|(grant, ..)| grant.filters.allows(service));
        match chosen {
            Some((grant, _, to)) => Ok((*grant, *to)),
            None if current.is_empty() => Err(DropReason::Expired),
            None if current
                .iter()
                .any(|(grant, ..)| grant.filters.allows_protocol(service)) =>
            {
                Err(DropReason::Port)
            }
            None => Err(DropReason::Protocol),
        }
    }

    fn drop_if_idle(&mut self, flow: FlowName, now_ms: u64) {
        let idle_ms = |live: &Live| match (flow.is_tcp, live.is_answered) {
            (false, _) => UDP_IDLE_MS,
            (true, false) => TCP_OPENING_IDLE_MS,
            (true, true) => TCP_IDLE_MS,
        };
        if self
            .flows
            .get(&flow)
            .is_some_and(|live| now_ms - live.last_ms >= idle_ms(live))
        {
            self.flows.remove(&flow);
        }
    }

    /// The destination of the client's packet, or the reason of its drop.
    fn send(&mut self, flow: FlowName, now_ms: u64) -> Result<IpAddr, DropReason> {
        self.drop_if_idle(flow, now_ms);
        let judged = self
            .judge(flow, now_ms)
            .map(|(grant, to)| (grant.resource, to));
        let (resource, resolved) = match judged {
            Ok(judged) => judged,
            Err(reason) => {
                self.flows.remove(&flow);
                return Err(reason);
            }
        };
        let known = self.flows.get(&flow).cloned();
        let live = known
            .filter(|live| is_same_way(live, resource, resolved))
            .unwrap_or(Live {
                last_ms: now_ms,
                is_answered: false,
                resolved,
                resource,
            });
        let to = live
            .resolved
            .unwrap_or_else(|| REMOTES[flow.remote].parse().unwrap());
        self.flows.insert(
            flow,
            Live {
                last_ms: now_ms,
                resource,
                ..live
            },
        );
        Ok(to)
    }

    /// The verdict on an answer.
    fn answer(&mut self, flow: FlowName, now_ms: u64) -> Result<(), DropReason> {
        self.drop_if_idle(flow, now_ms);
        let Some(live) = self.flows.get(&flow).cloned() else {
            return Err(DropReason::NotAFlow);
        };
        let judged = self
            .judge(flow, now_ms)
            .map(|(grant, to)| (grant.resource, to));
        let remaining = match judged {
            Ok((resource, resolved)) if is_same_way(&live, resource, resolved) => Ok(resource),
            Ok(_) => Err(DropReason::NotAFlow),
            Err(reason) => Err(reason),
        };
        match remaining {
            Ok(resource) => {
                let live = Live {
                    last_ms: now_ms,
                    is_answered: true,
                    resource,
                    ..live
                };
                self.flows.insert(flow, live);
                Ok(())
            }
            Err(reason) => {
                self.flows.remove(&flow);
                Err(reason)
            }
        }
    }
}

fn is_same_way(live: &Live, resource: culvert_ids::ResourceId, resolved: Option<IpAddr>) -> bool {
    live.resolved.is_some() == resolved.is_some()
        && (resolved.is_none() || live.resource == resource)
}

impl FlowName {
    fn service(self) -> Service {
        match self.is_tcp {
            true => Service::Tcp(self.port),
            false => Service::Udp(self.port),
        }
    }

    fn packet(self, is_answer: bool) -> Vec<u8> {
        let (client, remote) = (
            (CLIENT, self.client_port),
            (REMOTES[self.remote], self.port),
        );
        let (from, to) = if is_answer {
            (remote, client)
        } else {
            (client, remote)
        };
        match self.is_tcp {
            true => tcp_with(from, to, ACK, b""),
            false => udp(from, to),
        }
    }
}

fn flow() -> impl Strategy<Value = FlowName> {
    (any::<bool>(), 5000_u16..5002, 0_usize..4, 0_usize..3).prop_map(
        |(is_tcp, client_port, remote, port)| {
            FlowName {
                is_tcp,
                // One port for each remote, so that no two flows end at one place of the far side.
                client_port: client_port + 10 * remote as u16,
                remote,
                port: PORTS[port],
            }
        },
    )
}

fn any_grant() -> impl Strategy<Value = (Grant, u64)> {
    let reach = prop_oneof![
        Just("10.0.0.0/8"),
        Just("10.0.0.0/24"),
        Just("10.0.0.1/32"),
        Just("0.0.0.0/0"),
    ]
    .prop_map(|text| grant(0, text, &[]).reach);
    let names = (0_usize..2).prop_map(|to| named(0, &[(NAME, RESOLVED[to])], &[]).reach);
    let allowed = prop_oneof![
        Just(&["any"][..]),
        Just(&["tcp 22-443", "udp 53"][..]),
        Just(&["udp 1-100"][..]),
        Just(&[][..]),
    ];
    let lifetime_ms = prop_oneof![Just(0), Just(1000), Just(200_000), Just(100_000_000_u64)];
    (
        0_u64..4,
        1_u64..4,
        prop_oneof![2 => reach, 1 => names],
        allowed,
        lifetime_ms,
    )
        .prop_map(|(number, resource, reach, allowed, lifetime_ms)| {
            let grant = Grant {
                id: grant(number, "0.0.0.0/0", &[]).id,
                reach,
                filters: filters(allowed),
                ..grant(resource, "0.0.0.0/0", &[])
            };
            (grant, lifetime_ms)
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (flow(), prop::bool::weighted(0.1)).prop_map(|(flow, is_forged)| Step::Send { flow, is_forged }),
        8 => flow().prop_map(|flow| Step::Answer { flow }),
        2 => prop_oneof![Just(1), Just(999), Just(60_000), Just(240_000), Just(300_000)].prop_map(|ms| Step::Wait { ms }),
        2 => prop::collection::vec(any_grant(), 0..5).prop_map(|grants| Step::Set { grants }),
        1 => Just(Step::Touch),
        1 => Just(Step::Sweep),
    ]
}

/// With the address of the other end replaced, as translation would.
fn with_remote(packet: &[u8], at: usize, address: IpAddr) -> IpAddrBytes {
    let mut bytes = packet[12..20].to_vec();
    let IpAddr::V4(address) = address else {
        panic!("IPv4 alone")
    };
    bytes[at..at + 4].copy_from_slice(&address.octets());
    bytes
}

type IpAddrBytes = Vec<u8>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_is_remembered_never_differs_from_what_is_searched_for(
        first in prop::collection::vec(any_grant(), 1..5),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut setup = Setup::new(vec![]);
        let mut model = Model::default();
        let steps = [Step::Set { grants: first }].into_iter().chain(steps);
        for step in steps {
            let now_ms = setup.now_ms;
            match step {
                Step::Wait { ms } => setup.now_ms += ms,
                Step::Set { grants } => {
                    let ending = |(grant, lifetime_ms): (Grant, u64)| Grant {
                        expires: BootTime::from_millis(now_ms + lifetime_ms),
                        ..grant
                    };
                    model.grants = grants.into_iter().map(ending).collect();
                    setup.set(model.grants.clone());
                }
                Step::Touch => setup.table.remove_client(OTHER_PEER),
                Step::Sweep => {
                    setup.gate.sweep(&setup.table, BootTime::from_millis(now_ms), 1000);
                    let names: Vec<_> = model.flows.keys().copied().collect();
                    for name in names {
                        // As an answer would, without being one.
                        let before = model.flows.get(&name).cloned();
                        if model.answer(name, now_ms).is_ok()
                            && let (Some(before), Some(live)) = (before, model.flows.get_mut(&name))
                        {
                            live.last_ms = before.last_ms;
                            live.is_answered = before.is_answered;
                        }
                    }
                    prop_assert_eq!(setup.gate.flow_count(), model.flows.len());
                }
                Step::Send { flow, is_forged: true } => {
                    let sent = setup.send_from(OTHER_PEER, &flow.packet(false));
                    prop_assert_eq!(sent, Err(DropReason::ForgedSource));
                }
                Step::Send { flow, .. } => {
                    let packet = flow.packet(false);
                    let expected = model.send(flow, now_ms).map(|to| with_remote(&packet, 4, to));
                    let sent = setup.send_from(PEER, &packet).map(|sent| sent[12..20].to_vec());
                    prop_assert_eq!(sent, expected, "{:?} at {}", flow, now_ms);
                }
                Step::Answer { flow } => {
                    // From the address to which the flow goes by the model.
                    let live = model.flows.get(&flow);
                    let from = live.and_then(|live| live.resolved);
                    let shown = flow.packet(true);
                    let mut packet = shown.clone();
                    if let Some(from) = from {
                        packet[12..20].copy_from_slice(&with_remote(&shown, 0, from));
                    }
                    let expected = model.answer(flow, now_ms).map(|()| shown[12..20].to_vec());
                    let answered = setup.answer(&packet).map(|answer| answer[12..20].to_vec());
                    prop_assert_eq!(answered, expected, "{:?} at {}", flow, now_ms);
                }
            }
        }
    }
}
