//! From a request to a grant.

use crate::world::{
    Manner, SITE, World, a_group, a_policy, client, gateway, network, policy, resolved, resource,
};
use culvert_hub::limits;
use culvert_ids::{GrantId, SiteId};
use culvert_store::Decision;
use culvert_wire::messages::{
    FromClient, FromGateway, Reason, ReasonCode, ToClient, ToGateway, WantedName,
};
use culvert_wire::model::{Condition, Filter, WrittenCountries, WrittenExpires, WrittenVerified};
use culvert_wire::{Cipher, Timestamp};

pub(crate) fn wanted(name: &str, last: u8) -> WantedName {
    WantedName {
        name: name.to_owned(),
        ipv4: [100, 96, 0, last].into(),
        ipv6: [0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, 0, u16::from(last)].into(),
    }
}

#[test]
fn a_request_that_a_policy_allows_is_granted_once_the_gateway_has_accepted() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.forget_messages();
    let request = world.ask(1, 1);
    assert_eq!(
        world.to_clients,
        [],
        "nothing is said before the gateway has answered"
    );
    let [
        (
            _,
            ToGateway::Grant {
                preshared_key: of_gateway,
                ..
            },
        ),
    ] = &world.to_gateways[..]
    else {
        panic!("{:?}", world.to_gateways);
    };
    let of_gateway = of_gateway.clone();
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    let names = Vec::new();
    world.gateway_says(1, FromGateway::GrantAccepted { grant, names });
    let [
        (
            _,
            ToClient::AccessGranted {
                request: answered,
                resource: to,
                grant: granted,
                gateway: through,
                preshared_key,
                cipher,
                expires,
                candidates,
                ..
            },
        ),
    ] = &world.to_clients[..]
    else {
        panic!("{:?}", world.to_clients);
    };
    assert_eq!((*answered, *to, *granted), (request, resource(1), grant));
    assert_eq!((*through, candidates.len()), (gateway(1), 1));
    assert_eq!(*cipher, Cipher::Aes256Gcm);
    assert_eq!(expires.unix_ms(), world.now.unix_ms() + 3_600_000);
    assert_eq!(preshared_key.as_bytes(), of_gateway.as_bytes());
    assert!(world.saved.contains_key(&grant));
    assert_eq!(world.log[0].decision, Decision::Granted);
    world.check();
}

#[test]
fn a_client_without_a_policy_is_denied_and_the_log_says_why() {
    let mut world = World::connected();
    world.remove(policy(1));
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::NoAccess]);
    assert_eq!(world.log[0].decision, Decision::Denied);
    assert!(world.log[0].reason.contains("no policy"));
    // The same denial again is answered, and not logged again.
    world.ask(1, 1);
    assert_eq!(world.denials().len(), 2);
    assert_eq!(world.log.len(), 1);
}

#[test]
fn a_condition_that_does_not_hold_denies_and_the_client_is_not_told_of_policies() {
    let mut world = World::connected();
    world.set(a_group(1, "staff"));
    world.set_policy(1, 1, 1, vec![Condition::Verified(WrittenVerified {})]);
    world.forget_messages();
    world.ask(1, 1);
    let (_, ToClient::AccessDenied { reason, .. }) = &world.to_clients[0] else {
        panic!();
    };
    assert_eq!(reason.code, ReasonCode::ConditionNotMet);
    assert_eq!(
        reason.text,
        "this client has to be verified by an administrator"
    );
    assert_eq!(
        world.log[0].reason,
        "denied: policy \"policy 1\" of group \"staff\": the client is not verified"
    );
    world.edit_client(1, |row| row.verified = Some(row.stamp.created));
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!((world.denials().len(), world.holds(1)), (0, 1));
}

