//! Copying and summing in one loop, compiled for 512-bit vectors where the processor has them: with
//! those it is faster than copying first, with 128-bit ones it is slower.
//! `cargo run --release -p culvert-packet --example packet_speed`

#![expect(
    unsafe_code,
    reason = "a function compiled for more than the base processor"
)]

use super::copy_and_sum_lanes;

#[target_feature(enable = "avx512f,avx512bw")]
fn copy_and_sum_avx512(from: &[u8], to: &mut [u8]) -> u64 {
    copy_and_sum_lanes(from, to)
}

/// As [`copy_and_sum_lanes`]; `None`, and nothing copied, where the processor lacks the vectors.
pub(super) fn copy_and_sum(from: &[u8], to: &mut [u8]) -> Option<u64> {
    if !is_x86_feature_detected!("avx512f") || !is_x86_feature_detected!("avx512bw") {
        return None;
    }
    // SAFETY: the processor has what the function is compiled for.
    Some(unsafe { copy_and_sum_avx512(from, to) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::sum_lanes;

    #[test]
    fn wide_vectors_make_the_same_sums_and_copies() {
        let bytes: Vec<u8> = (0..700u32).map(|at| (at * at % 251) as u8 | 0x80).collect();
        // Every length up to some blocks, from every alignment to a word.
        for start in 0..8 {
            for end in start..bytes.len() {
                let part = &bytes[start..end];
                let mut copied = vec![0; part.len()];
                assert_eq!(copy_and_sum_lanes(part, &mut copied), sum_lanes(part));
                assert_eq!(copied, part);
                copied.fill(0);
                if let Some(sum) = copy_and_sum(part, &mut copied) {
                    assert_eq!(sum, sum_lanes(part), "{start}..{end}");
                    assert_eq!(copied, part);
                }
            }
        }
    }
}
