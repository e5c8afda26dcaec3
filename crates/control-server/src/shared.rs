//! The parts of the portal that all sessions of an account share.

use super::hub_access::HubAccess;
use super::pace::Pace;
use super::pulse::Pulse;
use super::recorder::Recorder;
use culvert_ids::{AccountId, PortalId};
use culvert_portal_base::Notice;
use culvert_store::Store;
use culvert_wire::messages::PortalSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// The longest wait of a machine for a leader: a change of it takes 3 s at most, and a machine waits 10 s for its welcome.
const LEADER_WAIT: Duration = Duration::from_secs(6);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) account: AccountId,
    pub(super) portal: PortalId,
    /// True if there is a database of countries.
    pub(super) knows_countries: bool,
    /// The way to the hub, while a portal leads and can be reached.
    pub(super) access: watch::Receiver<Option<HubAccess>>,
    pub(super) leading: watch::Receiver<bool>,
    pub(super) recorder: Recorder,
    pub(super) pulse: Pulse,
    pub(super) places: Arc<Semaphore>,
    pub(super) link_places: Arc<Semaphore>,
    pub(super) token_pace: Pace,
    pub(super) machine_pace: Pace,
    pub(super) no_upgrade: Notice,
    pub(super) stopping: AtomicBool,
    /// The addresses of the portal, which its machines are told while it leads.
    pub(super) portal_set: watch::Sender<PortalSet>,
    pub(super) stop: watch::Sender<bool>,
    pub(super) conducting: Mutex<Option<JoinHandle<()>>>,
    pub(super) tasks: Mutex<JoinSet<()>>,
}

impl Shared {
    /// The way to the hub; none while no portal leads that can be reached.
    pub(super) fn access(&self) -> Option<HubAccess> {
        self.access.borrow().clone()
    }

    /// The same, after a wait while a leader is found.
    pub(super) async fn access_soon(&self) -> Option<HubAccess> {
        let mut access = self.access.clone();
        let there = timeout(LEADER_WAIT, access.wait_for(Option::is_some)).await;
        there.ok()?.ok()?.clone()
    }
}
