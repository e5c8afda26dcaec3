//! The access log: allowed and denied requests, and the ends of grants.

use crate::{DenialCause, SearchText};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_wire::Timestamp;
use serde::{Deserialize, Serialize};

/// An entry of the access log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessEntry {
    /// The time.
    pub at: Timestamp,
    /// The client that asked.
    pub client: ClientId,
    /// The owner of the client, if known.
    #[serde(default)]
    pub actor: Option<ActorId>,
    /// The resource.
    pub resource: ResourceId,
    /// The gateway, if the request came so far.
    pub gateway: Option<GatewayId>,
    /// The policy that allowed it, if one did.
    pub policy: Option<PolicyId>,
    /// The grant, if there is one.
    pub grant: Option<GrantId>,
    /// The decision.
    pub decision: Decision,
    /// The reason in full, for administrators; cut after [`crate::MAX_REASON_LEN`] bytes.
    pub reason: String,
}

/// The result of a request, or the end of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Access was granted.
    Granted,
    /// Access was denied.
    Denied,
    /// A grant was taken back.
    Revoked,
    /// A grant came to its end, or was given back.
    Ended,
}

impl Decision {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Granted, Self::Denied, Self::Revoked, Self::Ended];

    /// Its name in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
            Self::Ended => "ended",
        }
    }
}

/// An entry's place in the access log; later entries have larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessSeq(pub u64);

/// An entry with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedAccess {
    /// Its place.
    pub seq: AccessSeq,
    /// The event.
    #[serde(flatten)]
    pub entry: AccessEntry,
}

/// The filter of entries; all conditions that are given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessFilter {
    /// Of this client.
    pub client: Option<ClientId>,
    /// By this actor's clients.
    pub actor: Option<ActorId>,
    /// To this resource.
    pub resource: Option<ResourceId>,
    /// Through this gateway.
    pub gateway: Option<GatewayId>,
    /// With this end.
    pub decision: Option<Decision>,
    /// Not before.
    pub from: Option<Timestamp>,
    /// Before.
    pub until: Option<Timestamp>,
    /// With a larger place than this.
    pub after: Option<AccessSeq>,
    /// With this in the reason, or in the name of whom or what it is about, or with this id.
    pub search: Option<SearchText>,
}

/// Sums of the newest entries of the access log. The lists begin with the most, and have at most
/// [`crate::MAX_TOTALS`] rows each where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessTotals {
    /// True if there are older entries that would count.
    pub is_partial: bool,
    /// Requests that were granted.
    pub granted: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Denied requests by their resource and reason; [`crate::MAX_DENIAL_CAUSES`] at most.
    pub causes: Vec<DenialCause>,
    /// Granted requests by the resource.
    pub resources: Vec<(ResourceId, u64)>,
    /// Granted requests by the owner of the client.
    pub actors: Vec<(ActorId, u64)>,
    /// Granted requests by the policy; [`crate::MAX_POLICY_TOTALS`] at most.
    pub policies: Vec<(PolicyId, u64)>,
}
