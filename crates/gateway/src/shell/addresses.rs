//! The addresses of this machine, and those at which clients may reach the gateway.

use super::endpoints::Endpoints;
use crate::GatewayError;
use crate::settings::Settings;
use culvert_host::{HostAccess, NetworkWatch, WatchOptions};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// The addresses of this machine, and those at which clients may reach the gateway.
pub(super) struct Addresses {
    pub(super) watch: NetworkWatch,
    pub(super) endpoints: Endpoints,
    listen_port: u16,
    host_access: HostAccess,
}

impl Addresses {
    pub(super) async fn start(settings: &Settings) -> Result<Self, GatewayError> {
        let watch = NetworkWatch::open(WatchOptions {
            own_interfaces: vec![settings.interface.clone()],
            routing: settings.routing,
            destinations: Vec::new(),
            debounce: culvert_host::DEBOUNCE,
        })
        .await?;
        Ok(Self {
            watch,
            endpoints: Endpoints::start(settings.public_endpoints.clone()),
            listen_port: settings.listen_port,
            host_access: settings.host_access,
        })
    }

    /// The addresses of the gateway for clients: those it was told first, then its own.
    pub(super) fn candidates(&mut self) -> Vec<SocketAddr> {
        let public = self.endpoints.addresses.borrow_and_update().clone();
        candidates(public, self.watch.candidates(), self.listen_port)
    }

    /// The addresses of this machine where no client is served.
    pub(super) fn unserved(&self) -> BTreeSet<IpAddr> {
        match self.host_access {
            HostAccess::Deny => self.watch.all_addresses().clone(),
            HostAccess::Allow => BTreeSet::new(),
        }
    }
}

fn candidates(public: Vec<SocketAddr>, own: Vec<IpAddr>, port: u16) -> Vec<SocketAddr> {
    let own = own
        .into_iter()
        .map(|address| SocketAddr::new(address, port));
    let mut candidates = Vec::new();
    for candidate in public.into_iter().chain(own) {
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    candidates.truncate(culvert_path::CANDIDATES_MAX);
    candidates
}
