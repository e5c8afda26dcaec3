//! Events come in any order. Every grant in force on a gateway is allowed, every request is answered
//! once, and clients know the resources that they may use.

use crate::world::{
    Manner, SITE, World, a_policy, actor, client, client_token, gateway, group, network, policy,
    resource, site_token,
};
use culvert_ids::SiteId;
use culvert_store::{Entity, EntityId, PathRule};
use culvert_wire::messages::{FromClient, FromGateway, ReasonCode};
use culvert_wire::model::{
    Condition, Filter, TimeWindow, Weekday, WrittenCountries, WrittenExpires,
    WrittenPublicAddresses, WrittenTimes, WrittenVerified,
};
use culvert_wire::{PublicKey, Timestamp};
use proptest::prelude::*;

const ACTORS: u16 = 3;
const CLIENTS: u16 = 5;
const GATEWAYS: u16 = 4;
const RESOURCES: u16 = 4;
const GROUPS: u16 = 3;
const POLICIES: u16 = 6;
const RELAYS: u16 = 3;

#[derive(Clone, Debug)]
enum Step {
    JoinClient(u16, bool),
    LeaveClient(u16),
    JoinGateway(u16),
    LeaveGateway(u16),
    BreakOffGateway(u16),
    RestartGateway(u16),
    Ask(u16, u16, Option<u16>),
    Release(u16, u16),
    SetActor(u16, bool),
    RemoveActor(u16),
    Member(u16, u16, bool),
    SetPolicy(u16, u16, u16, bool, u8),
    RemovePolicy(u16),
    RemoveGroup(u16),
    SetResource(u16, u8),
    RemoveResource(u16),
    Verify(u16, bool),
    Key(u16, u8),
    RevokeClient(u16),
    Token(u16, u8),
    Drain(u16, bool),
    SelfDrain(u16, bool),
    RevokeGateway(u16),
    VerifyGateway(u16, bool),
    KeyOfGateway(u16, u8),
    RequireVerifiedGateways(bool),
    MoveGateway(u16, bool),
    SiteToken(bool),
    Manner(u16, u8),
    Forge(u16, u16),
    JoinRelay(u16),
    LeaveRelay(u16),
    DrainRelay(u16, bool),
    RevokeRelay(u16),
    Paths(u8),
    SiteRelays(u8),
    Candidates(u16, u8),
    Pass(u64),
    /// With a policy that goes while the portal is down, and gateways that come back at once.
    Restart(Option<u16>, bool),
}

fn step() -> impl Strategy<Value = Step> {
    use Step::*;
    let actor = 1..=ACTORS;
    let client = 1..=CLIENTS;
    let gateway = 1..=GATEWAYS;
    let resource = 1..=RESOURCES;
    let group = 1..=GROUPS;
    let policy = 1..=POLICIES;
    let relay = 1..=RELAYS;
    let gone = proptest::option::weighted(0.3, policy.clone());
    let any_bool = any::<bool>();
    prop_oneof![
        6 => (client.clone(), any_bool).prop_map(|(c, home)| JoinClient(c, home)),
        1 => client.clone().prop_map(LeaveClient),
        4 => gateway.clone().prop_map(JoinGateway),
        1 => gateway.clone().prop_map(LeaveGateway),
        1 => gateway.clone().prop_map(BreakOffGateway),
        1 => gateway.clone().prop_map(RestartGateway),
        14 => (client.clone(), resource.clone(), proptest::option::weighted(0.2, gateway.clone()))
            .prop_map(|(c, r, avoid)| Ask(c, r, avoid)),
        1 => (client.clone(), client.clone()).prop_map(|(c, of)| Release(c, of)),
        1 => (actor.clone(), proptest::bool::weighted(0.3)).prop_map(|(a, off)| SetActor(a, off)),
        1 => actor.clone().prop_map(RemoveActor),
        3 => (actor.clone(), group.clone(), proptest::bool::weighted(0.7))
            .prop_map(|(a, g, on)| Member(a, g, on)),
        5 => (policy.clone(), group.clone(), resource.clone(), proptest::bool::weighted(0.1), 0..8_u8)
            .prop_map(|(p, g, r, off, kind)| SetPolicy(p, g, r, off, kind)),
        1 => policy.prop_map(RemovePolicy),
        1 => group.prop_map(RemoveGroup),
        2 => (resource.clone(), 0..6_u8).prop_map(|(r, kind)| SetResource(r, kind)),
        1 => resource.prop_map(RemoveResource),
        1 => (client.clone(), any_bool).prop_map(|(c, on)| Verify(c, on)),
        1 => (client.clone(), 0..3_u8).prop_map(|(c, key)| Key(c, key)),
        1 => client.clone().prop_map(RevokeClient),
        1 => (actor, 0..4_u8).prop_map(|(a, kind)| Token(a, kind)),
        1 => (gateway.clone(), any_bool).prop_map(|(g, on)| Drain(g, on)),
        1 => (gateway.clone(), any_bool).prop_map(|(g, on)| SelfDrain(g, on)),
        1 => gateway.clone().prop_map(RevokeGateway),
        4 => (gateway.clone(), proptest::bool::weighted(0.7)).prop_map(|(g, on)| VerifyGateway(g, on)),
        1 => (gateway.clone(), 0..3_u8).prop_map(|(g, key)| KeyOfGateway(g, key)),
        2 => any_bool.prop_map(RequireVerifiedGateways),
        1 => (gateway.clone(), any_bool).prop_map(|(g, home)| MoveGateway(g, home)),
        1 => any_bool.prop_map(SiteToken),
        2 => (gateway.clone(), 0..6_u8).prop_map(|(g, manner)| Manner(g, manner)),
        1 => (gateway, client).prop_map(|(g, c)| Forge(g, c)),
        4 => relay.clone().prop_map(JoinRelay),
        1 => relay.clone().prop_map(LeaveRelay),
        1 => (relay.clone(), any_bool).prop_map(|(r, on)| DrainRelay(r, on)),
        1 => relay.prop_map(RevokeRelay),
        1 => (0..5_u8).prop_map(Paths),
        1 => (0..4_u8).prop_map(SiteRelays),
        1 => (1..=CLIENTS, 0..3_u8).prop_map(|(c, at)| Candidates(c, at)),
        5 => prop_oneof![1..5_000_u64, 1..100_000_u64, 1..4_000_000_u64].prop_map(Pass),
        2 => (gone, proptest::bool::weighted(0.8)).prop_map(|(gone, back)| Restart(gone, back)),
    ]
}

