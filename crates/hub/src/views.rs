//! Views of the hub for administrators and collectors of metrics. They are plain data, which one portal tells another.

use culvert_ids::{ClientId, GatewayId, GroupId, PolicyId, RelayId};
use culvert_policy::{Decision, Explanation, Unmet};
use culvert_store::Seq;
use culvert_wire::Timestamp;
use culvert_wire::messages::{GatewayLoad, PathKind, ReasonCode, RelayLoad};
use culvert_wire::model::Applications;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The status of the hub, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HubStatus {
    /// The last change that it knows.
    pub seq: Seq,
    /// Connected clients.
    pub clients: usize,
    /// Connected gateways.
    pub gateways: usize,
    /// Those of them that wait to be verified.
    pub gateways_awaiting_verification: usize,
    /// Connected relays.
    #[serde(default)]
    pub relays: usize,
    /// Grants that are out, those that are not answered yet included.
    pub grants: usize,
    /// Requests under way.
    pub asks: usize,
    /// Rows of the configuration that can't be converted, and therefore allow nothing.
    pub faults: usize,
    /// Counters since the portal's start.
    pub counters: Counters,
}

/// Counters of the hub since the portal's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Grants that a gateway accepted, renewals included.
    pub granted: u64,
    /// Answers that denied, each for all requests that waited for it.
    pub denied: u64,
    /// Grants that were taken back.
    pub revoked: u64,
    /// Grants that a gateway did not take.
    pub offers_refused: u64,
    /// Grants that a gateway did not answer in time.
    pub offers_timed_out: u64,
    /// Messages about grants that are not the sender's or do not exist, and repeated requests.
    pub ignored: u64,
    /// Sessions that were ended because too much waited for them.
    pub overflows: u64,
    /// Times that a client was not told of a resource since it knows as many as it may.
    pub untold_resources: u64,
}

/// A connected client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientView {
    /// The client's id.
    pub client: ClientId,
    /// The start of its session.
    pub since: Timestamp,
    /// Its grants.
    pub grants: usize,
    /// Resources that it was told of.
    pub resources: usize,
    /// The paths that it told, in the order of the gateways' ids.
    #[serde(default)]
    pub paths: Vec<PathView>,
}

/// The path from a client to a gateway, as the client told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathView {
    /// The gateway.
    pub gateway: GatewayId,
    /// Its kind.
    pub path: PathKind,
    /// The relay, where it goes through one.
    pub relay: Option<RelayId>,
    /// The round trip in microseconds, if it is known.
    pub round_trip_us: Option<u32>,
    /// The reason why it is no direct one, in words.
    #[serde(default)]
    pub why: Option<String>,
    /// The time since which it is the path.
    pub since: Timestamp,
}

/// A connected relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayView {
    /// The relay's id.
    pub relay: RelayId,
    /// The start of its session.
    pub since: Timestamp,
    /// It gets no new ends: it said so, or an administrator.
    pub draining: bool,
    /// The addresses at which it is reached, each with its main port.
    pub addresses: Vec<SocketAddr>,
    /// The TCP port of its TLS listener, if it has one.
    pub tls_port: Option<u16>,
    /// Gateways that are to be reached through it.
    pub given: usize,
    /// Its last report of its load.
    pub load: RelayLoad,
}

/// A connected gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayView {
    /// The client's id.
    pub gateway: GatewayId,
    /// The start of its session.
    pub since: Timestamp,
    /// It gets no new grants: it said so, or an administrator.
    pub draining: bool,
    /// It has no grants, and gets none, until an administrator verifies it.
    pub awaits_verification: bool,
    /// The addresses at which clients try to reach it.
    pub candidates: Vec<SocketAddr>,
    /// Clients with grants through it.
    pub clients: usize,
    /// Grants through it.
    pub grants: usize,
    /// Its last report of its load.
    pub load: GatewayLoad,
    /// The relays through which it is reached, the best one first.
    #[serde(default)]
    pub relays: Vec<RelayId>,
    /// It answers DNS questions of plain WireGuard devices.
    #[serde(default)]
    pub answers_plain: bool,
    /// It finds names of such devices at other sites, and those of its own for others.
    #[serde(default)]
    pub knows_site_names: bool,
    /// It answers DNS questions of such devices that have no grant.
    #[serde(default)]
    pub answers_admitted: bool,
}

