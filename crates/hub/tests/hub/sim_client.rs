//! Simulated clients, which believe what they are told.

use culvert_hub::SessionId;
use culvert_ids::{GatewayId, GrantId, ResourceId};
use culvert_wire::messages::{ClientFeature, ToClient};
use culvert_wire::model;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

#[derive(Debug, Default)]
pub(crate) struct SimClient {
    pub(crate) session: Option<SessionId>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) features: Vec<ClientFeature>,
    /// Grants that it believes in, and through which gateway.
    pub(crate) grants: BTreeMap<GrantId, (ResourceId, GatewayId)>,
    pub(crate) resources: BTreeMap<ResourceId, model::Resource>,
    pub(crate) waiting: BTreeSet<u64>,
    pub(crate) next_request: u64,
}

impl SimClient {
    /// Does as the message says. `is_current` is false for one of an earlier session.
    pub(crate) fn hear(&mut self, message: ToClient, is_current: bool) {
        match message {
            ToClient::Welcome {
                resources, grants, ..
            } => {
                assert!(is_current);
                let listed = resources.into_iter();
                self.resources = listed.map(|resource| (resource.id, resource)).collect();
                self.grants.retain(|grant, _| grants.contains(grant));
            }
            ToClient::ResourceSet { resource } => {
                self.resources.insert(resource.id, resource);
            }
            ToClient::ResourceRemoved { resource } => {
                assert!(self.resources.remove(&resource).is_some());
            }
            ToClient::AccessGranted {
                request,
                resource,
                grant,
                gateway,
                ..
            } => {
                assert!(self.waiting.remove(&request), "an answer too many");
                self.grants.retain(|_, (known, _)| *known != resource);
                self.grants.insert(grant, (resource, gateway));
            }
            ToClient::AccessDenied { request, .. } => {
                assert!(self.waiting.remove(&request), "an answer too many");
            }
            ToClient::AccessRevoked { grant, .. } => {
                self.grants.remove(&grant);
            }
            ToClient::GatewayLost { gateway } => {
                self.grants.retain(|_, (_, through)| *through != gateway);
            }
            ToClient::Refused { .. }
            | ToClient::DnsSet { .. }
            | ToClient::EndedAccessSet { .. }
            | ToClient::PortalsSet { .. }
            | ToClient::RelayPlacesSet { .. }
            | ToClient::RelaysSet { .. }
            | ToClient::GatewayDraining { .. }
            | ToClient::GatewayMoved { .. }
            | ToClient::Unsupported { .. } => {}
        }
    }
}
