//! Simulated relays, and the tokens that ends were told.

use crate::rows::{SITE, client, gateway};
use crate::world::World;
use culvert_hub::{RelayJoin, SessionId};
use culvert_ids::{ClientId, GatewayId, RelayId, TokenId};
use culvert_store::{Entity, MachineId, PathRule, Relay, Site, Stamp, TokenScope};
use culvert_wire::messages::{
    ClientFeature, FromRelay, GatewayFeature, RelayAccess, RelayClaims, RelayPort, ToRelay,
};
use culvert_wire::{PresharedKey, Timestamp};
use pasetors::Local;
use pasetors::keys::SymmetricKey;
use pasetors::token::UntrustedToken;
use pasetors::version4::{LocalToken, V4};
use std::collections::{BTreeMap, BTreeSet};

/// Enough for every grant of a run.
const ALL: usize = 1_000;

/// A relay as it understands what it was told.
#[derive(Debug, Default)]
pub(crate) struct SimRelay {
    pub(crate) session: Option<SessionId>,
    pub(crate) draining: bool,
    /// The keys of its run: earlier ones count on.
    keys: Vec<PresharedKey>,
    /// Counts its starts.
    run: u32,
    /// Each with the number of the key that was the last one then.
    withdrawn: BTreeMap<(GatewayId, Option<ClientId>), (usize, Timestamp)>,
    pub(crate) heard: Vec<ToRelay>,
}

/// A token, and the end that has it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) gateway: GatewayId,
    pub(crate) client: Option<ClientId>,
    pub(crate) access: RelayAccess,
    pub(crate) claims: RelayClaims,
    /// The run of the relay that knows the key.
    run: u32,
    /// The number of the key there.
    key: usize,
}

pub(crate) fn relay(number: u16) -> RelayId {
    let [a, b] = number.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[14] = a;
    bytes[15] = b;
    RelayId::from_bytes(bytes)
}

pub(crate) fn relay_token() -> TokenId {
    TokenId::from_bytes([0x5e; 16])
}

impl SimRelay {
    pub(crate) fn hear(&mut self, message: ToRelay) {
        match &message {
            ToRelay::Welcome { key, .. } => self.keys.push(key.clone()),
            ToRelay::Withdraw {
                gateway,
                client,
                until,
            } => {
                let until = (self.keys.len(), *until);
                self.withdrawn.insert((*gateway, *client), until);
            }
            ToRelay::Refused { .. }
            | ToRelay::Drain { .. }
            | ToRelay::PortalsSet { .. }
            | ToRelay::Unsupported { .. } => {}
        }
        self.heard.push(message);
    }

    /// It starts anew, and knows none of its keys.
    pub(crate) fn forget(&mut self) {
        self.keys.clear();
        self.run += 1;
        self.withdrawn.clear();
    }

    /// True if the relay would let the end with the token register now.
    pub(crate) fn accepts(&self, told: &Told, now: Timestamp) -> bool {
        let claims = &told.claims;
        let until = |end| self.withdrawn.get(&end).copied();
        let own = until((claims.gateway, claims.client));
        let of_gateway = until((claims.gateway, None));
        let is_withdrawn = own
            .max(of_gateway)
            .is_some_and(|until| (told.key, claims.iat) <= until);
        // A minute is what a relay's clock may be off.
        let is_issued = claims.iat.unix_ms() <= now.unix_ms() + 60_000;
        told.run == self.run && !is_withdrawn && is_issued && now < claims.exp
    }
}

fn open(key: &PresharedKey, token: &str) -> Option<RelayClaims> {
    let key = SymmetricKey::<V4>::from(key.as_bytes()).unwrap();
    let token = UntrustedToken::<Local, V4>::try_from(token).unwrap();
    let token = LocalToken::decrypt(&key, &token, None, None).ok()?;
    Some(serde_json::from_str(token.payload()).unwrap())
}

impl World {
    pub(crate) fn set_relay(&mut self, number: u16) {
        if !self.rows.contains_key(&relay_token().into()) {
            self.set(crate::rows::token(relay_token(), TokenScope::Relay));
        }
        self.set(Relay {
            id: relay(number),
            machine: format!("machine {number}"),
            name: format!("relay {number}"),
            addresses: Vec::new(),
            draining: false,
            revoked: None,
            seen: None,
            stamp: Stamp::default(),
        });
        self.relays.entry(relay(number)).or_default();
    }

    pub(crate) fn edit_relay(&mut self, number: u16, edit: impl FnOnce(&mut Relay)) {
        if let Some(Entity::Relay(mut row)) = self.rows.get(&relay(number).into()).cloned() {
            edit(&mut row);
            self.set(row);
        }
    }

    /// Has the machines of these numbers use relays when they next join.
    pub(crate) fn use_relays(&mut self, clients: u16, gateways: u16) {
        for number in 1..=clients {
            let sim = self.clients.entry(client(number)).or_default();
            sim.features.push(ClientFeature::Relays);
        }
        for number in 1..=gateways {
            let sim = self.gateways.get_mut(&gateway(number)).unwrap();
            sim.features.push(GatewayFeature::Relays);
        }
    }

