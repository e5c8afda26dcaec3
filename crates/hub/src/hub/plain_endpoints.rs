//! The places of plain WireGuard devices: facts for conditions, which their gateways tell (ADR 0062).

use super::Hub;
use crate::endpoints::{CountryOf, Endpoint};
use crate::views::{DeviceEndpointView, JudgedAddress};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_policy::conditions::{Condition, Fact};
use culvert_policy::{ClientFacts, Policy};
use culvert_store::{Client, MachineId, Seen, SeenMachine};
use culvert_wire::Timestamp;
use culvert_wire::messages::{DeviceEndpoint, MAX_DEVICES_PER_MESSAGE};
use std::collections::BTreeSet;

impl Hub {
    /// The countries of addresses at which gateways hear devices. Without this, no country is known.
    pub fn set_countries(&mut self, country_of: CountryOf) {
        self.endpoints.set_countries(country_of);
    }

    /// The facts of a plain device for a resource: where the gateway that leads there hears the device.
    pub(super) fn facts_of_plain(
        &self,
        client: &Client,
        resource: ResourceId,
        now: Timestamp,
    ) -> ClientFacts {
        let Some(gateway) = self.gateway_of_plain(client, resource) else {
            return ClientFacts::default();
        };
        if let Some(endpoint) = self.endpoints.fresh(client.id, gateway, now) {
            return endpoint.facts.clone();
        }
        let presumed = self.endpoints.presumed(client.id, now);
        let presumed = presumed.filter(|_| self.is_yet_to_tell(gateway));
        presumed.cloned().unwrap_or_default()
    }

    /// The gateway through which a plain device reaches a resource: its file has one of each site.
    fn gateway_of_plain(&self, client: &Client, resource: ResourceId) -> Option<GatewayId> {
        let site = self.directory.resource(resource)?.parsed.site;
        let rows = client.gateways.iter();
        let mut rows = rows.filter_map(|id| self.directory.gateway(*id));
        rows.find(|row| row.site == site).map(|row| row.id)
    }

    /// True if the gateway is going to tell where its devices are, and has not told all of them yet.
    fn is_yet_to_tell(&self, gateway: GatewayId) -> bool {
        let session = self.sessions.gateways.get(gateway);
        session.is_none_or(|session| session.announced.tells_endpoints && !session.devices.is_told)
    }

    /// A gateway told where devices are.
    pub(super) fn note_endpoints(
        &mut self,
        gateway: GatewayId,
        devices: Vec<DeviceEndpoint>,
        more: bool,
        now: Timestamp,
    ) {
        let session = self.sessions.gateways.get(gateway);
        if !session.is_some_and(|session| session.announced.tells_endpoints) {
            // It was told of no devices to admit.
            self.counters.ignored += 1;
            return;
        }
        let mut to_review = BTreeSet::new();
        let mut told = BTreeSet::new();
        for device in devices.into_iter().take(MAX_DEVICES_PER_MESSAGE) {
            let client = device.client;
            match self.note_endpoint(gateway, &device, now) {
                Some(true) => drop(to_review.insert(client)),
                Some(false) => {}
                None => {
                    self.counters.ignored += 1;
                    continue;
                }
            }
            told.insert(client);
        }
        to_review.extend(self.note_list(gateway, &told, more));
        for client in to_review {
            self.review_client_grants(client, now);
            self.serve_standing(client, now);
        }
    }