#[test]
fn an_unknown_resource_and_one_without_a_policy_are_not_told_apart() {
    let mut world = World::connected();
    world.set_network(2, SITE);
    world.forget_messages();
    world.ask(1, 2);
    world.ask(1, 77);
    let texts: Vec<_> = world
        .to_clients
        .iter()
        .map(|(_, message)| match message {
            ToClient::AccessDenied { reason, .. } => reason.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts[0], texts[1]);
    // Ids that a client makes up do not fill the log.
    assert_eq!(world.log.len(), 1);
}

#[test]
fn a_gateway_is_told_once_that_others_wait_for_the_answer_to_a_grant() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    let request = world.ask(1, 1);
    let session = world.clients[&client(1)].session.unwrap();
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    world.forget_messages();
    let answer_now = |request, on| FromClient::AnswerNow {
        request,
        resource: resource(on),
    };
    world.client_says(session, answer_now(request + 1, 1));
    world.client_says(session, answer_now(request, 2));
    assert_eq!(world.to_gateways, [], "there are no such requests");
    for _ in 0..3 {
        world.client_says(session, answer_now(request, 1));
    }
    let [(_, ToGateway::AnswerNow { grant: told })] = &world.to_gateways[..] else {
        panic!("{:?}", world.to_gateways);
    };
    assert_eq!(*told, grant);
    let names = Vec::new();
    world.gateway_says(1, FromGateway::GrantAccepted { grant, names });
    world.forget_messages();
    world.client_says(session, answer_now(request, 1));
    assert_eq!(world.to_gateways, [], "it is answered");
    world.check();
}

#[test]
fn requests_for_the_same_resource_share_a_grant_and_each_is_answered_once() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    let requests: Vec<_> = (0..5).map(|_| world.ask(1, 1)).collect();
    let session = world.clients[&client(1)].session.unwrap();
    for request in requests {
        // A repeated number is one request.
        let again = FromClient::RequestAccess {
            request,
            resource: resource(1),
            names: Vec::new(),
            avoid: Vec::new(),
        };
        world.client_says(session, again);
    }
    assert_eq!(world.holds(1), 1);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    world.forget_messages();
    let names = Vec::new();
    world.gateway_says(1, FromGateway::GrantAccepted { grant, names });
    assert_eq!(world.to_clients.len(), 5);
    assert!(world.clients[&client(1)].waiting.is_empty());
}

#[test]
fn a_gateway_that_does_not_answer_loses_the_grant_and_the_next_one_gets_it() {
    let mut world = World::simple();
    world.set_gateway(2, SITE);
    world.join_gateway(1);
    world.join_gateway(2);
    world.manner(1, Manner::Silent);
    world.join_client(1);
    world.ask(1, 1);
    assert_eq!(
        (world.holds(1), world.holds(2), world.grants_of(1)),
        (1, 0, 0)
    );
    world.pass(limits::GRANT_ANSWER_MS);
    assert_eq!(
        (world.holds(1), world.holds(2), world.grants_of(1)),
        (0, 1, 1)
    );
    world.check();
}

#[test]
fn when_no_gateway_answers_the_client_is_told_so() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.forget_messages();
    world.ask(1, 1);
    world.pass(limits::GRANT_ANSWER_MS);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
    world.manner(1, Manner::Refuse(ReasonCode::BadGrant));
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::GatewayRefused]);
    world.leave_gateway(1);
    world.forget_messages();
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
}

#[test]
fn a_name_that_the_sites_dns_does_not_answer_for_is_asked_of_its_other_gateways_and_denied_alone() {
    let mut world = World::simple();
    world.set_gateway(2, SITE);
    for number in [1, 2] {
        world.join_gateway(number);
        world.manner(number, Manner::Refuse(ReasonCode::NameUnanswered));
    }
    world.join_client(1);
    world.forget_messages();
    world.ask(1, 1);
    let offered = world.to_gateways.iter().filter_map(|(gateway, message)| {
        matches!(message, ToGateway::Grant { .. }).then_some(*gateway)
    });
    let mut offered: Vec<_> = offered.collect();
    offered.sort_unstable();
    assert_eq!(offered, [gateway(1), gateway(2)]);
    assert_eq!(world.denials(), [ReasonCode::NameUnanswered]);
    // The DNS of one of them answers.
    world.manner(2, Manner::Accept);
    world.ask(1, 1);
    assert_eq!((world.holds(2), world.grants_of(1)), (1, 1));
    world.check();
}

