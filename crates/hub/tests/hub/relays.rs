//! Relays: who gets tokens for which, and when these count no more.

use crate::sim_relay::{relay, relay_token};
use crate::world::{World, client, gateway};
use culvert_hub::limits::{RELAY_RETURN_MS, RELAY_TOKEN_MS};
use culvert_hub::{PathView, SessionId};
use culvert_ids::{ClientId, RelayId};
use culvert_store::PathRule;
use culvert_wire::Timestamp;
use culvert_wire::messages::{
    FromClient, FromGateway, FromRelay, NatMapping, PathKind, ReasonCode, RelayAccess, RelayLoad,
    RelayReach, ToClient, ToGateway, ToRelay,
};
use std::net::SocketAddr;

const CLIENT_AT: &str = "198.51.100.7:51820";

/// A client, a gateway and relays of these numbers, all of which use relays and are connected.
fn connected(relays: u16) -> World {
    let mut world = World::simple();
    world.use_relays(1, 1);
    for number in 1..=relays {
        world.set_relay(number);
        world.join_relay(number);
    }
    world.join_gateway(1);
    world.join_client(1);
    world
}

/// The same, and the client has access.
fn granted(relays: u16) -> World {
    let mut world = connected(relays);
    world.ask(1, 1);
    world
}

fn session(world: &World) -> SessionId {
    world.clients[&client(1)].session.unwrap()
}

fn candidates() -> Vec<SocketAddr> {
    vec![CLIENT_AT.parse().unwrap()]
}

fn ids(relays: &[RelayAccess]) -> Vec<RelayId> {
    relays.iter().map(|access| access.place.relay).collect()
}

/// The relays that the client was told last, by an answer or by themselves.
fn of_client(world: &World) -> Vec<RelayAccess> {
    let told = world.to_clients.iter().rev();
    let relays = told.filter_map(|(_, message)| match message {
        ToClient::AccessGranted { relays, .. } | ToClient::RelaysSet { relays, .. } => {
            Some(relays.clone())
        }
        _ => None,
    });
    { relays }.next().unwrap_or_default()
}

/// The relays that the gateway was told last.
fn of_gateway(world: &World) -> Vec<RelayAccess> {
    let told = world.to_gateways.iter().rev();
    let relays = told.filter_map(|(_, message)| match message {
        ToGateway::RelaysSet { relays } => Some(relays.clone()),
        _ => None,
    });
    { relays }.next().unwrap_or_default()
}

/// The addresses that the client was told last.
fn addresses(world: &World) -> Vec<SocketAddr> {
    let told = world.to_clients.iter().rev();
    let candidates = told.filter_map(|(_, message)| match message {
        ToClient::AccessGranted { candidates, .. } | ToClient::GatewayMoved { candidates, .. } => {
            Some(candidates.clone())
        }
        _ => None,
    });
    { candidates }.next().unwrap()
}

/// The addresses of clients that the gateway was told, in their order.
fn told_candidates(world: &World) -> Vec<Vec<SocketAddr>> {
    let told = world.to_gateways.iter();
    let candidates = told.filter_map(|(_, message)| match message {
        ToGateway::ClientCandidates { candidates, .. } => Some(candidates.clone()),
        _ => None,
    });
    candidates.collect()
}

/// The clients of gateway 1 that the relay was told to refuse, and the gateway itself as none.
fn withdrawn(world: &World, number: u16) -> Vec<Option<ClientId>> {
    let heard = world.relays[&relay(number)].heard.iter();
    let withdrawn = heard.filter_map(|message| match message {
        ToRelay::Withdraw {
            gateway: of,
            client,
            ..
        } if *of == gateway(1) => Some(*client),
        _ => None,
    });
    withdrawn.collect()
}

#[test]
fn both_ends_get_tokens_for_the_same_port_and_the_relay_reads_them() {
    let world = granted(1);
    let (of_client, of_gateway) = (of_client(&world), of_gateway(&world));
    assert_eq!((of_client.len(), of_gateway.len()), (1, 1));
    assert_eq!(of_client[0].port, of_gateway[0].port);
    assert_ne!(of_client[0].key, of_gateway[0].key);
    assert!(of_client[0].token.starts_with("v4.local."));
    let accepted = world.accepted();
    let ends: Vec<_> = accepted.iter().map(|claims| claims.client).collect();
    assert!(
        ends.contains(&None) && ends.contains(&Some(client(1))),
        "{ends:?}"
    );
    let keys: Vec<_> = accepted.iter().map(|claims| claims.public_key).collect();
    assert_ne!(keys[0], keys[1]);
    world.check_relays();
}

