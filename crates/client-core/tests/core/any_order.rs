//! Events in any order: no range leads to a gateway without a live grant, nothing that
//! waits is lost, memory is bounded, nothing panics.

use super::play::{
    Granting, Play, candidate, gateway_id, grant_id, key, reason, resource, resource_id, to,
};
use culvert_base::UnixTime;
use culvert_client_core::{MAX_HELD_PER_RESOURCE, PeerReport};
use culvert_dns::Transport;
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::Prefix;
use culvert_wire::messages::{Existence, FromClient, ReasonCode, ResolvedName, ToClient};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Targets that overlap, touch, repeat, and are names.
const TARGETS: [&str; 8] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.1.1",
    "10.1.1.1",
    "fd00:9::/32",
    "*.corp.example",
    "db.corp.example",
    "0.0.0.0/0",
];

const DESTINATIONS: [&str; 6] = [
    "10.0.0.1",
    "10.1.0.1",
    "10.1.1.1",
    "fd00:9::1",
    "198.51.100.1",
    "100.96.0.1",
];

#[derive(Clone, Copy, Debug)]
enum Step {
    Packet(usize),
    Query(bool),
    Grant {
        gateway: u8,
        life_s: u64,
        key_of: u8,
    },
    Deny(u8),
    Stray(u8),
    Revoke(u8),
    Set(u8),
    Remove(u8),
    Lost(u8),
    Moved(u8),
    Disconnect,
    Reconnect {
        keep: u8,
    },
    Network,
    Report {
        gateway: u8,
        unanswered_s: u64,
    },
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..DESTINATIONS.len()).prop_map(Step::Packet),
        2 => any::<bool>().prop_map(Step::Query),
        6 => (1_u8..4, 0_u64..4000, 1_u8..4).prop_map(|(gateway, life_s, key_of)| Step::Grant { gateway, life_s, key_of }),
        1 => (0_u8..4).prop_map(Step::Deny),
        1 => any::<u8>().prop_map(Step::Stray),
        1 => any::<u8>().prop_map(Step::Revoke),
        2 => (1_u8..=8).prop_map(Step::Set),
        1 => (1_u8..=8).prop_map(Step::Remove),
        1 => (1_u8..4).prop_map(Step::Lost),
        1 => (1_u8..4).prop_map(Step::Moved),
        1 => Just(Step::Disconnect),
        1 => any::<u8>().prop_map(|keep| Step::Reconnect { keep }),
        1 => Just(Step::Network),
        3 => (1_u8..4, 0_u64..6).prop_map(|(gateway, unanswered_s)| Step::Report { gateway, unanswered_s }),
        4 => prop_oneof![0_u64..300, 0_u64..5_000, 0_u64..4_000_000].prop_map(Step::Pass),
    ]
}

/// The grants that the portal gave and has not taken back, as the portal sees them.
struct Model {
    /// To whom, through which gateway, until when, and the addresses of names.
    grants: BTreeMap<GrantId, (ResourceId, u8, u64, BTreeSet<Prefix>)>,
    /// Targets by resource, as the client knows them.
    targets: BTreeMap<ResourceId, &'static str>,
    asked: Vec<FromClient>,
    packets: u32,
    next_grant: u8,
}