#[test]
fn a_gateway_of_another_site_is_never_given() {
    let mut world = World::simple();
    let other_site = SiteId::from_bytes([2; 16]);
    world.set_gateway(2, other_site);
    world.join_gateway(2);
    world.join_client(1);
    world.ask(1, 1);
    assert_eq!(world.denials(), [ReasonCode::NoGateway]);
}

#[test]
fn an_answer_of_a_gateway_that_was_not_asked_counts_for_nothing() {
    let mut world = World::simple();
    world.set_gateway(2, SITE);
    world.join_gateway(1);
    world.join_client(1);
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    world.join_gateway(2);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    world.forget_messages();
    let names = Vec::new();
    world.gateway_says(2, FromGateway::GrantAccepted { grant, names });
    let reason = Reason {
        code: ReasonCode::BadGrant,
        text: String::new(),
    };
    world.gateway_says(2, FromGateway::GrantRefused { grant, reason });
    let forged = GrantId::from_bytes([9; 16]);
    let names = Vec::new();
    world.gateway_says(
        1,
        FromGateway::GrantAccepted {
            grant: forged,
            names,
        },
    );
    assert_eq!((world.to_clients.len(), world.holds(1)), (0, 1));
    assert_eq!(world.hub.status().counters.ignored, 3);
}

#[test]
fn a_late_answer_after_the_grant_was_taken_back_counts_for_nothing() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    world.pass(limits::GRANT_ANSWER_MS);
    world.forget_messages();
    let names = Vec::new();
    world.gateway_says(1, FromGateway::GrantAccepted { grant, names });
    assert_eq!(world.to_clients, []);
    assert_eq!(world.hub.status().grants, 0);
}

#[test]
fn a_renewal_replaces_the_grant_without_a_gap() {
    let mut world = World::connected();
    world.ask(1, 1);
    let first = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    world.pass(2_400_000);
    world.forget_messages();
    world.ask(1, 1);
    let [(_, ToGateway::Grant { replaces, .. })] = &world.to_gateways[..] else {
        panic!("{:?}", world.to_gateways);
    };
    assert_eq!(*replaces, Some(first));
    assert!(!world.saved.contains_key(&first));
    assert_eq!(
        (world.holds(1), world.saved.len(), world.grants_of(1)),
        (1, 1, 1)
    );
    // The old one's end is no event any more.
    world.pass(1_300_000);
    assert_eq!(world.revocations(), []);
}

#[test]
fn a_grant_ends_with_the_policy_that_allows_longest() {
    let mut world = World::connected();
    let at = |ms| Timestamp::from_unix_ms(world.now.unix_ms() + ms);
    let (soon, later) = (at(60_000), at(120_000));
    world.set_policy(
        1,
        1,
        1,
        vec![Condition::Expires(WrittenExpires { at: soon })],
    );
    world.set_policy(
        2,
        1,
        1,
        vec![Condition::Expires(WrittenExpires { at: later })],
    );
    world.ask(1, 1);
    let held = world.gateways[&gateway(1)].held.values().next().unwrap();
    assert_eq!(held.claims.exp, later);
    assert_eq!(world.saved.values().next().unwrap().policy, policy(2));
    world.pass(120_000);
    assert_eq!((world.holds(1), world.grants_of(1)), (0, 0));
    assert_eq!(world.revocations(), [ReasonCode::Expired]);
}

