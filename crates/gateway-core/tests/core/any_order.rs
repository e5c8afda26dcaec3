//! The portal, the DNS and the clock act in any order, and the data plane never lets a datagram through
//! that no live grant allows.

use crate::play::{
    HOUR_MS, Play, START_MS, START_UNIX_MS, claims, filters, found, grant_id, key, name_claims,
    resource_id, visible, wanted,
};
use culvert_base::UnixTime;
use culvert_gateway_core::Resolution;
use culvert_ids::GrantId;
use culvert_wire::messages::ToGateway;
use culvert_wire::model::{Filter, Understood};
use culvert_wire::{GrantClaims, Timestamp};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Two clients, and a second key of each.
const CLIENTS: u8 = 2;
/// Resources 0 and 1 are networks, 2 is a pattern of names.
const RESOURCES: u8 = 3;
const NAMES: [&str; 2] = ["a.corp.example", "b.corp.example"];
const ADDRESSES: [&str; 4] = ["10.7.0.1", "10.7.0.2", "127.0.0.1", "100.64.1.6"];

#[derive(Clone, Debug)]
enum Step {
    Grant {
        grant: u8,
        client: u8,
        resource: u8,
        lifetime_s: u64,
        replaces: Option<u8>,
        names: Vec<usize>,
        port: Option<u16>,
        is_forged: bool,
        has_new_key: bool,
    },
    Revoke(u8),
    Filters(u8, Option<u16>),
    Resolved(usize, Option<Vec<usize>>),
    NoAnswer(usize),
    Pass(u64),
    Reconnect(Vec<u8>),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let port = prop::option::of(prop::sample::select(vec![53_u16, 80]));
    let grant = (
        (1_u8..8, 0..CLIENTS, 0..RESOURCES, 1_u64..200),
        prop::option::of(1_u8..8),
        prop::collection::vec(0..NAMES.len(), 0..2),
        port.clone(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
    );
    let grant = grant.prop_map(|(main, replaces, names, port, is_forged, has_new_key)| {
        let (grant, client, resource, lifetime_s) = main;
        Step::Grant {
            grant,
            client,
            resource,
            lifetime_s,
            replaces,
            names,
            port,
            is_forged,
            has_new_key,
        }
    });
    let addresses = prop::collection::vec(0..ADDRESSES.len(), 1..3);
    prop_oneof![
        6 => grant,
        2 => (1_u8..8).prop_map(Step::Revoke),
        1 => (0..RESOURCES, port).prop_map(|(resource, port)| Step::Filters(resource, port)),
        4 => (0..NAMES.len(), prop::option::of(addresses))
            .prop_map(|(name, addresses)| Step::Resolved(name, addresses)),
        1 => (0..NAMES.len()).prop_map(Step::NoAnswer),
        3 => (0_u64..60_000).prop_map(Step::Pass),
        1 => prop::collection::vec(1_u8..8, 0..8).prop_map(Step::Reconnect),
        1 => Just(Step::Restart),
    ]
}

/// The most that a grant may allow, as the portal knows it.
#[derive(Clone, Debug)]
struct Live {
    claims: GrantClaims,
    filters: Understood<Filter>,
}

/// The portal's idea of what is allowed: wider than the gateway's at most, since the portal knows
/// nothing of grants that were refused or have waited in vain.
#[derive(Default)]
struct Portal {
    live: BTreeMap<GrantId, Live>,
    /// The addresses that each name has ever led to.
    ever: BTreeMap<usize, Vec<IpAddr>>,
}

fn client_number(client: u8) -> u8 {
    5 + client
}

fn filter(port: Option<u16>) -> Understood<Filter> {
    match port {
        None => filters(r#"[{"protocol":"any"}]"#),
        Some(port) => filters(&format!(r#"[{{"protocol":"udp","ports":[{port}]}}]"#)),
    }
}

fn allows(filters: &[Filter], port: u16) -> bool {
    let filters = culvert_wire::model::filters(filters).unwrap();
    filters.allows(culvert_policy::Service::Udp(port))
}

impl Portal {
    fn take(&mut self, play: &mut Play, step: &Step) {
        let Step::Grant {
            grant,
            client,
            resource,
            lifetime_s,
            replaces,
            names,
            port,
            is_forged,
            has_new_key,
        } = step
        else {
            panic!("{step:?}");
        };
        let number = client_number(*client);
        let mut claims = match resource {
            2 => name_claims(*grant, number, *resource, "*.corp.example"),
            _ => claims(*grant, number, *resource),
        };
        if *has_new_key {
            claims.client_key = key(number + 100);
        }
        claims.filters = filter(*port);
        claims.iat = Timestamp::from_unix_ms(play.unix_ms());
        claims.exp = Timestamp::from_unix_ms(play.unix_ms() + lifetime_s * 1_000);
        let wanted: Vec<_> = names
            .iter()
            .filter(|_| *resource == 2)
            .map(|name| wanted(NAMES[*name], u8::try_from(*name).unwrap()))
            .collect();
        let before = self.live.get(&claims.grant).cloned();
        let replaces = replaces.map(grant_id);
        if *is_forged {
            let genuine = std::mem::replace(&mut play.portal, crate::play::Signer::new(99));
            play.grant_with(&claims, replaces, &wanted);
            play.portal = genuine;
            return;
        }
        play.grant_with(&claims, replaces, &wanted);
        // Another grant by an id that is in use is refused, unless the one before has ended.
        let is_other = before.is_some_and(|before| {
            before.claims != claims
                && play.gateway.grants().any(|id| id == claims.grant)
                && !self.is_in_table(play, &claims)
        });
        if !is_other {
            let filters = claims.filters.clone();
            let live = Live { claims, filters };
            self.live.insert(live.claims.grant, live);
        }
    }

    /// True if the table's grant of this id is the one with these claims.
    fn is_in_table(&self, play: &Play, claims: &GrantClaims) -> bool {
        let Some(peer) = play.peers.get(&claims.client_key) else {
            return false;
        };
        let expires_ms = claims.exp.unix_ms() - START_UNIX_MS + START_MS;
        let filters = culvert_wire::model::filters(&claims.filters).unwrap();
        play.table.client(peer.gate_key).is_some_and(|client| {
            client.grants().iter().any(|grant| {
                grant.id == claims.grant
                    && grant.resource == claims.resource
                    && grant.filters == filters
                    && grant.expires.as_millis().abs_diff(expires_ms) <= 1
            })
        })
    }

    /// Every datagram that gets through is one that a live grant of its sender allows.
    fn check(&self, play: &Play) {
        let mut destinations: Vec<String> = Vec::new();
        for port in [53, 80] {
            for address in ["10.0.0.1", "10.0.1.1", "10.0.2.1", "10.7.0.1", "127.0.0.1"] {
                destinations.push(format!("{address}:{port}"));
            }
            for name in 0..NAMES.len() {
                let address = visible(u8::try_from(name).unwrap());
                destinations.push(format!("{address}:{port}"));
            }
        }
        for client in 0..CLIENTS {
            for number in [client_number(client), client_number(client) + 100] {
                for to in &destinations {
                    if let Ok(out) = play.send(number, to) {
                        self.assert_allowed(play, number, to.parse().unwrap(), out);
                    }
                }
            }
        }
        let peers = play.peers.values().map(|peer| peer.gate_key);
        assert_eq!(
            play.table.clients().count(),
            peers.count(),
            "no entry without a peer"
        );
    }

    fn assert_allowed(&self, play: &Play, number: u8, to: SocketAddr, out: SocketAddr) {
        let allowing = self.live.values().find(|live| {
            let claims = &live.claims;
            let is_target = match (claims.resource, to.ip()) {
                (id, IpAddr::V4(address)) if id == resource_id(2) => {
                    let name = usize::from(address.octets()[3]);
                    address.octets()[..3] == [100, 96, 0]
                        && self
                            .ever
                            .get(&name)
                            .is_some_and(|ever| ever.contains(&out.ip()))
                }
                (id, IpAddr::V4(address)) => {
                    out == to
                        && address.octets()[..2] == [10, 0]
                        && id == resource_id(address.octets()[2])
                }
                _ => false,
            };
            is_target
                && claims.client_key == key(number)
                && claims.exp.unix_ms() > play.unix_ms()
                && allows(&live.filters, to.port())
        });
        assert!(
            allowing.is_some(),
            "client {number} reaches {to} as {out}: {:?}",
            self.live
        );
    }
}

fn perform(play: &mut Play, portal: &mut Portal, step: &Step) {
    match step {
        Step::Grant { .. } => portal.take(play, step),
        Step::Revoke(number) => {
            play.revoke(*number);
            portal.live.remove(&grant_id(*number));
        }
        Step::Filters(resource, port) => {
            let resource = resource_id(*resource);
            let filters = filter(*port);
            for live in portal.live.values_mut() {
                if live.claims.resource == resource {
                    live.filters.clone_from(&filters);
                }
            }
            play.hear(ToGateway::FiltersChanged {
                resource,
                filters,
                inbound: Vec::new().into(),
            });
        }
        Step::Resolved(name, None) => play.resolved(NAMES[*name], Resolution::NotFound),
        Step::Resolved(name, Some(addresses)) => {
            let addresses: Vec<&str> = addresses.iter().map(|place| ADDRESSES[*place]).collect();
            let usable = addresses
                .iter()
                .filter(|address| address.starts_with("10."));
            let ever = portal.ever.entry(*name).or_default();
            ever.extend(usable.map(|address| address.parse::<IpAddr>().unwrap()));
            play.resolved(NAMES[*name], found(&addresses));
        }
        Step::NoAnswer(name) => play.resolved(NAMES[*name], Resolution::NoAnswer),
        Step::Pass(span_ms) => play.pass(*span_ms),
        Step::Reconnect(current) => {
            let current: Vec<GrantId> = current.iter().copied().map(grant_id).collect();
            play.disconnect();
            play.reconnect(&current);
            portal.live.retain(|id, _| current.contains(id));
        }
        Step::Restart => {
            play.pass(1_000);
            let Some(grants_file) = play.grants_file.clone() else {
                return;
            };
            let mut next = Play::begin();
            next.now_ms = play.now_ms;
            let options = crate::play::options();
            next.gateway =
                culvert_gateway_core::Gateway::new(options, Vec::new(), [9; 32], next.now());
            let unix_ms = next.unix_ms();
            next.gateway
                .handle_persisted(grants_file, UnixTime::from_millis(unix_ms), next.now());
            next.execute();
            next.connect();
            let current: Vec<GrantId> = next.gateway.grants().collect();
            next.welcome(&current);
            *play = next;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn nothing_passes_that_no_live_grant_allows(steps in prop::collection::vec(step(), 1..40)) {
        let mut play = Play::open();
        let mut portal = Portal::default();
        for step in &steps {
            perform(&mut play, &mut portal, step);
            prop_assert_eq!(play.disconnects, 0, "the portal keeps the protocol");
            portal.check(&play);
        }
        // With the last grant everything is gone.
        play.pass(HOUR_MS);
        play.assert_reaches_nothing();
    }
}
