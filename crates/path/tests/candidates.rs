//! The addresses that become candidates, and those that remain when there are too many.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::RelayId;
use culvert_path::{
    CANDIDATES_MAX, CandidateRefusal, Candidates, Error, Guard, Kind, OBSERVED_MAX, RELAYS_MAX,
};
use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};

const RELAYED: Kind = Kind::Relayed(RelayId::from_bytes([1; 16]));

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn guard() -> Guard {
    let ranges = ["100.64.0.0/11", "fd00:2021:1111::/48", "100.96.0.0/11"];
    Guard::new(ranges.map(|range| range.parse().unwrap())).unwrap()
}

fn public(index: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], 1000 + index))
}

fn addresses(candidates: &Candidates) -> Vec<SocketAddr> {
    let list = candidates.as_slice().iter();
    list.map(|candidate| candidate.address).collect()
}

#[test]
fn an_address_that_is_no_peer_is_refused_with_the_reason() {
    let cases = [
        ("192.0.2.1:0", CandidateRefusal::NoPort),
        ("0.0.0.0:1", CandidateRefusal::Unspecified),
        ("0.1.2.3:1", CandidateRefusal::Unspecified),
        ("[::]:1", CandidateRefusal::Unspecified),
        ("127.0.0.53:1", CandidateRefusal::Loopback),
        ("[::1]:1", CandidateRefusal::Loopback),
        ("224.0.0.251:1", CandidateRefusal::Multicast),
        ("[ff02::1]:1", CandidateRefusal::Multicast),
        ("255.255.255.255:1", CandidateRefusal::Reserved),
        ("240.0.0.1:1", CandidateRefusal::Reserved),
        ("[fe80::1]:1", CandidateRefusal::NoScope),
        ("100.64.0.7:1", CandidateRefusal::InsideTunnel),
        ("100.96.0.7:1", CandidateRefusal::InsideTunnel),
        ("[fd00:2021:1111::7]:1", CandidateRefusal::InsideTunnel),
    ];
    for (address, refusal) in cases {
        let mut candidates = Candidates::new(guard());
        assert_eq!(
            candidates.learn(at(address), Kind::Public),
            Err(refusal),
            "{address}"
        );
        assert_eq!(candidates.as_slice(), []);
    }
}

#[test]
fn an_address_inside_the_tunnel_is_refused_in_disguise_too() {
    let mut candidates = Candidates::new(guard());
    for (address, refusal) in [
        ("[::ffff:100.64.0.7]:1", CandidateRefusal::InsideTunnel),
        ("[::ffff:127.0.0.1]:1", CandidateRefusal::Loopback),
    ] {
        assert_eq!(candidates.learn(at(address), Kind::Observed), Err(refusal));
    }
}

#[test]
fn an_address_of_a_network_that_is_merely_a_resource_is_a_candidate() {
    let mut candidates = Candidates::new(guard());
    assert_eq!(
        candidates.learn(at("10.1.2.3:51820"), Kind::Interface),
        Ok(true)
    );
    assert_eq!(
        candidates.learn(at("[fe80::1%3]:51820"), Kind::Observed),
        Ok(true)
    );
}

#[test]
fn an_address_is_a_candidate_once_with_the_kind_that_matters_more() {
    let mut candidates = Candidates::new(guard());
    assert_eq!(
        candidates.learn(at("192.0.2.1:7"), Kind::Observed),
        Ok(true)
    );
    assert_eq!(
        candidates.learn(at("[::ffff:192.0.2.1]:7"), Kind::Interface),
        Ok(true)
    );
    assert_eq!(candidates.learn(at("192.0.2.1:7"), RELAYED), Ok(false));
    assert_eq!(candidates.as_slice().len(), 1);
    assert_eq!(
        candidates.kind_of(at("[::ffff:192.0.2.1]:7")),
        Some(Kind::Interface)
    );
}

#[test]
fn the_oldest_observation_makes_room_for_the_latest() {
    let mut candidates = Candidates::new(guard());
    for index in 0..6 {
        candidates.learn(public(index), Kind::Observed).unwrap();
    }
    assert_eq!(candidates.as_slice().len(), OBSERVED_MAX);
    assert_eq!(addresses(&candidates), [5, 4, 3, 2].map(public));
    candidates.learn(public(3), Kind::Observed).unwrap();
    assert_eq!(addresses(&candidates), [3, 5, 4, 2].map(public));
}