#[test]
fn a_grant_does_not_outlast_the_token_that_the_client_came_with() {
    let mut world = World::simple();
    world.join_gateway(1);
    let expires = Timestamp::from_unix_ms(world.now.unix_ms() + 90_000);
    world.edit_token(crate::world::client_token(1), |token| {
        token.expires = Some(expires);
    });
    let session = world.join_client(1);
    world.ask(1, 1);
    let held = world.gateways[&gateway(1)].held.values().next().unwrap();
    assert_eq!(held.claims.exp, expires);
    world.pass(90_000);
    assert_eq!(world.holds(1), 0);
    assert!(world.closed.contains(&(session, ReasonCode::BadToken)));
}

#[test]
fn names_are_granted_where_they_fit_the_pattern_and_the_range() {
    let mut world = World::connected();
    world.set_names(2, SITE, "*.corp.example");
    world.set_policy(2, 1, 2, Vec::new());
    world.forget_messages();
    world.ask_for(1, 2, vec![wanted("db.corp.example", 1)], Vec::new());
    let (_, ToClient::AccessGranted { names, .. }) = &world.to_clients[0] else {
        panic!("{:?}", world.to_clients);
    };
    assert_eq!(*names, [resolved("db.corp.example")]);
    let refused = [
        vec![wanted("corp.example", 2)],
        vec![wanted("a.b.corp.example", 2)],
        vec![wanted("DB.corp.example", 2)],
        vec![wanted("db.corp.example.", 2)],
        vec![wanted("", 2)],
        vec![wanted("x.corp.example", 2), wanted("y.corp.example", 2)],
        vec![WantedName {
            ipv4: [10, 0, 0, 1].into(),
            ..wanted("x.corp.example", 2)
        }],
        vec![WantedName {
            ipv6: [0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, 1].into(),
            ..wanted("x.corp.example", 2)
        }],
    ];
    for names in refused {
        world.forget_messages();
        world.ask_for(1, 2, names.clone(), Vec::new());
        assert_eq!(world.denials(), [ReasonCode::NoAccess], "{names:?}");
    }
    // A network has no names.
    world.forget_messages();
    world.ask_for(1, 1, vec![wanted("db.corp.example", 1)], Vec::new());
    assert_eq!(world.denials(), [ReasonCode::NoAccess]);
}

