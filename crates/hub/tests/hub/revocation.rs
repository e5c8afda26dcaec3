//! A grant ends when its policy, token, client, gateway or resource does.

use crate::world::{
    Manner, SITE, World, a_policy, actor, client, client_token, gateway, network, policy, resource,
    site_token,
};
use culvert_ids::{MembershipId, SiteId};
use culvert_store::{Decision, Kind, Membership};
use culvert_wire::messages::{FromClient, ReasonCode, ToClient, ToGateway};
use culvert_wire::model::{
    Condition, Filter, TimeWindow, Weekday, WrittenExpires, WrittenPublicAddresses, WrittenTimes,
    WrittenVerified,
};
use culvert_wire::{PublicKey, Timestamp};

/// With a grant that is out.
fn granted() -> World {
    let mut world = World::connected();
    world.ask(1, 1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.forget_messages();
    world
}

fn assert_cut(world: &World, code: ReasonCode) {
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.revocations(), [code]);
    assert!(world.saved.is_empty());
    assert_eq!(world.log[0].decision, Decision::Revoked);
    world.check();
}

#[test]
fn a_removed_policy_cuts_its_grants() {
    let mut world = granted();
    world.remove(policy(1));
    assert_cut(&world, ReasonCode::NoAccess);
}

#[test]
fn a_disabled_policy_cuts_its_grants() {
    let mut world = granted();
    let mut row = a_policy(1, 1, 1, Vec::new());
    row.disabled = true;
    world.set(row);
    assert_cut(&world, ReasonCode::NoAccess);
}

