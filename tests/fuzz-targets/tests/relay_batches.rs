//! Batches for a relay that were spoilt in many ways: what a fuzzer does, without one.

use culvert_fuzz_targets::{relay, seeds};
use proptest::prelude::*;
use proptest::sample::Index;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn spoilt_batches_break_no_property(
        chosen in proptest::collection::vec(any::<Index>(), 1..6),
        faults in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..12),
        cut in any::<Index>(),
        is_cut in any::<bool>(),
    ) {
        let seeds = seeds("relay");
        let chosen = chosen.iter().map(|index| index.get(&seeds).as_slice());
        let mut input = chosen.collect::<Vec<_>>().concat();
        for (place, value) in faults {
            let place = place.index(input.len());
            input[place] = value;
        }
        if is_cut {
            input.truncate(cut.index(input.len()));
        }
        relay(&input);
    }
}
