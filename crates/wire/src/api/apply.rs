use super::{ActorKind, DesiredDns};
use crate::model::{Applications, Condition, Filter, TargetKind};
use serde::{Deserialize, Serialize};

/// A configuration as it is wanted, by names: what `access.toml` holds. What it does not name stays
/// as it is, unless [`ApplyOptions::prune`] is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Desired {
    /// What clients do with names that are no resource's; left out, it stays as it is.
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
}

/// A wanted actor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredActor {
    /// Its name.
    pub name: String,
    /// What it is; of one that is there, it must be the same.
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
    /// What `address` is.
    pub kind: TargetKind,
    /// `10.0.0.0/8`, `10.1.2.3`, `db.corp.example` or `*.corp.example`.
    pub address: String,
    /// What of it may be used; an empty list is nothing.
    pub filters: Vec<Filter>,
    /// Which programs of a client may reach it; every one, unless it is said.
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

/// How a configuration is applied: the query of the request.
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

/// What was changed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApplyReport {
    /// Whether it was done.
    pub applied: bool,
    /// In the order in which it was, or would be, done. Empty: all is as wanted.
    pub changes: Vec<ApplyChange>,
    /// What an administrator should know of what the configuration names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The kinds of which everything is, or would be, deleted, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub emptied: Vec<String>,
}

/// What happens to a thing.
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
    /// What happens.
    pub operation: Operation,
    /// To what kind of thing, such as `policy`.
    pub entity: String,
    /// Its name; of a membership, `group/actor`.
    pub name: String,
    /// Which fields, and how.
    pub fields: Vec<FieldChange>,
}

/// A field that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldChange {
    /// Its name.
    pub field: String,
    /// What it was; absent where the thing is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<serde_json::Value>,
    /// What it becomes; absent where the thing goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<serde_json::Value>,
}
