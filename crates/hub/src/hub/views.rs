//! The state of the hub for administrators and collectors of metrics.

use super::Hub;
use crate::grants::{Grant, Stage};
use crate::relays::GivenRelays;
use crate::session::ClientSession;
use crate::views::{Bar, ClientView, Explained, GatewayView, HubStatus, PathView, RelayView};
use culvert_ids::{ClientId, ResourceId};
use culvert_policy::Explanation;
use culvert_store::MachineId;
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

impl Hub {
    /// The status, in numbers.
    #[must_use]
    pub fn status(&self) -> HubStatus {
        HubStatus {
            seq: self.directory.seq(),
            clients: self.sessions.clients.len(),
            gateways: self.sessions.gateways.len(),
            relays: self.relays.connected().count(),
            gateways_awaiting_verification: self.sessions.gateways.awaiting_verification(),
            grants: self.grants.len(),
            asks: self.asks.len(),
            faults: self.directory.faults().count(),
            counters: self.counters,
        }
    }

    /// Every client that is connected, in the order of their ids.
    pub fn clients(&self) -> impl Iterator<Item = ClientView> {
        let clients = self.sessions.clients.iter();
        clients.map(|(client, session)| self.client_view(client, session))
    }

    /// The connected clients whose ids come after this one, in the order of their ids.
    pub fn clients_after(&self, after: Option<ClientId>) -> impl Iterator<Item = ClientView> {
        let clients = self.sessions.clients.after(after);
        clients.map(|(client, session)| self.client_view(client, session))
    }

    /// The ids of the connected clients.
    pub fn client_ids(&self) -> impl Iterator<Item = ClientId> {
        self.sessions.clients.iter().map(|(client, _)| client)
    }

    /// Those of these clients that are connected.
    #[must_use]
    pub fn clients_among(&self, clients: &[ClientId]) -> Vec<ClientView> {
        let sessions = clients.iter().filter_map(|client| {
            let session = self.sessions.clients.get(*client)?;
            Some(self.client_view(*client, session))
        });
        sessions.collect()
    }

    fn client_view(&self, client: ClientId, session: &ClientSession) -> ClientView {
        ClientView {
            client,
            since: session.since,
            grants: self
                .grants
                .of_client(client)
                .filter(|grant| grant.stage != Stage::Offered)
                .count(),
            resources: session.told.len(),
            paths: session
                .relaying
                .paths
                .iter()
                .filter(|(gateway, _)| self.grants.serves(**gateway, client))
                .map(|(gateway, path)| PathView {
                    gateway: *gateway,
                    path: path.path,
                    relay: path.relay,
                    round_trip_us: path.round_trip_us,
                    why: self.why_not_direct(&session.relaying, *gateway, path),
                    since: path.since,
                })
                .collect(),
        }
    }

    /// Every gateway that is connected, in the order of their ids.
    pub fn gateways(&self) -> impl Iterator<Item = GatewayView> {
        self.sessions.gateways.iter().map(|(gateway, session)| {
            let count = self.grants.count(gateway);
            GatewayView {
                gateway,
                since: session.since,
                draining: self.is_draining(gateway),
                awaits_verification: session.verification.told_awaited,
                candidates: session.announced.candidates().to_vec(),
                clients: count.clients,
                grants: count.grants - count.offers,
                load: session.load.last(),
                answers_plain: session.announced.answers_plain,
                knows_site_names: session.announced.knows_site_names,
                answers_admitted: session.announced.answers_admitted,
                relays: {
                    let given = self.relays.given.get(&gateway);
                    let relays = given.iter().flat_map(|given| &given.relays);
                    relays.map(|(relay, _)| *relay).collect()
                },
            }
        })
    }

    /// Every relay that is connected, in the order of their ids.
    pub fn relays(&self) -> impl Iterator<Item = RelayView> {
        self.relays.connected().filter_map(|(id, relay)| {
            let session = relay.session?;
            let given = self.relays.given.values();
            let uses = |given: &&GivenRelays| given.relays.iter().any(|(relay, _)| *relay == id);
            Some(RelayView {
                relay: id,
                since: session.since,
                draining: self.is_relay_draining(id),
                addresses: relay.place.addresses.clone(),
                tls_port: relay.place.tls.as_ref().map(|tls| tls.port),
                given: given.filter(uses).count(),
                load: relay.load,
            })
        })
    }

    /// Grants of a client or a gateway that are in force, at most `limit`.
    #[must_use]
    pub fn grants_of(&self, machine: MachineId, limit: usize) -> Vec<culvert_store::Grant> {
        let in_force = |grant: &&Grant| grant.stage != Stage::Offered;
        let rows = |grant: &Grant| grant.row.clone();
        match machine {
            MachineId::Client(client) => {
                let grants = self.grants.of_client(client);
                grants.filter(in_force).take(limit).map(rows).collect()
            }
            MachineId::Gateway(gateway) => {
                let grants = self.grants.of_gateway(gateway);
                grants.filter(in_force).take(limit).map(rows).collect()
            }
            MachineId::Relay(_) => Vec::new(),
        }
    }

    /// Explains the client's access to the resource, or its denial; none if the account has no such
    /// client or no such resource. For a client that is away, the facts last seen of it decide.
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
        let facts = self.facts_of((client, resource), now);
        let subject = self.subject(row, &facts);
        let policies: Vec<_> = self.directory.policies(resource).cloned().collect();
        let policies = Explanation::new(&policies, resource, &subject, now.unix_time());
        let barred = match self.permit((client, resource), now) {
            Err(refusal) if policies.decision().is_allow() => Some(Bar {
                code: refusal.brief.code,
                text: refusal.full,
            }),
            Ok(_) | Err(_) => None,
        };
        let judged = self.judged_address(row, resource, &facts.seen, now);
        let in_words = (!applications.is_any()).then(|| applications.to_string());
        let within = within.map(|within| within.ranges().iter().map(ToString::to_string).collect());
        Some(Explained {
            policies: (&policies).into(),
            barred,
            applications: (&applications).into(),
            applications_in_words: in_words,
            within,
            judged,
            outside: self.refusals.outside.of(resource),
            refused_at_host: self.refusals.at_host.of(resource),
            gateway: self
                .choose((client, resource), &BTreeSet::new())
                .map_err(|none| none.refusal(None).full),
        })
    }
}
