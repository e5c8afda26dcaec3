use crate::Timestamp;
use crate::messages::FlowEnd;
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, PolicyId, ResourceId, TokenId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ChangeLogEntry {
    /// Its place among all changes of the account.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who; absent where the portal itself did it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// With which token.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenId>,
    /// What kind of thing, such as `policy`.
    pub entity: String,
    /// Which one.
    pub entity_id: String,
    /// What was done to it.
    pub operation: super::Operation,
    /// How it was; without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// How it became; without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// What was decided.
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

/// What came of a request for access, or of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AccessLogEntry {
    /// Its place in the log; later entries have larger ones.
    #[serde(default)]
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who wanted it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// Whose client that was.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// To what.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// Through which gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<GatewayId>,
    /// By which policy.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyId>,
    /// Which grant it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantId>,
    /// What was decided.
    pub decision: AccessDecision,
    /// Why, in full.
    pub reason: String,
}

/// A flow that has ended: what a client carried to a resource and back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FlowLogEntry {
    /// Its place in the log; later entries have larger ones.
    pub seq: u64,
    /// When its last packet came.
    pub at: Timestamp,
    /// When its first packet came.
    pub started: Timestamp,
    /// Who began it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// Whose client that was.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// To what.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// Through which gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// The grant by which it passed last.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub grant: GrantId,
    /// `tcp`, `udp`, `icmp`, `icmpv6`, or the number of another protocol.
    pub protocol: String,
    /// Where it went; of a name, what the name stood for.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub address: std::net::IpAddr,
    /// The resource's port; absent where the protocol has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The application that it came from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// What the client sent, in bytes of IP packets.
    pub sent_bytes: u64,
    /// What the client sent, in packets.
    pub sent_packets: u64,
    /// What the client was sent, in bytes of IP packets.
    pub received_bytes: u64,
    /// What the client was sent, in packets.
    pub received_packets: u64,
    /// Why it ended.
    pub end: FlowEnd,
}

impl FlowLogEntry {
    /// What a protocol is called in [`Self::protocol`].
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