fn site(is_home: bool) -> SiteId {
    if is_home {
        SITE
    } else {
        SiteId::from_bytes([2; 16])
    }
}

fn conditions(kind: u8, now: Timestamp) -> Vec<Condition> {
    let after = |ms| Timestamp::from_unix_ms(now.unix_ms() + ms);
    match kind {
        0 => vec![Condition::Verified(WrittenVerified {})],
        1 => vec![Condition::PublicAddress(WrittenPublicAddresses {
            cidrs: vec!["203.0.113.0/24".to_owned()],
        })],
        2 => vec![Condition::Expires(WrittenExpires { at: after(50_000) })],
        3 => vec![Condition::Expires(WrittenExpires {
            at: after(2_000_000),
        })],
        4 => vec![Condition::Time(WrittenTimes {
            zone: "Europe/Berlin".to_owned(),
            windows: vec![TimeWindow {
                days: vec![Weekday::Friday, Weekday::Saturday],
                from: "09:00".to_owned(),
                until: "09:40".to_owned(),
            }],
        })],
        // Not to be converted: allows nothing.
        5 => vec![Condition::Country(WrittenCountries {
            countries: vec!["Atlantis".to_owned()],
        })],
        _ => Vec::new(),
    }
}

/// Everything that is there at the beginning.
fn world() -> World {
    let mut world = World::new();
    for number in 1..=ACTORS {
        world.set_actor(number, false);
        world.add_member(number, number);
    }
    for number in 1..=CLIENTS {
        world.set_client(number, 1 + number % ACTORS);
    }
    for number in 1..=GATEWAYS {
        world.set_gateway(number, site(number != GATEWAYS));
    }
    for number in 1..=RESOURCES {
        world.set_network(number, site(number != RESOURCES));
        world.set_policy(number, 1 + number % GROUPS, number, Vec::new());
    }
    for number in 1..=RELAYS {
        world.set_relay(number);
    }
    // Some machines are of earlier versions.
    world.use_relays(CLIENTS - 1, GATEWAYS - 1);
    world
}

/// Removes rows and what refers to them, in one transaction as the store does it.
fn cascade(world: &mut World, gone: impl Fn(&Entity) -> bool) {
    let rows = world.rows.iter().filter(|(_, row)| gone(row));
    let edits = rows.map(|(id, _)| (*id, None)).collect();
    world.apply(edits);
}

