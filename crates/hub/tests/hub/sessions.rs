//! Admission of clients and gateways, and the end of their sessions.

use crate::world::{
    Manner, SITE, START_MS, World, client, client_token, gateway, resource, site_token,
};
use culvert_hub::{ClientJoin, FeedError, GatewayJoin, Output, SessionId, limits};
use culvert_ids::SiteId;
use culvert_policy::ClientFacts;
use culvert_store::Seq;
use culvert_wire::messages::{
    ClientFeature, FromClient, FromGateway, ReasonCode, ToClient, ToGateway,
};
use culvert_wire::{PublicKey, Timestamp};

#[test]
fn a_welcome_has_every_resource_of_the_clients_groups_and_no_other() {
    let mut world = World::simple();
    world.set_network(2, SITE);
    world.set_policy(2, 2, 2, Vec::new());
    world.join_client(1);
    let shown: Vec<_> = world.clients[&client(1)]
        .resources
        .keys()
        .copied()
        .collect();
    assert_eq!(shown, [resource(1)]);
    // Deltas follow.
    world.forget_messages();
    world.add_member(1, 2);
    assert!(matches!(
        world.to_clients[..],
        [(_, ToClient::ResourceSet { .. })]
    ));
    world.remove_member(1, 2);
    assert!(matches!(
        world.to_clients[1].1,
        ToClient::ResourceRemoved { .. }
    ));
    world.check();
}

#[test]
fn a_second_session_of_a_client_replaces_the_first_and_keeps_its_grants() {
    let mut world = World::connected();
    world.ask(1, 1);
    let first = world.clients[&client(1)].session.unwrap();
    world.forget_messages();
    world.join_client(1);
    assert_eq!(world.closed, [(first, ReasonCode::Replaced)]);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
    // The first says nothing any more, and its end ends nothing.
    world.forget_messages();
    let message = FromClient::RequestAccess {
        request: 99,
        resource: resource(1),
        names: Vec::new(),
        avoid: Vec::new(),
    };
    world.client_says(first, message);
    world.hub.handle_left(first, world.now);
    world.drain();
    assert_eq!((world.to_clients.len(), world.hub.status().clients), (0, 1));
}

#[test]
fn a_second_session_of_a_gateway_replaces_the_first_and_nothing_is_lost() {
    let mut world = World::connected();
    world.ask(1, 1);
    world.set_network(2, SITE);
    world.set_policy(2, 1, 2, Vec::new());
    world.manner(1, Manner::Silent);
    world.ask(1, 2);
    let first = world.gateways[&gateway(1)].session.unwrap();
    world.manner(1, Manner::Accept);
    world.forget_messages();
    world.join_gateway(1);
    assert_eq!(world.closed, [(first, ReasonCode::Replaced)]);
    let lost = |(_, message): &(_, ToClient)| matches!(message, ToClient::GatewayLost { .. });
    assert!(!world.to_clients.iter().any(lost));
    assert_eq!(
        (world.holds(1), world.grants_of(1)),
        (2, 2),
        "what was open was asked again"
    );
    world.check();
}

#[test]
fn a_token_of_another_actor_or_kind_lets_nobody_in() {
    let mut world = World::simple();
    world.set_actor(2, false);
    for token in [client_token(2), site_token(SITE)] {
        let session = world.join_client_with(1, token);
        assert!(world.closed.contains(&(session, ReasonCode::BadToken)));
    }
    assert_eq!(world.hub.status().clients, 0);
    // The same for gateways.
    let other_site = SiteId::from_bytes([2; 16]);
    world.set_gateway(2, other_site);
    for (number, token) in [site_token(other_site), client_token(1)]
        .into_iter()
        .enumerate()
    {
        let session = SessionId(1000 + number as u64);
        let mut key = [2; 32];
        key[..2].copy_from_slice(&[0, 1]);
        let join = GatewayJoin {
            gateway: gateway(1),
            token,
            public_key: PublicKey::from_bytes(key),
            ciphers: Vec::new(),
            candidates: Vec::new(),
            draining: false,
            grants: Vec::new(),
            more_grants: false,
            features: Vec::new(),
        };
        world.hub.handle_gateway_joined(session, join, world.now);
        world.drain();
        assert!(world.closed.contains(&(session, ReasonCode::BadToken)));
    }
}