#[test]
fn a_client_that_comes_back_is_told_of_the_relays_of_the_gateways_that_it_uses() {
    // The portal and its relay start anew, so earlier tokens count no more.
    for client_comes in 0..3 {
        let mut world = granted(1);
        world.restart();
        world.forget_messages();
        for step in 0..3 {
            if step == client_comes {
                world.join_client(1);
            }
            match step {
                0 => drop(world.join_relay(1)),
                1 => drop(world.join_gateway(1)),
                _ => {}
            }
        }
        assert_eq!(ids(&of_client(&world)), [relay(1)], "{client_comes}");
        world.check_relays();
    }
}

#[test]
fn machines_of_an_earlier_version_are_told_nothing_of_relays() {
    let mut world = World::simple();
    world.set_relay(1);
    world.join_relay(1);
    world.join_gateway(1);
    world.join_client(1);
    world.ask(1, 1);
    let session = session(&world);
    let candidates = candidates();
    world.client_says(session, FromClient::CandidatesChanged { candidates });
    assert_eq!((of_client(&world), of_gateway(&world)), (vec![], vec![]));
    assert_eq!(told_candidates(&world), Vec::<Vec<_>>::new());
    assert_eq!(world.told.len(), 0);
    assert!(!addresses(&world).is_empty());
}

#[test]
fn a_gateway_hears_where_a_client_is_before_its_grant_and_after_each_change() {
    let mut world = connected(1);
    let session = session(&world);
    let candidates = candidates();
    let said = FromClient::CandidatesChanged {
        candidates: candidates.clone(),
    };
    world.client_says(session, said.clone());
    assert_eq!(told_candidates(&world), Vec::<Vec<_>>::new());
    world.ask(1, 1);
    let order = world
        .to_gateways
        .iter()
        .filter_map(|(_, message)| match message {
            ToGateway::ClientCandidates { .. } => Some("candidates"),
            ToGateway::Grant { .. } => Some("grant"),
            _ => None,
        });
    assert_eq!(order.collect::<Vec<_>>(), ["candidates", "grant"]);
    // The same again is no news.
    world.client_says(session, said);
    let candidates = Vec::new();
    world.client_says(session, FromClient::CandidatesChanged { candidates });
    assert_eq!(told_candidates(&world), [self::candidates(), Vec::new()]);
}

#[test]
fn the_end_of_the_last_grant_withdraws_the_clients_tokens_and_a_new_one_has_others() {
    let mut world = granted(1);
    world.set_network(2, crate::world::SITE);
    world.set_policy(2, 1, 2, Vec::new());
    world.ask(1, 2);
    world.remove(crate::world::policy(1));
    assert_eq!(withdrawn(&world, 1), []);
    world.remove(crate::world::policy(2));
    assert_eq!(withdrawn(&world, 1), [Some(client(1))]);
    let of_clients = world
        .accepted()
        .into_iter()
        .filter(|it| it.client.is_some());
    assert_eq!(of_clients.count(), 0);
    // Within the same millisecond.
    world.set_policy(2, 1, 2, Vec::new());
    world.ask(1, 2);
    let of_clients = world
        .accepted()
        .into_iter()
        .filter(|it| it.client.is_some());
    assert_eq!(of_clients.count(), 1);
    world.check();
}

#[test]
fn a_relay_that_was_away_hears_what_was_withdrawn() {
    let mut world = granted(1);
    world.leave_relay(1);
    world.remove(crate::world::policy(1));
    assert_eq!(withdrawn(&world, 1), []);
    world.join_relay(1);
    assert_eq!(withdrawn(&world, 1), [Some(client(1))]);
    world.check();
}

/// Access is taken away, and the portal's clock is set back by ten minutes after that.
fn set_back() -> World {
    let mut world = granted(1);
    world.remove(crate::world::policy(1));
    world.now = Timestamp::from_unix_ms(world.now.unix_ms() - 600_000);
    world
}

