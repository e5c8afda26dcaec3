//! A client that lies gets at nothing that is not its own, each of its packets is dropped for the
//! reason that it deserves, and nobody else notices.

use crate::scene::{EVERYBODY, START_MS, TRIP_MS, application, host, longest_gap_ms};
use crate::seeds;
use culvert_ids::GrantId;
use culvert_policy::Service;
use culvert_policy::gate::DropReason;
use culvert_sim::access::{Layout, Tally, World, resource, rows};
use culvert_wire::messages::{FromClient, WantedName};
use culvert_wire::model::Filter;
use culvert_wire::{Cipher, encode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The client that lies, and the one that it would like to be.
const FORGER: usize = 0;
const VICTIM: usize = 1;

/// A group for each.
const FORGERS: u16 = EVERYBODY;
const VICTIMS: u16 = 2;

/// The time in which every effect of a forgery shows, in milliseconds.
const EFFECT_MS: u64 = 1_000;

/// The forger may reach 10.1.2.0/24 by TCP port 80, the victim 10.1.9.0/24 by everything; a second
/// gateway serves neither.
fn world(seed: u64, is_traced: bool) -> World {
    let layout = Layout {
        clients: vec![1, 2],
        gateways: vec![1, 2],
        grant_lifetime_s: 300,
        skew_ms: 0,
    };
    let mut world = World::new(seed, layout);
    if is_traced {
        world.trace();
    }
    let mut edits = vec![
        rows::gateway_token_row(1),
        rows::gateway_token_row(2),
        rows::membership_row(1, FORGERS),
        rows::membership_row(2, VICTIMS),
        rows::resource_row(1, 1, "10.1.2.0/24", vec![rows::tcp(&[80])]),
        rows::resource_row(2, 1, "10.1.9.0/24", vec![Filter::Any]),
        rows::resource_row(3, 1, "*.corp.example", vec![Filter::Any]),
        rows::policy_row(1, FORGERS, 1, Vec::new()),
        rows::policy_row(2, VICTIMS, 2, Vec::new()),
        rows::policy_row(3, VICTIMS, 3, Vec::new()),
    ];
    for of in 1..=2 {
        edits.push(rows::actor_row(of, false));
        edits.push(rows::client_token_row(of));
    }
    world.commit(edits);
    world.set_name("db.corp.example", &["172.16.1.1"]);
    world.start_all();
    world.run_ms(START_MS);
    world
}

/// Both have their tunnels, and nothing but forgeries is under way.
fn quiet(seed: u64, is_traced: bool) -> World {
    let mut world = world(seed, is_traced);
    let own = application(&mut world, FORGER, 1);
    let others = application(&mut world, VICTIM, 2);
    world.run_ms(3_000);
    for id in [own, others] {
        assert!(!world.log(id).answered.is_empty(), "nothing flows");
    }
    world.end_applications();
    world.run_ms(EFFECT_MS);
    world
}

/// A forged packet: its source, its destination, its service, and the reason for which it is
/// dropped.
struct Forgery {
    source: IpAddr,
    to: IpAddr,
    service: Service,
    reason: DropReason,
}

fn forgeries(world: &World) -> Vec<Forgery> {
    use DropReason::{ForgedSource, NoGrant, NotForwarded, Port, Protocol};
    let own = world.tunnel_address(FORGER).expect("it was welcomed");
    let victims = world.tunnel_address(VICTIM).expect("it was welcomed");
    let gateway = world.config().gateway_of(0).expect("it enrolled").ipv4;
    let v4 = |a, b, c, d| IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    let web = Service::Tcp(80);
    let table = [
        // A source that is not its own, wherever it goes.
        (victims, v4(10, 1, 9, 3), web, ForgedSource),
        (victims, v4(10, 1, 2, 3), web, ForgedSource),
        (gateway.into(), v4(10, 1, 2, 3), web, ForgedSource),
        (v4(10, 1, 2, 3), v4(10, 1, 2, 4), web, ForgedSource),
        (v4(203, 0, 113, 9), v4(10, 1, 2, 3), web, ForgedSource),
        (v4(127, 0, 0, 1), v4(10, 1, 2, 3), web, ForgedSource),
        // Resources of others, of nobody, and what is no resource.
        (own, v4(10, 1, 9, 3), web, NoGrant),
        (own, v4(10, 1, 3, 1), web, NoGrant),
        (own, v4(100, 96, 0, 1), web, NoGrant),
        (own, victims, web, NoGrant),
        (own, gateway.into(), web, NoGrant),
        (own, v4(8, 8, 8, 8), Service::Udp(53), NoGrant),
        // Its own resource by other ways than granted.
        (own, v4(10, 1, 2, 3), Service::Tcp(22), Port),
        (own, v4(10, 1, 2, 3), Service::Udp(80), Protocol),
        (own, v4(10, 1, 2, 3), Service::Icmp, Protocol),
        // Nothing is forwarded to these addresses.
        (own, v4(127, 0, 0, 1), web, NotForwarded),
        (own, v4(169, 254, 169, 254), web, NotForwarded),
        (own, v4(224, 0, 0, 1), web, NotForwarded),
        (own, v4(255, 255, 255, 255), web, NotForwarded),
    ];
    let forgeries = table
        .into_iter()
        .map(|(source, to, service, reason)| Forgery {
            source,
            to,
            service,
            reason,
        });
    forgeries.collect()
}

/// The packets that were dropped since.
fn dropped_since(world: &World, before: &Tally) -> Vec<(DropReason, u64)> {
    let dropped = world.tally().dropped.iter().map(|(reason, count)| {
        let known = before.dropped.get(reason).copied().unwrap_or(0);
        (*reason, count - known)
    });
    dropped.filter(|(_, count)| *count > 0).collect()
}

fn forged_packets(seed: u64, is_traced: bool) -> Tally {
    let mut world = quiet(seed, is_traced);
    for forgery in forgeries(&world) {
        let Forgery {
            source,
            to,
            service,
            reason,
        } = forgery;
        let before = world.tally().clone();
        world.forge_packet(FORGER, source, to, service);
        world.run_ms(EFFECT_MS);
        let what = format!("{service:?} from {source} to {to}");
        assert_eq!(dropped_since(&world, &before), [(reason, 1)], "{what}");
        assert_eq!(world.tally().delivered, before.delivered, "{what}");
    }
    // Nor does a resource begin anything with a client.
    for client in [FORGER, VICTIM] {
        let before = world.tally().clone();
        world.intrude(0, client);
        assert_eq!(dropped_since(&world, &before), [(DropReason::NotAFlow, 1)]);
    }
    world.tally().clone()
}

#[test]
fn every_forged_packet_is_dropped_for_its_own_reason() {
    seeds::run(20, forged_packets);
}

/// Messages by which a client tries to get another client's access.
fn lies(world: &World) -> Vec<String> {
    let row = world.config().client_of(VICTIM).expect("it enrolled");
    let grants = world.config().grants();
    let foreign = grants.values().find(|grant| grant.client == row.id);
    let gateways = [0, 1].map(|number| world.config().gateway_of(number).map(|row| row.id));
    let name = |name: &str, ipv4: Ipv4Addr| WantedName {
        name: name.to_owned(),
        ipv4,
        ipv6: Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, 0, 1),
    };
    let for_names = Ipv4Addr::new(100, 96, 0, 1);
    let ask = |request: u64, on, names, avoid| FromClient::RequestAccess {
        request: (1_u64 << 50) + request,
        resource: resource(on),
        names,
        avoid,
    };
    let messages = [
        // Resources of others, with and without names, and one that does not exist.
        ask(1, 2, Vec::new(), Vec::new()),
        ask(2, 3, vec![name("db.corp.example", for_names)], Vec::new()),
        ask(3, 99, Vec::new(), Vec::new()),
        // Its own with names, which it has none of; one of them in front of the victim's resource.
        ask(4, 1, vec![name("db.corp.example", for_names)], Vec::new()),
        ask(
            5,
            1,
            vec![name("evil.example", Ipv4Addr::new(10, 1, 9, 3))],
            Vec::new(),
        ),
        // The gateways of the site are to be avoided, so that the other site's might be taken.
        ask(6, 2, Vec::new(), gateways.into_iter().flatten().collect()),
        // Grants of others, and of nobody.
        FromClient::ReleaseAccess {
            grant: foreign.expect("the victim has access").id,
        },
        FromClient::ReleaseAccess {
            grant: GrantId::from_bytes([9; 16]),
        },
    ];
    let texts = messages.iter().map(encode);
    let odd = [
        r#"{"type":"give_me_everything","resource":"res_1"}"#,
        r#"{"type":"grant_accepted","grant":"grt_00000000000000000000000000","names":[]}"#,
    ];
    texts.chain(odd.map(str::to_owned)).collect()
}