#[test]
fn further_names_wait_for_the_grant_under_way_and_follow_it() {
    let mut world = World::connected();
    world.set_names(2, SITE, "*.corp.example");
    world.set_policy(2, 1, 2, Vec::new());
    world.manner(1, Manner::Silent);
    world.forget_messages();
    world.ask_for(1, 2, vec![wanted("a.corp.example", 1)], Vec::new());
    world.ask_for(1, 2, vec![wanted("b.corp.example", 2)], Vec::new());
    world.ask_for(1, 2, vec![wanted("c.corp.example", 3)], Vec::new());
    world.ask_for(1, 2, vec![wanted("a.corp.example", 1)], Vec::new());
    assert_eq!(world.to_gateways.len(), 1, "one grant at a time");
    world.manner(1, Manner::Accept);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    let names = vec![resolved("a.corp.example")];
    world.gateway_says(1, FromGateway::GrantAccepted { grant, names });
    assert!(world.clients[&client(1)].waiting.is_empty());
    let held: Vec<_> = world.gateways[&gateway(1)].held.values().collect();
    assert_eq!(held.len(), 1);
    assert_eq!(
        held[0].names.len(),
        3,
        "the new grant keeps the names of the old"
    );
    let told: Vec<Vec<_>> = world
        .to_clients
        .iter()
        .map(|(_, message)| match message {
            ToClient::AccessGranted { names, .. } => names.iter().map(|name| &*name.name).collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    let [a, b, c] = ["a.corp.example", "b.corp.example", "c.corp.example"].map(|name| vec![name]);
    assert_eq!(told, [a.clone(), a, b, c]);
}

#[test]
fn another_gateway_is_told_the_names_that_the_one_before_had() {
    let mut world = World::connected();
    world.set_names(2, SITE, "*.corp.example");
    world.set_policy(2, 1, 2, Vec::new());
    world.ask_for(1, 2, vec![wanted("a.corp.example", 1)], Vec::new());
    world.ask_for(1, 2, vec![wanted("b.corp.example", 2)], Vec::new());
    world.set_gateway(2, SITE);
    world.join_gateway(2);
    world.ask_for(1, 2, vec![wanted("b.corp.example", 7)], vec![gateway(1)]);
    assert_eq!(
        world.holds(1),
        0,
        "the one that was found dead holds nothing"
    );
    let held = world.gateways[&gateway(2)].held.values().next().unwrap();
    let mut names = held.names.clone();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(
        names,
        [wanted("a.corp.example", 1), wanted("b.corp.example", 7)]
    );
}

/// A client that starts again gives its addresses out anew, while grants of its earlier life last.
#[test]
fn another_gateway_is_not_told_names_whose_addresses_stand_for_others_now() {
    let mut world = World::connected();
    world.set_names(2, SITE, "*.corp.example");
    world.set_policy(2, 1, 2, Vec::new());
    world.ask_for(1, 2, vec![wanted("a.corp.example", 1)], Vec::new());
    world.ask_for(1, 2, vec![wanted("b.corp.example", 1)], Vec::new());
    world.set_gateway(2, SITE);
    world.join_gateway(2);
    world.ask_for(1, 2, vec![wanted("c.corp.example", 2)], vec![gateway(1)]);
    let held = world.gateways[&gateway(2)].held.values().next().unwrap();
    let mut names = held.names.clone();
    names.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(
        names,
        [wanted("b.corp.example", 1), wanted("c.corp.example", 2)]
    );
}

#[test]
fn a_name_that_does_not_exist_is_not_asked_of_the_other_gateways() {
    let mut world = World::connected();
    world.set_names(2, SITE, "*.corp.example");
    world.set_policy(2, 1, 2, Vec::new());
    world.set_gateway(2, SITE);
    world.join_gateway(2);
    world.manner(1, Manner::Silent);
    world.manner(2, Manner::Silent);
    world.forget_messages();
    world.ask_for(1, 2, vec![wanted("a.corp.example", 1)], Vec::new());
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    let reason = Reason {
        code: ReasonCode::NameNotFound,
        text: String::new(),
    };
    world.gateway_says(1, FromGateway::GrantRefused { grant, reason });
    assert_eq!(world.denials(), [ReasonCode::NameNotFound]);
    assert_eq!(world.holds(2), 0);
}

#[test]
fn what_one_client_may_ask_for_at_once_is_bounded() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    let more = u16::try_from(limits::MAX_ASKS_PER_CLIENT).unwrap() + 10;
    for number in 2..more + 2 {
        world.set_network(number, SITE);
        world.set_policy(number, 1, number, Vec::new());
    }
    world.forget_messages();
    for number in 2..more + 2 {
        world.ask(1, number);
    }
    assert_eq!(world.denials(), [ReasonCode::TooMany; 10]);
    assert_eq!(world.hub.status().asks, limits::MAX_ASKS_PER_CLIENT);
    // And so is what it may ask in a while.
    world.manner(1, Manner::Accept);
    world.pass(limits::GRANT_ANSWER_MS);
    world.forget_messages();
    for _ in 0..2 * limits::REQUEST_BURST {
        world.ask(1, 77);
    }
    assert!(world.denials().contains(&ReasonCode::TooMany));
    world.pass(60_000);
    world.forget_messages();
    world.ask(1, 2);
    assert_eq!(world.denials(), []);
}

#[test]
fn too_many_gateways_to_avoid_or_names_are_refused() {
    let mut world = World::connected();
    world.set_names(2, SITE, "*.corp.example");
    world.set_policy(2, 1, 2, Vec::new());
    world.forget_messages();
    world.ask_for(1, 1, Vec::new(), vec![gateway(9); limits::MAX_AVOIDED + 1]);
    let names = vec![wanted("a.corp.example", 1); culvert_wire::messages::MAX_NAMES + 1];
    world.ask_for(1, 2, names, Vec::new());
    assert_eq!(world.denials(), [ReasonCode::TooMany; 2]);
}

#[test]
fn a_released_grant_ends_at_the_gateway_and_nobody_can_release_anothers() {
    let mut world = World::connected();
    world.set_client(2, 1);
    let other = world.join_client(2);
    world.ask(1, 1);
    let grant = *world.clients[&client(1)].grants.keys().next().unwrap();
    world.client_says(other, FromClient::ReleaseAccess { grant });
    assert_eq!(world.holds(1), 1, "it is not the other's to give back");
    let session = world.clients[&client(1)].session.unwrap();
    world.forget_messages();
    world.client_says(session, FromClient::ReleaseAccess { grant });
    assert_eq!(world.holds(1), 0);
    assert_eq!(world.to_clients, []);
    assert!(world.saved.is_empty());
    assert_eq!(world.log[0].decision, Decision::Ended);
}

#[test]
fn a_client_that_leaves_while_it_waits_leaves_nothing_behind() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    world.leave_client(1);
    assert_eq!(world.holds(1), 0);
    assert_eq!((world.hub.status().asks, world.hub.status().grants), (0, 0));
}

