//! The status of the gateway, for `culvert gateway status`.

use super::Gateway;
use crate::counters::Counters;
use crate::status::{
    ClientStatus, GrantStatus, MAX_LISTED_CLIENTS, MAX_LISTED_GRANTS, MAX_LISTED_NAMES, NameStatus,
    RelayStatus,
};
use culvert_base::{BootTime, UnixTime, whole_millis};
use culvert_control::PortalStatus;
use culvert_ids::{ClientId, GatewayId, SiteId};
use culvert_wire::Timestamp;
use culvert_wire::messages::Interface;
use std::net::SocketAddr;

/// The core's part of the status. The traffic of clients is reported by the data plane.
#[derive(Clone, Debug)]
pub struct View {
    /// The id of the gateway, once the portal has told it.
    pub gateway: Option<GatewayId>,
    /// The site of the gateway, once the portal has told it.
    pub site: Option<SiteId>,
    /// The name of that site.
    pub site_name: Option<String>,
    /// Its addresses inside the tunnel.
    pub interface: Option<Interface>,
    /// The addresses at which clients may reach it.
    pub candidates: Vec<SocketAddr>,
    /// The relays through which clients may come.
    pub relays: Vec<RelayStatus>,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// Clients that hold a grant, not more than [`MAX_LISTED_CLIENTS`].
    pub clients: Vec<ClientStatus>,
    /// The number of all clients that hold a grant.
    pub client_count: usize,
    /// The number of grants in force.
    pub grant_count: usize,
    /// Grants that wait for the DNS, or for their turn.
    pub waiting_grants: usize,
    /// Names that are resolved, not more than [`MAX_LISTED_NAMES`].
    pub names: Vec<NameStatus>,
    /// The number of all names that are resolved.
    pub name_count: usize,
    /// Counts of the gateway's actions.
    pub counters: Counters,
}

/// The reason for which nobody should be sent to this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReady {
    /// It takes no new clients.
    #[error("it drains and takes no new clients")]
    Draining,
    /// The portal sends nobody until an administrator has verified it.
    #[error("it waits for verification by an administrator")]
    Unverified,
    /// The kernel's guard is gone, and nothing passes until it is back.
    #[error("its firewall table is gone or was changed, and is being put back")]
    Unguarded,
    /// It would let nobody through.
    #[error("the portal has not welcomed it, and it holds no grant")]
    Idle,
}

impl Gateway {
    /// The status of the gateway. `unix` is this machine's clock.
    #[must_use]
    pub fn view(&self, now: BootTime, unix: UnixTime) -> View {
        View {
            gateway: self.id(),
            site: self.portal.site,
            site_name: self.portal.site_name.clone(),
            interface: self.network.as_ref().map(|network| network.interface),
            candidates: self.candidates(),
            relays: self.relay_statuses(),
            portal: self.portal.session.status(now, unix),
            clients: self.client_statuses(now, unix),
            client_count: self.data_plane.clients().with_grants(),
            grant_count: self.grants.held.len(),
            waiting_grants: self.grants.pending.len() + self.grants.backlog.len(),
            names: self.name_statuses(now),
            name_count: self.dns.names.len(),
            counters: self.journal.counters,
        }
    }

    /// Succeeds if clients may be sent here: the portal has welcomed it, or it goes on with the grants that
    /// it holds; and it does not drain.
    ///
    /// # Errors
    /// [`NotReady`].
    pub fn readiness(&self) -> Result<(), NotReady> {
        if self.is_draining() {
            return Err(NotReady::Draining);
        }
        if self.portal.verification_awaited {
            return Err(NotReady::Unverified);
        }
        if !self.data_plane.is_guarded() {
            return Err(NotReady::Unguarded);
        }
        match self.portal.session.is_open() || !self.grants.held.is_empty() {
            true => Ok(()),
            false => Err(NotReady::Idle),
        }
    }

    /// One line for a service manager.
    #[must_use]
    pub fn summary(&self) -> String {
        let (clients, grants) = (
            self.data_plane.clients().with_grants(),
            self.grants.held.len(),
        );
        let draining = if self.is_draining() { ", draining" } else { "" };
        if self.portal.session.is_open() && self.portal.verification_awaited {
            let fingerprint = self.options.public_key.fingerprint();
            return format!(
                "connected; waits for verification by an administrator, key {fingerprint}{draining}"
            );
        }
        if self.portal.session.is_open() {
            return format!("connected; {clients} clients with {grants} grants{draining}");
        }
        let why = self.last_error().unwrap_or("no attempt has succeeded yet");
        format!(
            "not connected to the portal: {why}; {clients} clients with {grants} grants{draining}"
        )
    }

    fn client_statuses(&self, now: BootTime, unix: UnixTime) -> Vec<ClientStatus> {
        let mut room = MAX_LISTED_GRANTS;
        let mut statuses = Vec::with_capacity(
            self.data_plane
                .clients()
                .with_grants()
                .min(MAX_LISTED_CLIENTS),
        );
        for (id, client) in self.data_plane.clients().iter().take(MAX_LISTED_CLIENTS) {
            let grants = self.grant_statuses(id, room, now, unix);
            room -= grants.len();
            statuses.push(ClientStatus {
                id,
                public_key: client.identity.key,
                ipv4: client.identity.ipv4,
                ipv6: client.identity.ipv6,
                cipher: client.identity.cipher,
                endpoint: None,
                relay_name: None,
                handshake_age_ms: None,
                heard_ms_ago: None,
                rx_bytes: 0,
                tx_bytes: 0,
                rx_bytes_per_s: 0,
                tx_bytes_per_s: 0,
                grants,
                grant_count: self.grants.of_client(id).count(),
            });
        }
        statuses
    }

    fn grant_statuses(
        &self,
        client: ClientId,
        room: usize,
        now: BootTime,
        unix: UnixTime,
    ) -> Vec<GrantStatus> {
        let grants = self.grants.of_client(client).take(room);
        let statuses = grants.map(|held| GrantStatus {
            id: held.claims.grant,
            resource: held.claims.resource,
            target: held.target.to_string(),
            expires: Timestamp::from(unix.saturating_add(held.expires.saturating_since(now))),
        });
        statuses.collect()
    }

    fn name_statuses(&self, now: BootTime) -> Vec<NameStatus> {
        let names = self.dns.names.iter().take(MAX_LISTED_NAMES);
        let statuses = names.map(|(name, known)| NameStatus {
            name: name.to_string(),
            answered: known.is_answered(),
            ipv4: known.ipv4.first().copied(),
            ipv6: known.ipv6.first().copied(),
            renewed_in_ms: whole_millis(known.renew.saturating_since(now)),
        });
        statuses.collect()
    }
}