impl Model {
    fn apply(&mut self, play: &mut Play, step: Step) {
        match step {
            Step::Packet(destination) => {
                self.packets += 1;
                play.packet(self.packets, to(DESTINATIONS[destination], 80));
            }
            Step::Query(literal) => query(play, literal),
            Step::Grant {
                gateway,
                life_s,
                key_of,
            } => self.grant(play, gateway, life_s, key_of),
            Step::Deny(code) => {
                let code = [
                    ReasonCode::NoAccess,
                    ReasonCode::NoGateway,
                    ReasonCode::NameNotFound,
                    ReasonCode::Internal,
                ][usize::from(code)];
                if let Some((request, resource, _)) = self.next_request(play)
                    && play.client.is_connected()
                {
                    play.hear(ToClient::AccessDenied {
                        request,
                        resource,
                        reason: reason(code),
                    });
                }
            }
            Step::Stray(request) if play.client.is_connected() => {
                let through = Granting::through(1, 250);
                play.grant(1_000_000 + u64::from(request), 1, through);
            }
            Step::Revoke(number) if play.client.is_connected() => {
                let live: Vec<GrantId> = self.grants.keys().copied().collect();
                if let Some(grant) = live.get(usize::from(number) % live.len().max(1)) {
                    self.grants.remove(grant);
                    play.hear(ToClient::AccessRevoked {
                        grant: *grant,
                        reason: reason(ReasonCode::PolicyChanged),
                    });
                }
            }
            Step::Set(number) if play.client.is_connected() => {
                // Every fourth time the resource points elsewhere than before.
                let target =
                    TARGETS[usize::from(number + u8::from(self.packets.is_multiple_of(4))) % 8];
                self.set(number, target);
                play.hear(ToClient::ResourceSet {
                    resource: resource(number, target),
                });
            }
            Step::Remove(number) if play.client.is_connected() => {
                self.targets.remove(&resource_id(number));
                self.end(|(resource, ..)| *resource == resource_id(number));
                play.hear(ToClient::ResourceRemoved {
                    resource: resource_id(number),
                });
            }
            Step::Lost(number) if play.client.is_connected() => {
                self.end(|(_, gateway, ..)| *gateway == number);
                play.hear(ToClient::GatewayLost {
                    gateway: gateway_id(number),
                });
            }
            Step::Moved(number) if play.client.is_connected() => {
                play.hear(ToClient::GatewayMoved {
                    gateway: gateway_id(number),
                    candidates: vec![candidate(number), candidate(number + 100)],
                });
            }
            Step::Disconnect => play.disconnect(),
            Step::Reconnect { keep } => self.reconnect(play, keep),
            Step::Network => {
                play.client.handle_network_changed(play.now());
                play.poll();
            }
            Step::Report {
                gateway,
                unanswered_s,
            } => {
                let report = PeerReport {
                    key: key(gateway),
                    endpoint: Some(candidate(gateway)),
                    handshake: (unanswered_s < 3).then_some(UnixTime::from_millis(play.now_ms)),
                    received: (unanswered_s < 3).then_some(play.now()),
                    unanswered: (unanswered_s > 0)
                        .then_some(play.now().saturating_sub(Duration::from_secs(unanswered_s))),
                    rx_bytes: play.now_ms,
                    tx_bytes: play.now_ms,
                    measured_mtu_bytes: None,
                    heard_elsewhere: None,
                };
                play.report(report);
            }
            Step::Pass(span_ms) => play.pass(span_ms),
            Step::Stray(_)
            | Step::Revoke(_)
            | Step::Set(_)
            | Step::Remove(_)
            | Step::Lost(_)
            | Step::Moved(_) => {}
        }
        self.asked.append(&mut play.said);
    }

    fn set(&mut self, number: u8, target: &'static str) {
        let before = self.targets.insert(resource_id(number), target);
        if before != Some(target) {
            self.end(|(resource, ..)| *resource == resource_id(number));
        }
    }

    fn end(&mut self, is_over: impl Fn(&(ResourceId, u8, u64, BTreeSet<Prefix>)) -> bool) {
        self.grants.retain(|_, grant| !is_over(grant));
    }

    fn next_request(
        &mut self,
        play: &mut Play,
    ) -> Option<(u64, ResourceId, Vec<culvert_wire::messages::WantedName>)> {
        self.asked.append(&mut play.said);
        while !self.asked.is_empty() {
            if let FromClient::RequestAccess {
                request,
                resource,
                names,
                ..
            } = self.asked.remove(0)
            {
                return Some((request, resource, names));
            }
        }
        None
    }

    fn grant(&mut self, play: &mut Play, gateway: u8, life_s: u64, key_of: u8) {
        let Some((request, resource, names)) = self.next_request(play) else {
            return;
        };
        if !play.client.is_connected() || self.next_grant == 249 {
            return;
        }
        self.next_grant += 1;
        let hosts = names.iter().flat_map(|name| {
            [
                Prefix::host(name.ipv4.into()),
                Prefix::host(name.ipv6.into()),
            ]
        });
        let mut hosts: BTreeSet<Prefix> = hosts.collect();
        // The gateway keeps the names of the grant that this one replaces.
        let replaced: Vec<GrantId> = self
            .grants
            .iter()
            .filter(|(_, grant)| grant.0 == resource)
            .map(|(id, _)| *id)
            .collect();
        for id in replaced {
            if self.grants[&id].1 == gateway {
                hosts.extend(self.grants[&id].3.iter().copied());
            }
        }
        let until_ms = play.now_ms + life_s * 1_000;
        if self.targets.contains_key(&resource) {
            let granted = (resource, gateway, until_ms, hosts);
            self.grants.insert(grant_id(self.next_grant), granted);
        }
        play.grant(
            request,
            resource.as_bytes()[0],
            Granting {
                relays: Vec::new(),
                is_hidden: false,
                answers_dns: life_s.is_multiple_of(3),
                grant: self.next_grant,
                gateway,
                // Now and then two gateways claim one key.
                key: if life_s.is_multiple_of(7) {
                    key_of
                } else {
                    gateway
                },
                life_ms: life_s * 1_000,
                names: names
                    .iter()
                    .map(|name| ResolvedName {
                        name: name.name.clone(),
                        ipv4: true,
                        ipv6: life_s.is_multiple_of(2),
                        existence: Existence::Exists,
                    })
                    .collect(),
            },
        );
    }

