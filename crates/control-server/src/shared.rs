//! The parts of the portal that all sessions of an account share.

use super::Countries;
use super::feed::Feed;
use super::hub_actor::HubHandle;
use super::pace::Pace;
use super::pulse::Pulse;
use super::recorder::Recorder;
use culvert_ids::AccountId;
use culvert_policy::Country;
use culvert_portal_base::Notice;
use culvert_store::Store;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) account: AccountId,
    pub(super) countries: Arc<dyn Countries>,
    pub(super) hub: HubHandle,
    pub(super) feed: Feed,
    pub(super) recorder: Recorder,
    pub(super) pulse: Pulse,
    pub(super) places: Arc<Semaphore>,
    pub(super) token_pace: Pace,
    pub(super) machine_pace: Pace,
    pub(super) no_upgrade: Notice,
    pub(super) stopping: AtomicBool,
    pub(super) tasks: Mutex<JoinSet<()>>,
}

impl Shared {
    pub(super) fn country(&self, address: IpAddr) -> Option<Country> {
        self.countries.country(address)
    }
}
