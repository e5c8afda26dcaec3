//! The way to the hub: in this process where it leads, otherwise at the portal that does.

use super::country::Countries;
use super::election::Objections;
use super::entry::Entry;
use super::feed::Feed;
use super::hello::Refused;
use super::hub_actor::{HubHandle, Incoming, Joined};
use super::portal_link::{Ask, RemoteHub};
use culvert_hub::{
    ClientView, DeviceEndpointView, Explained, GatewayView, HubStatus, RelayView, SessionId,
};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_store::{Grant, MachineId};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Seconds until a machine comes back to a portal that can't ask the hub.
const COME_BACK_S: u32 = 5;

/// The hub of this process, and what brings the changes of the configuration to it.
#[derive(Clone, Debug)]
pub(super) struct LocalHub {
    pub(super) hub: HubHandle,
    pub(super) feed: Feed,
    pub(super) countries: Arc<dyn Countries>,
    /// The leader's epoch.
    pub(super) epoch: u64,
    pub(super) objections: Objections,
}

/// The hub, wherever it is.
#[derive(Clone, Debug)]
pub(super) enum HubAccess {
    Local(LocalHub),
    Remote(RemoteHub),
}

impl HubAccess {
    /// The epoch of the portal that leads.
    pub(super) fn epoch(&self) -> u64 {
        match self {
            Self::Local(local) => local.epoch,
            Self::Remote(remote) => remote.epoch(),
        }
    }
}

impl LocalHub {
    /// Hands a machine over.
    pub(super) async fn join(&self, entry: Entry) -> Result<Joined, Refused> {
        // The hub lets nobody in whom it does not know: what the enrolment changed comes first, and
        // with it whatever was revoked in the meantime.
        if !self.feed.catch_up().await {
            return Err(Refused::later(
                COME_BACK_S,
                "the portal's database does not answer",
            ));
        }
        let Some((join, seen)) = entry.into_join(self.countries.as_ref()) else {
            return Err(Refused::not_hello());
        };
        let joined = self.hub.join(join, seen).await;
        joined.ok_or_else(|| Refused::later(COME_BACK_S, "the portal is stopping"))
    }

    async fn is_dispensable(&self, gateway: GatewayId) -> Option<bool> {
        self.feed.catch_up().await;
        self.hub.is_dispensable(gateway).await
    }

    async fn drain_now(&self, gateway: GatewayId) -> Option<usize> {
        self.feed.catch_up().await;
        self.hub.drain_now(gateway).await
    }

    async fn explain(&self, client: ClientId, resource: ResourceId) -> Option<Explained> {
        self.feed.catch_up().await;
        self.hub.explain(client, resource).await
    }

    /// The answer to another portal's question, as JSON.
    pub(super) async fn answer(&self, ask: Ask) -> String {
        let hub = &self.hub;
        let answer = match ask {
            Ask::Status => serde_json::to_string(&hub.status().await),
            Ask::Clients => serde_json::to_string(&hub.clients().await),
            Ask::ClientsAmong(clients) => serde_json::to_string(&hub.clients_among(clients).await),
            Ask::ClientsAfter { after, limit } => {
                serde_json::to_string(&hub.clients_after(after, limit).await)
            }
            Ask::ClientIds => serde_json::to_string(&hub.client_ids().await),
            Ask::Gateways => serde_json::to_string(&hub.gateways().await),
            Ask::Relays => serde_json::to_string(&hub.relays().await),
            Ask::IsDispensable(gateway) => {
                serde_json::to_string(&self.is_dispensable(gateway).await)
            }
            Ask::DrainNow(gateway) => serde_json::to_string(&self.drain_now(gateway).await),
            Ask::GrantsOf { machine, limit } => {
                serde_json::to_string(&hub.grants_of(machine, limit).await)
            }
            Ask::DeviceEndpoints(client) => {
                serde_json::to_string(&hub.device_endpoints(client).await)
            }
            Ask::Explain { client, resource } => {
                serde_json::to_string(&self.explain(client, resource).await)
            }
        };
        // All of these have a JSON form.
        answer.unwrap_or_else(|_| "null".to_owned())
    }
}

impl HubAccess {
    pub(super) async fn join(&self, entry: Entry) -> Result<Joined, Refused> {
        match self {
            Self::Local(local) => local.join(entry).await,
            Self::Remote(remote) => remote.join(entry).await.ok_or_else(|| {
                Refused::later(1, "the portal that leads can't be reached at the moment")
            }),
        }
    }

    /// Passes a session's message on, which came as the text; false where the hub is gone.
    pub(super) async fn say(&self, session: SessionId, message: Incoming, text: &str) -> bool {
        match self {
            Self::Local(local) => local.hub.say(session, message).await,
            Self::Remote(remote) => remote.say(session, message, text).await,
        }
    }