    /// Notes a token that an end was told. A relay that has not started anew since can read it.
    pub(crate) fn note_told(
        &mut self,
        gateway: GatewayId,
        client: Option<ClientId>,
        accesses: &[RelayAccess],
    ) {
        for access in accesses {
            let sim = &self.relays[&access.place.relay];
            let mut keys = sim.keys.iter().enumerate().rev();
            let opened = keys.find_map(|(at, key)| Some((at + 1, open(key, &access.token)?)));
            let Some((key, claims)) = opened else {
                assert!(sim.session.is_none(), "a token that its relay can't read");
                continue;
            };
            assert_eq!((claims.gateway, claims.client), (gateway, client));
            assert_eq!(
                (claims.relay, claims.port),
                (access.place.relay, access.port)
            );
            assert_eq!((&claims.key, claims.exp), (&access.key, access.expires));
            self.told.push(Told {
                gateway,
                client,
                access: access.clone(),
                claims,
                run: sim.run,
                key,
            });
        }
    }

    /// A relay joins, and says which ports it knows to be taken.
    pub(crate) fn join_relay(&mut self, number: u16) -> SessionId {
        let id = relay(number);
        let sim = self.relays.entry(id).or_default();
        let taken = self.told.iter().filter(|told| {
            told.access.place.relay == id && told.client.is_none() && sim.accepts(told, self.now)
        });
        let taken = taken.map(|told| RelayPort {
            port: told.access.port,
            gateway: told.gateway,
        });
        let assigned = taken.collect();
        self.join_relay_with(number, assigned)
    }

    pub(crate) fn join_relay_with(&mut self, number: u16, assigned: Vec<RelayPort>) -> SessionId {
        let id = relay(number);
        let session = self.new_relay_session(id);
        let sim = self.relays.entry(id).or_default();
        sim.session = Some(session);
        let join = RelayJoin {
            relay: id,
            token: relay_token(),
            addresses: vec![format!("192.0.2.{number}:3478").parse().unwrap()],
            tls: None,
            first_port: 3_479,
            ports: 64,
            draining: sim.draining,
            assigned,
        };
        self.hub.handle_relay_joined(session, join, self.now);
        self.drain();
        session
    }

    pub(crate) fn leave_relay(&mut self, number: u16) {
        let session = self.relays.get_mut(&relay(number)).unwrap().session.take();
        self.leave(session);
    }

    pub(crate) fn relay_says(&mut self, number: u16, message: FromRelay) {
        let session = self.relays[&relay(number)].session.unwrap();
        self.hub.handle_relay_message(session, message, self.now);
        self.drain();
    }

    pub(crate) fn set_paths(&mut self, rule: PathRule) {
        let mut account = self.account();
        account.settings.paths = rule;
        self.set(account);
    }

    /// The relays of the site by their numbers; all where there is no list.
    pub(crate) fn set_site_relays(&mut self, relays: Option<Vec<u16>>) {
        let relays = relays.map(|numbers| numbers.into_iter().map(relay).collect());
        self.set(Site {
            id: SITE,
            name: "site".to_owned(),
            relays,
            stamp: Stamp::default(),
        });
    }

    /// The claims of those of the tokens that connected relays accept.
    pub(crate) fn accepted(&self) -> Vec<RelayClaims> {
        let accepted = self.told.iter().filter(|told| {
            let sim = &self.relays[&told.access.place.relay];
            sim.session.is_some() && sim.accepts(told, self.now)
        });
        accepted.map(|told| told.claims.clone()).collect()
    }

    /// Every end that a relay would let in has a grant, each port is one gateway's, and the account and the site allow it.
    pub(crate) fn check_relays(&self) {
        let accepted = self.accepted();
        let gateways = accepted.iter().filter(|claims| claims.client.is_none());
        let registered: BTreeSet<_> = gateways.map(|it| (it.relay, it.gateway)).collect();
        let mut ports = BTreeMap::new();
        for claims in accepted {
            if !registered.contains(&(claims.relay, claims.gateway)) {
                // The port is nobody's: nothing is forwarded.
                continue;
            }
            let holder = ports
                .entry((claims.relay, claims.port))
                .or_insert(claims.gateway);
            assert_eq!(*holder, claims.gateway, "two gateways at one port");
            let is_allowed = self.may_relay(claims.gateway, claims.relay);
            assert!(is_allowed, "{claims:?} at a relay that is not allowed");
            let Some(client) = claims.client else {
                continue;
            };
            // An offer may be under way after the last grant.
            let sim = self.clients.get(&client);
            let waits = sim.is_some_and(|sim| !sim.waiting.is_empty());
            let grants = self.hub.grants_of(MachineId::Client(client), ALL);
            let has_grant = grants.iter().any(|grant| grant.gateway == claims.gateway);
            assert!(has_grant || waits, "{claims:?} without a grant");
        }
    }

    fn may_relay(&self, gateway: GatewayId, relay: RelayId) -> bool {
        let rule = self.account().settings.paths;
        let site = match self.rows.get(&gateway.into()) {
            Some(Entity::Gateway(row)) => row.site,
            _ => return false,
        };
        let chosen = match self.rows.get(&site.into()) {
            Some(Entity::Site(row)) => row.relays.clone(),
            _ => None,
        };
        let is_there = matches!(self.rows.get(&relay.into()), Some(Entity::Relay(row)) if row.revoked.is_none());
        rule != PathRule::Direct && is_there && chosen.is_none_or(|all| all.contains(&relay))
    }
}