#[test]
fn a_policy_that_lets_another_group_in_cuts_its_grants_and_opens_for_that_group() {
    let mut world = granted();
    world.set_policy(1, 2, 1, Vec::new());
    assert_cut(&world, ReasonCode::NoAccess);
    world.add_member(1, 2);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn a_policy_that_leads_to_another_resource_cuts_the_grants_for_the_one_before() {
    let mut world = granted();
    world.set_network(2, SITE);
    world.forget_messages();
    world.set_policy(1, 1, 2, Vec::new());
    assert_cut(&world, ReasonCode::NoAccess);
    world.ask(1, 2);
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn a_condition_that_does_not_hold_cuts_the_grants() {
    let mut world = granted();
    world.set_policy(1, 1, 1, vec![Condition::Verified(WrittenVerified {})]);
    assert_cut(&world, ReasonCode::ConditionNotMet);
}

#[test]
fn a_removed_membership_cuts_the_grants_of_the_actors_clients() {
    let mut world = granted();
    world.remove_member(1, 1);
    assert_cut(&world, ReasonCode::NoAccess);
}

/// As where people add somebody whom an identity provider has made a member.
#[test]
fn a_membership_that_another_one_replaces_at_once_cuts_nothing() {
    let mut world = granted();
    let rows = world.rows.values();
    let mut found = rows.filter_map(|row| Membership::from_entity(row.clone()));
    let there = found.next().unwrap();
    let row = Membership {
        id: MembershipId::from_bytes([0xee; 16]),
        ..there.clone()
    };
    world.apply(vec![
        (there.id.into(), None),
        (row.id.into(), Some(row.into())),
    ]);
    assert_eq!((world.to_clients.len(), world.to_gateways.len()), (0, 0));
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.check();
}

#[test]
fn a_group_that_goes_with_its_members_and_policies_at_once_cuts_the_grants() {
    for members_first in [true, false] {
        let mut world = granted();
        let rows = world.rows.clone();
        let mut gone: Vec<_> = rows
            .keys()
            .filter(|id| {
                use culvert_store::EntityId;
                matches!(id, EntityId::Membership(_) | EntityId::Policy(_))
            })
            .map(|id| (*id, None))
            .collect();
        if members_first {
            gone.reverse();
        }
        world.apply(gone);
        assert_cut(&world, ReasonCode::NoAccess);
    }
}

#[test]
fn a_disabled_actor_loses_grants_and_sessions() {
    let mut world = granted();
    let session = world.clients[&client(1)].session.unwrap();
    world.set_actor(1, true);
    assert_cut(&world, ReasonCode::OwnerDisabled);
    assert_eq!(world.closed, [(session, ReasonCode::OwnerDisabled)]);
    // It does not come back before the actor is enabled.
    let session = world.join_client(1);
    assert!(world.closed.contains(&(session, ReasonCode::OwnerDisabled)));
    world.set_actor(1, false);
    let session = world.join_client(1);
    assert_eq!(world.clients[&client(1)].session, Some(session));
}

#[test]
fn a_revoked_client_of_a_disabled_actor_is_told_of_the_revocation() {
    let mut world = granted();
    world.set_actor(1, true);
    world.edit_client(1, |row| row.revoked = Some(row.stamp.created));
    let session = world.join_client(1);
    assert!(world.closed.contains(&(session, ReasonCode::Revoked)));
}

#[test]
fn a_revoked_client_loses_grants_and_session() {
    let mut world = granted();
    let session = world.clients[&client(1)].session.unwrap();
    world.edit_client(1, |row| row.revoked = Some(row.stamp.created));
    assert_cut(&world, ReasonCode::Revoked);
    assert_eq!(world.closed, [(session, ReasonCode::Revoked)]);
}

#[test]
fn a_client_that_is_away_loses_its_grants_all_the_same() {
    let mut world = granted();
    world.leave_client(1);
    assert_eq!(world.holds(1), 1, "being away ends nothing");
    world.edit_client(1, |row| row.revoked = Some(row.stamp.created));
    assert_eq!(world.holds(1), 0);
    world.check();
}

#[test]
fn a_deleted_client_and_a_deleted_actor_lose_everything() {
    let mut world = granted();
    world.remove(client(1));
    assert_eq!((world.holds(1), world.closed.len()), (0, 1));
    let mut world = granted();
    world.remove(actor(1));
    assert_eq!((world.holds(1), world.closed.len()), (0, 1));
}

#[test]
fn a_revoked_token_ends_the_sessions_and_grants_of_those_who_came_with_it() {
    let mut world = granted();
    let session = world.clients[&client(1)].session.unwrap();
    let at = Some(world.now);
    world.edit_token(client_token(1), |token| token.revoked = at);
    assert_cut(&world, ReasonCode::Revoked);
    assert_eq!(world.closed, [(session, ReasonCode::Revoked)]);
}

#[test]
fn a_deleted_token_is_a_revoked_one() {
    let mut world = granted();
    world.remove(client_token(1));
    assert_cut(&world, ReasonCode::Revoked);
    assert_eq!(world.closed.len(), 1);
}

#[test]
fn a_removal_of_verification_cuts_what_stood_on_it() {
    let mut world = World::connected();
    world.set_policy(1, 1, 1, vec![Condition::Verified(WrittenVerified {})]);
    world.edit_client(1, |row| row.verified = Some(row.stamp.created));
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.forget_messages();
    world.edit_client(1, |row| row.verified = None);
    assert_cut(&world, ReasonCode::ConditionNotMet);
}

#[test]
fn a_resource_that_moves_cuts_the_grants_for_where_it_was() {
    let mut world = granted();
    world.set(network(1, SITE, "10.9.0.0/24", vec![Filter::Any]));
    assert_cut(&world, ReasonCode::PolicyChanged);
    let told = &world.clients[&client(1)].resources[&resource(1)];
    assert_eq!(told.target.known().unwrap().address, "10.9.0.0/24");
    let mut world = granted();
    let other_site = SiteId::from_bytes([2; 16]);
    world.set_network(1, other_site);
    assert_cut(&world, ReasonCode::PolicyChanged);
}

#[test]
fn a_removed_resource_is_taken_from_clients_and_gateways() {
    let mut world = granted();
    world.remove(resource(1));
    assert_cut(&world, ReasonCode::PolicyChanged);
    assert!(world.clients[&client(1)].resources.is_empty());
    // Its number goes to another, and nobody takes the one for the other.
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    assert_eq!(world.clients[&client(1)].resources.len(), 1);
    world.check();
}

#[test]
fn changed_filters_reach_the_gateway_and_nothing_is_cut() {
    let mut world = granted();
    world.set(network(1, SITE, "10.0.1.0/24", vec![Filter::Icmp]));
    assert!(matches!(
        &world.to_gateways[..],
        [(_, ToGateway::FiltersChanged { filters, .. })] if **filters == [Filter::Icmp]
    ));
    assert!(matches!(
        &world.to_clients[..],
        [(_, ToClient::ResourceSet { .. })]
    ));
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.check();
}

#[test]
fn a_new_name_of_a_resource_concerns_clients_alone() {
    let mut world = granted();
    let mut row = network(1, SITE, "10.0.1.0/24", vec![Filter::Any]);
    row.name = "another".to_owned();
    world.set(row);
    assert_eq!(world.to_gateways, []);
    assert_eq!(world.to_clients.len(), 1);
}

#[test]
fn another_policy_that_allows_keeps_the_grant() {
    let mut world = World::connected();
    world.set_policy(2, 1, 1, Vec::new());
    world.ask(1, 1);
    world.forget_messages();
    world.remove(policy(1));
    assert_eq!((world.to_clients.len(), world.to_gateways.len()), (0, 0));
    assert_eq!(world.holds(1), 1);
    world.check();
}

#[test]
fn an_earlier_end_replaces_the_grant_and_no_flow_is_cut() {
    let mut world = granted();
    let first = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    let at = Timestamp::from_unix_ms(world.now.unix_ms() + 600_000);
    world.set_policy(1, 1, 1, vec![Condition::Expires(WrittenExpires { at })]);
    assert_eq!(
        world.to_clients,
        [],
        "for the client nothing has changed yet"
    );
    let [(_, ToGateway::Grant { replaces, .. })] = &world.to_gateways[..] else {
        panic!("{:?}", world.to_gateways);
    };
    assert_eq!(*replaces, Some(first));
    assert_eq!(world.holds(1), 1);
    world.check();
    // At the end the client hears of the grant that it knows.
    world.pass(600_000);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.revocations(), [ReasonCode::Expired]);
}

#[test]
fn an_earlier_end_that_the_gateway_does_not_take_cuts_the_grant() {
    for manner in [Manner::Silent, Manner::Refuse(ReasonCode::BadGrant)] {
        let mut world = granted();
        world.manner(1, manner);
        let at = Timestamp::from_unix_ms(world.now.unix_ms() + 600_000);
        world.set_policy(1, 1, 1, vec![Condition::Expires(WrittenExpires { at })]);
        world.pass(3_000);
        assert_eq!((world.holds(1), world.grants_of(1)), (0, 0), "{manner:?}");
        world.check();
    }
}

#[test]
fn a_request_while_the_end_is_brought_forward_is_answered_after_it() {
    let mut world = granted();
    world.manner(1, Manner::Silent);
    let at = Timestamp::from_unix_ms(world.now.unix_ms() + 600_000);
    world.set_policy(1, 1, 1, vec![Condition::Expires(WrittenExpires { at })]);
    world.manner(1, Manner::Accept);
    world.ask(1, 1);
    world.pass(3_000);
    assert!(world.clients[&client(1)].waiting.is_empty());
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    world.check();
}

#[test]
fn a_release_while_the_end_is_brought_forward_leaves_nothing() {
    let mut world = granted();
    world.manner(1, Manner::Silent);
    let at = Timestamp::from_unix_ms(world.now.unix_ms() + 600_000);
    world.set_policy(1, 1, 1, vec![Condition::Expires(WrittenExpires { at })]);
    let grant = *world.clients[&client(1)].grants.keys().next().unwrap();
    let session = world.clients[&client(1)].session.unwrap();
    world.client_says(session, FromClient::ReleaseAccess { grant });
    assert_eq!((world.holds(1), world.hub.status().asks), (0, 0));
    assert_eq!(world.hub.status().grants, 0);
}

#[test]
fn a_window_that_closes_ends_the_grant_on_the_minute() {
    let mut world = World::connected();
    // The start is a Friday, 08:00 UTC.
    let window = TimeWindow {
        days: vec![Weekday::Friday],
        from: "08:00".to_owned(),
        until: "08:30".to_owned(),
    };
    let zone = "UTC".to_owned();
    let windows = vec![window];
    world.set_policy(
        1,
        1,
        1,
        vec![Condition::Time(WrittenTimes { zone, windows })],
    );
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1, "{:?}", world.to_clients);
    let exp = world.gateways[&gateway(1)].held.values().next().unwrap();
    assert_eq!(exp.claims.exp.unix_ms(), world.now.unix_ms() + 1_800_000);
    world.pass(1_799_999);
    assert_eq!(world.holds(1), 1);
    world.pass(1);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::ConditionNotMet]);
}

