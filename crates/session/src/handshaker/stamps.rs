//! The greatest stamps of peers that were removed: an initiation that was recorded before is refused
//! after the peer has been added again.

use crate::time::Tai64n;
use culvert_base::{BootTime, PublicKey};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most peers that are remembered: four times the clients of a large gateway (4,096), whose peers
/// come and go with their grants. With 64 bytes in each of two tables that is 2 MB.
pub(super) const MAX_REMEMBERED: usize = 1 << 14;

/// The lifetime of a stamp after it was received, if the peer was removed since. A client is away for less
/// between two grants of a working day. A client whose clock ran ahead is accepted again the next day.
pub(super) const MAX_AGE: Duration = Duration::from_secs(12 * 3600);

/// A stamp, and when it was received.
pub(super) type Stamp = (Tai64n, BootTime);

/// The peer that was removed first is forgotten first.
#[derive(Default)]
pub(super) struct Stamps {
    by_key: BTreeMap<PublicKey, (Stamp, u64)>,
    /// By the order of removal.
    by_age: BTreeMap<u64, PublicKey>,
    removals: u64,
}

impl Stamps {
    /// The peer is removed. `stamp` is the greatest that was received of it.
    pub(super) fn remember(&mut self, key: PublicKey, stamp: Stamp) {
        self.take(&key);
        if self.by_age.len() == MAX_REMEMBERED
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_key.remove(&oldest);
        }
        self.removals += 1;
        self.by_key.insert(key, (stamp, self.removals));
        self.by_age.insert(self.removals, key);
    }

    /// The peer is back, and remembers its stamp itself.
    pub(super) fn take(&mut self, key: &PublicKey) -> Option<Stamp> {
        let (stamp, removal) = self.by_key.remove(key)?;
        self.by_age.remove(&removal);
        Some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> PublicKey {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        PublicKey::from_bytes(bytes)
    }

    fn stamp(number: u64) -> Stamp {
        (Tai64n::from_unix(number, 0), BootTime::ZERO)
    }

    #[test]
    fn a_stamp_is_remembered_until_the_peer_is_back() {
        let mut stamps = Stamps::default();
        stamps.remember(key(1), stamp(10));
        stamps.remember(key(1), stamp(20));
        assert_eq!(stamps.take(&key(2)), None);
        assert_eq!(stamps.take(&key(1)), Some(stamp(20)));
        assert_eq!(stamps.take(&key(1)), None);
        assert!(stamps.by_age.is_empty());
    }

    #[test]
    fn memory_is_bounded_and_who_was_removed_first_gives_way() {
        let mut stamps = Stamps::default();
        for number in 0..=MAX_REMEMBERED {
            stamps.remember(key(number), stamp(1));
        }
        assert_eq!(stamps.by_key.len(), MAX_REMEMBERED);
        assert_eq!(stamps.by_age.len(), MAX_REMEMBERED);
        assert_eq!(stamps.take(&key(0)), None);
        assert!(stamps.take(&key(1)).is_some());
        assert!(stamps.take(&key(MAX_REMEMBERED)).is_some());
    }
}
