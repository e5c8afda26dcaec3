//! The resources that changed since watchers of the client were told.

use culvert_ids::ResourceId;
use std::collections::BTreeSet;

/// Changed resources that are known one by one: as many as there may be resources
/// ([`MAX_RESOURCES`](super::MAX_RESOURCES)). Beyond it all count as changed.
const MAX_CHANGED: usize = 20_000;

/// Resources that changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChangedResources {
    /// All may have, and nothing is noted: nobody has asked yet, or too many have changed.
    #[default]
    All,
    /// These, some of which may be gone.
    Some(BTreeSet<ResourceId>),
}

impl ChangedResources {
    /// Notes further ones.
    pub(super) fn extend(&mut self, ids: impl Iterator<Item = ResourceId>) {
        let Self::Some(changed) = self else { return };
        changed.extend(ids);
        if changed.len() > MAX_CHANGED {
            *self = Self::All;
        }
    }

    /// The changed ones; from now on, others are noted.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Some(BTreeSet::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_noted_before_somebody_asks_and_too_many_count_as_all() {
        let id = |number: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            ResourceId::from_bytes(bytes)
        };
        let mut changed = ChangedResources::default();
        changed.extend([id(1)].into_iter());
        assert_eq!(changed.take(), ChangedResources::All);
        changed.extend([id(1), id(2), id(1)].into_iter());
        let both = ChangedResources::Some(BTreeSet::from([id(1), id(2)]));
        assert_eq!(changed.take(), both);
        changed.extend((0..MAX_CHANGED).map(id));
        assert!(matches!(changed, ChangedResources::Some(_)));
        changed.extend([id(MAX_CHANGED)].into_iter());
        assert_eq!(changed, ChangedResources::All);
    }
}
