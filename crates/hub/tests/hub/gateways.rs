//! The choice of a gateway for a client, and the loss of a gateway.

use crate::world::{Manner, SITE, World, client, gateway};
use culvert_hub::limits;
use culvert_store::MachineId;
use culvert_wire::messages::{FromGateway, GatewayLoad, ReasonCode, ToClient, ToGateway};

/// Three gateways of one site, all connected.
fn three(clients: u16) -> World {
    let mut world = World::simple();
    world.set_gateway(2, SITE);
    world.set_gateway(3, SITE);
    for number in 1..=3 {
        world.join_gateway(number);
    }
    for number in 1..=clients {
        world.set_client(number, 1);
        world.join_client(number);
    }
    world
}

fn load(permille: u16, clients: u32) -> FromGateway {
    FromGateway::Load(GatewayLoad {
        clients,
        flows: 0,
        rate_bytes_per_s: 0,
        processor_permille: permille,
    })
}

#[test]
fn clients_that_come_at_once_are_spread_over_idle_gateways() {
    let mut world = three(30);
    for number in 1..=30 {
        world.ask(number, 1);
    }
    assert_eq!([1, 2, 3].map(|number| world.holds(number)), [10, 10, 10]);
}

#[test]
fn the_busier_gateway_gets_fewer_clients_in_proportion() {
    let mut world = three(30);
    world.gateway_says(1, load(900, 10));
    world.gateway_says(2, load(100, 10));
    world.gateway_says(3, load(100, 10));
    for number in 1..=30 {
        world.ask(number, 1);
    }
    assert_eq!([1, 2, 3].map(|number| world.holds(number)), [0, 15, 15]);
}

#[test]
fn a_client_stays_with_the_gateway_that_serves_it() {
    let mut world = three(2);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    world.gateway_says(1, load(990, 1));
    world.ask(1, 2);
    assert_eq!(world.holds(1), 2);
    // Another client goes elsewhere.
    world.ask(2, 1);
    assert_eq!(world.holds(1), 2);
}

#[test]
fn a_gateway_that_is_lost_is_replaced_on_request() {
    let mut world = three(1);
    world.ask(1, 1);
    world.forget_messages();
    world.leave_gateway(1);
    assert!(matches!(
        world.to_clients[..],
        [(_, ToClient::GatewayLost { .. })]
    ));
    assert_eq!(world.grants_of(1), 0);
    world.ask(1, 1);
    assert_eq!((world.holds(2), world.grants_of(1)), (1, 1));
    // It comes back with a grant that nobody uses any more.
    world.join_gateway(1);
    assert_eq!(world.holds(1), 0);
}

#[test]
fn losing_a_gateway_concerns_only_those_whom_it_served() {
    let mut world = three(2);
    world.ask(1, 1);
    world.ask(2, 1);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    world.forget_messages();
    world.leave_gateway(1);
    let told: Vec<_> = world.to_clients.iter().map(|(id, _)| *id).collect();
    assert_eq!(told, [client(1)]);
}

#[test]
fn an_offer_to_a_gateway_that_goes_is_made_to_another() {
    let mut world = three(1);
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    world.leave_gateway(1);
    assert_eq!((world.holds(2), world.grants_of(1)), (1, 1));
}

#[test]
fn a_client_that_found_a_gateway_dead_gets_another() {
    let mut world = three(1);
    world.ask(1, 1);
    world.forget_messages();
    world.ask_for(1, 1, Vec::new(), vec![gateway(1)]);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    assert_eq!(
        world.grants_of(1),
        1,
        "the new one takes the old one's place"
    );
    world.forget_messages();
    world.ask_for(1, 1, Vec::new(), [1, 2, 3].map(gateway).to_vec());
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
}

#[test]
fn renewals_leave_a_draining_gateway_and_the_old_grant_runs_out() {
    let mut world = three(1);
    world.ask(1, 1);
    world.edit_gateway(1, |row| row.draining = true);
    assert!(matches!(
        world.to_gateways.last(),
        Some((_, ToGateway::Drain { on: true }))
    ));
    assert_eq!(
        (world.holds(1), world.grants_of(1)),
        (1, 1),
        "nothing is cut"
    );
    world.forget_messages();
    world.pass(2_400_000);
    world.ask(1, 1);
    assert_eq!(
        (world.holds(1), world.holds(2)),
        (1, 1),
        "flows on the old one end by themselves"
    );
    assert_eq!(world.revocations(), []);
    world.check();
    world.pass(1_200_000);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    assert_eq!(world.grants_of(1), 1);
    // A leftover is still cut when access ends.
    world.remove(crate::world::policy(1));
    assert_eq!((world.holds(1), world.holds(2)), (0, 0));
}