#[test]
fn whom_the_feed_does_not_know_yet_is_told_to_come_back() {
    let mut world = World::simple();
    let join = |client, token, key| ClientJoin {
        client,
        token,
        public_key: PublicKey::from_bytes(key),
        ciphers: Vec::new(),
        seen: ClientFacts::default(),
        features: vec![ClientFeature::Applications],
    };
    let mut key = [1; 32];
    key[..2].copy_from_slice(&[0, 1]);
    let unknown = [
        join(client(9), client_token(1), key),
        join(client(1), client_token(9), key),
        // The key of before.
        join(client(1), client_token(1), [5; 32]),
    ];
    for (number, join) in unknown.into_iter().enumerate() {
        let session = SessionId(1000 + number as u64);
        world.hub.handle_client_joined(session, join, world.now);
        world.drain();
        assert!(world.closed.contains(&(session, ReasonCode::TryLater)));
    }
    assert_eq!(world.hub.status().clients, 0);
}

#[test]
fn an_expired_token_lets_nobody_in() {
    let mut world = World::simple();
    let at = Some(Timestamp::from_unix_ms(START_MS));
    world.edit_token(client_token(1), |token| token.expires = at);
    let session = world.join_client(1);
    assert!(world.closed.contains(&(session, ReasonCode::BadToken)));
}

#[test]
fn an_unknown_kind_is_answered_and_the_session_goes_on() {
    let mut world = World::connected();
    world.forget_messages();
    let of_client = world.clients[&client(1)].session.unwrap();
    let of_gateway = world.gateways[&gateway(1)].session.unwrap();
    for session in [of_client, of_gateway, SessionId(999)] {
        world
            .hub
            .handle_unknown(session, "poem".to_owned(), world.now);
    }
    world.drain();
    let kind = "poem".to_owned();
    assert_eq!(
        world.to_clients,
        [(client(1), ToClient::Unsupported { kind: kind.clone() })]
    );
    assert_eq!(
        world.to_gateways,
        [(gateway(1), ToGateway::Unsupported { kind })]
    );
    world.ask(1, 1);
    assert_eq!(world.holds(1), 1);
}

#[test]
fn a_second_hello_ends_the_session() {
    let mut world = World::connected();
    let session = world.clients[&client(1)].session.unwrap();
    let hello = FromClient::Hello {
        protocols: vec![1],
        version: String::new(),
        machine: String::new(),
        name: String::new(),
        public_key: PublicKey::from_bytes([0; 32]),
        ciphers: Vec::new(),
        features: Vec::new(),
        os: None,
    };
    world.client_says(session, hello);
    assert!(world.closed.contains(&(session, ReasonCode::Protocol)));
    let session = world.gateways[&gateway(1)].session.unwrap();
    let hello = FromGateway::Hello {
        protocols: vec![1],
        version: String::new(),
        machine: String::new(),
        name: String::new(),
        public_key: PublicKey::from_bytes([0; 32]),
        ciphers: Vec::new(),
        candidates: Vec::new(),
        draining: false,
        grants: Vec::new(),
        more_grants: false,
        features: Vec::new(),
    };
    world.gateway_says(1, hello);
    assert!(world.closed.contains(&(session, ReasonCode::Protocol)));
}

#[test]
fn one_side_can_not_speak_for_the_other() {
    let mut world = World::connected();
    world.manner(1, Manner::Silent);
    world.ask(1, 1);
    let grant = *world.gateways[&gateway(1)].held.keys().next().unwrap();
    let session = world.clients[&client(1)].session.unwrap();
    world.forget_messages();
    let names = Vec::new();
    let forged = FromGateway::GrantAccepted { grant, names };
    world.hub.handle_gateway_message(session, forged, world.now);
    world.drain();
    assert_eq!(world.to_clients, []);
}

