//! The flow log: flows that have ended.

use crate::SearchText;
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, RelayId, ResourceId};
use culvert_wire::Timestamp;
use culvert_wire::messages::{FlowEnd, PathKind};
use std::net::IpAddr;

/// An entry of the flow log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowEntry {
    /// The time of its last packet.
    pub at: Timestamp,
    /// The time of its first packet.
    pub started: Timestamp,
    /// The client that began it, or at which the resource did.
    pub client: ClientId,
    /// The owner of the client, if known.
    pub actor: Option<ActorId>,
    /// The resource.
    pub resource: ResourceId,
    /// The grant by which it passed last.
    pub grant: GrantId,
    /// Number of the IP protocol.
    pub protocol: u8,
    /// The address that it went to.
    pub address: IpAddr,
    /// The port that it was begun to, of the resource, or of the client where it is inbound; 0 where the protocol has none.
    pub port: u16,
    /// True if the resource began it.
    pub inbound: bool,
    /// The application that it came from, where that is known.
    pub application: Option<String>,
    /// The path between client and gateway at its end, where it is known.
    pub path: Option<PathKind>,
    /// The relay, where the path went through one.
    pub relay: Option<RelayId>,
    /// Traffic from the client, in bytes.
    pub sent_bytes: u64,
    /// Traffic from the client, in packets.
    pub sent_packets: u64,
    /// Traffic to the client, in bytes.
    pub received_bytes: u64,
    /// Traffic to the client, in packets.
    pub received_packets: u64,
    /// The cause of its end.
    pub end: FlowEnd,
}

/// A gateway's report of flows. One that is in the log already is passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowBatch {
    /// The gateway.
    pub gateway: GatewayId,
    /// The run of the gateway, below 2^63.
    pub run: u64,
    /// The number of the report in the run: 1, 2, 3…
    pub batch: u64,
    /// Flows that the gateway could not keep.
    pub lost: u64,
    /// The others.
    pub flows: Vec<FlowEntry>,
}

/// An entry's place in the flow log; later entries have larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowSeq(pub u64);

/// An entry with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedFlow {
    /// Its place.
    pub seq: FlowSeq,
    /// The gateway that it went through.
    pub gateway: GatewayId,
    /// The flow.
    pub entry: FlowEntry,
}

/// The filter of entries; all conditions that are given must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFilter {
    /// Of this client.
    pub client: Option<ClientId>,
    /// Of this actor's clients.
    pub actor: Option<ActorId>,
    /// To this resource.
    pub resource: Option<ResourceId>,
    /// Through this gateway.
    pub gateway: Option<GatewayId>,
    /// With this end.
    pub end: Option<FlowEnd>,
    /// Not ended before.
    pub from: Option<Timestamp>,
    /// Ended before.
    pub until: Option<Timestamp>,
    /// With a larger place than this.
    pub after: Option<FlowSeq>,
    /// With this in the address, the application or the name of whom or what it is about, or with this
    /// id or port.
    pub search: Option<SearchText>,
}
