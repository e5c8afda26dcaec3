//! Properties that hold for any input.

use crate::common::{A_TYPE, AAAA_TYPE, ANY_TYPE, BOTH, Clocked, EDNS, name, query};
use culvert_dns::{Outcome, Output, Transport};
use culvert_policy::DomainName;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Something that happens to a stub of 254 addresses.
#[derive(Clone, Debug)]
enum Event {
    Ask(u16, u16),
    Resolve(u16, u8),
    Used(u16),
    Ended,
    Pass(u64),
}

fn any_event() -> impl Strategy<Value = Event> {
    let host = || 0_u16..600;
    let qtype = prop::sample::select(&[A_TYPE, AAAA_TYPE, ANY_TYPE]);
    prop_oneof![
        8 => (host(), qtype).prop_map(|(host, qtype)| Event::Ask(host, qtype)),
        8 => (host(), 0_u8..8).prop_map(|(host, outcome)| Event::Resolve(host, outcome)),
        1 => host().prop_map(Event::Used),
        1 => Just(Event::Ended),
        2 => (0_u64..6000).prop_map(Event::Pass),
        1 => (0_u64..20_000_000).prop_map(Event::Pass),
    ]
}

fn host(index: u16) -> String {
    format!("host{index}.corp.example")
}

/// The addresses that were told, each with its name and time, by a separate record of the test.
#[derive(Default)]
struct Told(BTreeMap<IpAddr, (DomainName, u64)>);

impl Told {
    /// Nobody else may have been told this address within five minutes.
    fn tell(
        &mut self,
        address: IpAddr,
        name: &DomainName,
        now_ms: u64,
    ) -> Result<(), TestCaseError> {
        if let Some((other, at)) = self.0.insert(address, (name.clone(), now_ms)) {
            prop_assert!(other == *name || now_ms - at >= 300_000, "{address} twice");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn an_address_in_use_belongs_to_one_name_and_every_query_gets_one_answer(
        events in prop::collection::vec(any_event(), 0..1200),
    ) {
        let mut stub = Clocked::small();
        let (mut told, mut asked, mut next_id) = (Told::default(), BTreeMap::new(), 0_u16);
        for event in events {
            match event {
                Event::Ask(index, qtype) => {
                    next_id += 1;
                    asked.insert(next_id, index);
                    stub.ask(next_id, &host(index), qtype);
                }
                Event::Resolve(index, 0) => stub.resolve(&host(index), Outcome::NxDomain),
                Event::Resolve(index, 1) => stub.resolve(&host(index), Outcome::Unreachable),
                Event::Resolve(index, _) => stub.resolve(&host(index), Outcome::Families(BOTH)),
                Event::Used(index) => {
                    if let Some(addresses) = stub.stub.addresses_of(&name(&host(index))) {
                        stub.stub.handle_used(addresses.v4.into(), stub.now());
                    }
                }
                Event::Ended => stub.end_access(crate::common::CORP),
                Event::Pass(duration_ms) => stub.pass(duration_ms),
            }
            for answer in std::mem::take(&mut stub.answers) {
                let index = asked.remove(&answer.id);
                prop_assert!(index.is_some(), "an answer to nobody");
                let name = name(&host(index.unwrap()));
                for address in answer.addresses {
                    prop_assert_eq!(stub.stub.at(address).map(|it| it.name), Some(&name));
                    told.tell(address, &name, stub.now_ms)?;
                }
            }
            prop_assert!(stub.stub.counts().names <= 254);
        }
        stub.pass(10_000);
        for answer in &stub.answers {
            prop_assert!(asked.remove(&answer.id).is_some());
        }
        prop_assert!(asked.is_empty(), "a query without an answer: {asked:?}");
    }

    #[test]
    fn any_bytes_get_at_most_one_answer_with_their_id_and_question(
        mut bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            (0_u16..70, any::<u16>(), any::<bool>()).prop_map(|(qtype, id, ours)| {
                let name = if ours { "a.corp.example" } else { "a.example.org" };
                query(id, name, qtype, EDNS)
            }),
        ],
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        by_tcp in any::<bool>(),
    ) {
        for (index, bits) in flips {
            if !bytes.is_empty() {
                let index = index.index(bytes.len());
                bytes[index] ^= bits;
            }
        }
        let mut stub = Clocked::new();
        let transport = if by_tcp { Transport::Tcp } else { Transport::Udp };
        let from = SocketAddr::from(([127, 0, 0, 1], 7));
        let now = stub.now();
        let taken = stub.stub.handle_query(&bytes, transport, from, now, crate::common::resource_of);
        stub.pass(10_000);
        stub.drain();
        while let Some(Output::Answer { .. }) = stub.stub.poll_output() {}
        prop_assert_eq!(stub.answers.len(), usize::from(taken.is_ok()), "{:?}", taken);
        for answer in &stub.answers {
            prop_assert_eq!(&answer.bytes[..2], &bytes[..2]);
            let has_question = answer.bytes[5] == 1;
            let end = 12 + answer.bytes[12..].iter().position(|byte| *byte == 0).unwrap_or(0) + 5;
            prop_assert!(!has_question || answer.bytes[12..end] == bytes[12..end]);
        }
    }

    #[test]
    fn any_answer_of_an_upstream_leaves_what_is_sent_on_readable(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut stub = Clocked::new();
        stub.ask(9, "www.example.org", A_TYPE);
        let forward = stub.forward();
        let records = [crate::common::record(A_TYPE, &[192, 0, 2, 1])];
        let mut bytes = crate::common::upstream_answer(&forward.query, &records);
        for (index, bits) in flips {
            let index = index.index(bytes.len());
            bytes[index] ^= bits;
        }
        let result = stub.stub.handle_upstream_answer(&bytes, Transport::Udp, forward.upstream, stub.now(), crate::common::resource_of);
        while let Some(output) = stub.stub.poll_output() {
            let Output::Answer { bytes, .. } = output else { continue };
            prop_assert_eq!(&bytes[..2], &[0, 9]);
            prop_assert_eq!(&bytes[12..33], &query(9, "www.example.org", A_TYPE, None)[12..33]);
            prop_assert!(result.is_ok());
        }
    }
}
