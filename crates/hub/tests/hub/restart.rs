//! A portal that starts anew cuts nothing and forgets nothing that it should not.

use crate::world::{SITE, World, client, client_token, gateway, network, policy};
use culvert_hub::limits;
use culvert_ids::SiteId;
use culvert_store::{Entity, Token};
use culvert_wire::Timestamp;
use culvert_wire::messages::{ReasonCode, ToClient, ToGateway};
use culvert_wire::model::{Condition, Filter, WrittenPublicAddresses};

fn granted() -> World {
    let mut world = World::connected();
    world.ask(1, 1);
    world
}

#[test]
fn a_restart_cuts_nothing_whoever_comes_back_first() {
    for gateway_first in [true, false] {
        let mut world = granted();
        world.restart();
        world.forget_messages();
        world.pass(20_000);
        if gateway_first {
            world.join_gateway(1);
            world.join_client(1);
        } else {
            world.join_client(1);
            world.join_gateway(1);
        }
        assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
        assert_eq!(world.revocations(), []);
        world.check();
        // And the grant is renewed in place.
        world.forget_messages();
        world.ask(1, 1);
        assert!(matches!(
            world.to_gateways[..],
            [(
                _,
                ToGateway::Grant {
                    replaces: Some(_),
                    ..
                }
            )]
        ));
    }
}

#[test]
fn what_was_revoked_while_the_portal_was_down_ends_when_the_gateway_returns() {
    let mut world = granted();
    // The change is in the database, and the hub that ran did not see it.
    world.rows.remove(&policy(1).into());
    world.restart();
    assert!(world.saved.is_empty());
    world.join_gateway(1);
    world.join_client(1);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
}

#[test]
fn conditions_on_the_address_hold_over_a_restart() {
    let mut world = World::simple();
    let cidrs = vec!["203.0.113.0/24".to_owned()];
    world.set_policy(
        1,
        1,
        1,
        vec![Condition::PublicAddress(WrittenPublicAddresses { cidrs })],
    );
    world.clients.get_mut(&client(1)).unwrap().address = Some("203.0.113.9".parse().unwrap());
    world.join_gateway(1);
    world.join_client(1);
    world.ask(1, 1);
    world.restart();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
}

#[test]
fn a_gateway_that_does_not_return_is_lost() {
    let mut world = granted();
    world.restart();
    world.join_client(1);
    assert_eq!(world.grants_of(1), 1);
    world.forget_messages();
    world.pass(limits::GATEWAY_RETURN_MS);
    assert!(matches!(
        world.to_clients[..],
        [(_, ToClient::GatewayLost { .. })]
    ));
    assert!(world.saved.is_empty());
    // One that does return is not.
    let mut world = granted();
    world.restart();
    world.join_gateway(1);
    world.pass(limits::GATEWAY_RETURN_MS);
    assert_eq!(world.holds(1), 1);
}

#[test]
fn a_gateway_that_restarted_meanwhile_holds_nothing_and_the_client_hears_of_it() {
    let mut world = granted();
    world.restart();
    world.join_client(1);
    world.gateways.get_mut(&gateway(1)).unwrap().held.clear();
    world.forget_messages();
    world.join_gateway(1);
    assert_eq!(world.revocations(), [ReasonCode::GatewayRefused]);
    assert_eq!(world.grants_of(1), 0);
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
}

#[test]
fn filters_that_changed_meanwhile_reach_the_gateway_when_it_returns() {
    let mut world = granted();
    world.pass(120_000);
    let mut row = network(1, SITE, "10.0.1.0/24", vec![Filter::Icmp]);
    row.stamp.updated = world.now;
    world.rows.insert(row.id.into(), row.into());
    world.restart();
    world.forget_messages();
    world.join_gateway(1);
    assert!(matches!(world.to_gateways[0].1, ToGateway::Welcome { .. }));
    assert!(matches!(
        world.to_gateways[1].1,
        ToGateway::FiltersChanged { .. }
    ));
    world.check();
}

#[test]
fn a_token_revoked_after_a_restart_cuts_those_who_may_have_come_with_it() {
    let mut world = granted();
    world.restart();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    let at = Some(world.now);
    world.edit_token(client_token(1), |token| token.revoked = at);
    assert_eq!(world.holds(1), 0);
    world.check();
}

#[test]
fn a_token_that_is_good_for_nothing_any_more_after_a_restart_cuts_those_who_came_with_it() {
    type Edit = fn(&mut Token, Timestamp);
    let edits: [Edit; 2] = [
        |token, now| token.revoked = Some(now),
        |token, now| token.expires = Some(now),
    ];
    for edit in edits {
        let mut world = granted();
        let id = client_token(1);
        let now = world.now;
        let Some(Entity::Token(token)) = world.rows.get_mut(&id.into()) else {
            panic!("there is a token");
        };
        edit(token, now);
        world.restart();
        world.join_gateway(1);
        assert_eq!(world.holds(1), 0);
        world.check();
    }
    // The portal does not know the client's token among several: one valid token is enough until the client comes.
    let mut world = granted();
    let mut other = match &world.rows[&client_token(1).into()] {
        Entity::Token(token) => token.clone(),
        row => panic!("{row:?}"),
    };
    other.id = client_token(9);
    other.revoked = Some(world.now);
    world.rows.insert(other.id.into(), other.into());
    world.restart();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
}

#[test]
fn what_leads_elsewhere_since_the_portal_stopped_is_signed_anew_when_the_gateway_returns() {
    let mut world = granted();
    world.pass(120_000);
    let mut row = network(1, SITE, "10.9.0.0/16", vec![Filter::Any]);
    row.stamp.updated = world.now;
    world.rows.insert(row.id.into(), row.into());
    world.restart();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 1);
    world.check();
    // A grant whose resource has not changed is left alone.
    let mut world = World::connected();
    world.pass(120_000);
    world.ask(1, 1);
    world.restart();
    world.forget_messages();
    world.join_gateway(1);
    assert_eq!(world.to_gateways.len(), 1, "{:?}", world.to_gateways);
}

#[test]
fn a_grant_for_what_has_moved_to_another_site_meanwhile_is_not_taken_over() {
    let mut world = granted();
    let row = network(
        1,
        SiteId::from_bytes([2; 16]),
        "10.0.1.0/24",
        vec![Filter::Any],
    );
    world.rows.insert(row.id.into(), row.into());
    world.restart();
    world.join_gateway(1);
    assert_eq!(world.holds(1), 0);
    world.check();
}

#[test]
fn grants_of_gateways_or_clients_that_are_gone_are_not_taken_over() {
    let mut world = granted();
    world.rows.remove(&gateway(1).into());
    world.restart();
    assert_eq!(world.hub.status().grants, 0);
    assert!(world.saved.is_empty());
}
