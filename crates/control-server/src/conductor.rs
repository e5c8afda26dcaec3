//! Has the hub while this portal leads, and otherwise the link to the portal that does.

use super::country::Countries;
use super::election::{Objection, Objections, Role};
use super::error::StartError;
use super::feed::Feed;
use super::hub_access::{HubAccess, LocalHub};
use super::hub_actor::HubHandle;
use super::lease::Lease;
use super::portal_link::RemoteHub;
use super::pulse::Pulse;
use super::recorder::Recorder;
use super::{load, retention};
use culvert_ids::AccountId;
use culvert_link::{Destination, connect, system_look_up};
use culvert_portal_base::Notice;
use culvert_store::{Leader, Store};
use culvert_wire::messages::PortalSet;
use culvert_wire::token::Portal;
use culvert_wire::{PORTAL_LINK_PATH, PortalKey};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The time limit for sessions to close once the portal leads no more or stops, and for records to be written.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause before the hub is loaded again.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// The pause before the leader is connected to again: sessions wait for it.
const LINK_PAUSE: Duration = Duration::from_millis(200);

/// All that a hub is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) store: Arc<dyn Store>,
    pub(super) account: AccountId,
    pub(super) countries: Arc<dyn Countries>,
    pub(super) recorder: Recorder,
    pub(super) pulse: Pulse,
    pub(super) objections: Objections,
}

/// A hub that runs, and its tasks.
pub(super) struct Running {
    hub: LocalHub,
    lease: Lease,
    /// The hub itself, which tells its sessions the end.
    actor: JoinSet<()>,
    /// The other tasks of a portal that leads.
    helpers: JoinSet<()>,
}

impl Parts {
    /// Takes over what the database has of the account, and is ready for machines to come.
    pub(super) async fn lead(&self, epoch: u64, lease: Lease) -> Result<Running, StartError> {
        let snapshot = self.store.snapshot(self.account).await?;
        let seq = snapshot.seq;
        let hub = load::hub(self.store.as_ref(), snapshot, &self.countries).await?;
        let (recorder, pulse) = (self.recorder.clone(), self.pulse.clone());
        let (hub, acting) = HubHandle::start(hub, recorder, pulse.clone(), lease.clone());
        let follower = (hub.clone(), pulse, self.objections.clone());
        let (feed, following) = Feed::start(Arc::clone(&self.store), self.account, seq, follower);
        let mut actor = JoinSet::new();
        actor.spawn(acting);
        let mut helpers = JoinSet::new();
        helpers.spawn(following);
        let store = Arc::clone(&self.store);
        helpers.spawn(retention::keep_within(store, self.account));
        let hub = LocalHub {
            hub,
            feed,
            countries: Arc::clone(&self.countries),
            epoch,
            objections: self.objections.clone(),
        };
        Ok(Running {
            hub,
            lease,
            actor,
            helpers,
        })
    }
}

/// Does what the role asks for.
pub(super) struct Conductor {
    pub(super) parts: Parts,
    pub(super) access: watch::Sender<Option<HubAccess>>,
    pub(super) leads: watch::Sender<bool>,
    pub(super) key: PortalKey,
    /// The addresses that machines are told.
    pub(super) portals: watch::Receiver<PortalSet>,
}

impl Conductor {
    /// Follows the role until the portal stops. A hub that was loaded before is used first.
    pub(super) async fn conduct(
        self,
        mut roles: watch::Receiver<Role>,
        mut loaded: Option<Running>,
    ) {
        let no_link = Notice::once_a_minute();
        loop {
            let role = roles.borrow_and_update().clone();
            match role {
                Role::Stopping => return,
                Role::Leader { epoch, lease } if !lease.is_over() => {
                    let running = match loaded.take() {
                        Some(running) => Ok(running),
                        None => self.parts.lead(epoch, lease).await,
                    };
                    match running {
                        Ok(running) => self.have(running).await,
                        Err(error) => {
                            tracing::error!(%error, "this portal leads, and can't begin to");
                            if error.is_of_later_version() {
                                self.parts.objections.make(Objection::LaterVersion);
                            }
                            sleep(LOAD_PAUSE).await;
                        }
                    }
                }
                Role::Follower(leader) => {
                    let superseded = next_epoch(roles.clone());
                    let has_changed = tokio::select! {
                        // First, so that the former leader is told.
                        biased;
                        () = self.follow(leader, &no_link, superseded) => false,
                        _ = roles.changed() => true,
                    };
                    self.access.send_replace(None);
                    if !has_changed {
                        // A new role does not wait.
                        let _ = timeout(LINK_PAUSE, roles.changed()).await;
                    }
                }
                Role::Unknown | Role::Leader { .. } => {
                    // The reports go on for as long as this does.
                    let _ = roles.changed().await;
                }
            }
        }
    }

    /// Leads until the lease is over.
    async fn have(&self, running: Running) {
        let Running {
            hub,
            mut lease,
            mut actor,
            mut helpers,
        } = running;
        self.access
            .send_replace(Some(HubAccess::Local(hub.clone())));
        // Once there is access, every change reaches the hub by itself.
        let portals = self.portals.borrow().clone();
        hub.hub.set_portals(portals).await;
        self.leads.send_replace(true);
        lease.over().await;
        self.leads.send_replace(false);
        self.access.send_replace(None);
        helpers.abort_all();
        // Nothing is decided any more. The sessions hear that they are to come back while this portal follows already.
        hub.hub.stop().await;
        tokio::spawn(async move {
            if timeout(CLOSE_TIMEOUT, actor.join_next()).await.is_err() {
                actor.shutdown().await;
            }
        });
    }

    /// Brings sessions to the leader until the link breaks.
    async fn follow(
        &self,
        leader: Leader,
        no_link: &Notice,
        superseded: impl Future<Output = u64>,
    ) {
        let url = format!("https://{}", leader.address);
        let portal = Portal {
            url,
            pin: Some(leader.pin),
        };
        let destination = Destination {
            portal,
            path: PORTAL_LINK_PATH,
            credential: (&self.key).into(),
            mark: None,
            look_up: system_look_up,
            proxy: None,
            addresses: None,
        };
        match connect(&destination).await {
            Ok(connected) => {
                tracing::info!(leader = %leader.portal, address = %leader.address, "another portal leads");
                let (hub, link) = RemoteHub::begin(connected.connection, leader);
                self.access.send_replace(Some(HubAccess::Remote(hub)));
                let (store, pulse) = (self.parts.store.as_ref(), &self.parts.pulse);
                link.run(store, pulse, superseded).await;
            }
            Err(error) => {
                if let Some(count) = no_link.due(Instant::now()) {
                    let address = leader.address;
                    tracing::warn!(count, %address, "the portal that leads can't be reached: {error}");
                }
            }
        }
    }
}

/// The epoch of the next leader, once there is one.
async fn next_epoch(mut roles: watch::Receiver<Role>) -> u64 {
    while roles.changed().await.is_ok() {
        if let Some(epoch) = roles.borrow_and_update().epoch() {
            return epoch;
        }
    }
    std::future::pending().await
}