/// The ends of a kind that the relay lets in now.
fn let_in(world: &World, is_client: bool) -> usize {
    let accepted = world.accepted().into_iter();
    accepted
        .filter(|it| it.client.is_some() == is_client)
        .count()
}

#[test]
fn tokens_of_a_portal_that_restarts_with_an_earlier_clock_count_after_a_withdrawal() {
    let mut world = set_back();
    world.restart();
    world.join_gateway(1);
    world.join_client(1);
    world.join_relay(1);
    assert_eq!(let_in(&world, true), 0);
    world.set_policy(1, 1, 1, Vec::new());
    world.ask(1, 1);
    assert_eq!((let_in(&world, false), let_in(&world, true)), (1, 1));
    world.check();
}

#[test]
fn tokens_of_a_clock_that_was_set_back_are_not_dated_ahead_once_the_relay_hears_that_clock() {
    let mut world = set_back();
    world.leave_relay(1);
    world.join_relay(1);
    assert_eq!((let_in(&world, false), let_in(&world, true)), (1, 0));
    world.check();
}

#[test]
fn relayed_paths_alone_hide_the_addresses_of_both_ends() {
    let mut world = granted(1);
    let session = session(&world);
    let candidates = candidates();
    world.client_says(session, FromClient::CandidatesChanged { candidates });
    assert!(!addresses(&world).is_empty());
    world.set_paths(PathRule::Relayed);
    assert_eq!(addresses(&world), []);
    assert_eq!(told_candidates(&world).last(), Some(&Vec::new()));
    let candidates = vec!["203.0.113.9:1".parse().unwrap()];
    world.gateway_says(1, FromGateway::CandidatesChanged { candidates });
    world.ask(1, 1);
    assert_eq!(addresses(&world), []);
    assert_eq!(of_client(&world).len(), 1);
    world.set_paths(PathRule::Any);
    assert_eq!(addresses(&world), ["203.0.113.9:1".parse().unwrap()]);
    assert_eq!(told_candidates(&world).last(), Some(&self::candidates()));
}

#[test]
fn relayed_paths_alone_need_a_relay_and_the_explanation_says_so() {
    let mut world = connected(0);
    world.set_relay(1);
    world.set_paths(PathRule::Relayed);
    world.ask(1, 1);
    let (_, last) = world.to_clients.last().unwrap();
    let ToClient::AccessDenied { reason, .. } = last else {
        panic!("{last:?}");
    };
    assert_eq!(reason.code, ReasonCode::NoGateway);
    assert!(reason.text.contains("relay"), "{}", reason.text);
    let explained = world
        .hub
        .explain(client(1), crate::world::resource(1), world.now)
        .unwrap();
    let why = explained.gateway.unwrap_err();
    assert!(why.contains("relayed paths alone"), "{why}");
    world.join_relay(1);
    world.ask(1, 1);
    assert_eq!(of_client(&world).len(), 1);
}

#[test]
fn direct_paths_alone_take_the_relays_away() {
    let mut world = granted(2);
    assert_eq!(of_client(&world).len(), 2);
    world.set_paths(PathRule::Direct);
    assert_eq!((of_client(&world), of_gateway(&world)), (vec![], vec![]));
    assert_eq!(withdrawn(&world, 1), [None]);
    let places = world.to_clients.iter().rev().find_map(|(_, it)| match it {
        ToClient::RelayPlacesSet { relays } => Some(relays.len()),
        _ => None,
    });
    assert_eq!(places, Some(0));
    world.check();
    world.set_paths(PathRule::Any);
    assert_eq!(of_client(&world).len(), 2);
    world.check();
}

#[test]
fn a_site_uses_the_relays_that_it_names_and_no_others() {
    let mut world = granted(3);
    world.set_site_relays(Some(vec![3]));
    assert_eq!(ids(&of_gateway(&world)), [relay(3)]);
    assert_eq!(ids(&of_client(&world)), [relay(3)]);
    world.check();
    world.set_site_relays(Some(Vec::new()));
    assert_eq!(of_client(&world), []);
    world.check();
    world.set_site_relays(None);
    assert_eq!(of_client(&world).len(), 2);
    world.check();
}

