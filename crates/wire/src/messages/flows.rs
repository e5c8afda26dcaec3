//! Flows that have ended, as reported by a gateway (docs/logs.md).

use crate::Timestamp;
use culvert_ids::{ClientId, GrantId, ResourceId};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Flows in one report. One takes at most 500 bytes of JSON, so a report stays below 128 KiB, an
/// eighth of [`crate::MAX_MESSAGE_LEN`].
pub const MAX_FLOWS_PER_REPORT: usize = 256;

const _: () = assert!(MAX_FLOWS_PER_REPORT * 500 * 8 <= crate::MAX_MESSAGE_LEN);

/// A feature that not every gateway has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GatewayFeature {
    /// It tells of flows that have ended, where the portal asks for that by `flow_log`.
    Flows,
    /// It leads names only into the ranges that their resource allows.
    Within,
    /// It answers DNS questions about names of resources, at its address in the tunnel and
    /// [`SITE_DNS_PORT`](super::SITE_DNS_PORT).
    Dns,
    /// It keeps the portal's addresses and certificates, and is told of others.
    Portals,
    /// It uses relays, and looks for direct paths behind NATs.
    Relays,
    /// It takes ids of grants in pages: after `welcome` in `grants_retained`.
    GrantPages,
    /// It answers all DNS questions of plain WireGuard devices, at its address in the tunnel and
    /// [`PLAIN_DNS_PORT`](super::PLAIN_DNS_PORT).
    PlainDns,
    /// It admits plain WireGuard devices that have no grant, and tells where it hears plain devices: after the first
    /// `devices_admitted` of a session, in `device_endpoints`.
    DeviceEndpoints,
    /// It gives the names of such a device addresses of shares, and asks the gateways of other sites for theirs. It answers when
    /// it is asked so.
    SiteNames,
    /// It answers DNS questions of admitted plain WireGuard devices that have no grant, where their admission says so
    /// ([`AdmittedDevice::dns`](super::AdmittedDevice::dns)).
    AdmittedDns,
}

/// Flows that have ended. It is sent again, unchanged, until `flows_taken` names it: `run` and
/// `batch` are what it is known by, so that no flow is counted twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Drawn by the gateway at its start, below 2^63.
    pub run: u64,
    /// 1, 2, 3… within the run. The next one is sent once this one was taken.
    pub batch: u64,
    /// Flows that ended since the report before and are in none: there were too many.
    #[serde(default)]
    pub lost: u64,
    /// At most [`MAX_FLOWS_PER_REPORT`].
    pub flows: Vec<EndedFlow>,
}

/// A flow that has ended. Instants are those of the portal's clock, as far as the gateway knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedFlow {
    /// The client that began the flow, or at which the resource did.
    pub client: ClientId,
    /// The resource that the flow was to.
    pub resource: ResourceId,
    /// The grant by which it passed last.
    pub grant: GrantId,
    /// Number of the IP protocol: 6 is TCP, 17 UDP.
    pub protocol: u8,
    /// The destination address; for a name, the address that it resolved to.
    pub address: IpAddr,
    /// The port that it was begun to, of the resource, or of the client where it is `inbound`; of anything but TCP and UDP 0.
    pub port: u16,
    /// True if the resource began it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inbound: bool,
    /// The time of the first packet.
    pub started: Timestamp,
    /// The time of the last packet.
    pub ended: Timestamp,
    /// Bytes of IP packets that the client sent.
    pub sent_bytes: u64,
    /// Packets that the client sent.
    pub sent_packets: u64,
    /// Bytes of IP packets that the client was sent.
    pub received_bytes: u64,
    /// Packets that the client was sent.
    pub received_packets: u64,
    /// The reason why it ended.
    pub end: FlowEnd,
}

/// The reason why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FlowEnd {
    /// Both ends of a TCP connection closed it, or one reset it.
    Closed,
    /// It was silent for too long.
    Idle,
    /// The policy no longer allowed it: its grant expired or was revoked, or has other filters.
    Policy,
    /// Another flow between the same ends took its place.
    Replaced,
    /// The gateway had too many flows, and this one had been silent for longer than others.
    Evicted,
    /// The gateway stopped. The connection may go on through another one, as another flow.
    Stopped,
    /// A reason of a later version.
    #[serde(other)]
    Other,
}

impl FlowEnd {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Closed,
        Self::Idle,
        Self::Policy,
        Self::Replaced,
        Self::Evicted,
        Self::Stopped,
        Self::Other,
    ];

    /// Its name in messages and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Idle => "idle",
            Self::Policy => "policy",
            Self::Replaced => "replaced",
            Self::Evicted => "evicted",
            Self::Stopped => "stopped",
            Self::Other => "other",
        }
    }
}
