//! The control channel from the side of the portal: the WebSockets of clients, gateways and relays around the hub
//! (`culvert_hub`).
//!
//! A request becomes a session in this order, and ends at the first condition that fails. There is
//! room. Its token does not come too often. The token is good. Hello comes. The machine is
//! enrolled. Every change up to then is known. The hub lets it in. One task (`hub_actor`) has the
//! hub, one (`feed`) follows the store's changes, one (`recorder`) writes down events, and each
//! session has a task of its own. Of several portals on one database one leads and has the hub (`election`); the others
//! bring their sessions to it (`portal_link`). All queues between them are bounded, and a session that does not
//! keep up is cut and comes back.

#![forbid(unsafe_code)]

mod admission;
mod clock_watch;
mod conductor;
mod country;
mod election;
mod entrance;
mod entry;
mod error;
mod feed;
mod hello;
mod http_refusal;
mod hub_access;
mod hub_actor;
mod lease;
mod load;
mod pace;
mod portal_link;
mod pulse;
mod reach;
mod recorder;
mod retention;
mod session;
mod shared;
mod upgrade;
mod visitor;

pub use country::{Countries, CountryFile, NoCountries};
pub use error::{CountriesError, StartError};
pub use pulse::Listener;
pub use reach::Reach;

use conductor::{CLOSE_TIMEOUT, Conductor, Parts};
use culvert_hub::{ClientView, DeviceEndpointView, Explained, GatewayView, HubStatus, RelayView};
use culvert_ids::{AccountId, ClientId, GatewayId, PortalId, ResourceId};
use culvert_portal_base::{Leadership, MAX_SESSIONS, Notice, UnwrittenRecords, birth};
use culvert_store::{Grant, MachineId, Store};
use culvert_wire::PortalKey;
use culvert_wire::messages::PortalSet;
use culvert_wire::token::{SECRET_LEN, Secret};
use election::{Objections, Role};
use hub_access::HubAccess;
use lease::Leaseholder;
use pace::Pace;
use pulse::Pulse;
use recorder::Recorder;
use shared::Shared;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zeroize::Zeroizing;

/// The rate at which one token may begin sessions from one address: a rack of machines with the
/// token of one service account, all started at once.
const STARTS_PER_S: u32 = 100;
const STARTS_AT_ONCE: u32 = 2_000;

/// The rate at which one machine may begin sessions: it waits a second at least between two
/// attempts, and may have been restarted in between.
const MACHINE_STARTS_PER_S: u32 = 1;
const MACHINE_STARTS_AT_ONCE: u32 = 5;

/// The time that a portal waits at its start for a leader to be found: the lease of one that was killed, and some more.
const START_WAIT: Duration = Duration::from_secs(5);

/// The time limit for a portal that stops to say so in the database. Its lease ends soon anyway.
const RETIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// The sessions of an account. A copy is the same sessions.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Shared>);

