//! The control channel from the side of the portal: the WebSockets of clients and gateways around the hub (`culvert_hub`).
//!
//! A request becomes a session in this order, and ends at the first condition that fails. There is
//! room. Its token does not come too often. The token is good. Hello comes. The machine is
//! enrolled. Every change up to then is known. The hub lets it in. One task (`hub_actor`) has the
//! hub, one (`feed`) follows the store's changes, one (`recorder`) writes down events, and each
//! session has a task of its own. All queues between them are bounded, and a session that does not
//! keep up is cut and comes back.

#![forbid(unsafe_code)]

mod admission;
mod country;
mod entrance;
mod error;
mod feed;
mod hub_actor;
mod pace;
mod pulse;
mod recorder;
mod retention;
mod session;
mod shared;
mod upgrade;
mod visitor;

pub use country::{Countries, CountryFile, NoCountries};
pub use error::{CountriesError, StartError};
pub use pulse::Listener;

use culvert_hub::{
    ClientView, Directory, Explained, Facts, GatewayView, Hub, HubStatus, PORTAL_SECRET_LEN,
    PortalKeys,
};
use culvert_ids::{AccountId, ClientId, GatewayId, ResourceId};
use culvert_policy::ClientFacts;
use culvert_portal_base::{MAX_SESSIONS, Notice, UnwrittenRecords, now};
use culvert_store::{
    Grant, MachineId, PageLimit, SecretBytes, SecretName, Snapshot, Store, StoreError,
};
use culvert_wire::Timestamp;
use culvert_wire::messages::PortalSet;
use feed::Feed;
use hub_actor::HubHandle;
use pace::Pace;
use pulse::Pulse;
use recorder::Recorder;
use shared::Shared;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
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

/// The time limit for sessions to close once the portal stops, and for records to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The sessions of an account. A copy is the same sessions.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Shared>);

impl Sessions {
    /// Takes over what the database has of the account, and is ready for machines to come.
    ///
    /// # Errors
    /// [`StartError`]: the database, or the operating system gave no random bytes.
    pub async fn start(
        store: Arc<dyn Store>,
        account: AccountId,
        countries: Arc<dyn Countries>,
    ) -> Result<Self, StartError> {
        let snapshot = store.snapshot(account).await?;
        let seq = snapshot.seq;
        let hub = hub(store.as_ref(), snapshot, countries.as_ref()).await?;
        let pulse = Pulse::new();
        let (recorder, writing) = Recorder::start(Arc::clone(&store), account, pulse.clone());
        let (hub, hub_task) = HubHandle::start(hub, recorder.clone(), pulse.clone());
        let follower = (hub.clone(), pulse.clone());
        let (feed, following) = Feed::start(Arc::clone(&store), account, seq, follower);
        let mut tasks = JoinSet::new();
        tasks.spawn(writing);
        tasks.spawn(hub_task);
        tasks.spawn(following);
        tasks.spawn(retention::keep_within(Arc::clone(&store), account));
        Ok(Self(Arc::new(Shared {
            store,
            account,
            countries,
            hub,
            feed,
            recorder,
            pulse,
            places: Arc::new(Semaphore::new(MAX_SESSIONS)),
            token_pace: Pace::new(STARTS_PER_S, STARTS_AT_ONCE),
            machine_pace: Pace::new(MACHINE_STARTS_PER_S, MACHINE_STARTS_AT_ONCE),
            no_upgrade: Notice::once_a_minute(),
            stopping: AtomicBool::new(false),
            tasks: Mutex::new(tasks),
        })))
    }

    /// The routes on which machines come. Every request has to have a
    /// [`PublicAddress`](culvert_portal_base::PublicAddress) as an extension; without one it is refused.
    pub fn router(&self) -> axum::Router {
        entrance::router(Arc::clone(&self.0))
    }

    /// The obstacles to serving; none if the portal is ready.
    pub fn obstacles(&self) -> Vec<String> {
        let mut obstacles = Vec::from_iter(self.0.feed.fault());
        if self.0.stopping.load(Ordering::Relaxed) {
            obstacles.push("the portal is stopping".to_owned());
        }
        obstacles
    }

    /// True if there is a database of countries: otherwise no condition about a country ever holds.
    pub fn know_countries(&self) -> bool {
        self.0.countries.has_database()
    }

    /// Feels whenever something happens that pages show.
    pub fn listen(&self) -> Listener {
        self.0.pulse.listen()
    }

    /// The state of the sessions in numbers; none if the portal is stopping.
    pub async fn status(&self) -> Option<HubStatus> {
        self.0.hub.status().await
    }

    /// Every client that is connected; none where the portal is stopping.
    pub async fn clients(&self) -> Option<Vec<ClientView>> {
        self.0.hub.clients().await
    }

