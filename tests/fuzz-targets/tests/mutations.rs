//! Control messages that were spoilt in many ways: what a fuzzer does, without one.

use culvert_fuzz_targets::{control, seeds};
use proptest::prelude::*;
use proptest::sample::Index;

/// The parts of messages, including parts that a later version may bring.
const WORDS: [&str; 26] = [
    "null",
    "true",
    "0",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[null]",
    "{\"a\":{}}",
    "\"protocol\":\"sctp\"",
    "\"protocol\":\"any\"",
    "\"ports\":[]",
    "\"ports\":[0,\"1-65535\"]",
    "\"kind\":\"app\"",
    "\"kind\":\"dns\"",
    "\"address\":\"*\"",
    "\"seq\":3",
    "\"type\":\"poem\"",
    "\"type\":\"welcome\"",
    "\"filters\":[{},7,{\"protocol\":\"icmp\"}]",
    "\"ciphers\":[\"x\",[]]",
    ",",
];

/// One fault.
#[derive(Clone, Debug)]
enum Fault {
    /// A byte is another.
    Set(Index, u8),
    /// Some bytes are missing.
    Cut(Index, usize),
    /// Some bytes come twice.
    Repeat(Index, usize),
    /// A word stands in the place of some bytes.
    Word(Index, usize, usize),
    /// The rest is the end of another message.
    Splice(Index, Index, Index),
}

fn fault() -> impl Strategy<Value = Fault> {
    let at = any::<Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Fault::Set(at, byte)),
        (at(), 1..40_usize).prop_map(|(at, len)| Fault::Cut(at, len)),
        (at(), 1..40_usize).prop_map(|(at, len)| Fault::Repeat(at, len)),
        (at(), 0..20_usize, 0..WORDS.len()).prop_map(|(at, len, word)| Fault::Word(at, len, word)),
        (at(), at(), at()).prop_map(|(at, other, from)| Fault::Splice(at, other, from)),
    ]
}

fn spoil(message: &mut Vec<u8>, fault: &Fault, seeds: &[Vec<u8>]) {
    if message.is_empty() {
        return;
    }
    let place = |at: &Index, len: usize, of: &[u8]| {
        let from = at.index(of.len());
        from..(from + len).min(of.len())
    };
    match fault {
        Fault::Set(at, byte) => {
            let at = at.index(message.len());
            message[at] = *byte;
        }
        Fault::Cut(at, len) => {
            let place = place(at, *len, message);
            message.drain(place);
        }
        Fault::Repeat(at, len) => {
            let place = place(at, *len, message);
            let twice = message[place.clone()].to_vec();
            message.splice(place.start..place.start, twice);
        }
        Fault::Word(at, len, word) => {
            let place = place(at, *len, message);
            message.splice(place, WORDS[*word].bytes());
        }
        Fault::Splice(at, other, from) => {
            let other = &seeds[other.index(seeds.len())];
            let len = at.index(message.len());
            message.truncate(len);
            message.extend(&other[from.index(other.len())..]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_spoilt_message_is_taken_for_what_it_is_not(
        seed in any::<Index>(),
        faults in prop::collection::vec(fault(), 1..6),
    ) {
        let seeds = seeds("control");
        let mut message = seeds[seed.index(seeds.len())].clone();
        for fault in &faults {
            spoil(&mut message, fault, &seeds);
        }
        control(&message);
    }
}