impl Sessions {
    /// Leads the portals of the database, or follows the one that does, and is ready for machines to come.
    ///
    /// # Errors
    /// [`StartError`]: the database, or the operating system gave no random bytes.
    pub async fn start(
        store: Arc<dyn Store>,
        account: AccountId,
        countries: Arc<dyn Countries>,
        reach: Reach,
    ) -> Result<Self, StartError> {
        let pulse = Pulse::new();
        let (recorder, writing) = Recorder::start(Arc::clone(&store), account, pulse.clone());
        let key = portal_key()?;
        let (objections, objected) = Objections::new();
        let parts = Parts {
            store: Arc::clone(&store),
            account,
            countries: Arc::clone(&countries),
            recorder: recorder.clone(),
            pulse: pulse.clone(),
            objections,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(writing);
        let (stop, stopped) = watch::channel(false);
        let (access, access_there) = watch::channel(None);
        let (leads, leading) = watch::channel(false);
        let (roles, role) = watch::channel(Role::Unknown);
        let loaded = if store.is_shared() {
            let own = (key.clone(), reach);
            let stops = (objected, stopped);
            tasks.spawn(election::report(Arc::clone(&store), own, roles, stops));
            None
        } else {
            let epoch = 1;
            let (holder, lease) = Leaseholder::begin(None);
            let loaded = parts.lead(epoch, lease.clone()).await?;
            roles.send_replace(Role::Leader { epoch, lease });
            tasks.spawn(election::be_alone(holder, roles, stopped));
            Some(loaded)
        };
        let portal = key.portal;
        let (portal_set, portals) = watch::channel(PortalSet::default());
        let conductor = Conductor {
            parts,
            portals,
            access,
            leads,
            key,
        };
        let conducting = tokio::spawn(conductor.conduct(role, loaded));
        let sessions = Self(Arc::new(Shared {
            store,
            account,
            portal,
            knows_countries: countries.has_database(),
            access: access_there,
            leading,
            recorder,
            pulse,
            places: Arc::new(Semaphore::new(MAX_SESSIONS)),
            link_places: Arc::new(Semaphore::new(portal_link::MAX_LINKS)),
            token_pace: Pace::new(STARTS_PER_S, STARTS_AT_ONCE),
            machine_pace: Pace::new(MACHINE_STARTS_PER_S, MACHINE_STARTS_AT_ONCE),
            no_upgrade: Notice::once_a_minute(),
            stopping: AtomicBool::new(false),
            portal_set,
            stop,
            conducting: Mutex::new(Some(conducting)),
            tasks: Mutex::new(tasks),
        }));
        let mut access = sessions.0.access.clone();
        let found = timeout(START_WAIT, access.wait_for(Option::is_some)).await;
        if found.is_err() {
            tracing::warn!(
                "no portal of the database leads, or the one that does can't be reached; this one tries on"
            );
        }
        drop(found);
        Ok(sessions)
    }

    /// The routes on which machines come. Every request has to have a
    /// [`PublicAddress`](culvert_portal_base::PublicAddress) as an extension; without one it is refused.
    pub fn router(&self) -> axum::Router {
        entrance::router(Arc::clone(&self.0))
    }

    /// The obstacles to serving; none if the portal is ready.
    pub fn obstacles(&self) -> Vec<String> {
        let mut obstacles = Vec::new();
        if self.0.stopping.load(Ordering::Relaxed) {
            obstacles.push("the portal is stopping".to_owned());
            return obstacles;
        }
        match self.0.access() {
            Some(access) => obstacles.extend(access.fault()),
            None => obstacles.push(
                "no portal of the database leads, or the one that does can't be reached".to_owned(),
            ),
        }
        obstacles
    }

    /// True if there is a database of countries: otherwise no condition about a country ever holds.
    pub fn know_countries(&self) -> bool {
        self.0.knows_countries
    }

    /// Feels whenever something happens that pages show.
    pub fn listen(&self) -> Listener {
        self.0.pulse.listen()
    }

    /// This portal among those of the database, from its start to its end.
    pub fn portal(&self) -> PortalId {
        self.0.portal
    }

    /// True while this portal leads: whatever must be done once is done by it.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.0.leading.clone()
    }

    /// True if this portal leads, and false if another one does; none while neither can be reached.
    pub fn leads(&self) -> Option<bool> {
        let access = self.0.access();
        access.map(|access| matches!(access, HubAccess::Local(_)))
    }

    /// This portal among those of the database.
    pub fn leadership(&self) -> Leadership {
        Leadership {
            leads: *self.0.leading.borrow(),
            epoch: self.0.access().map(|access| access.epoch()),
        }
    }

    /// The state of the sessions in numbers; none if the portal is stopping, or no leader can be reached.
    pub async fn status(&self) -> Option<HubStatus> {
        self.0.access()?.status().await
    }

    /// Every client that is connected to any portal; none as for [`Self::status`].
    pub async fn clients(&self) -> Option<Vec<ClientView>> {
        self.0.access()?.clients().await
    }

    /// Those of these clients that are connected to any portal; none as for [`Self::status`].
    pub async fn clients_among(&self, clients: Vec<ClientId>) -> Option<Vec<ClientView>> {
        self.0.access()?.clients_among(clients).await
    }

    /// The connected clients whose ids come after this one, at most `limit`; none as for [`Self::status`].
    pub async fn clients_after(
        &self,
        after: Option<ClientId>,
        limit: usize,
    ) -> Option<Vec<ClientView>> {
        self.0.access()?.clients_after(after, limit).await
    }

    /// The ids of the connected clients; none as for [`Self::status`].
    pub async fn client_ids(&self) -> Option<Vec<ClientId>> {
        self.0.access()?.client_ids().await
    }

