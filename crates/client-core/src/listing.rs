//! The resources as the portal lists them when a session begins: in `welcome`, and in as many messages after it as it says
//! there.

use super::directory::MAX_RESOURCES;
use culvert_ids::ResourceId;
use std::collections::BTreeSet;

/// A list that is being told.
#[derive(Debug)]
pub(super) struct Listing {
    /// Resources that follow `welcome` and are yet to come.
    left: u32,
    /// Resources that are in the list, at most [`MAX_RESOURCES`].
    listed: BTreeSet<ResourceId>,
}

impl Listing {
    /// The list begins, and so many resources follow `welcome`.
    pub(super) const fn new(later: u32) -> Self {
        Self {
            left: later,
            listed: BTreeSet::new(),
        }
    }

    /// A resource is in `welcome`.
    pub(super) fn note_first(&mut self, id: ResourceId) {
        if self.listed.len() < MAX_RESOURCES {
            self.listed.insert(id);
        }
    }

    /// A resource has come after `welcome`.
    pub(super) fn note_later(&mut self, id: ResourceId) {
        self.left = self.left.saturating_sub(1);
        self.note_first(id);
    }

    /// True once nothing of the list is missing.
    pub(super) const fn is_whole(&self) -> bool {
        self.left == 0
    }

    pub(super) fn has(&self, id: ResourceId) -> bool {
        self.listed.contains(&id)
    }
}
