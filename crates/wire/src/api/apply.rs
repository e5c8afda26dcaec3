use super::{ActorKind, DesiredDns};
use crate::model::{Applications, Condition, Filter, TargetKind};
use serde::{Deserialize, Serialize};

/// The desired configuration, by names: the content of `access.toml`. Anything that it does not
/// name stays as it is, unless [`ApplyOptions::prune`] is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Desired {
    /// The DNS rules of clients for names that belong to no resource. If absent, they stay as they
    /// are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<DesiredDns>,
    /// Sites; in TOML, each a `[[site]]`.
    #[serde(alias = "site")]
    pub sites: Vec<DesiredSite>,
    /// Actors; in TOML, each an `[[actor]]`.
    #[serde(alias = "actor")]
    pub actors: Vec<DesiredActor>,
    /// Groups with their members; in TOML, each a `[[group]]`.
    #[serde(alias = "group")]
    pub groups: Vec<DesiredGroup>,
    /// Resources; in TOML, each a `[[resource]]`.
    #[serde(alias = "resource")]
    pub resources: Vec<DesiredResource>,
    /// Policies; in TOML, each a `[[policy]]`.
    #[serde(alias = "policy")]
    pub policies: Vec<DesiredPolicy>,
}

/// A wanted site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredSite {
    /// Its name.
    pub name: String,
    /// The names of the only relays that its gateways use; `["any"]`: all of the account. Left out, they stay as they
    /// are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<Vec<String>>,
}

/// A wanted actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredActor {
    /// Its name.
    pub name: String,
    /// The kind of the actor. It must match that of an actor that exists.
    pub kind: ActorKind,
    /// Its tokens and clients are refused.
    #[serde(default)]
    pub disabled: bool,
}

/// A wanted group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredGroup {
    /// Its name.
    pub name: String,
    /// The names of all its members; left out, they stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
}

/// A wanted resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredResource {
    /// Its name.
    pub name: String,
    /// The name of its site.
    pub site: String,
    /// The kind of `address`.
    pub kind: TargetKind,
    /// `10.0.0.0/8`, `10.1.2.3`, `db.corp.example` or `*.corp.example`.
    pub address: String,
    /// The protocols and ports that may be used; an empty list allows nothing.
    pub filters: Vec<Filter>,
    /// Of addresses: the protocols and ports of a client's own host that they may use; nothing if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<Filter>,
    /// The programs of a client that may reach it; every one if absent.
    #[serde(default, skip_serializing_if = "Applications::is_any")]
    pub applications: Applications,
    /// Of names: the only networks that their addresses may be in; `["anywhere"]`, or absent: no matter
    /// where they are. An empty list is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
}

/// A wanted policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredPolicy {
    /// Its name.
    pub name: String,
    /// The name of the group.
    pub group: String,
    /// The name of the resource.
    pub resource: String,
    /// It allows nothing for now.
    #[serde(default)]
    pub disabled: bool,
    /// All must hold; without any, the policy always does.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Options for applying a configuration: the query of the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[serde(deny_unknown_fields, default)]
pub struct ApplyOptions {
    /// Only say what would change.
    pub dry_run: bool,
    /// Delete sites, groups, resources, policies, users and service accounts that are not named.
    /// Admins are never deleted this way.
    pub prune: bool,
    /// With `prune`: also where that deletes all there is of a kind, which is refused otherwise.
    pub allow_empty: bool,
}

/// Changes that were made, or would be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApplyReport {
    /// True if the changes were made.
    pub applied: bool,
    /// In the order in which it was, or would be, done. Empty: all is as wanted.
    pub changes: Vec<ApplyChange>,
    /// Warnings for the administrator about things that the configuration names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The kinds of which everything is, or would be, deleted, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emptied: Vec<String>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// It is made.
    Create,
    /// It is changed.
    Update,
    /// It is deleted.
    Delete,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApplyChange {
    /// The kind of the change.
    pub operation: Operation,
    /// The kind of the thing, such as `policy`.
    pub entity: String,
    /// Its name; of a membership, `group/actor`.
    pub name: String,
    /// The fields that change, and their values.
    pub fields: Vec<FieldChange>,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldChange {
    /// Its name.
    pub field: String,
    /// The state before the change; absent if the thing is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<serde_json::Value>,
    /// The state after the change; absent if the thing is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<serde_json::Value>,
}