    /// Every gateway that is connected; none where the portal is stopping.
    pub async fn gateways(&self) -> Option<Vec<GatewayView>> {
        self.0.hub.gateways().await
    }

    /// Grants of a client or a gateway that are in force, at most `limit`; none where the portal is stopping.
    pub async fn grants_of(&self, machine: MachineId, limit: usize) -> Option<Vec<Grant>> {
        self.0.hub.grants_of(machine, limit).await
    }

    /// The reasons for which the client may use the resource now, or may not. None if the account
    /// has no such client or no such resource. Changes that were committed before the call count,
    /// if the database answers.
    pub async fn explain(&self, client: ClientId, resource: ResourceId) -> Option<Explained> {
        self.0.feed.catch_up().await;
        self.0.hub.explain(client, resource).await
    }

    /// True if the clients of a gateway keep their access without it; none if the portal is
    /// stopping.
    pub async fn is_dispensable(&self, gateway: GatewayId) -> Option<bool> {
        self.0.feed.catch_up().await;
        self.0.hub.is_dispensable(gateway).await
    }

    /// Moves the clients of a gateway that drains to others of its site. Returns how many it has; none where that it
    /// drains is not known yet, or the portal is stopping.
    pub async fn drain_now(&self, gateway: GatewayId) -> Option<usize> {
        self.0.feed.catch_up().await;
        self.0.hub.drain_now(gateway).await
    }

    /// Tells machines the addresses of the portal: those that are connected, and those that come.
    pub async fn set_portals(&self, portals: PortalSet) {
        self.0.hub.set_portals(portals).await;
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
        self.0.hub.stop().await;
        // Every session has its place until it ends.
        let all = u32::try_from(MAX_SESSIONS).unwrap_or(u32::MAX);
        if timeout(CLOSE_TIMEOUT, self.0.places.acquire_many(all))
            .await
            .is_err()
        {
            tracing::warn!("ending sessions that took too long");
        }
        self.0.recorder.finish(CLOSE_TIMEOUT).await;
        self.0.tasks.lock().await.shutdown().await;
    }
}

/// The hub, with what lived when the portal last ran.
async fn hub(
    store: &dyn Store,
    snapshot: Snapshot,
    countries: &dyn Countries,
) -> Result<Hub, StartError> {
    let account = snapshot.account.id;
    let now = now();
    let grants = live_grants(store, account, now).await?;
    let clients = snapshot.clients.iter();
    let facts: BTreeMap<_, _> = clients
        .map(|client| {
            let address = client.seen.as_ref().and_then(|seen| seen.address);
            let facts = Facts {
                token: None,
                seen: ClientFacts::seen_at(address, |address| countries.country(address)),
                keeps_applications: None,
            };
            (client.id, facts)
        })
        .collect();
    let signing = secret(store, account, SecretName::GrantSigning).await?;
    let pairs = secret(store, account, SecretName::Pairs).await?;
    let keys = PortalKeys::new(&signing, &pairs).map_err(|_| damaged(SecretName::GrantSigning))?;
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut_slice())?;
    let directory = Directory::new(snapshot);
    for (row, fault) in directory.faults() {
        tracing::error!(%row, fault, "a row can't be understood, and allows nothing");
    }
    Ok(Hub::new(
        directory,
        Box::new(keys),
        &seed,
        grants,
        facts,
        now,
    ))
}

async fn live_grants(
    store: &dyn Store,
    account: AccountId,
    now: Timestamp,
) -> Result<Vec<Grant>, StoreError> {
    let mut grants = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .live_grants(account, now, after, PageLimit::MAX)
            .await?;
        grants.extend(page.items);
        after = page.next;
        if after.is_none() {
            return Ok(grants);
        }
    }
}

/// The portal's secret of that name, made now if there is none.
async fn secret(
    store: &dyn Store,
    account: AccountId,
    name: SecretName,
) -> Result<Zeroizing<[u8; PORTAL_SECRET_LEN]>, StartError> {
    let mut random = Zeroizing::new([0; PORTAL_SECRET_LEN]);
    getrandom::fill(random.as_mut_slice())?;
    let candidate = SecretBytes::new(random.to_vec());
    let stored = store.secret(account, name, candidate).await?;
    let mut secret = Zeroizing::new([0; PORTAL_SECRET_LEN]);
    if stored.expose().len() != PORTAL_SECRET_LEN {
        return Err(damaged(name));
    }
    secret.copy_from_slice(stored.expose());
    Ok(secret)
}

fn damaged(name: SecretName) -> StartError {
    let detail = format!("the portal's secret `{}` is none", name.as_str());
    StartError::Store(StoreError::Corrupt { detail })
}
