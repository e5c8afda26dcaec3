//! A stub that answers for another machine, by the upstreams of a network that this may not use.

use crate::common::{
    A_TYPE, AAAA_TYPE, BOTH, CORP, Clocked, PTR_TYPE, TXT_TYPE, UPSTREAMS, name, record, record_of,
    upstream_answer,
};
use culvert_dns::Outcome;
use domain::base::iana::OptRcode;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const OTHER: &str = "www.example.org";
const HTTPS_TYPE: u16 = 65;

fn lent() -> Clocked {
    let mut stub = Clocked::new();
    stub.stub.withhold_private();
    stub
}

/// Asks for a name of no resource, and has the first upstream answer with these records.
fn answered(stub: &mut Clocked, kind: u16, records: &[Vec<u8>]) -> crate::common::Answer {
    stub.ask(7, OTHER, kind);
    let forward = stub.forward();
    let answer = upstream_answer(&forward.query, records);
    stub.answer_upstream(&answer, UPSTREAMS[0]).unwrap();
    stub.answer()
}

fn octets(address: IpAddr) -> (u16, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (A_TYPE, address.octets().to_vec()),
        IpAddr::V6(address) => (AAAA_TYPE, address.octets().to_vec()),
    }
}

#[test]
fn an_answer_with_a_private_address_is_that_of_a_name_that_does_not_exist() {
    let public = record(A_TYPE, &[203, 0, 113, 7]);
    for text in [
        "10.0.0.1",
        "192.168.7.1",
        "100.64.0.9",
        "fd00::1",
        "fe80::1",
    ] {
        let (kind, data) = octets(text.parse().unwrap());
        let private = record(kind, &data);
        for records in [
            vec![private.clone()],
            vec![public.clone(), private.clone()],
            // As the address of another name.
            vec![public.clone(), record_of("host.example.org", kind, &data)],
        ] {
            let answer = answered(&mut lent(), kind, &records);
            assert_eq!(answer.code, OptRcode::NXDOMAIN, "{text}");
            assert_eq!((answer.addresses, answer.error), (vec![], None), "{text}");
            // A resolver of the machine's own network says what it says.
            let answer = answered(&mut Clocked::new(), kind, &records);
            assert_eq!(answer.code, OptRcode::NOERROR, "{text}");
        }
    }
    let hint = [&[0, 1, 0, 0, 4, 0, 4][..], &[10, 0, 0, 1]].concat();
    let answer = answered(&mut lent(), HTTPS_TYPE, &[record(HTTPS_TYPE, &hint)]);
    assert_eq!(answer.code, OptRcode::NXDOMAIN);
    let answer = answered(&mut lent(), A_TYPE, &[public]);
    assert_eq!(answer.addresses, [IpAddr::from([203, 0, 113, 7])]);
    let text = record(TXT_TYPE, b"\x05hello");
    assert_eq!(
        answered(&mut lent(), TXT_TYPE, &[text]).code,
        OptRcode::NOERROR
    );
}

#[test]
fn names_of_private_addresses_are_asked_of_nobody() {
    let mut stub = lent();
    stub.ask(1, "1.0.0.10.in-addr.arpa", PTR_TYPE);
    assert_eq!(stub.answer().code, OptRcode::NXDOMAIN);
    assert!(stub.forwards.is_empty());
    stub.ask(2, "7.113.0.203.in-addr.arpa", PTR_TYPE);
    assert_eq!(stub.forwards.len(), 1);
}

#[test]
fn a_resources_name_leads_there_whatever_its_real_address() {
    let mut stub = lent();
    let addresses = stub.grant("www.corp.example");
    stub.ask(3, "www.corp.example", A_TYPE);
    assert_eq!(stub.answer().addresses, [IpAddr::from(addresses.v4)]);
}

#[test]
fn names_of_an_earlier_stub_keep_their_addresses_and_others_get_none_of_them() {
    let stored = Clocked::new().grant("www.corp.example");
    let mut stub = lent();
    let now = stub.now();
    let www = name("www.corp.example");
    assert!(stub.stub.keep_name(&www, CORP, stored, now));
    assert!(!stub.stub.keep_name(&www, CORP, stored, now), "it is there");
    let other = name("other.corp.example");
    assert!(!stub.stub.keep_name(&other, CORP, stored, now), "taken");
    let mut crossed = stored;
    crossed.v6 = Ipv6Addr::from(u128::from(stored.v6) + 1);
    assert!(!stub.stub.keep_name(&other, CORP, crossed, now));
    assert_ne!(stub.grant("other.corp.example"), stored);
    assert_eq!(stub.grant("www.corp.example"), stored);
}

