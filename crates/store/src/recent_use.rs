//! The recent use of a thing, in numbers.

use culvert_ids::{ClientId, ResourceId};
use culvert_wire::Timestamp;

/// The use of a thing, by the entries of the logs about it. The newest [`crate::MAX_USE_ROWS`] of each log count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentUse {
    /// Grants that were given.
    pub granted: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Owners of the clients that got grants.
    pub actors: u64,
    /// Clients that got grants.
    pub clients: u64,
    /// Resources that grants were given for.
    pub resources: u64,
    /// Flows that ended.
    pub flows: u64,
    /// Their bytes in both directions.
    pub bytes: u64,
    /// Denials by their resource and reason, the most frequent first; [`crate::MAX_DENIAL_CAUSES`] at most.
    pub causes: Vec<DenialCause>,
    /// True if there are older entries that would count.
    pub is_partial: bool,
}

/// Denials for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialCause {
    /// The reason in full, for administrators.
    pub reason: String,
    /// The resource.
    pub resource: ResourceId,
    /// The number of denials.
    pub count: u64,
    /// The number of clients that were denied.
    pub clients: u64,
    /// The client that was denied last.
    pub last_client: ClientId,
    /// The time of that.
    pub last: Timestamp,
}