#[test]
fn a_resource_on_a_gateways_own_machine_is_asked_of_another_and_explained() {
    let mut world = three(1);
    world.manner(1, Manner::Refuse(ReasonCode::HostAddress));
    world.ask(1, 1);
    assert_eq!(
        (world.holds(1), world.grants_of(1)),
        (0, 1),
        "another serves"
    );

    let mut world = World::connected();
    world.manner(1, Manner::Refuse(ReasonCode::HostAddress));
    world.ask(1, 1);
    let told = world.to_clients.iter().find_map(|(_, told)| match told {
        ToClient::AccessDenied { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    let told = told.unwrap();
    assert_eq!(told.code, ReasonCode::GatewayRefused);
    assert!(told.text.contains("--host-access"), "{}", told.text);
    let explained = world
        .hub
        .explain(client(1), crate::world::resource(1), world.now);
    let refused = explained.unwrap().refused_at_host;
    assert_eq!(refused.map(|(at, _)| at), Some(world.now));
    world.manner(1, Manner::Accept);
    world.ask(1, 1);
    let explained = world
        .hub
        .explain(client(1), crate::world::resource(1), world.now);
    assert_eq!(explained.unwrap().refused_at_host, None, "it serves it now");
}

#[test]
fn a_grant_names_client_and_resource_for_the_gateways_log_and_welcome_the_site() {
    let mut world = World::connected();
    world.ask(1, 1);
    let labels = world.to_gateways.iter().find_map(|(_, told)| match told {
        ToGateway::Grant { labels, .. } => Some(labels.clone()),
        _ => None,
    });
    let labels = labels.unwrap();
    assert!(
        labels.client.is_some() && labels.resource.is_some(),
        "{labels:?}"
    );
}

/// A gateway with a client that uses a resource, which is told to drain at once.
fn drained_now(mut world: World) -> World {
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.edit_gateway(1, |row| row.draining = true);
    world.forget_messages();
    assert_eq!(world.hub.handle_drain_now(gateway(1), world.now), Some(1));
    world.drain();
    world
}

#[test]
fn a_gateway_that_is_drained_at_once_gives_up_a_grant_once_another_gateway_has_it() {
    let mut world = drained_now(three(1));
    assert!(
        matches!(
            world.to_clients[..],
            [(_, ToClient::GatewayDraining { .. })]
        ),
        "{:?}",
        world.to_clients
    );
    assert_eq!((world.holds(1), world.holds(2)), (1, 0), "nothing is cut");
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    let told: Vec<_> = world.to_clients.iter().map(|(_, told)| told).collect();
    assert!(
        matches!(
            told[..],
            [
                ToClient::AccessGranted { .. },
                ToClient::AccessRevoked { .. }
            ]
        ),
        "{told:?}"
    );
    world.check();
}

#[test]
fn grants_that_nobody_moves_from_a_gateway_that_is_drained_at_once_end_after_seconds() {
    let mut world = drained_now(three(1));
    world.forget_messages();
    world.pass(limits::DRAIN_NOW_MS);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert!(matches!(
        world.to_clients[..],
        [(_, ToClient::GatewayLost { .. })]
    ));
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    world.check();
}

#[test]
fn a_drain_that_is_ended_in_time_ends_no_grant() {
    let mut world = drained_now(three(1));
    world.edit_gateway(1, |row| row.draining = false);
    world.pass(limits::DRAIN_NOW_MS);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1, "it is given again");
}

#[test]
fn the_only_gateway_of_its_site_is_indispensable_while_it_has_clients() {
    let mut world = World::connected();
    assert!(world.hub.is_dispensable(gateway(1)), "it has none");
    world.ask(1, 1);
    assert!(!world.hub.is_dispensable(gateway(1)));
    world.set_gateway(2, SITE);
    assert!(!world.hub.is_dispensable(gateway(1)), "not connected");
    world.join_gateway(2);
    assert!(world.hub.is_dispensable(gateway(1)));
    world.edit_gateway(2, |row| row.draining = true);
    assert!(!world.hub.is_dispensable(gateway(1)), "it drains as well");
    // With `--force` the access ends.
    let mut world = drained_now(World::connected());
    world.pass(limits::DRAIN_NOW_MS);
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    assert_eq!(world.holds(1), 0);
}

#[test]
fn a_gateway_that_does_not_drain_is_not_drained_at_once() {
    let mut world = three(1);
    world.ask(1, 1);
    assert_eq!(world.hub.handle_drain_now(gateway(1), world.now), None);
    world.pass(limits::DRAIN_NOW_MS);
    assert_eq!(world.holds(1), 1);
}

#[test]
fn a_renewal_stays_with_the_gateway_in_use_however_busy_it_is() {
    let mut world = three(1);
    world.ask(1, 1);
    world.gateway_says(1, load(900, 1));
    world.gateway_says(2, load(10, 1));
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    // The second gateway serves the client as well.
    world.ask_for(1, 2, Vec::new(), vec![gateway(1), gateway(3)]);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    world.pass(2_400_000);
    world.ask(1, 1);
    world.ask(1, 2);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
}

#[test]
fn a_renewal_that_another_gateway_takes_over_ends_the_old_grant_for_the_client_too() {
    let mut world = three(1);
    world.ask(1, 1);
    // The gateway does not answer the renewal, but it does not drain either: nothing flows through
    // it any more.
    world.manner(1, Manner::Silent);
    world.forget_messages();
    world.ask(1, 1);
    world.pass(limits::GRANT_ANSWER_MS);
    let told: Vec<_> = world
        .to_clients
        .iter()
        .map(|(_, message)| message)
        .collect();
    assert!(
        matches!(
            told[..],
            [
                ToClient::AccessGranted { .. },
                ToClient::AccessRevoked { .. }
            ]
        ),
        "{told:?}"
    );
    assert_eq!((world.holds(1), world.holds(2)), (0, 1));
    assert_eq!(world.grants_of(1), 1);
}

#[test]
fn a_leftover_is_cut_with_the_rest() {
    let mut world = three(1);
    world.ask(1, 1);
    world.gateway_says(1, FromGateway::Draining { on: true });
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.holds(2)), (1, 1));
    world.remove_member(1, 1);
    assert_eq!((world.holds(1), world.holds(2)), (0, 0));
}

