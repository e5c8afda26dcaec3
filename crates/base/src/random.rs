//! Random numbers for waits: spread, not secret.

/// SplitMix64 (Steele, Lea and Flood, 2014): every seed gives a full period.
///
/// It spreads waits and retries. Keys, tokens and nonces come from the system's generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Starts the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of the sequence.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number of at most `most`.
    pub const fn up_to(&mut self, most: u64) -> u64 {
        match most.checked_add(1) {
            Some(count) => self.next() % count,
            None => self.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the author's own program for the seed 0.
    #[test]
    fn the_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next(), 0x6E78_9E6A_A1B9_65F4);
        assert_eq!(random.next(), 0x06C4_5D18_8009_454F);
    }

    #[test]
    fn a_number_is_never_above_the_most() {
        let mut random = Random::new(7);
        for most in [0, 1, 2, 9, u64::MAX] {
            assert!((0..100).all(|_| random.up_to(most) <= most), "{most}");
        }
    }
}