#[test]
fn addresses_begin_at_the_place_that_is_given() {
    let mut stub = lent();
    stub.stub.begin_at(1_000);
    let begun = stub.grant("www.corp.example").v4;
    let from_the_first = lent().grant("www.corp.example").v4;
    assert_eq!(u32::from(begun) - u32::from(from_the_first), 1_000);
    // Each address lies in the ranges.
    let mut small = Clocked::small();
    small.stub.begin_at(u32::MAX);
    let range: culvert_policy::Prefix = "10.9.8.0/24".parse().unwrap();
    assert!(range.contains(small.grant("www.corp.example").v4.into()));
}

#[test]
fn a_smaller_bound_of_names_holds_and_may_change() {
    let mut stub = lent();
    stub.stub.set_names_max(2);
    for text in ["a.corp.example", "b.corp.example"] {
        stub.grant(text);
    }
    stub.ask(4, "c.corp.example", A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL);
    stub.stub.set_names_max(3);
    stub.grant("c.corp.example");
    stub.stub.set_names_max(0);
    stub.ask(5, "a.corp.example", A_TYPE);
    assert_eq!(stub.answer().addresses.len(), 1, "it has its addresses");
    assert_eq!(stub.stub.counts().names, 3);
}

#[test]
fn access_that_may_have_changed_is_asked_for_again() {
    let mut stub = lent();
    let addresses = stub.grant("www.corp.example");
    stub.stub.forget_access();
    stub.ask(6, "www.corp.example", A_TYPE);
    assert_eq!(stub.wanted.len(), 1);
    assert_eq!(stub.wanted[0].2, addresses);
    stub.resolve("www.corp.example", Outcome::Families(BOTH));
    assert_eq!(stub.answer().addresses, [IpAddr::from(addresses.v4)]);
}

proptest! {
    /// An answer is withheld if one of its addresses is private, wherever it stands.
    #[test]
    fn no_private_address_gets_out(addresses in proptest::collection::vec(any::<u32>(), 1..6)) {
        let private = |address: &u32| {
            let address = Ipv4Addr::from(*address);
            address.is_private() || address.is_loopback() || address.is_link_local()
        };
        let records: Vec<_> = addresses
            .iter()
            .map(|address| record(A_TYPE, &address.to_be_bytes()))
            .collect();
        let answer = answered(&mut lent(), A_TYPE, &records);
        if addresses.iter().any(private) {
            prop_assert_eq!(answer.code, OptRcode::NXDOMAIN);
        }
        let told = answer.addresses.iter();
        let told = told.filter(|address| matches!(address, IpAddr::V4(v4) if private(&u32::from(*v4))));
        prop_assert_eq!(told.count(), 0);
    }
}

#[test]
fn names_get_addresses_of_the_share_of_their_resource() {
    let mut stub = lent();
    stub.stub.divide_ranges(8);
    let share = |address: Ipv4Addr| (u32::from(address) >> 18) & 7;
    let first = stub.grant("www.corp.example");
    assert_eq!(share(first.v4), 0);
    stub.stub.assign_shares(1, [(CORP, 6)]);
    // It has addresses of another share, and gets others.
    let moved = stub.grant("www.corp.example");
    assert_eq!(share(moved.v4), 6);
    assert_eq!(u128::from(moved.v6) >> 18 & 7, 6);
    let other = stub.grant("other.corp.example");
    assert_eq!((share(other.v4), other.v4 == moved.v4), (6, false));
    stub.stub.assign_shares(1, []);
    let usual = stub.grant("third.corp.example");
    assert_eq!(share(usual.v4), 1);
    let now = stub.now();
    let fourth = name("fourth.corp.example");
    assert!(
        !stub.stub.keep_name(&fourth, CORP, first, now),
        "of another share"
    );
    assert_eq!(stub.stub.counts().names, 3);
}

#[test]
fn a_small_share_gives_the_oldest_name_s_addresses_to_a_new_one() {
    let mut stub = Clocked::small();
    stub.stub.divide_ranges(8);
    // Of 10.9.8.0/24, whose first address names the network.
    for number in 1..=31 {
        stub.grant(&format!("n{number}.corp.example"));
    }
    stub.ask(4, "more.corp.example", A_TYPE);
    assert_eq!(stub.answer().code, OptRcode::SERVFAIL, "all are in use");
    stub.pass(u64::try_from(culvert_dns::TOLD_MIN.as_millis()).unwrap());
    let more = stub.grant("more.corp.example");
    assert!(more.v4.octets()[3] < 32, "{more:?}");
    assert_eq!(stub.stub.counts().names, 31);
}