#[test]
fn a_draining_gateway_gets_no_new_clients_and_renews_only_where_it_is_alone() {
    let mut world = World::connected();
    world.set_client(2, 1);
    world.join_client(2);
    world.ask(1, 1);
    world.gateway_says(1, FromGateway::Draining { on: true });
    world.forget_messages();
    world.ask(2, 1);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.gateway_says(1, FromGateway::Draining { on: false });
    world.ask(2, 1);
    assert_eq!(world.holds(1), 2);
}

#[test]
fn new_addresses_of_a_gateway_reach_those_whom_it_serves() {
    let mut world = three(2);
    world.ask(1, 1);
    world.ask(2, 1);
    world.forget_messages();
    let candidates = vec!["192.0.2.9:51820".parse().unwrap(); 100];
    world.gateway_says(1, FromGateway::CandidatesChanged { candidates });
    let [(told, ToClient::GatewayMoved { candidates, .. })] = &world.to_clients[..] else {
        panic!("{:?}", world.to_clients);
    };
    assert_eq!(*told, client(1));
    assert_eq!(candidates.len(), limits::MAX_CANDIDATES);
}

#[test]
fn a_gateway_that_comes_again_from_elsewhere_is_found_there_by_those_whom_it_serves() {
    let mut world = three(1);
    world.ask(1, 1);
    world.forget_messages();
    world.join_gateway(1);
    let is_move = |said: &ToClient| matches!(said, ToClient::GatewayMoved { .. });
    let moves = |world: &World| {
        let said = world.to_clients.iter();
        said.filter(|(_, said)| is_move(said)).count()
    };
    assert_eq!(moves(&world), 0, "it is where it was");

    let candidates = vec!["192.0.2.9:51820".parse().unwrap()];
    world.gateway_says(1, FromGateway::CandidatesChanged { candidates });
    world.forget_messages();
    world.join_gateway(1);
    assert_eq!(moves(&world), 1);
    assert_eq!(world.holds(1), 1, "its grants stand");
}

#[test]
fn a_grant_that_a_gateway_gives_up_is_taken_from_the_client() {
    let mut world = World::connected();
    world.ask(1, 1);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    world.forget_messages();
    let reason = culvert_wire::messages::Reason {
        code: ReasonCode::BadGrant,
        text: "clock".to_owned(),
    };
    world.gateway_says(1, FromGateway::GrantRefused { grant, reason });
    assert_eq!(world.revocations(), [ReasonCode::GatewayRefused]);
    assert_eq!(world.hub.status().grants, 0);
}

#[test]
fn what_gateways_say_of_themselves_is_shown() {
    let mut world = World::connected();
    world.ask(1, 1);
    world.gateway_says(1, load(420, 1));
    let shown: Vec<_> = world.hub.gateways().collect();
    assert_eq!(shown.len(), 1);
    assert_eq!((shown[0].clients, shown[0].grants), (1, 1));
    assert_eq!(shown[0].load.processor_permille, 420);
    let shown: Vec<_> = world.hub.clients().collect();
    assert_eq!((shown[0].grants, shown[0].resources), (1, 1));
}

#[test]
fn the_grants_of_a_machine_are_shown_up_to_a_number() {
    let mut world = World::connected();
    world.set_client(2, 1);
    world.join_client(2);
    world.ask(1, 1);
    world.ask(2, 1);
    let of_client = world.hub.grants_of(MachineId::Client(client(1)), 9);
    assert_eq!(of_client.len(), 1);
    let grant = &of_client[0];
    assert_eq!((grant.client, grant.gateway), (client(1), gateway(1)));
    let of_gateway = |limit| world.hub.grants_of(MachineId::Gateway(gateway(1)), limit);
    let clients: Vec<_> = of_gateway(9).iter().map(|grant| grant.client).collect();
    assert_eq!(clients, [client(1), client(2)]);
    assert_eq!(of_gateway(1).len(), 1);
    assert!(
        world
            .hub
            .grants_of(MachineId::Client(client(3)), 9)
            .is_empty()
    );
}

#[test]
fn a_grant_that_the_gateway_has_not_taken_is_not_in_force() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    assert!(
        world
            .hub
            .grants_of(MachineId::Client(client(1)), 9)
            .is_empty()
    );
    assert!(
        world
            .hub
            .grants_of(MachineId::Gateway(gateway(1)), 9)
            .is_empty()
    );
}