fn forged_messages(seed: u64, is_traced: bool) -> Tally {
    let mut world = world(seed, is_traced);
    let others = application(&mut world, VICTIM, 2);
    let own = application(&mut world, FORGER, 1);
    world.run_ms(3_000);
    let from_ms = world.now_ms();
    let before = world.config().grants();
    for lie in lies(&world) {
        world.lie(FORGER, lie.clone());
        world.run_ms(EFFECT_MS);
        assert_eq!(world.config().grants(), before, "{lie}");
    }
    for id in [own, others] {
        let gap_ms = longest_gap_ms(world.log(id), from_ms, world.now_ms());
        assert!(gap_ms <= TRIP_MS, "{id:?} heard nothing for {gap_ms} ms");
    }
    world.tally().clone()
}

#[test]
fn what_a_client_says_gets_it_no_grant_of_others_and_takes_none_from_them() {
    seeds::run(20, forged_messages);
}

fn forged_handshakes(seed: u64, is_traced: bool) -> Tally {
    let mut world = world(seed, is_traced);
    // Nobody has a grant yet: no gateway knows the forger.
    let before = world.tally().handshakes;
    for gateway in [0, 1] {
        world.forge_handshake(FORGER, gateway, Cipher::Aes256Gcm, [0; 32]);
    }
    world.run_ms(EFFECT_MS);
    assert_eq!(world.tally().handshakes, before, "a stranger got a session");
    assert_eq!(world.tally().mismatches, 0);
    // Now one does, by another secret than the forger's.
    let own = world.add_application(FORGER, host(1), Service::Tcp(80), 100);
    world.run_ms(3_000);
    let before = world.tally().clone();
    for gateway in [0, 1] {
        world.forge_handshake(FORGER, gateway, Cipher::Aes256Gcm, [0; 32]);
    }
    world.run_ms(EFFECT_MS);
    assert_eq!(
        world.tally().handshakes,
        before.handshakes,
        "a wrong secret got a session"
    );
    assert_eq!(
        world.tally().mismatches,
        1,
        "the gateway that knows it refuses it"
    );
    let gap_ms = longest_gap_ms(world.log(own), world.now_ms() - 2_000, world.now_ms());
    assert!(gap_ms <= TRIP_MS, "the tunnel broke for {gap_ms} ms");
    world.tally().clone()
}

#[test]
fn a_handshake_without_a_grant_or_with_another_secret_is_not_answered() {
    seeds::run(20, forged_handshakes);
}