    pub(super) async fn status(&self) -> Option<HubStatus> {
        match self {
            Self::Local(local) => local.hub.status().await,
            Self::Remote(remote) => asked(remote, Ask::Status).await,
        }
    }

    pub(super) async fn clients(&self) -> Option<Vec<ClientView>> {
        match self {
            Self::Local(local) => local.hub.clients().await,
            Self::Remote(remote) => asked(remote, Ask::Clients).await,
        }
    }

    pub(super) async fn clients_among(&self, clients: Vec<ClientId>) -> Option<Vec<ClientView>> {
        let remote = match self {
            Self::Local(local) => return local.hub.clients_among(clients).await,
            Self::Remote(remote) => remote,
        };
        if let Some(views) = asked(remote, Ask::ClientsAmong(clients.clone())).await {
            return Some(views);
        }
        // The leader may be older.
        let mut views: Vec<ClientView> = asked(remote, Ask::Clients).await?;
        views.retain(|view| clients.contains(&view.client));
        Some(views)
    }

    pub(super) async fn clients_after(
        &self,
        after: Option<ClientId>,
        limit: usize,
    ) -> Option<Vec<ClientView>> {
        let remote = match self {
            Self::Local(local) => return local.hub.clients_after(after, limit).await,
            Self::Remote(remote) => remote,
        };
        if let Some(views) = asked(remote, Ask::ClientsAfter { after, limit }).await {
            return Some(views);
        }
        // The leader may be older.
        let mut views: Vec<ClientView> = asked(remote, Ask::Clients).await?;
        views.retain(|view| after.is_none_or(|after| view.client > after));
        views.truncate(limit);
        Some(views)
    }

    pub(super) async fn client_ids(&self) -> Option<Vec<ClientId>> {
        let remote = match self {
            Self::Local(local) => return local.hub.client_ids().await,
            Self::Remote(remote) => remote,
        };
        if let Some(ids) = asked(remote, Ask::ClientIds).await {
            return Some(ids);
        }
        // The leader may be older.
        let views: Vec<ClientView> = asked(remote, Ask::Clients).await?;
        Some(views.into_iter().map(|view| view.client).collect())
    }

    pub(super) async fn gateways(&self) -> Option<Vec<GatewayView>> {
        match self {
            Self::Local(local) => local.hub.gateways().await,
            Self::Remote(remote) => asked(remote, Ask::Gateways).await,
        }
    }

    pub(super) async fn relays(&self) -> Option<Vec<RelayView>> {
        match self {
            Self::Local(local) => local.hub.relays().await,
            Self::Remote(remote) => asked(remote, Ask::Relays).await,
        }
    }

    pub(super) async fn grants_of(&self, machine: MachineId, limit: usize) -> Option<Vec<Grant>> {
        match self {
            Self::Local(local) => local.hub.grants_of(machine, limit).await,
            Self::Remote(remote) => asked(remote, Ask::GrantsOf { machine, limit }).await,
        }
    }

    pub(super) async fn device_endpoints(
        &self,
        client: ClientId,
    ) -> Option<Vec<DeviceEndpointView>> {
        match self {
            Self::Local(local) => local.hub.device_endpoints(client).await,
            // An older leader hears of no device.
            Self::Remote(remote) => {
                let answer = asked(remote, Ask::DeviceEndpoints(client)).await;
                Some(answer.unwrap_or_default())
            }
        }
    }

    pub(super) async fn explain(
        &self,
        client: ClientId,
        resource: ResourceId,
    ) -> Option<Explained> {
        match self {
            Self::Local(local) => local.explain(client, resource).await,
            Self::Remote(remote) => asked(remote, Ask::Explain { client, resource }).await,
        }
    }

    pub(super) async fn is_dispensable(&self, gateway: GatewayId) -> Option<bool> {
        match self {
            Self::Local(local) => local.is_dispensable(gateway).await,
            Self::Remote(remote) => asked(remote, Ask::IsDispensable(gateway)).await,
        }
    }

    pub(super) async fn drain_now(&self, gateway: GatewayId) -> Option<usize> {
        match self {
            Self::Local(local) => local.drain_now(gateway).await,
            Self::Remote(remote) => asked(remote, Ask::DrainNow(gateway)).await,
        }
    }

    /// The fault of the changes' way to the hub; none if they arrive. The leader tells its own.
    pub(super) fn fault(&self) -> Option<String> {
        match self {
            Self::Local(local) => local.feed.fault(),
            Self::Remote(_) => None,
        }
    }
}

/// An answer of the portal that leads; none where it is not understood or does not come.
async fn asked<T: DeserializeOwned>(remote: &RemoteHub, ask: Ask) -> Option<T> {
    let answer = remote.ask(ask).await?;
    let read = serde_json::from_str::<Option<T>>(&answer);
    read.unwrap_or_else(|error| {
        tracing::warn!(%error, "an answer of the portal that leads is not understood");
        None
    })
}
