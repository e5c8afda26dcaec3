//! The resources that may begin flows at this host.

use culvert_base::BootTime;
use culvert_ids::ResourceId;
use std::collections::BTreeSet;

/// Resources that the client holds grants of by itself, the oldest ones. More than one machine is monitored, backed up and
/// helped by; each takes a request and a grant of the portal per two thirds of a grant's life. The others open something
/// while they are in use.
pub(super) const MAX_HELD_BY_ITSELF: usize = 32;

/// Requests that are counted: a wait has doubled as often as it does by then.
const MAX_ATTEMPTS: u32 = 8;

/// The resources that open something here, and when those without a grant are asked for next.
#[derive(Debug)]
pub(super) struct Opening {
    resources: BTreeSet<ResourceId>,
    due: BootTime,
    /// Requests since something has changed, at most [`MAX_ATTEMPTS`].
    attempts: u32,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            resources: BTreeSet::new(),
            due: BootTime::ZERO,
            attempts: 0,
        }
    }
}

impl Opening {
    pub(super) fn insert(&mut self, id: ResourceId) {
        self.resources.insert(id);
    }

    pub(super) fn remove(&mut self, id: ResourceId) {
        self.resources.remove(&id);
    }

    /// True if the client holds a grant of the resource by itself.
    pub(super) fn is_held(&self, id: ResourceId) -> bool {
        self.held().any(|held| held == id)
    }

    pub(super) fn held(&self) -> impl Iterator<Item = ResourceId> {
        self.resources.iter().copied().take(MAX_HELD_BY_ITSELF)
    }

    /// Something has changed: those without a grant are asked for at once.
    pub(super) const fn hurry(&mut self) {
        self.due = BootTime::ZERO;
        self.attempts = 0;
    }

    /// Requests since something has changed, as far as they are counted.
    pub(super) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Those without a grant were asked for.
    pub(super) fn wait_until(&mut self, due: BootTime) {
        self.due = due;
        self.attempts = (self.attempts + 1).min(MAX_ATTEMPTS);
    }

    /// The time at which those without a grant are asked for.
    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        (!self.resources.is_empty()).then_some(self.due)
    }
}