#[test]
fn a_client_that_comes_back_from_elsewhere_keeps_only_what_is_allowed_there() {
    let mut world = World::connected();
    let cidrs = vec!["203.0.113.0/24".to_owned()];
    world.set_policy(
        1,
        1,
        1,
        vec![Condition::PublicAddress(WrittenPublicAddresses { cidrs })],
    );
    world.clients.get_mut(&client(1)).unwrap().address = Some("203.0.113.9".parse().unwrap());
    world.join_client(1);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.leave_client(1);
    world.clients.get_mut(&client(1)).unwrap().address = Some("198.51.100.1".parse().unwrap());
    world.forget_messages();
    world.join_client(1);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    // The welcome says it: there is no message about a grant before it.
    assert!(matches!(world.to_clients[0].1, ToClient::Welcome { .. }));
    assert_eq!(world.revocations(), []);
    world.check();
}

#[test]
fn a_change_while_a_gateway_is_asked_is_not_missed() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.forget_messages();
    world.remove(policy(1));
    assert_eq!(world.holds(1), 0);
    assert_eq!(world.denials(), [ReasonCode::NoAccess]);
    assert_eq!(world.hub.status().asks, 0);
}

#[test]
fn filters_that_change_while_a_gateway_is_asked_reach_it() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    world.set(network(1, SITE, "10.0.1.0/24", vec![Filter::Icmp]));
    world.check();
}

