//! The way of records through a relay.

use crate::world::{
    GATEWAY, Sent, World, client, client_at, data, gateway_at, initiation, public_key, record,
    settings,
};
use blake2::digest::consts::U16;
use blake2::digest::{KeyInit, Mac as _};
use blake2::{Blake2s256, Blake2sMac, Digest};
use culvert_base::PresharedKey;
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_ids::ClientId;
use culvert_relay_core::SharedBudget;
use culvert_relay_core::probe::{PairEnd, PairProbes};
use culvert_relay_core::relay::{DropReason, INDICES_PER_CLIENT, SEARCHES_PER_S};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

fn to(to: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
    let bytes = bytes.to_vec();
    vec![Sent { to, bytes }]
}

fn dropped(world: &World, reason: DropReason) -> u64 {
    world.relay.counters().dropped_for(reason)
}

/// A response of a client that chose `sender`.
fn response(sender: u32, receiver: u32) -> Vec<u8> {
    let mut response = record(2, sender, 92);
    response[8..12].copy_from_slice(&receiver.to_le_bytes());
    response
}

/// An initiation of the gateway to the owner of a public key.
fn initiation_to(client: ClientId) -> Vec<u8> {
    let mut message = initiation(500);
    let digest = Blake2s256::new().chain_update(b"mac1----");
    let key = digest
        .chain_update(public_key(Some(client)).as_bytes())
        .finalize();
    let mut mac = Blake2sMac::<U16>::new_from_slice(&key).unwrap();
    mac.update(&message[..116]);
    message[116..132].copy_from_slice(&mac.finalize().into_bytes());
    message
}

#[test]
fn nothing_is_forwarded_between_ends_that_are_not_registered() {
    let mut world = World::populated([1]);
    let sent = world.one(client_at(2), &data(1, 64));
    assert!(sent.iter().all(|sent| sent.to == client_at(2)));
    assert_eq!(dropped(&world, DropReason::UnknownSender), 1);
    let mut without_gateway = World::new();
    let claims = without_gateway.claims(Some(client(1)));
    without_gateway.register(client_at(1), &claims).unwrap();
    assert_eq!(without_gateway.one(client_at(1), &data(1, 64)), []);
    assert_eq!(dropped(&without_gateway, DropReason::NoGateway), 1);
}

#[test]
fn an_end_of_one_port_is_a_stranger_at_another() {
    let mut world = World::populated([1]);
    let datagram = data(1, 64);
    let sent = world.receive_at(1, client_at(1), &datagram, datagram.len());
    assert!(sent.iter().all(|sent| sent.to == client_at(1)));
    assert_eq!(dropped(&world, DropReason::UnknownSender), 1);
}

#[test]
fn a_clients_records_go_to_the_gateway_byte_for_byte() {
    let mut world = World::populated([1]);
    for datagram in [
        initiation(7),
        response(8, 9),
        record(3, 7, 64),
        data(7, 32),
        data(7, 1_420),
    ] {
        let sent = world.one(client_at(1), &datagram);
        assert_eq!(sent, to(gateway_at(), &datagram));
    }
}

#[test]
fn the_gateways_records_go_to_the_client_that_chose_the_index() {
    let mut world = World::populated([1, 2]);
    world.one(client_at(1), &initiation(7));
    world.one(client_at(2), &response(8, 500));
    for (index, number) in [(7, 1), (8, 2)] {
        for datagram in [
            data(index, 1_420),
            record(3, index, 64),
            response(500, index),
        ] {
            let sent = world.one(gateway_at(), &datagram);
            assert_eq!(sent, to(client_at(number), &datagram));
        }
    }
    assert_eq!(world.one(gateway_at(), &data(9, 64)), []);
    assert_eq!(dropped(&world, DropReason::UnknownReceiver), 1);
}

