use crate::Timestamp;
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, PolicyId, ResourceId, TokenId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeLogEntry {
    /// Its place among all changes of the account.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who; absent where the portal itself did it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// With which token.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// What kind of thing, such as `policy`.
    pub entity: String,
    /// Which one.
    pub entity_id: String,
    /// What was done to it.
    pub operation: super::Operation,
    /// How it was; without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// How it became; without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum AccessDecision {
    /// Access was given.
    Granted,
    /// Access was refused.
    Denied,
    /// Access that had been given was taken back.
    Revoked,
    /// Access came to its end, or was given back.
    Ended,
}

/// What came of a request for access, or of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessLogEntry {
    /// When.
    pub at: Timestamp,
    /// Who wanted it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// To what.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// Through which gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayId>,
    /// By which policy.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyId>,
    /// Which grant it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// What was decided.
    pub decision: AccessDecision,
    /// Why, in full.
    pub reason: String,
}