fn run(world: &mut World, step: &Step) {
    let now = world.now;
    match *step {
        Step::JoinClient(number, is_home) => {
            let address = if is_home {
                "203.0.113.5"
            } else {
                "198.51.100.5"
            };
            let sim = world.clients.get_mut(&client(number)).unwrap();
            sim.address = Some(address.parse().unwrap());
            world.join_client(number);
        }
        Step::LeaveClient(number) => world.leave_client(number),
        Step::JoinGateway(number) => {
            world.join_gateway(number);
        }
        Step::LeaveGateway(number) => world.leave_gateway(number),
        Step::BreakOffGateway(number) => world.break_off_gateway(number),
        Step::RestartGateway(number) => {
            world.leave_gateway(number);
            world
                .gateways
                .get_mut(&gateway(number))
                .unwrap()
                .held
                .clear();
            world.join_gateway(number);
        }
        Step::Ask(number, on, avoid) => {
            world.ask_for(
                number,
                on,
                Vec::new(),
                avoid.map(gateway).into_iter().collect(),
            );
        }
        Step::Release(number, of) => {
            let grants = world.clients[&client(of)].grants.keys().next().copied();
            let session = world.clients[&client(number)].session;
            if let (Some(grant), Some(session)) = (grants, session) {
                world.client_says(session, FromClient::ReleaseAccess { grant });
                if number == of {
                    let sim = world.clients.get_mut(&client(of)).unwrap();
                    sim.grants.remove(&grant);
                }
            }
        }
        Step::SetActor(number, disabled) => world.set_actor(number, disabled),
        Step::RemoveActor(number) => {
            // With its clients, tokens and memberships.
            let id = actor(number);
            cascade(world, |row| match row {
                Entity::Actor(row) => row.id == id,
                Entity::Membership(row) => row.actor == id,
                Entity::Client(row) => row.actor == id,
                Entity::Token(row) => row.scope.actor() == Some(id),
                _ => false,
            });
        }
        Step::Member(of, number, true) => world.add_member(of, number),
        Step::Member(of, number, false) => world.remove_member(of, number),
        Step::SetPolicy(number, to, on, disabled, kind) => {
            let mut row = a_policy(number, to, on, conditions(kind, now));
            row.disabled = disabled;
            world.set(row);
        }
        Step::RemovePolicy(number) => world.remove(policy(number)),
        Step::RemoveGroup(number) => {
            let id = group(number);
            cascade(world, |row| match row {
                Entity::Membership(row) => row.group == id,
                Entity::Policy(row) => row.group == id,
                _ => false,
            });
        }
        Step::SetResource(number, kind) => {
            let home = format!("10.0.{number}.0/24");
            let row = match kind {
                0 => network(number, SITE, &home, vec![Filter::Icmp]),
                1 => network(number, SITE, "10.9.0.0/16", vec![Filter::Any]),
                2 => network(number, site(false), &home, vec![Filter::Any]),
                3 => network(number, SITE, &home, Vec::new()),
                _ => network(number, SITE, &home, vec![Filter::Any]),
            };
            world.set(row);
        }
        Step::RemoveResource(number) => {
            let id = resource(number);
            cascade(world, |row| match row {
                Entity::Resource(row) => row.id == id,
                Entity::Policy(row) => row.resource == id,
                _ => false,
            });
        }
        Step::Verify(number, on) => {
            world.edit_client(number, |row| row.verified = on.then_some(now));
        }
        Step::Key(number, key) => world.edit_client(number, |row| {
            let mut bytes = *row.public_key.as_bytes();
            bytes[31] = key;
            row.public_key = PublicKey::from_bytes(bytes);
        }),
        Step::RevokeClient(number) => world.edit_client(number, |row| row.revoked = Some(now)),
        Step::Token(number, kind) => {
            let after = |ms| Some(Timestamp::from_unix_ms(now.unix_ms() + ms));
            world.edit_token(client_token(number), |row| match kind {
                0 => row.revoked = Some(now),
                1 => row.expires = after(60_000),
                2 => row.expires = after(1_800_000),
                _ => row.expires = None,
            });
        }
        Step::Drain(number, on) => world.edit_gateway(number, |row| row.draining = on),
        Step::SelfDrain(number, on) => {
            if world.gateways[&gateway(number)].session.is_some() {
                world.gateway_says(number, FromGateway::Draining { on });
            }
        }
        Step::RevokeGateway(number) => world.edit_gateway(number, |row| row.revoked = Some(now)),
        Step::VerifyGateway(number, on) => {
            world.edit_gateway(number, |row| row.verified = on.then_some(now));
        }
        // As the store writes it.
        Step::KeyOfGateway(number, key) => world.edit_gateway(number, |row| {
            let mut bytes = *row.public_key.as_bytes();
            bytes[31] = key;
            let key = PublicKey::from_bytes(bytes);
            if key != row.public_key {
                row.verified = None;
            }
            row.public_key = key;
        }),
        Step::RequireVerifiedGateways(on) => world.require_verified_gateways(on),
        Step::MoveGateway(number, home) => world.edit_gateway(number, |row| row.site = site(home)),
        Step::SiteToken(is_good) => {
            let id = site_token(site(false));
            world.edit_token(id, |row| row.revoked = (!is_good).then_some(now));
        }
        Step::Manner(number, manner) => {
            let manner = match manner {
                0 => Manner::Silent,
                1 => Manner::Refuse(ReasonCode::BadGrant),
                2 => Manner::Refuse(ReasonCode::NameUnanswered),
                _ => Manner::Accept,
            };
            world.manner(number, manner);
        }
        Step::Forge(number, of) => forge(world, number, of),
        Step::JoinRelay(number) => {
            world.join_relay(number);
        }
        Step::LeaveRelay(number) => world.leave_relay(number),
        Step::DrainRelay(number, on) => world.edit_relay(number, |row| row.draining = on),
        Step::RevokeRelay(number) => world.edit_relay(number, |row| row.revoked = Some(now)),
        Step::Paths(kind) => world.set_paths(match kind {
            0 => PathRule::Direct,
            1 => PathRule::Relayed,
            _ => PathRule::Any,
        }),
        Step::SiteRelays(kind) => world.set_site_relays(match kind {
            0 => Some(Vec::new()),
            1 => Some(vec![1, 2]),
            _ => None,
        }),
        Step::Candidates(number, at) => {
            if let Some(session) = world.clients[&client(number)].session {
                let candidates = (0..at).map(|at| ([192, 0, 2, at], 1).into()).collect();
                world.client_says(session, FromClient::CandidatesChanged { candidates });
            }
        }
        Step::Pass(ms) => world.pass(ms),
        Step::Restart(gone, back) => restart(world, gone, back),
    }
}