/// An explanation of a client's access to a resource, or of its denial, at this time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explained {
    /// The decision of the policies, explained.
    pub policies: ExplainedPolicies,
    /// The reason for a denial that the policies do not cause, such as the client, its actor or its token.
    pub barred: Option<Bar>,
    /// The programs of the client that may reach it. The client enforces this.
    pub applications: Applications,
    /// The same in words; none if every program may.
    pub applications_in_words: Option<String>,
    /// The ranges into which the resource's names may lead. The gateway enforces this.
    pub within: Option<Vec<String>>,
    /// The address that conditions about addresses judged, where a policy has one.
    #[serde(default)]
    pub judged: Option<JudgedAddress>,
    /// The time and text of a gateway's last refusal of a name that led out of `within`.
    pub outside: Option<(Timestamp, String)>,
    /// The time and text of a gateway's last refusal of the resource for being on the gateway's own machine.
    pub refused_at_host: Option<(Timestamp, String)>,
    /// The gateway that would be given, or the reason for which none can be.
    pub gateway: Result<GatewayId, String>,
}

/// The address of a client that conditions judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedAddress {
    /// The address; none where nobody knows it.
    pub address: Option<IpAddr>,
    /// The gateway that hears a plain WireGuard device. Any other client is seen by the portal.
    pub gateway: Option<GatewayId>,
    /// The device's last handshake with that gateway.
    pub handshake: Option<Timestamp>,
    /// The device moves too often to be anywhere.
    pub is_unsettled: bool,
    /// The gateway is of a version that does not tell.
    pub is_untold: bool,
}

/// The place of a plain WireGuard device, as a gateway hears it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceEndpointView {
    /// The gateway.
    pub gateway: GatewayId,
    /// The source address of the device's packets; none while it moves too often.
    pub address: Option<IpAddr>,
    /// The last handshake.
    pub handshake: Timestamp,
    /// The handshake is recent enough for conditions.
    pub counts: bool,
}

/// A decision of the policies, and the outcome of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedPolicies {
    /// True if they allow it.
    pub is_allow: bool,
    /// The instant until which they allow it; none if time does not end it, or they don't.
    pub until: Option<Timestamp>,
    /// The outcome of each policy that joins a group of the client with the resource.
    pub outcomes: Vec<PolicyView>,
}

/// The outcome of one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyView {
    /// The policy.
    pub policy: PolicyId,
    /// Its group.
    pub group: GroupId,
    /// The instant until which it allows (none: until something else changes), or the conditions that are not met.
    pub outcome: Result<Option<Timestamp>, Vec<UnmetView>>,
}

/// Something that stands against a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnmetView {
    /// For programs.
    pub kind: UnmetKind,
    /// For administrators.
    pub text: String,
}

/// The conditions that an administrator meets in a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnmetKind {
    /// The policy is disabled.
    Disabled,
    /// The client is not verified.
    NotVerified,
    /// The client is in another country, or nobody knows where.
    Country,
    /// Another condition.
    #[serde(other)]
    Other,
}

impl From<&Explanation> for ExplainedPolicies {
    fn from(explanation: &Explanation) -> Self {
        let until = match explanation.decision() {
            Decision::Allow { until, .. } => until.map(Timestamp::from),
            Decision::Deny { .. } => None,
        };
        let outcomes = explanation.policies().iter().map(|one| PolicyView {
            policy: one.policy,
            group: one.group,
            outcome: match &one.outcome {
                Ok(until) => Ok(until.map(Timestamp::from)),
                Err(unmet) => Err(unmet.iter().map(UnmetView::from).collect()),
            },
        });
        Self {
            is_allow: explanation.decision().is_allow(),
            until,
            outcomes: outcomes.collect(),
        }
    }
}

impl From<&Unmet> for UnmetView {
    fn from(unmet: &Unmet) -> Self {
        let kind = match unmet {
            Unmet::Disabled => UnmetKind::Disabled,
            Unmet::Verified(_) => UnmetKind::NotVerified,
            Unmet::Country(_) => UnmetKind::Country,
            _ => UnmetKind::Other,
        };
        Self {
            kind,
            text: unmet.to_string(),
        }
    }
}

/// A reason for a denial that the policies do not cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// For programs.
    pub code: ReasonCode,
    /// For administrators.
    pub text: String,
}

impl Explained {
    /// True if a grant would be made.
    #[must_use]
    pub fn is_allow(&self) -> bool {
        self.barred.is_none() && self.policies.is_allow
    }
}
