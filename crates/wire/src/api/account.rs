use crate::Timestamp;
use crate::messages::Ranges;
use crate::model::{Applications, Dns};
use culvert_ids::AccountId;
use serde::{Deserialize, Serialize};

/// The organisation that everything belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: AccountId,
    /// The account's name, for people.
    pub name: String,
    /// The lifetime of a grant in seconds, unless it is renewed.
    pub grant_lifetime_s: u32,
    /// Networks that are used inside the tunnel.
    pub ranges: Ranges,
    /// The programs of a client that may use the tunnel at all, by the applications that they run in.
    #[serde(default)]
    pub applications: Applications,
    /// The DNS rules of clients for names that belong to no resource.
    #[serde(default)]
    pub dns: Dns,
    /// The people who must have a second factor besides a password.
    #[serde(default)]
    pub second_factor: SecondFactorRule,
    /// Gateways that no administrator has verified get no grants, and no client is led to them.
    #[serde(default)]
    pub require_verified_gateways: bool,
    /// The paths between clients and gateways that are allowed.
    #[serde(default)]
    pub paths: PathRule,
    /// The treatment of packets to where a client's access has ended.
    #[serde(default)]
    pub ended_access: EndedAccess,
    /// People add plain WireGuard devices of their own. Without it, administrators do.
    #[serde(default)]
    pub own_devices: bool,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// The DNS rules of clients for names that belong to no resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DesiredDns {
    /// Domains that short names are completed with, in this order; at most 6, and 247 characters.
    pub search: Vec<String>,
    /// Domains whose names are asked of servers of their own; at most 32.
    pub domains: Vec<DesiredDnsDomain>,
}

/// A domain whose names are to be asked of servers of its own, and of nobody else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DesiredDnsDomain {
    /// It and all below it, as in `corp.example`; `.` is every name.
    pub name: String,
    /// The addresses of its servers, in the order in which they are asked; 1 to 3.
    pub servers: Vec<String>,
}

/// A change of the account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AccountPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The new lifetime of grants in seconds, 60 to 86400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_lifetime_s: Option<u32>,
    /// Another IPv4 network for the inside of the tunnel, /8 to /23: machines have its first half,
    /// names the second. All sessions begin anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range4: Option<String>,
    /// The same for IPv6, /8 to /119.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range6: Option<String>,
    /// The programs of a client that may use the tunnel at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications: Option<Applications>,
    /// The new DNS rules of clients for names that belong to no resource. They replace all rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<DesiredDns>,
    /// The people who must have a second factor besides a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_factor: Option<SecondFactorRule>,
    /// Gateways have to be verified. The setting verifies none: access through those that are not ends
    /// at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_verified_gateways: Option<bool>,
    /// The paths between clients and gateways that are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathRule>,
    /// The treatment of packets to where a client's access has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_access: Option<EndedAccess>,
    /// People add plain WireGuard devices of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_devices: Option<bool>,
}

/// The treatment of packets to where a client's access has ended: its resource was deleted, or no policy gives it to the client
/// any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EndedAccess {
    /// The client refuses them, until it goes down.
    #[default]
    Refuse,
    /// They leave the client by its own routes, outside of the tunnel.
    Release,
}

/// The paths between clients and gateways that an account allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathRule {
    /// Direct paths and relays.
    #[default]
    Any,
    /// No relays.
    Direct,
    /// Relays alone: neither end is told the other's addresses.
    Relayed,
}

/// The people who must have a second factor besides the password with which they sign in. Anyone who
/// lacks a required one can do nothing in the console but set one up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SecondFactorRule {
    /// Nobody must; anyone may.
    #[default]
    Off,
    /// All roles but `user`.
    Administrators,
    /// Everybody.
    Everybody,
}
