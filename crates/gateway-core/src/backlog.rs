//! Grants that have arrived and have not been looked at.
//!
//! A grant takes some 100 µs to verify and to put in force, other messages next to nothing. So grants wait here, and
//! everything else that the portal says is handled at once: a revocation is never behind a backlog of grants.

use super::services::ChangedServices;
use super::verify::unverified_claims;
use culvert_base::BootTime;
use culvert_ids::{GrantId, ResourceId};
use culvert_wire::PresharedKey;
use culvert_wire::messages::{GrantLabels, WantedName};
use std::collections::BTreeMap;

/// Grants that are put in force in one turn, and are in one change of the data plane. That is some 13 ms of work, for
/// which a question of a client or a message about a path waits.
pub(super) const GRANTS_PER_TURN: usize = 128;

/// Grants that wait: sixteen times as many as a portal offers at once, and twice as many as an earlier one did. When there
/// are more, the oldest is looked at first. At 1 KB each, 16 MB.
pub(super) const MAX_BACKLOG: usize = 1 << 14;

/// A grant as the portal sent it.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) token: String,
    pub(super) preshared_key: PresharedKey,
    pub(super) replaces: Option<GrantId>,
    pub(super) names: Vec<WantedName>,
    pub(super) labels: GrantLabels,
}

/// A grant that waits, and what the portal has said about it since.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) offered: Offered,
    pub(super) grant: GrantId,
    resource: ResourceId,
    since: BootTime,
    /// Services that the portal has set since.
    pub(super) changed: Option<ChangedServices>,
    /// Others wait for its answer.
    pub(super) answer_now: bool,
}

/// The grants that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct WaitingGrants {
    waiting: BTreeMap<u64, Waiting>,
    of_grant: BTreeMap<GrantId, u64>,
    next: u64,
}

impl WaitingGrants {
    /// Takes a grant in. One with the same id that waits is outdated. It is given back if no id can be read from it: then it is
    /// no grant, and nothing can be said about it later.
    #[must_use]
    pub(super) fn push(&mut self, offered: Offered, now: BootTime) -> Option<Offered> {
        let Some(claims) = unverified_claims(&offered.token) else {
            return Some(offered);
        };
        self.remove(claims.grant);
        let waiting = Waiting {
            offered,
            grant: claims.grant,
            resource: claims.resource,
            since: now,
            changed: None,
            answer_now: false,
        };
        self.of_grant.insert(claims.grant, self.next);
        self.waiting.insert(self.next, waiting);
        self.next += 1;
        None
    }

    /// The one that has waited for longest.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let (_, waiting) = self.waiting.pop_first()?;
        self.of_grant.remove(&waiting.grant);
        Some(waiting)
    }

    /// The portal has taken a grant back, or offers it anew.
    pub(super) fn remove(&mut self, grant: GrantId) {
        if let Some(place) = self.of_grant.remove(&grant) {
            self.waiting.remove(&place);
        }
    }

    /// Others wait for the answer to a grant. False where it does not wait here.
    pub(super) fn answer_now(&mut self, grant: GrantId) -> bool {
        let place = self.of_grant.get(&grant);
        let waiting = place.and_then(|place| self.waiting.get_mut(place));
        waiting.map(|waiting| waiting.answer_now = true).is_some()
    }

    /// The services of a resource are others than those in its grants from here on.
    pub(super) fn set_services(&mut self, resource: ResourceId, written: &ChangedServices) {
        for waiting in self.waiting.values_mut() {
            if waiting.resource == resource {
                waiting.changed = Some(written.clone());
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.of_grant.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The time since which the first one waits: the next turn is due.
    pub(super) fn due(&self) -> Option<BootTime> {
        let (_, first) = self.waiting.first_key_value()?;
        Some(first.since)
    }
}
