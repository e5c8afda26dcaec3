//! Any events in any order: only allowed packets pass. Once the events stop, everything allowed
//! works; in the end nothing is left.

use crate::seeds;
use culvert_policy::gate::DropReason;
use culvert_sim::access::{Tally, run_day, run_history};

#[test]
fn nothing_passes_that_is_not_allowed_and_in_the_end_everything_works_that_is() {
    let (total, runs) = seeds::run(seeds::HISTORIES, run_history);
    if runs >= seeds::HISTORIES {
        assert_covered(&total, runs);
    }
}

#[test]
fn a_day_in_which_everything_happens_ends_as_it_began() {
    let (total, runs) = seeds::run(seeds::DAYS, run_day);
    if runs >= seeds::DAYS {
        assert!(total.answered > runs * 100_000, "{total:?}");
        assert!(total.changes > runs * 500, "{total:?}");
    }
}

/// The runs have tried what they are there for.
fn assert_covered(total: &Tally, runs: u64) {
    assert!(total.delivered > runs * 100, "{total:?}");
    assert!(total.answered > runs * 50, "{total:?}");
    for reason in [
        DropReason::ForgedSource,
        DropReason::NoGrant,
        DropReason::NotForwarded,
        DropReason::Port,
        DropReason::Protocol,
        DropReason::NotAFlow,
    ] {
        let count = total.dropped.get(&reason).copied().unwrap_or(0);
        assert!(count > 0, "no packet was dropped for {reason}: {total:?}");
    }
}
