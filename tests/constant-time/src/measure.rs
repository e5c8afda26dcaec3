//! Times of a comparison over inputs of two classes.

use crate::comparisons::Comparison;
use crate::statistics::Welch;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use std::hint::black_box;
use std::time::Instant;

/// Calls that one time is of: a call takes about as long as reading the clock.
const CALLS: usize = 8;

/// Inputs that are made before they are measured, so that their making is not.
const CHUNK: usize = 1_000;

/// Parts of the first chunk's times, in thousandths, below which times are looked at alone.
const PERCENTILES: [usize; 8] = [50, 100, 250, 500, 750, 900, 950, 990];

/// The first times, which fill caches and set the percentiles.
const WARM_UP: usize = 10 * CHUNK;

/// The largest |t| of all samples and of those below each percentile.
pub(crate) fn max_t(comparison: &mut Comparison, samples: usize) -> f64 {
    let mut bounds = Vec::new();
    while bounds.len() < WARM_UP {
        bounds.extend(chunk(comparison).into_iter().map(|(_, nanos)| nanos));
    }
    bounds.sort_unstable();
    let bounds = PERCENTILES.map(|share| bounds[bounds.len() * share / 1_000]);
    let mut tests = [Welch::default(); PERCENTILES.len() + 1];
    for _ in 0..samples.div_ceil(CHUNK) {
        for (class, nanos) in chunk(comparison) {
            #[expect(clippy::cast_precision_loss, reason = "times are far below 2^53 ns")]
            let value = nanos as f64;
            tests[PERCENTILES.len()].push(class, value);
            for (test, bound) in tests.iter_mut().zip(bounds) {
                if nanos <= bound {
                    test.push(class, value);
                }
            }
        }
    }
    let t = tests.iter().filter_map(Welch::t).map(f64::abs);
    t.fold(0.0, f64::max)
}

/// Times of one chunk, with the class of each: whether its input is random.
fn chunk(comparison: &mut Comparison) -> Vec<(bool, u64)> {
    let len = comparison.guess.len();
    let mut classes = [0; CHUNK];
    fill(&mut classes);
    // The inputs of both classes lie in one buffer, so that memory does not tell them apart.
    let mut inputs = vec![0; CHUNK * len];
    fill(&mut inputs);
    for (class, input) in classes.iter().zip(inputs.chunks_exact_mut(len)) {
        if class & 1 == 0 {
            input.copy_from_slice(&comparison.guess);
        }
    }
    let accepts = &mut comparison.accepts;
    classes
        .iter()
        .zip(inputs.chunks_exact(len))
        .map(|(class, input)| {
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(accepts(black_box(input)));
            }
            let nanos = u64::try_from(start.elapsed().as_nanos());
            (class & 1 == 1, nanos.unwrap_or(u64::MAX))
        })
        .collect()
}

fn fill(bytes: &mut [u8]) {
    let random = SystemRandom::new();
    random.fill(bytes).expect("the system has random bytes");
}
