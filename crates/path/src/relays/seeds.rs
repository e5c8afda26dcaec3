//! Seeds for the parts of an end, each of them another one.

use culvert_relay_core::mac::Mac;

/// Makes seeds from one that is secret and random.
#[derive(Clone)]
pub(super) struct Seeds {
    seed: [u8; 32],
    made: u64,
}

impl Seeds {
    pub(super) const fn new(seed: [u8; 32]) -> Self {
        Self { seed, made: 0 }
    }

    /// A seed that no other part has.
    pub(super) fn next(&mut self) -> [u8; 32] {
        self.made += 1;
        let number = self.made.to_be_bytes();
        let half = |label: &[u8]| Mac::of(&self.seed, &[label, &number]);
        let (one, other) = (
            half(b"culvert relays, one half"),
            half(b"culvert relays, other half"),
        );
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(one.as_bytes());
        seed[16..].copy_from_slice(other.as_bytes());
        seed
    }
}