#[test]
fn a_row_that_can_not_be_converted_denies_and_is_reported() {
    let mut world = World::connected();
    world.ask(1, 1);
    let countries = vec!["Atlantis".to_owned()];
    world.set(a_policy(
        1,
        1,
        1,
        vec![Condition::Country(WrittenCountries { countries })],
    ));
    assert_eq!(
        world.holds(1),
        0,
        "a policy that is not understood allows nothing"
    );
    assert_eq!(world.hub.directory().faults().count(), 1);
    world.set_policy(1, 1, 1, Vec::new());
    assert_eq!(world.hub.directory().faults().count(), 0);
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
    world.set(network(1, SITE, "10.0.0.1/8", vec![Filter::Any]));
    assert_eq!(
        world.holds(1),
        0,
        "a resource that is not understood is not there"
    );
    assert_eq!(world.hub.directory().faults().count(), 1);
    let faulty: Vec<_> = world.hub.directory().faults().map(|(id, _)| id).collect();
    assert_eq!(faulty, [resource(1).into()]);
}

#[test]
fn an_explanation_says_what_a_request_would_meet() {
    let mut world = World::connected();
    let explained = world
        .hub
        .explain(client(1), resource(1), world.now)
        .unwrap();
    assert!(explained.is_allow());
    assert_eq!(explained.gateway, Ok(gateway(1)));
    world.set_policy(1, 1, 1, vec![Condition::Verified(WrittenVerified {})]);
    let explained = world
        .hub
        .explain(client(1), resource(1), world.now)
        .unwrap();
    assert!(!explained.is_allow());
    let unmet = explained.policies.outcomes[0].outcome.as_ref();
    let unmet = unmet.unwrap_err().iter().map(|unmet| unmet.text.clone());
    assert_eq!(unmet.collect::<Vec<_>>(), ["the client is not verified"]);
    world.set_policy(1, 1, 1, Vec::new());
    world.set_actor(1, true);
    let explained = world
        .hub
        .explain(client(1), resource(1), world.now)
        .unwrap();
    assert!(!explained.is_allow());
    assert!(explained.barred.unwrap().text.contains("disabled"));
    assert!(
        world
            .hub
            .explain(client(9), resource(1), world.now)
            .is_none()
    );
    assert!(
        world
            .hub
            .explain(client(1), resource(9), world.now)
            .is_none()
    );
}