#[test]
fn a_gateway_has_two_relays_and_a_client_the_closer_one_first() {
    let mut world = connected(3);
    let given = ids(&of_gateway(&world));
    assert_eq!(given.len(), 2);
    let far = given[0];
    let reached = given.iter().map(|relay| RelayReach {
        relay: *relay,
        round_trip_us: if *relay == far { 90_000 } else { 1_000 },
        registered: false,
        tls: false,
    });
    let relays: Vec<_> = reached.collect();
    let session = session(&world);
    world.client_says(session, FromClient::RelaysReached { relays });
    world.ask(1, 1);
    assert_eq!(ids(&of_client(&world)), [given[1], far]);
}

#[test]
fn a_gateway_leaves_a_relay_that_is_much_farther_than_another_at_the_next_renewal() {
    let mut world = connected(3);
    let given = ids(&of_gateway(&world));
    let relays: Vec<_> = given
        .iter()
        .map(|relay| RelayReach {
            relay: *relay,
            round_trip_us: if *relay == given[0] { 400_000 } else { 1_000 },
            registered: true,
            tls: false,
        })
        .collect();
    world.gateway_says(1, FromGateway::RelaysReached { relays });
    assert_eq!(ids(&of_gateway(&world)), given);
    world.pass(RELAY_TOKEN_MS / 2);
    let after = ids(&of_gateway(&world));
    assert!(
        !after.contains(&given[0]) && after.contains(&given[1]),
        "{after:?}"
    );
}

#[test]
fn tokens_are_renewed_at_half_of_their_lifetime_for_both_ends() {
    let mut world = granted(1);
    let (client_first, gateway_first) = (of_client(&world), of_gateway(&world));
    world.pass(RELAY_TOKEN_MS / 2 - 1);
    assert_eq!(of_gateway(&world), gateway_first);
    assert_eq!(of_client(&world), client_first);
    world.pass(1);
    let later =
        |access: &RelayAccess, by: u64| Timestamp::from_unix_ms(access.expires.unix_ms() + by);
    let (client_next, gateway_next) = (of_client(&world), of_gateway(&world));
    assert_eq!(
        client_next[0].expires,
        later(&client_first[0], RELAY_TOKEN_MS / 2)
    );
    assert_eq!(
        gateway_next[0].expires,
        later(&gateway_first[0], RELAY_TOKEN_MS / 2)
    );
    assert_eq!(client_next[0].port, client_first[0].port);
    assert_ne!(client_next[0].token, client_first[0].token);
}

#[test]
fn a_drained_relay_is_left_for_another_and_kept_where_there_is_none() {
    let mut world = granted(1);
    world.edit_relay(1, |row| row.draining = true);
    assert!(matches!(
        world.relays[&relay(1)].heard.last(),
        Some(ToRelay::Drain { on: true })
    ));
    assert_eq!(ids(&of_client(&world)), [relay(1)]);
    world.set_relay(2);
    world.join_relay(2);
    assert_eq!(ids(&of_client(&world)), [relay(2)]);
    assert_eq!(ids(&of_gateway(&world)), [relay(2)]);
    // Its ends go on with it.
    assert_eq!(withdrawn(&world, 1), []);
    world.edit_relay(1, |row| row.draining = false);
    assert_eq!(of_client(&world).len(), 2);
    world.relay_says(1, FromRelay::Draining { on: true });
    assert_eq!(ids(&of_client(&world)), [relay(2)]);
}

#[test]
fn a_relay_whose_session_ends_is_kept_for_a_while_and_then_left() {
    let mut world = granted(2);
    let both = ids(&of_client(&world));
    world.leave_relay(1);
    assert_eq!(ids(&of_client(&world)), both);
    world.pass(RELAY_RETURN_MS - 1);
    world.join_relay(1);
    world.pass(RELAY_RETURN_MS);
    assert_eq!(of_client(&world).len(), 2);
    world.leave_relay(1);
    world.pass(RELAY_RETURN_MS);
    assert_eq!(ids(&of_client(&world)), [relay(2)]);
    assert_eq!(ids(&of_gateway(&world)), [relay(2)]);
}