    /// One device of a report: true if conditions may judge otherwise now, none where the gateway has no such device.
    fn note_endpoint(
        &mut self,
        gateway: GatewayId,
        device: &DeviceEndpoint,
        now: Timestamp,
    ) -> Option<bool> {
        let client = device.client;
        let row = self.directory.client(client)?;
        let is_of_gateway = row.gateways.contains(&gateway) && row.revoked.is_none();
        if !is_of_gateway || row.public_key != device.client_key {
            return None;
        }
        let before = self.endpoints.fresh(client, gateway, now);
        let before = before.map(|endpoint| endpoint.facts.clone());
        let address = device.address.map(|address| address.to_canonical());
        // The clock that it was measured by may be ahead.
        let handshake = device.handshake.min(now);
        let record = self.endpoints.note((client, gateway), address, handshake);
        if let Some((at, address)) = record {
            self.outbox.seen(SeenMachine {
                id: MachineId::Client(client),
                seen: Seen {
                    at,
                    address: Some(address),
                    // WireGuard says none.
                    software: String::new(),
                },
            });
        }
        let after = self.endpoints.fresh(client, gateway, now);
        if let Some(until) = after.map(Endpoint::until) {
            self.look_at_standing(client, until);
        }
        let after = self.endpoints.fresh(client, gateway, now);
        Some(before.as_ref() != after.map(|endpoint| &endpoint.facts))
    }

    /// A part of a session's first list, with `more` of it to come. Returns the devices whose facts the whole list changes.
    fn note_list(
        &mut self,
        gateway: GatewayId,
        told: &BTreeSet<ClientId>,
        more: bool,
    ) -> Vec<ClientId> {
        let devices: Vec<ClientId> = self.directory.plain_clients_of(gateway).collect();
        let Some(session) = self.sessions.gateways.get_mut(gateway) else {
            return Vec::new();
        };
        let state = &mut session.devices;
        if state.is_told {
            return Vec::new();
        }
        state.listed.extend(told);
        if more {
            return Vec::new();
        }
        state.is_told = true;
        let listed = std::mem::take(&mut state.listed);
        self.endpoints.keep_listed(gateway, &devices, &listed);
        // Nothing is presumed of them any more.
        devices
    }

    /// All that gateways told of a plain device, the newest handshake first.
    #[must_use]
    pub fn device_endpoints(&self, client: ClientId, now: Timestamp) -> Vec<DeviceEndpointView> {
        let told = self.endpoints.of_client(client);
        let views = told.map(|(gateway, endpoint)| DeviceEndpointView {
            gateway,
            address: endpoint.facts.public_address,
            handshake: endpoint.handshake,
            counts: now < endpoint.until(),
        });
        let mut views: Vec<_> = views.collect();
        views.sort_by_key(|view| std::cmp::Reverse(view.handshake));
        views
    }

    /// The address that conditions about addresses judge, if any policy of the client for the resource has one.
    pub(super) fn judged_address(
        &self,
        client: &Client,
        resource: ResourceId,
        seen: &ClientFacts,
        now: Timestamp,
    ) -> Option<JudgedAddress> {
        if !self.looks_at_address(client, resource) {
            return None;
        }
        let gateway = self.gateway_of_plain(client, resource);
        let gateway = gateway.filter(|_| client.is_plain());
        let endpoint = gateway.and_then(|gateway| self.endpoints.get(client.id, gateway));
        let session = gateway.and_then(|gateway| self.sessions.gateways.get(gateway));
        Some(JudgedAddress {
            address: seen.public_address,
            gateway,
            handshake: endpoint.map(|endpoint| endpoint.handshake),
            is_unsettled: endpoint.is_some_and(|endpoint| {
                now < endpoint.until() && endpoint.facts.public_address.is_none()
            }),
            is_untold: session.is_some_and(|session| !session.announced.tells_endpoints),
        })
    }

    /// True if a policy that joins a group of the client with the resource has a condition about the client's address.
    pub(super) fn looks_at_address(&self, client: &Client, resource: ResourceId) -> bool {
        let groups: BTreeSet<_> = self.directory.groups_of(client.actor).collect();
        let mut policies = self.directory.policies(resource);
        policies.any(|policy| groups.contains(&policy.group) && is_about_address(policy))
    }
}

fn is_about_address(policy: &Policy) -> bool {
    let about = |condition: &Condition| {
        let mut needs = condition.needs().iter();
        needs.any(|fact| matches!(fact, Fact::PublicAddress | Fact::Country))
    };
    !policy.disabled && policy.conditions.iter().any(about)
}
