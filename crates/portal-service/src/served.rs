//! The account that this portal serves, and its sessions.

use culvert_control_server::{Listener, Sessions};
use culvert_hub::{ClientView, DeviceEndpointView, Explained, GatewayView, HubStatus, RelayView};
use culvert_ids::{AccountId, ClientId, GatewayId, PortalId, ResourceId};
use culvert_portal_base::{Fault, Leadership, UnwrittenRecords, now};
use culvert_store::{Grant, MachineId};
use culvert_wire::Timestamp;

/// The sessions of one account. Other accounts have none here.
pub(super) struct Served {
    pub(super) account: AccountId,
    pub(super) started: Timestamp,
    sessions: Sessions,
}

impl Served {
    pub(super) fn new(account: AccountId, sessions: Sessions) -> Self {
        Self {
            account,
            started: now(),
            sessions,
        }
    }

    /// True if the sessions are those of this account.
    pub(super) fn is(&self, account: AccountId) -> bool {
        account == self.account
    }

    /// The obstacles to serving.
    pub(super) fn obstacles(&self) -> Vec<String> {
        self.sessions.obstacles()
    }

    /// Those of these clients of an account that are connected.
    pub(super) async fn clients_among(
        &self,
        account: AccountId,
        clients: Vec<ClientId>,
    ) -> Result<Vec<ClientView>, Fault> {
        if !self.is(account) {
            return Ok(Vec::new());
        }
        let views = self.sessions.clients_among(clients).await;
        views.ok_or_else(|| self.no_hub())
    }

    /// The connected clients of an account whose ids come after this one, at most `limit`.
    pub(super) async fn clients_after(
        &self,
        account: AccountId,
        after: Option<ClientId>,
        limit: usize,
    ) -> Result<Vec<ClientView>, Fault> {
        if !self.is(account) {
            return Ok(Vec::new());
        }
        let views = self.sessions.clients_after(after, limit).await;
        views.ok_or_else(|| self.no_hub())
    }

    /// The ids of the connected clients of an account.
    pub(super) async fn client_ids(&self, account: AccountId) -> Result<Vec<ClientId>, Fault> {
        if !self.is(account) {
            return Ok(Vec::new());
        }
        let ids = self.sessions.client_ids().await;
        ids.ok_or_else(|| self.no_hub())
    }

    /// The connected gateways of an account.
    pub(super) async fn gateways(&self, account: AccountId) -> Result<Vec<GatewayView>, Fault> {
        match self.is(account) {
            true => self.sessions.gateways().await.ok_or_else(|| self.no_hub()),
            false => Ok(Vec::new()),
        }
    }

    /// The connected relays of an account.
    pub(super) async fn relays(&self, account: AccountId) -> Result<Vec<RelayView>, Fault> {
        match self.is(account) {
            true => self.sessions.relays().await.ok_or_else(|| self.no_hub()),
            false => Ok(Vec::new()),
        }
    }

    /// The places where gateways hear a plain WireGuard device of an account.
    pub(super) async fn device_endpoints(
        &self,
        account: AccountId,
        client: ClientId,
    ) -> Result<Vec<DeviceEndpointView>, Fault> {
        if !self.is(account) {
            return Ok(Vec::new());
        }
        let views = self.sessions.device_endpoints(client).await;
        views.ok_or_else(|| self.no_hub())
    }

    /// Grants of a client or a gateway that are in force.
    pub(super) async fn grants_of(
        &self,
        machine: MachineId,
        limit: usize,
    ) -> Result<Vec<Grant>, Fault> {
        let grants = self.sessions.grants_of(machine, limit).await;
        grants.ok_or_else(|| self.no_hub())
    }

    /// The status of the hub.
    pub(super) async fn status(&self) -> HubStatus {
        self.sessions.status().await.unwrap_or_default()
    }

    /// This portal among those of the database, and whether it leads.
    pub(super) fn portal(&self) -> (PortalId, bool) {
        (self.sessions.portal(), *self.sessions.leading().borrow())
    }

    /// The same for the metrics.
    pub(super) fn leadership(&self) -> Leadership {
        self.sessions.leadership()
    }

    /// Entries of the logs that wait to be written.
    pub(super) fn unwritten(&self) -> UnwrittenRecords {
        self.sessions.unwritten()
    }

    /// Feels whenever something happens in the sessions.
    pub(super) fn listen(&self) -> Listener {
        self.sessions.listen()
    }

    /// The decision if the client asked now, and its reasons.
    pub(super) async fn explain(
        &self,
        client: ClientId,
        resource: ResourceId,
    ) -> Result<Explained, Fault> {
        let explained = self.sessions.explain(client, resource).await;
        explained.ok_or_else(|| match self.sessions.obstacles().is_empty() {
            true => Fault::Unavailable(
                "the sessions do not know one of the two: `faults` of /api/v1/status says whether \
                 rows can't be understood"
                    .to_owned(),
            ),
            false => self.no_hub(),
        })
    }

    /// True if other gateways can take all clients of this one.
    pub(super) async fn is_dispensable(&self, gateway: GatewayId) -> Result<bool, Fault> {
        let is_dispensable = self.sessions.is_dispensable(gateway).await;
        is_dispensable.ok_or_else(|| self.no_hub())
    }

    /// Moves the clients of a gateway to others at once. Returns their number.
    pub(super) async fn drain_now(&self, gateway: GatewayId) -> Result<usize, Fault> {
        self.sessions.drain_now(gateway).await.ok_or_else(|| {
            let text = "the gateway drains, but its clients were not told yet: try again";
            Fault::Unavailable(text.to_owned())
        })
    }

    /// True if there is a database of countries.
    pub(super) fn knows_countries(&self) -> bool {
        self.sessions.know_countries()
    }

    /// The reason why the sessions can't be asked.
    fn no_hub(&self) -> Fault {
        let reason = self.sessions.obstacles().into_iter().next();
        let reason = reason.unwrap_or_else(|| "the sessions do not answer".to_owned());
        Fault::Unavailable(format!("{reason}; try again in some seconds"))
    }
}
