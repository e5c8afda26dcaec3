use super::Client;
use crate::PublicKey;
use culvert_ids::{ActorId, GatewayId};
use serde::{Deserialize, Serialize};

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
    /// The gateway that it uses; without it, the only one of the account.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayId>,
    /// Host and port of the gateway for its file, such as vpn.example.com:51820. Without it, an address that the gateway
    /// reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// Another key of a plain WireGuard device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PlainClientRekey {
    /// Its key from now on.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub public_key: PublicKey,
    /// The gateway that it uses from now on; without it, the one that it has.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayId>,
    /// Host and port of the gateway for its file. Without it, an address that the gateway reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// All that a plain WireGuard device's file has, but for the private key. Nothing of it is a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlainClientFile {
    /// The device.
    pub client: Client,
    /// Its addresses, each with its length.
    pub addresses: Vec<String>,
    /// The gateway's name.
    pub gateway_name: String,
    /// The gateway's WireGuard key.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway_key: PublicKey,
    /// Host and port of the gateway; none where nobody knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The networks of the resources that a policy gives the owner at the gateway's site, as of now. The file does not
    /// follow later changes.
    pub allowed_ips: Vec<String>,
    /// The time between keepalives that keep a NAT open, in seconds.
    pub persistent_keepalive_s: u16,
    /// The file, in the format of `wg-quick` and the apps. A line `PrivateKey` is to be filled in.
    pub file: String,
    /// All that can't work with this file, in sentences.
    pub limits: Vec<String>,
}