    fn reconnect(&mut self, play: &mut Play, keep: u8) {
        self.asked.clear();
        let resources = self
            .targets
            .iter()
            .map(|(id, target)| resource(id.as_bytes()[0], target));
        let resources: Vec<_> = resources.collect();
        let current = self.grants.keys().copied().enumerate();
        let current: Vec<GrantId> = current
            .filter(|(index, _)| keep >> (index % 8) & 1 == 1)
            .map(|(_, id)| id)
            .collect();
        self.grants.retain(|id, _| current.contains(id));
        play.reconnect(resources, current);
    }

    /// Every range in the data plane stands on a live grant of a resource through that gateway.
    fn check(&self, play: &Play) {
        let own = ["100.64.0.0/11", "fd00:2021:1111::/112"].map(super::play::prefix);
        for peer in play.peers.values() {
            for range in &peer.allowed_ips {
                if own.iter().any(|own| own.contains(range.address())) {
                    assert!(range.is_host(), "{range}");
                    continue;
                }
                let stands = self
                    .grants
                    .values()
                    .any(|(resource, gateway, until_ms, hosts)| {
                        let target = self.targets.get(resource);
                        let is_inside = target.is_some_and(|target| {
                            let network: Option<Prefix> = target.parse().ok();
                            let host = target.parse().ok().map(Prefix::host);
                            match network.or(host) {
                                Some(network) => {
                                    network.len() <= range.len()
                                        && network.contains(range.address())
                                }
                                None => hosts.contains(range),
                            }
                        });
                        gateway_id(*gateway) == peer.gateway && *until_ms > play.now_ms && is_inside
                    });
                assert!(stands, "{range} through {}", peer.gateway);
            }
        }
        for destination in DESTINATIONS {
            self.check_way(play, destination);
        }
        let view = play.client.view(play.now(), play.unix());
        let held: usize = view.resources.iter().map(|it| it.held_packets).sum();
        assert!(held <= MAX_HELD_PER_RESOURCE * view.resources.len());
        let counters = play.client.counters();
        let displaced = usize::try_from(counters.packets_displaced).unwrap();
        let accounted = play.resumed.len() + play.refused.len() + held + displaced;
        assert_eq!(
            accounted,
            usize::try_from(self.packets).unwrap(),
            "a packet was lost"
        );
    }
}

impl Model {
    /// Nothing leads to an address but a grant of the narrowest resource around it.
    fn check_way(&self, play: &Play, destination: &str) {
        let address: std::net::IpAddr = destination.parse().unwrap();
        let network_of = |target: &str| {
            let host = || target.parse().ok().map(Prefix::host);
            target.parse::<Prefix>().ok().or_else(host)
        };
        let around = self
            .targets
            .values()
            .filter_map(|target| network_of(target))
            .filter(|network| network.contains(address));
        let Some(narrowest) = around.max_by_key(|network| network.len()) else {
            return;
        };
        let is_name = play
            .peers
            .values()
            .any(|peer| peer.allowed_ips.contains(&Prefix::host(address)));
        if let Some(gateway) = play.way_to(destination)
            && !(is_name && destination.starts_with("100.96."))
        {
            let granted = self.grants.values().any(|(resource, through, ..)| {
                let target = self
                    .targets
                    .get(resource)
                    .and_then(|target| network_of(target));
                target == Some(narrowest) && gateway_id(*through) == gateway
            });
            assert!(granted, "{destination} goes to {gateway}");
        }
    }
}

fn query(play: &mut Play, literal: bool) {
    let label = if literal { "db" } else { "web" };
    let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in [label, "corp", "example"] {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    let from = "127.0.0.1:4000".parse().unwrap();
    play.client
        .handle_dns_query(&bytes, Transport::Udp, from, play.now());
    play.poll();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_range_leads_to_a_gateway_without_a_live_grant(
        seed in any::<u8>(),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut play = Play::with_seed(seed);
        play.step();
        play.connect();
        let mut model = Model {
            grants: BTreeMap::new(),
            targets: BTreeMap::new(),
            asked: Vec::new(),
            packets: 0,
            next_grant: 0,
        };
        for (number, target) in (1..=8).zip(TARGETS) {
            model.set(number, target);
        }
        let resources = (1..=8).zip(TARGETS).map(|(number, target)| resource(number, target));
        play.welcome(resources.collect(), Vec::new());
        for step in steps {
            model.apply(&mut play, step);
            model.check(&play);
        }
    }

    #[test]
    fn no_text_of_the_portal_panics(texts in prop::collection::vec(".{0,80}", 1..5)) {
        let mut play = Play::open(&[(1, "10.0.0.0/8")]);
        for text in texts {
            play.hear_text(&text);
        }
    }
}