#[test]
fn a_client_for_which_too_much_waits_starts_anew_and_lacks_nothing() {
    let mut world = World::connected();
    world.ask(1, 1);
    let session = world.clients[&client(1)].session.unwrap();
    // Nobody polls meanwhile.
    for _ in 0..=limits::MAX_QUEUED_MESSAGES {
        world
            .hub
            .handle_unknown(session, "poem".to_owned(), world.now);
    }
    let mut last = None;
    let mut count = 0;
    while let Some(output) = world.hub.poll_output() {
        match output {
            Output::ToClient { message, .. } => {
                count += 1;
                assert_eq!(message.seq, 3, "what was dropped leaves no gap");
                last = Some(message.message);
            }
            Output::Close { reason, .. } => assert_eq!(reason, ReasonCode::TryLater),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, 1);
    assert!(matches!(
        last,
        Some(ToClient::Refused {
            retry_after_s: Some(_),
            ..
        })
    ));
    assert_eq!(world.hub.status().counters.overflows, 1);
    world.join_client(1);
    assert_eq!((world.holds(1), world.grants_of(1)), (1, 1));
}

#[test]
fn a_long_list_of_resources_follows_the_welcome() {
    let mut world = World::new();
    world.set_actor(1, false);
    world.add_member(1, 1);
    world.set_client(1, 1);
    let name = "n".repeat(100);
    let edits = (1..=4_000).flat_map(|number| {
        let address = format!("10.{}.{}.0/24", number / 256, number % 256);
        let filters = vec![culvert_wire::model::Filter::Icmp; 5];
        let mut row = crate::world::network(number, SITE, &address, filters);
        row.name.clone_from(&name);
        let policy = crate::world::a_policy(number, 1, number, Vec::new());
        [
            (row.id.into(), Some(row.into())),
            (policy.id.into(), Some(policy.into())),
        ]
    });
    let edits = edits.collect();
    world.apply(edits);
    world.join_client(1);
    assert_eq!(world.clients[&client(1)].resources.len(), 4_000);
    let welcome = &world.to_clients[0].1;
    let len = culvert_wire::encode(welcome).len();
    assert!(len <= limits::MAX_WELCOME_RESOURCES_LEN + 4096, "{len}");
    let ToClient::Welcome {
        later_resources, ..
    } = welcome
    else {
        panic!("{welcome:?}");
    };
    // The rest of the list follows at once, and its length was told.
    let later = &world.to_clients[1..];
    assert!(!later.is_empty());
    assert_eq!(later.len(), *later_resources as usize);
    for (_, message) in later {
        assert!(
            matches!(message, ToClient::ResourceSet { .. }),
            "{message:?}"
        );
    }
    world.check();
}

#[test]
fn a_gap_in_the_feed_is_noticed_and_nothing_is_applied() {
    let mut world = World::connected();
    world.ask(1, 1);
    let last = world.hub.directory().seq();
    let change = |seq| culvert_store::Change {
        skipped: 0,
        seq: Seq(seq),
        account: crate::world::ACCOUNT,
        at: world.now,
        author: culvert_store::Author::PORTAL,
        operation: culvert_store::Operation::Delete,
        id: crate::world::policy(1).into(),
        before: None,
        after: None,
    };
    let gap = [change(last.0 + 2)];
    let mut foreign = change(last.0 + 1);
    foreign.account = culvert_ids::AccountId::from_bytes([1; 16]);
    let seen = change(last.0);
    let found = gap[0].seq;
    let refused = world.hub.handle_changes(&gap, world.now);
    assert_eq!(refused, Err(FeedError::Gap { last, found }));
    let refused = world.hub.handle_changes(&[foreign], world.now);
    assert_eq!(refused, Err(FeedError::Foreign(Seq(last.0 + 1))));
    world.hub.handle_changes(&[seen], world.now).unwrap();
    world.drain();
    assert_eq!(world.hub.directory().seq(), last);
    assert_eq!(world.holds(1), 1);
}

#[test]
fn epochs_differ_from_session_to_session() {
    let mut world = World::simple();
    let mut epochs = std::collections::BTreeSet::new();
    let mut key = [1; 32];
    key[..2].copy_from_slice(&[0, 1]);
    for number in 0..50 {
        let join = ClientJoin {
            client: client(1),
            token: client_token(1),
            public_key: PublicKey::from_bytes(key),
            ciphers: Vec::new(),
            seen: ClientFacts::default(),
            features: Vec::new(),
        };
        world
            .hub
            .handle_client_joined(SessionId(2000 + number), join, world.now);
        while let Some(output) = world.hub.poll_output() {
            if let Output::ToClient { message, .. } = output
                && matches!(message.message, ToClient::Welcome { .. })
            {
                epochs.insert(message.epoch);
                assert!(message.epoch < 1 << 53);
            }
        }
    }
    assert_eq!(epochs.len(), 50);
}
