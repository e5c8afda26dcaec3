//! Tells if the time of comparing secrets depends on the place where they differ: dudect's method
//! (Reparaz, Balasch and Verbauwhede, "Dude, is my code constant time?", DATE 2017).
//!
//! Each comparison gets inputs of two classes in random order: one fixed guess, or random ones. Welch's t-test
//! says whether the times of the two classes have different means, over all samples and over those below
//! several percentiles, because interrupts make long outliers. |t| > 4.5 is a leak if a second run of the same
//! comparison finds it again.
//!
//! A comparison of our own that stops at the first difference is measured first. If it is not found to leak, the
//! method sees nothing on this machine, and its other results mean nothing.
//!
//! Exit status: 0 no leak; 1 a leak; 2 wrong arguments, or the deliberate leak was not found.

#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    reason = "the results are the output of this program"
)]

mod comparisons;
mod measure;
mod statistics;

use comparisons::Comparison;
use std::process::ExitCode;

/// Samples of each comparison, unless the command line says otherwise.
const SAMPLES: usize = 1_000_000;

/// Above this |t| the classes differ: dudect's threshold. By chance it is exceeded once in 10⁵ tests.
const THRESHOLD: f64 = 4.5;

const USAGE: &str = "usage: culvert-constant-time [SAMPLES]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let samples = match (arguments.next(), arguments.next()) {
        (None, _) => Some(SAMPLES),
        (Some(samples), None) => samples.parse().ok().filter(|samples| *samples >= 1_000),
        (Some(_), Some(_)) => None,
    };
    let Some(samples) = samples else {
        eprintln!("{USAGE} (at least 1000)");
        return ExitCode::from(2);
    };
    println!("{samples} samples each; a leak is |t| > {THRESHOLD} twice in a row\n");
    if !leaks(&mut comparisons::early_exit(), samples) {
        eprintln!("the deliberate leak was not found: take more samples, or a quieter machine");
        return ExitCode::from(2);
    }
    println!("(this one leaks on purpose)\n");
    let leaking = comparisons::all()
        .iter_mut()
        .filter_map(|comparison| leaks(comparison, samples).then_some(comparison.name))
        .collect::<Vec<_>>();
    if leaking.is_empty() {
        println!("\nno leak found");
        return ExitCode::SUCCESS;
    }
    println!("\nleaks: {}", leaking.join(", "));
    ExitCode::FAILURE
}

/// Measures a comparison, and once more where the first run finds a leak.
fn leaks(comparison: &mut Comparison, samples: usize) -> bool {
    // A comparison that always says the same would be found to take the same time.
    let is_accepted = (comparison.accepts)(&comparison.guess);
    assert_eq!(is_accepted, comparison.is_good, "{}", comparison.name);
    for _ in 0..2 {
        let t = measure::max_t(comparison, samples);
        println!("{:<60} max |t| = {t:6.2}", comparison.name);
        if t <= THRESHOLD {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test of the method. 20,000 samples give |t| far above 100 on an idle machine. If the machine is so
    /// busy that the first runs miss the leak, further ones find it.
    #[test]
    fn a_comparison_that_stops_at_the_first_difference_is_found() {
        let found = (0..20).any(|_| leaks(&mut comparisons::early_exit(), 20_000));
        assert!(found, "an early exit is not visible in the times");
    }

    #[test]
    fn every_comparison_says_of_each_input_what_is_true() {
        for comparison in comparisons::all()
            .iter_mut()
            .chain([&mut comparisons::early_exit()])
        {
            let is_accepted = (comparison.accepts)(&comparison.guess);
            assert_eq!(is_accepted, comparison.is_good, "{}", comparison.name);
            let random = vec![0x5A; comparison.guess.len()];
            assert!(!(comparison.accepts)(&random), "{}", comparison.name);
        }
    }
}
