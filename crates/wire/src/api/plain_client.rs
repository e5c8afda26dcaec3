use super::Client;
use crate::{PublicKey, Timestamp};
use culvert_ids::{ActorId, GatewayId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The text of a plain WireGuard device's file that stands for its private key.
pub const PRIVATE_KEY_PLACEHOLDER: &str = "REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE";

/// A device without Culvert, which speaks WireGuard: a phone with the official app, a router, a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPlainClient {
    /// Its name, like no other client's.
    pub name: String,
    /// Its WireGuard key, as `wg pubkey` writes it. The private key stays on the device.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    /// On whose behalf; without it, the caller's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// The gateways that it uses, each of another site: 8 at most. If empty, the only one of the account.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayId>,
    /// Host and port of gateways for its file, such as vpn.example.com:51820. A gateway that is not named here has an
    /// address that it reports.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<GatewayId, String>,
}

/// Another key of a plain WireGuard device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PlainClientRekey {
    /// Its key from now on.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    /// The gateways that it uses from now on. If empty, those that it has.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayId>,
    /// Host and port of gateways for its file. A gateway that is not named here has an address that it reports.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<GatewayId, String>,
}

/// All that a plain WireGuard device's file has, but for the private key. Nothing of it is a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlainClientFile {
    /// The device.
    pub client: Client,
    /// Its addresses, each with its length.
    pub addresses: Vec<String>,
    /// The other ends of its tunnel, one of each gateway.
    pub peers: Vec<PlainClientPeer>,
    /// Servers that the device asks for names: its first gateway, in the tunnel. If empty, it goes on asking its own.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub dns: Vec<IpAddr>,
    /// The time between keepalives that keep a NAT open, in seconds.
    pub persistent_keepalive_s: u16,
    /// The file, in the format of `wg-quick` and the apps. The private key takes the place of
    /// `REPLACE_BY_THE_PRIVATE_KEY_OF_THE_DEVICE`.
    pub file: String,
    /// All that can't work with this file, in sentences.
    pub limits: Vec<String>,
}

/// The place of a plain WireGuard device, as one of its gateways hears it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlainClientEndpoint {
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// The source address of the device's packets. None while it changes too often: conditions about addresses deny then.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The time of the last handshake.
    pub last_handshake: Timestamp,
    /// True if the handshake is recent enough for conditions about addresses.
    pub counts: bool,
}

/// A gateway in the file of a plain WireGuard device: a section `[Peer]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlainClientPeer {
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// Its name.
    pub gateway_name: String,
    /// Its WireGuard key.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway_key: PublicKey,
    /// Host and port; none where nobody knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The networks of the resources that a policy gives the owner at the gateway's site, as of now. The file does not
    /// follow later changes. No two gateways of a file have the same network.
    pub allowed_ips: Vec<String>,
}