#[test]
fn a_new_key_of_a_client_voids_what_was_granted_to_the_old_one() {
    let mut world = granted();
    let session = world.clients[&client(1)].session.unwrap();
    world.edit_client(1, |row| row.public_key = PublicKey::from_bytes([77; 32]));
    assert_eq!(world.holds(1), 0);
    assert_eq!(world.closed, [(session, ReasonCode::Replaced)]);
    world.check();
}

#[test]
fn a_revoked_gateway_loses_its_grants_and_its_clients_are_told() {
    let mut world = granted();
    let session = world.gateways[&gateway(1)].session.unwrap();
    world.edit_gateway(1, |row| row.revoked = Some(row.stamp.created));
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert!(matches!(
        world.to_clients[..],
        [(_, ToClient::GatewayLost { .. })]
    ));
    assert_eq!(world.closed, [(session, ReasonCode::Revoked)]);
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
}

#[test]
fn a_revoked_token_of_a_site_ends_the_sessions_of_its_gateways() {
    let mut world = granted();
    let at = Some(world.now);
    world.edit_token(site_token(SITE), |token| token.revoked = at);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.closed.len(), 1);
}

#[test]
fn other_ranges_bring_everyone_back_for_new_addresses() {
    let mut world = granted();
    let mut account = culvert_store::Account {
        id: crate::world::ACCOUNT,
        name: "corp".to_owned(),
        settings: culvert_store::AccountSettings::default(),
        stamp: culvert_store::Stamp::default(),
    };
    world.set(account.clone());
    assert_eq!(world.closed, [], "the same ranges change nothing");
    account.settings.ranges.names_ipv4 = "100.112.0.0/12".to_owned();
    world.set(account);
    let codes: Vec<_> = world.closed.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, [ReasonCode::TryLater; 2]);
}