#[test]
fn a_relay_that_is_revoked_is_cut_off_and_left_at_once() {
    let mut world = granted(2);
    world.edit_relay(1, |row| row.revoked = Some(Timestamp::from_unix_ms(1)));
    assert!(world.relays[&relay(1)].session.is_none());
    assert!(matches!(
        world.relays[&relay(1)].heard.last(),
        Some(ToRelay::Refused { reason, retry_after_s: None }) if reason.code == ReasonCode::Revoked
    ));
    assert_eq!(ids(&of_client(&world)), [relay(2)]);
    // Nor is it let in again.
    world.join_relay(1);
    assert!(world.relays[&relay(1)].session.is_none());
    assert_eq!(ids(&of_client(&world)), [relay(2)]);
}

#[test]
fn a_relay_whose_token_is_revoked_is_cut_off() {
    let mut world = granted(1);
    let now = world.now;
    world.edit_token(relay_token(), |row| row.revoked = Some(now));
    assert!(world.relays[&relay(1)].session.is_none());
    world.join_relay(1);
    assert!(world.relays[&relay(1)].session.is_none());
}

#[test]
fn another_portal_that_leads_keeps_the_ports_that_a_relay_says() {
    let mut world = granted(1);
    world.set_gateway(2, crate::world::SITE);
    let port = of_gateway(&world)[0].port;
    world.restart();
    // The first gateway that comes gets no port that another one has.
    world.join_relay(1);
    world.use_relays(0, 2);
    world.join_gateway(2);
    let other = of_gateway(&world)[0].port;
    world.join_gateway(1);
    assert_eq!(of_gateway(&world)[0].port, port);
    assert_ne!(other, port);
    world.check();
}

#[test]
fn clients_hear_which_relays_there_are_with_their_welcome_and_with_each_change() {
    let mut world = connected(1);
    let first = world.to_clients.iter().find_map(|(_, it)| match it {
        ToClient::Welcome { relays, .. } => Some(relays.clone()),
        _ => None,
    });
    let first = first.unwrap();
    assert_eq!((first.len(), first[0].relay), (1, relay(1)));
    world.to_clients.clear();
    let addresses = vec!["192.0.2.77:3478".parse().unwrap()];
    let said = FromRelay::AddressesChanged {
        addresses: addresses.clone(),
    };
    world.relay_says(1, said.clone());
    world.relay_says(1, said);
    let told: Vec<_> = world
        .to_clients
        .iter()
        .filter_map(|(_, it)| match it {
            ToClient::RelayPlacesSet { relays } => Some(relays[0].addresses.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(of_gateway(&world)[0].place.addresses, addresses);
    assert_eq!(told, [addresses]);
}

#[test]
fn the_views_show_relays_their_load_and_the_path_of_a_client() {
    let mut world = granted(1);
    let load = RelayLoad {
        gateways: 1,
        clients: 1,
        rate_bytes_per_s: 7,
        processor_permille: 3,
    };
    world.relay_says(1, FromRelay::Load(load));
    let relays: Vec<_> = world.hub.relays().collect();
    assert_eq!(relays.len(), 1);
    assert_eq!(
        (relays[0].relay, relays[0].given, relays[0].load),
        (relay(1), 1, load)
    );
    assert_eq!(world.hub.status().relays, 1);
    let gateways: Vec<_> = world.hub.gateways().collect();
    assert_eq!(gateways[0].relays, [relay(1)]);
    let session = session(&world);
    let told = |gateway| FromClient::PathChanged {
        gateway,
        path: PathKind::Relayed,
        relay: Some(relay(1)),
        round_trip_us: Some(900),
    };
    world.client_says(session, told(gateway(1)));
    // Of a gateway through which it has nothing, it has no path.
    world.client_says(session, told(gateway(9)));
    let clients: Vec<_> = world.hub.clients().collect();
    let path = PathView {
        gateway: gateway(1),
        path: PathKind::Relayed,
        relay: Some(relay(1)),
        round_trip_us: Some(900),
        why: Some("no direct path answers".to_owned()),
        since: world.now,
    };
    assert_eq!(clients[0].paths, [path]);
    // Both ends tell of their NATs.
    let why = |world: &World| world.hub.clients().next().unwrap().paths[0].why.clone();
    let mapping = NatMapping::EndpointDependent;
    world.client_says(session, FromClient::NatFound { mapping });
    assert!(
        why(&world)
            .unwrap()
            .ends_with("the client's NAT is symmetric")
    );
    world.gateway_says(1, FromGateway::NatFound { mapping });
    assert!(why(&world).unwrap().ends_with("both NATs are symmetric"));
}