fn restart(world: &mut World, gone: Option<u16>, back: bool) {
    let connected: Vec<_> = (1..=GATEWAYS)
        .filter(|number| world.gateways[&gateway(*number)].session.is_some())
        .collect();
    if let Some(number) = gone {
        world.rows.remove(&policy(number).into());
    }
    // A start takes its time: a portal's last tokens for relays are not from the same moment as the next one's first.
    world.now = Timestamp::from_unix_ms(world.now.unix_ms() + 1_000);
    world.restart();
    for number in connected.into_iter().filter(|_| back) {
        world.join_gateway(number);
    }
}

/// A gateway speaks about grants that are not its own.
fn forge(world: &mut World, number: u16, of: u16) {
    if world.gateways[&gateway(number)].session.is_none() {
        return;
    }
    let own = &world.gateways[&gateway(number)].held;
    let foreign = world.clients[&client(of)].grants.keys();
    let foreign: Vec<_> = foreign
        .filter(|grant| !own.contains_key(grant))
        .copied()
        .collect();
    for grant in foreign {
        let names = Vec::new();
        world.gateway_says(number, FromGateway::GrantAccepted { grant, names });
    }
}

/// After a revoked row is back, so that runs do not end with nobody left.
fn revive(world: &mut World) {
    let revoked: Vec<_> = world
        .rows
        .values()
        .filter_map(|row| match row {
            Entity::Client(row) if row.revoked.is_some() => Some(EntityId::from(row.id)),
            Entity::Gateway(row) if row.revoked.is_some() => Some(row.id.into()),
            Entity::Token(row) if row.revoked.is_some() => Some(row.id.into()),
            Entity::Relay(row) if row.revoked.is_some() => Some(row.id.into()),
            _ => None,
        })
        .collect();
    for id in revoked {
        match world.rows[&id].clone() {
            Entity::Client(mut row) => {
                row.revoked = None;
                world.set(row);
            }
            Entity::Gateway(mut row) => {
                row.revoked = None;
                world.set(row);
            }
            Entity::Token(mut row) => {
                row.revoked = None;
                world.set(row);
            }
            Entity::Relay(mut row) => {
                row.revoked = None;
                world.set(row);
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_in_force_is_allowed_whatever_happened(steps in proptest::collection::vec(step(), 1..100)) {
        let mut world = world();
        for (number, step) in steps.iter().enumerate() {
            run(&mut world, step);
            world.check();
            if number % 20 == 19 {
                revive(&mut world);
                world.check();
            }
        }
        // Everyone is answered once all gateways had their chance.
        world.pass(3_000 * u64::from(GATEWAYS + 1) * 2);
        world.check();
        for (id, sim) in &world.clients {
            prop_assert!(sim.session.is_none() || sim.waiting.is_empty(), "{id} waits");
        }
        prop_assert_eq!(world.hub.status().asks, 0);
        // Expired grants are forgotten.
        world.pass(3_700_000);
        world.check();
        prop_assert_eq!(world.hub.status().grants, 0);
        prop_assert!(world.saved.is_empty());
    }
}