#[test]
fn an_index_claimed_by_two_belongs_to_the_first() {
    let mut world = World::populated([1, 2]);
    world.one(client_at(1), &initiation(7));
    assert_eq!(world.one(client_at(2), &initiation(7)), []);
    assert_eq!(dropped(&world, DropReason::IndexTaken), 1);
    let sent = world.one(gateway_at(), &data(7, 64));
    assert_eq!(sent, to(client_at(1), &data(7, 64)));
    // It is free again once the first has left.
    let (until, now) = (world.claims(None).iat, world.now.unix);
    world.relay.withdraw(GATEWAY, Some(client(1)), until, now);
    assert_eq!(world.one(gateway_at(), &data(7, 64)), []);
    world.one(client_at(2), &initiation(7));
    let sent = world.one(gateway_at(), &data(7, 64));
    assert_eq!(sent, to(client_at(2), &data(7, 64)));
}

#[test]
fn a_client_keeps_its_indices_when_it_moves() {
    let mut world = World::populated([1]);
    world.one(client_at(1), &initiation(7));
    let claims = world.claims(Some(client(1)));
    world.register(client_at(9), &claims).unwrap();
    let sent = world.one(gateway_at(), &data(7, 64));
    assert_eq!(sent, to(client_at(9), &data(7, 64)));
}

#[test]
fn the_oldest_of_nine_indices_leaves() {
    let mut world = World::populated([1]);
    for index in 0..=INDICES_PER_CLIENT as u32 {
        world.one(client_at(1), &initiation(index));
    }
    assert_eq!(world.one(gateway_at(), &data(0, 64)), []);
    assert_eq!(world.one(gateway_at(), &data(1, 64)).len(), 1);
}

#[test]
fn an_initiation_of_the_gateway_finds_its_client_by_the_first_mac() {
    let mut world = World::populated([1, 2, 3]);
    for number in [3, 1, 2] {
        let datagram = initiation_to(client(number));
        let sent = world.one(gateway_at(), &datagram);
        assert_eq!(sent, to(client_at(number), &datagram));
    }
    assert_eq!(world.one(gateway_at(), &initiation_to(client(4))), []);
    assert_eq!(dropped(&world, DropReason::NoSuchClient), 1);
}

#[test]
fn a_gateway_searches_a_hundred_times_a_second_at_most() {
    let mut world = World::populated([1]);
    let datagram = initiation_to(client(1));
    let found = (0..500).filter(|_| !world.one(gateway_at(), &datagram).is_empty());
    assert_eq!(found.count(), SEARCHES_PER_S as usize);
    assert_eq!(dropped(&world, DropReason::SearchLimit), 400);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.one(gateway_at(), &datagram).len(), 1);
}

#[test]
fn probes_go_the_way_of_records_and_find_a_client_by_its_tag() {
    let mut world = World::populated([1, 2]);
    let preshared = PresharedKey::from_bytes([5; 32]);
    let [of_client, of_gateway] =
        [PairEnd::Client, PairEnd::Gateway].map(|end| PairProbes::new(&preshared, end).unwrap());
    let back = of_gateway.question([1; 8]);
    assert_eq!(world.one(gateway_at(), &back), []);
    let probe = of_client.question([2; 8]);
    assert_eq!(world.one(client_at(2), &probe), to(gateway_at(), &probe));
    for answer in [of_gateway.question([1; 8]), of_gateway.answer([2; 8])] {
        assert_eq!(world.one(gateway_at(), &answer), to(client_at(2), &answer));
    }
    // The tag is another client's now.
    assert_eq!(world.one(client_at(1), &probe), []);
    assert_eq!(dropped(&world, DropReason::IndexTaken), 1);
}

#[test]
fn a_batch_is_cut_where_the_receiver_changes_and_nowhere_else() {
    let mut world = World::populated([1, 2]);
    world.one(client_at(1), &initiation(7));
    world.one(client_at(2), &initiation(8));
    let indices = [7, 7, 8, 9, 9, 8, 8, 7];
    let mut batch: Vec<u8> = indices.iter().flat_map(|index| data(*index, 100)).collect();
    // The last of a batch may be shorter.
    batch.truncate(batch.len() - 40);
    let sent = world.receive(gateway_at(), &batch, 100);
    let expected = [
        (client_at(1), 0..200),
        (client_at(2), 200..300),
        (client_at(2), 500..700),
        (client_at(1), 700..760),
    ];
    let expected = expected.map(|(to, place)| Sent {
        to,
        bytes: batch[place].to_vec(),
    });
    assert_eq!(sent, expected);
    assert_eq!(dropped(&world, DropReason::UnknownReceiver), 2);
}