    /// Every gateway that is connected to any portal; none as for [`Self::status`].
    pub async fn gateways(&self) -> Option<Vec<GatewayView>> {
        self.0.access()?.gateways().await
    }

    /// Every relay that is connected to any portal; none as for [`Self::status`].
    pub async fn relays(&self) -> Option<Vec<RelayView>> {
        self.0.access()?.relays().await
    }

    /// Grants of a client or a gateway that are in force, at most `limit`; none as for [`Self::status`].
    pub async fn grants_of(&self, machine: MachineId, limit: usize) -> Option<Vec<Grant>> {
        self.0.access()?.grants_of(machine, limit).await
    }

    /// The reasons for which the client may use the resource now, or may not. None if the account
    /// has no such client or no such resource. Changes that were committed before the call count,
    /// if the database answers.
    pub async fn explain(&self, client: ClientId, resource: ResourceId) -> Option<Explained> {
        self.0.access()?.explain(client, resource).await
    }

    /// The places where gateways hear a plain WireGuard device; none as for [`Self::status`].
    pub async fn device_endpoints(&self, client: ClientId) -> Option<Vec<DeviceEndpointView>> {
        self.0.access()?.device_endpoints(client).await
    }

    /// True if the clients of a gateway keep their access without it; none as for [`Self::status`].
    pub async fn is_dispensable(&self, gateway: GatewayId) -> Option<bool> {
        self.0.access()?.is_dispensable(gateway).await
    }

    /// Moves the clients of a gateway that drains to others of its site. Returns how many it has; none where that it
    /// drains is not known yet, and as for [`Self::status`].
    pub async fn drain_now(&self, gateway: GatewayId) -> Option<usize> {
        self.0.access()?.drain_now(gateway).await
    }

    /// Tells machines the addresses of the portal: those that are connected, and those that come.
    ///
    /// The machines of all portals hear those of the one that leads.
    pub async fn set_portals(&self, portals: PortalSet) {
        self.0.portal_set.send_replace(portals.clone());
        if let Some(HubAccess::Local(local)) = self.0.access() {
            local.hub.set_portals(portals).await;
        }
    }

    /// The records that wait to be written down, and the number of lost ones.
    pub fn unwritten(&self) -> UnwrittenRecords {
        self.0.recorder.unwritten()
    }

    /// Lets nobody in any more, tells all sessions to come back, each at a time of its own, and
    /// writes down what is yet to be. Grants go on without the portal.
    pub async fn stop(&self) {
        self.0.stopping.store(true, Ordering::Relaxed);
        self.0.pulse.stop();
        self.0.stop.send_replace(true);
        let conducting = self.0.conducting.lock().await.take();
        if let Some(conducting) = conducting {
            // The hub has told its sessions by then; the others end with the link.
            let _ = timeout(CLOSE_TIMEOUT, conducting).await;
        }
        // Grants are written while no other portal leads.
        self.0.recorder.finish(CLOSE_TIMEOUT).await;
        let retired = timeout(RETIRE_TIMEOUT, self.0.store.retire(self.0.portal)).await;
        if let Ok(Err(error)) = retired {
            tracing::warn!(%error, "the other portals are not told that this one stops");
        }
        // Every session has its place until it ends.
        let all = u32::try_from(MAX_SESSIONS).unwrap_or(u32::MAX);
        if timeout(CLOSE_TIMEOUT, self.0.places.acquire_many(all))
            .await
            .is_err()
        {
            tracing::warn!("ending sessions that took too long");
        }
        // Other portals leave once they hear of the next leader. By then they have passed on the hub's last words.
        let links = u32::try_from(portal_link::MAX_LINKS).unwrap_or(u32::MAX);
        let _ = timeout(CLOSE_TIMEOUT, self.0.link_places.acquire_many(links)).await;
        self.0.recorder.finish(CLOSE_TIMEOUT).await;
        self.0.tasks.lock().await.shutdown().await;
    }
}

/// The proof of this portal among those of its database, until it ends.
fn portal_key() -> Result<PortalKey, StartError> {
    let (born, random) = birth()?;
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    getrandom::fill(secret.as_mut_slice())?;
    Ok(PortalKey {
        portal: PortalId::new(born, random),
        secret: Secret::new(*secret),
    })
}
