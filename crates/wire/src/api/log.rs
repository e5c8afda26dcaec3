use crate::Timestamp;
use crate::messages::{FlowEnd, PathKind};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, PolicyId, RelayId, ResourceId, TokenId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeLogEntry {
    /// Its place among all changes of the account.
    pub seq: u64,
    /// The time.
    pub at: Timestamp,
    /// The actor that made the change; absent if the portal itself made it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// The token by which it was made.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// The kind of the thing, such as `policy`.
    pub entity: String,
    /// The id of the thing.
    pub entity_id: String,
    /// The kind of the change.
    pub operation: super::Operation,
    /// The state before the change, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The state after the change, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// The decision about a request or a grant.
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

/// The outcome of a request for access, or of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessLogEntry {
    /// Its place in the log; later entries have larger ones.
    #[serde(default)]
    pub seq: u64,
    /// The time.
    pub at: Timestamp,
    /// The client that asked for access.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// The owner of that client.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// The resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayId>,
    /// The policy that decided.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyId>,
    /// The grant that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// The decision.
    pub decision: AccessDecision,
    /// The reason in full.
    pub reason: String,
}

/// A flow that has ended: what a client carried to a resource and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FlowLogEntry {
    /// Its place in the log; later entries have larger ones.
    pub seq: u64,
    /// The time of the last packet.
    pub at: Timestamp,
    /// The time of the first packet.
    pub started: Timestamp,
    /// The client that began the flow.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// The owner of that client.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// The resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// The grant by which it passed last.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub grant: GrantId,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, or the number of another protocol.
    pub protocol: String,
    /// The destination address; for a name, the address that it resolved to.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: std::net::IpAddr,
    /// The port that it was begun to, of the resource, or of the client where it is `inbound`; absent where the protocol has
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// True if the resource began it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inbound: bool,
    /// The application that it came from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// The path between client and gateway at its end: `direct`, `relayed`, `relayed_tls` (through a relay by TLS, since
    /// UDP is blocked), or `other`, a kind of a later version. Absent where it is not known.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathKind>,
    /// The relay, where the path went through one.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelayId>,
    /// Bytes of IP packets that the client sent.
    pub sent_bytes: u64,
    /// Packets that the client sent.
    pub sent_packets: u64,
    /// Bytes of IP packets that were sent to the client.
    pub received_bytes: u64,
    /// Packets that were sent to the client.
    pub received_packets: u64,
    /// The reason why the flow ended.
    pub end: FlowEnd,
}

impl FlowLogEntry {
    /// The name of a protocol in [`Self::protocol`].
    #[must_use]
    pub fn protocol_name(number: u8) -> String {
        match number {
            1 => "icmp".to_owned(),
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            58 => "icmpv6".to_owned(),
            other => other.to_string(),
        }
    }

    /// From its first packet to its last, in milliseconds.
    #[must_use]
    pub const fn lasted_ms(&self) -> u64 {
        self.at.unix_ms().saturating_sub(self.started.unix_ms())
    }
}
