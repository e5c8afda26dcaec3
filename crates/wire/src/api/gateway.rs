use crate::{PublicKey, Timestamp};
use culvert_ids::{GatewayId, SiteId, TokenId};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A machine that gives access to the resources of its site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gateway {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: GatewayId,
    /// The site of the gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub site: SiteId,
    /// The name that the machine reported, until someone renames it.
    pub name: String,
    /// Its WireGuard key; the private one never leaves it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    /// The key's fingerprint, for people who compare it with what the machine shows: the first 128 bits
    /// of its SHA-256, in hexadecimal.
    #[serde(default)]
    pub fingerprint: String,
    /// The token that it presented with its key, which may have been deleted since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub enrolled_with: Option<TokenId>,
    /// Its address inside the tunnel.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ipv6: Ipv6Addr,
    /// The time since which an administrator vouches for its key; a new key ends it. If the account
    /// requires verified gateways, a gateway that is not verified waits and gets no grants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Timestamp>,
    /// It gets no new grants.
    pub draining: bool,
    /// The time since which it may not connect any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// The version of its software, as it said when it last connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// The time of the last connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A change of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GatewayPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
