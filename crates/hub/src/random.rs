//! Ids of grants, epochs of sessions and keys for relays, from a seed: the hub draws nothing itself.

use aws_lc_rs::hmac;
use culvert_ids::{GrantId, RANDOM_LEN};
use culvert_wire::{PresharedKey, Timestamp};

/// A stream of bytes that who lacks the seed can't foresee.
pub(super) struct Random {
    key: hmac::Key,
    drawn: u64,
}

impl Random {
    pub(super) fn new(seed: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, seed),
            drawn: 0,
        }
    }

    pub(super) fn grant_id(&mut self, now: Timestamp) -> GrantId {
        GrantId::new(now.unix_time(), self.bytes::<RANDOM_LEN>())
    }

    /// 53 bits, which every reader of JSON takes for the number that it is.
    pub(super) fn epoch(&mut self) -> u64 {
        u64::from_be_bytes(self.bytes()) >> 11
    }

    /// A key for a relay, or for the proofs of one of its ends.
    pub(super) fn key(&mut self) -> PresharedKey {
        PresharedKey::from_bytes(self.bytes())
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        self.drawn += 1;
        let block = hmac::sign(&self.key, &self.drawn.to_be_bytes());
        let mut bytes = [0; N];
        bytes.copy_from_slice(&block.as_ref()[..N]);
        bytes
    }
}