#[test]
fn observations_do_not_push_out_what_was_announced() {
    let mut candidates = Candidates::new(guard());
    let announced = 0..u16::try_from(CANDIDATES_MAX).unwrap();
    let refused = candidates.replace(Kind::Interface, announced.clone().map(public));
    assert_eq!(refused, []);
    assert_eq!(
        candidates.learn(public(99), Kind::Observed),
        Err(CandidateRefusal::Full)
    );
    assert_eq!(
        candidates.learn(public(98), Kind::Public),
        Ok(true),
        "but an administrator does"
    );
    assert_eq!(candidates.as_slice().len(), CANDIDATES_MAX);
    assert_eq!(candidates.as_slice()[0].address, public(98));
}

#[test]
fn announcing_anew_replaces_what_was_announced_and_nothing_else() {
    let mut candidates = Candidates::new(guard());
    candidates.replace(Kind::Interface, [public(0), public(1)]);
    candidates.learn(public(2), Kind::Observed).unwrap();
    let refused = candidates.replace(Kind::Interface, [public(1), at("127.0.0.1:1"), public(3)]);
    assert_eq!(refused, [(at("127.0.0.1:1"), CandidateRefusal::Loopback)]);
    assert_eq!(addresses(&candidates), [1, 3, 2].map(public));
    assert!(candidates.forget(public(3)));
    assert!(!candidates.forget(public(3)));
}

#[test]
fn a_candidate_goes_when_the_tunnel_takes_its_network() {
    let mut candidates = Candidates::new(Guard::default());
    candidates
        .learn(at("100.64.0.7:1"), Kind::Interface)
        .unwrap();
    candidates.learn(public(0), Kind::Interface).unwrap();
    candidates.set_guard(guard());
    assert_eq!(addresses(&candidates), [public(0)]);
    assert_eq!(
        candidates.learn(at("100.64.0.7:1"), Kind::Interface),
        Err(CandidateRefusal::InsideTunnel)
    );
}

#[test]
fn a_guard_that_would_miss_a_range_is_refused() {
    let ranges = (0..33_u8).map(|net| format!("10.{net}.0.0/16").parse().unwrap());
    assert_eq!(Guard::new(ranges), Err(Error::TooManyRanges(33)));
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(bits.into()));
    let near = (0_u8..40).prop_map(|last| IpAddr::from([192, 0, 2, last]));
    let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(bits.into()));
    (prop_oneof![v4, near, v6], 0_u16..3).prop_map(SocketAddr::from)
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&[
        Kind::Public,
        Kind::Interface,
        Kind::Reflexive,
        Kind::Observed,
        RELAYED,
    ])
}

proptest! {
    #[test]
    fn candidates_are_bounded_distinct_ordered_and_outside_of_the_tunnel(
        learned in prop::collection::vec((any_address(), any_kind()), 0..80),
    ) {
        let mut candidates = Candidates::new(guard());
        for (address, kind) in learned {
            let known = candidates.kind_of(address);
            match candidates.learn(address, kind) {
                Ok(_) => prop_assert_eq!(
                    candidates.kind_of(address),
                    Some(match known {
                        Some(RELAYED) => RELAYED,
                        Some(known) => known.min(kind),
                        None => kind,
                    })
                ),
                Err(_) => prop_assert_eq!(candidates.kind_of(address), known),
            }
            let list = candidates.as_slice();
            let relays = list.iter().filter(|it| it.kind.relay().is_some()).count();
            prop_assert!(relays <= RELAYS_MAX);
            prop_assert!(list.len() - relays <= CANDIDATES_MAX);
            prop_assert!(list.iter().filter(|it| it.kind == Kind::Observed).count() <= OBSERVED_MAX);
            prop_assert!(list.is_sorted_by_key(|it| it.kind));
            for (index, candidate) in list.iter().enumerate() {
                prop_assert!(!list[..index].iter().any(|it| it.address == candidate.address));
                prop_assert!(!candidate.address.ip().is_loopback());
                prop_assert!(!candidate.address.ip().is_multicast());
                let IpAddr::V4(v4) = candidate.address.ip() else { continue };
                prop_assert!(!(v4.octets()[0] == 100 && (64..128).contains(&v4.octets()[1])));
            }
        }
    }
}
