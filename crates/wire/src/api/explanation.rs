use crate::Timestamp;
use crate::model::Applications;
use culvert_ids::{ClientId, GatewayId, GroupId, PolicyId, ResourceId};
use serde::{Deserialize, Serialize};

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

/// Why a client would get access to a resource now, or would not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// Who.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// To what.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// The outcome.
    pub verdict: Verdict,
    /// Until when, where something ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// In a few lines, for people.
    pub text: String,
    /// The policies of the client's groups for the resource, each with what it comes to.
    pub policies: Vec<PolicyExplanation>,
    /// Which programs of the client may reach it, if it may at all; the client sees to that.
    #[serde(default)]
    pub applications: Applications,
    /// Of names: the only networks that their addresses may be in; the gateway sees to that. Absent: they
    /// may lead anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
    /// When a gateway last refused a name of the resource because of that, and which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<OutsideName>,
    /// Which gateway would serve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayChoice>,
}

/// What one policy comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PolicyExplanation {
    /// Which one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub policy: PolicyId,
    /// Its name.
    pub name: String,
    /// Until when it allows, where something ends that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The group that it is for.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub group: GroupId,
    /// The group's name.
    pub group_name: String,
    /// The outcome.
    pub verdict: Verdict,
    /// What stands against it: a condition that does not hold, or that it is disabled.
    pub reasons: Vec<String>,
}

/// A name that led out of the networks of its resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutsideName {
    /// When.
    pub at: Timestamp,
    /// Which name, and where it led, as the gateway says it.
    pub text: String,
}

/// A gateway that would serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GatewayChoice {
    /// Which one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// Its name.
    pub name: String,
}
