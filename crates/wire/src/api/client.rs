use crate::{PublicKey, Timestamp};
use culvert_ids::{ActorId, ClientId, GatewayId};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A machine that uses resources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Client {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ClientId,
    /// On whose behalf.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: ActorId,
    /// The name that the machine reported, until someone renames it.
    pub name: String,
    /// Its WireGuard key; the private one never leaves it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    /// Its address inside the tunnel.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub ipv6: Ipv6Addr,
    /// The gateways of a plain WireGuard device, whose keys its file has. Other clients have none here.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayId>,
    /// The time since which an administrator vouches for it; a new key ends that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<Timestamp>,
    /// The time since which it may not connect any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// The version of its software, as it said when it last connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// The time of the last connection; of a plain WireGuard device, the last handshake that a gateway told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// The address from which it connected, as the portal saw it; of a plain WireGuard device, as that gateway did.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_address: Option<IpAddr>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A change of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClientPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