#[test]
fn a_batch_is_cut_to_what_one_send_takes() {
    let mut world = World::populated([1]);
    let many: Vec<u8> = (0..200).flat_map(|_| data(1, 64)).collect();
    let sent = world.receive(client_at(1), &many, 64);
    assert!(
        sent.iter()
            .all(|sent| sent.bytes.len() <= 64 * MAX_SEGMENTS)
    );
    assert_eq!(
        sent.iter()
            .flat_map(|sent| sent.bytes.clone())
            .collect::<Vec<_>>(),
        many
    );
    let large: Vec<u8> = (0..46).flat_map(|_| data(1, 1_424)).collect();
    let sent = world.receive(client_at(1), &large, 1_424);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|sent| sent.bytes.len() <= MAX_GSO_BYTES));
}

#[test]
fn a_sign_of_life_in_a_batch_does_not_hold_the_records_back() {
    let mut world = World::populated([1]);
    let mut batch = data(1, 64);
    batch.extend([b"CVR\x63".as_slice(), &[0; 60]].concat());
    batch.extend(data(1, 64));
    let sent = world.receive(client_at(1), &batch, 64);
    assert_eq!(sent.len(), 2);
    assert_eq!(dropped(&world, DropReason::Malformed), 1);
}

#[test]
fn what_is_no_record_goes_nowhere() {
    let mut world = World::populated([1]);
    world.one(client_at(1), &initiation(7));
    let long_initiation = record(1, 7, 149);
    let short_data = data(7, 31);
    let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[0; 12]].concat();
    for datagram in [long_initiation, short_data, stun, vec![], vec![4]] {
        assert_eq!(world.one(client_at(1), &datagram), []);
        assert_eq!(world.one(gateway_at(), &datagram), []);
        assert_eq!(world.one(client_at(2), &datagram), []);
    }
}

#[test]
fn an_end_sends_no_more_than_its_rate() {
    let mut world = World::populated([]);
    let mut claims = world.claims(Some(client(1)));
    claims.rate_bytes_per_s = 10_000;
    world.register(client_at(1), &claims).unwrap();
    let mut passed = 0;
    for _ in 0..100 {
        passed += world.one(client_at(1), &data(1, 1_000)).len();
    }
    assert_eq!(passed, 10);
    assert_eq!(dropped(&world, DropReason::EndRate), 90);
    // A second registration brings no second bucket.
    world.register(client_at(1), &claims).unwrap();
    assert_eq!(world.one(client_at(1), &data(1, 1_000)), []);
    world.pass(Duration::from_secs(1));
    assert_eq!(world.one(client_at(1), &data(1, 1_000)).len(), 1);
}

#[test]
fn all_ends_together_send_no_more_than_the_relays_rate() {
    let mut limited = settings();
    limited.total = Arc::new(SharedBudget::new(Some(10_000)));
    let mut world = World::with(limited);
    world.register(gateway_at(), &world.claims(None)).unwrap();
    for number in 1..=5 {
        let claims = world.claims(Some(client(number)));
        world.register(client_at(number), &claims).unwrap();
    }
    let mut passed = 0;
    for number in 1..=5 {
        for _ in 0..10 {
            passed += world.one(client_at(number), &data(1, 1_000)).len();
        }
    }
    assert_eq!(passed, 10);
    assert_eq!(dropped(&world, DropReason::TotalRate), 40);
}

#[test]
fn records_of_a_client_never_reach_another_client() {
    let mut world = World::populated([1, 2]);
    world.one(client_at(2), &initiation(8));
    let sent = world.one(client_at(1), &data(8, 64));
    assert_eq!(sent, to(gateway_at(), &data(8, 64)));
}
