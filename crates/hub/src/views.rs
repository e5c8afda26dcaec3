//! What administrators and collectors of metrics see of the hub.

use super::counters::Counters;
use super::{Hub, Stage};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_policy::{Applications, Explanation, Within};
use culvert_store::Seq;
use culvert_wire::Timestamp;
use culvert_wire::messages::GatewayLoad;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// How the hub is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubStatus {
    /// The last change that it knows.
    pub seq: Seq,
    /// Connected clients.
    pub clients: usize,
    /// Connected gateways.
    pub gateways: usize,
    /// Those of them that wait to be verified.
    pub gateways_awaiting_verification: usize,
    /// Grants that are out, those that are not answered yet included.
    pub grants: usize,
    /// Requests under way.
    pub asks: usize,
    /// Rows of the configuration that can't be converted, and therefore allow nothing.
    pub faults: usize,
    /// What was counted since the portal's start.
    pub counters: Counters,
}

/// A connected client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientView {
    /// Which one.
    pub client: ClientId,
    /// Since when.
    pub since: Timestamp,
    /// Its grants.
    pub grants: usize,
    /// Resources that it was told of.
    pub resources: usize,
}

/// A connected gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayView {
    /// Which one.
    pub gateway: GatewayId,
    /// Since when.
    pub since: Timestamp,
    /// It gets no new grants: it said so, or an administrator.
    pub draining: bool,
    /// It has no grants, and gets none, until an administrator verifies it.
    pub awaits_verification: bool,
    /// Where clients try to reach it.
    pub candidates: Vec<SocketAddr>,
    /// Clients with grants through it.
    pub clients: usize,
    /// Grants through it.
    pub grants: usize,
    /// What it last said of its load.
    pub load: GatewayLoad,
}

/// Why a client may use a resource now, or may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// What the policies come to.
    pub policies: Explanation,
    /// What stands in the way whatever they say: the client, its actor or its token.
    pub barred: Option<String>,
    /// Which programs of the client may reach it: the client's part.
    pub applications: Applications,
    /// Where the resource's names may lead: the gateway's part.
    pub within: Option<Within>,
    /// When a gateway last refused a name of it because of that, and what it said.
    pub outside: Option<(Timestamp, String)>,
    /// When a gateway last refused the resource because it is on the gateway's own machine, and what it said.
    pub refused_at_host: Option<(Timestamp, String)>,
    /// The gateway that would be given, or why none can be.
    pub gateway: Result<GatewayId, String>,
}

impl Explained {
    /// Whether a grant would be made.
    #[must_use]
    pub fn is_allow(&self) -> bool {
        self.barred.is_none() && self.policies.decision().is_allow()
    }
}

impl Hub {
    /// How it is, in numbers.
    #[must_use]
    pub fn status(&self) -> HubStatus {
        HubStatus {
            seq: self.directory.seq(),
            clients: self.clients.len(),
            gateways: self.gateways.len(),
            gateways_awaiting_verification: self.awaiting_verification(),
            grants: self.grants.len(),
            asks: self.asks.len(),
            faults: self.directory.faults().count(),
            counters: self.counters,
        }
    }

    /// Every client that is connected, in the order of their ids.
    pub fn clients(&self) -> impl Iterator<Item = ClientView> {
        self.clients.iter().map(|(client, session)| ClientView {
            client: *client,
            since: session.since,
            grants: self
                .grants
                .of_client(*client)
                .filter(|grant| grant.stage != Stage::Offered)
                .count(),
            resources: session.told.len(),
        })
    }

    /// Every gateway that is connected, in the order of their ids.
    pub fn gateways(&self) -> impl Iterator<Item = GatewayView> {
        self.gateways.iter().map(|(gateway, session)| {
            let count = self.grants.count(*gateway);
            GatewayView {
                gateway: *gateway,
                since: session.since,
                draining: self.is_draining(*gateway),
                awaits_verification: session.verification.told_awaited,
                candidates: session.candidates.clone(),
                clients: count.clients,
                grants: count.grants - count.offers,
                load: session.load,
            }
        })
    }

    /// Why the client may use the resource, or may not; none where the account has no such client
    /// or no such resource. What a client that is away would be decided by is what was last seen
    /// of it.
    #[must_use]
    pub fn explain(
        &self,
        client: ClientId,
        resource: ResourceId,
        now: Timestamp,
    ) -> Option<Explained> {
        let row = self.directory.client(client)?;
        let resource_row = self.directory.resource(resource)?;
        let applications = resource_row.parsed.applications.clone();
        let within = resource_row.within.clone();
        let facts = self.facts.get(&client).cloned().unwrap_or_default();
        let subject = self.subject(row, &facts);
        let policies: Vec<_> = self.directory.policies(resource).cloned().collect();
        let policies = Explanation::new(&policies, resource, &subject, now.unix_time());
        let barred = match self.permit((client, resource), now) {
            Err(refusal) if policies.decision().is_allow() => Some(refusal.full),
            Ok(_) | Err(_) => None,
        };
        Some(Explained {
            policies,
            barred,
            applications,
            within,
            outside: self.outside.of(resource),
            refused_at_host: self.refused_at_host.of(resource),
            gateway: self
                .choose((client, resource), &BTreeSet::new())
                .map_err(|none| none.refusal(None).full),
        })
    }
}
