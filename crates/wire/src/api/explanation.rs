use crate::Timestamp;
use crate::model::{Applications, Filter};
use culvert_ids::{ClientId, GatewayId, GroupId, PolicyId, ResourceId};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It would be given access.
    Allow,
    /// It would be refused.
    Deny,
}

/// The reasons why a client would get access to a resource now, or would not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The client.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// The resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// The outcome.
    pub verdict: Verdict,
    /// The end of the access, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The explanation in a few lines, for people.
    pub text: String,
    /// The policies of the client's groups for the resource, each with its result.
    pub policies: Vec<PolicyExplanation>,
    /// The programs of the client that may reach it, if any may. The client enforces that.
    #[serde(default)]
    pub applications: Applications,
    /// The protocols and ports of the client's own host that the resource may use, while the client has access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<Filter>,
    /// Of names: the only networks that their addresses may be in; the gateway sees to that. Absent: they
    /// may lead anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
    /// The name of the resource that a gateway last refused because of that, and the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideName>,
    /// The address that conditions about addresses judged, where a policy has one and the address is known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_address: Option<IpAddr>,
    /// The gateway that would serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayChoice>,
}

/// The result of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyExplanation {
    /// The policy.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub policy: PolicyId,
    /// Its name.
    pub name: String,
    /// The end of its permission, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The group that it is for.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub group: GroupId,
    /// The group's name.
    pub group_name: String,
    /// The outcome.
    pub verdict: Verdict,
    /// The reasons against it: a condition that does not hold, or that the policy is disabled.
    pub reasons: Vec<String>,
}

/// A name that led out of the networks of its resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutsideName {
    /// The time.
    pub at: Timestamp,
    /// The name and its address, as the gateway reported them.
    pub text: String,
}

/// A gateway that would serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GatewayChoice {
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// Its name.
    pub name: String,
}
