//! Every rule about the permissions of actors is here, not in the handlers of the API, so that it
//! holds for requests by any way.

#![forbid(unsafe_code)]

mod account;
mod activity;
mod actors;
mod apply;
mod caller;
mod devices;
mod dns_rules;
mod explain;
mod export;
mod export_answer;
mod export_stream;
mod factors;
mod groups;
mod list;
mod live;
mod logs;
mod machines;
mod named;
mod names;
mod owners;
mod passkeys;
mod people;
mod policies;
mod proofs;
mod provider_sign_in;
mod providers;
mod ranges;
mod resources;
mod retention;
mod setup;
mod show;
mod sinks;
mod sites;
mod tokens;
mod touch;
mod warnings;

pub use caller::Caller;
pub use export::{ExportFilter, ExportFormat};
pub use export_answer::stream_export;
pub use factors::{Enrolment, OwnFactors, RecoveryCodes, SignedIn};
pub use list::ListRequest;
pub use logs::{AccessLogRequest, ChangeLogRequest, FlowLogRequest, search_text};
pub use machines::{ClientAction, GatewayAction};
pub use passkeys::{OwnPasskey, Question};
pub use people::Mark;
pub use proofs::{PendingForm, WaysToProve};
pub use provider_sign_in::{Arrived, CameBack, KnownProvider};
pub use setup::{SetupToken, issue_setup_token};

use culvert_control_server::Sessions;
use culvert_ids::AccountId;
use culvert_log_sinks::Sinks;
use culvert_portal_auth::device_codes::DeviceCodes;
use culvert_portal_auth::oidc::Oidc;
use culvert_portal_auth::{Browsers, Challenges, ONE_SIGN_IN_EVERY, Passwords, SIGN_INS_AT_ONCE};
use culvert_portal_base::{Fault, Metrics, RateLimit, now};
use culvert_store::{
    Author, Change, Entity, EntityId, Kind, Mutation, Store, StoreError, StoreExt,
};
use culvert_wire::Timestamp;
use culvert_wire::token::{Portal, Secret};
use factors::Factors;
use proofs::Proofs;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;
use touch::Touched;
use zeroize::Zeroizing;

/// The number of attempts at a change that names no version and meets another change.
const CHANGE_ATTEMPTS: usize = 4;

/// Attempts under one name from all addresses together, in browsers that are not known: as many as ten addresses
/// have at once, and five in the long run. It takes a botnet to use them up, and then 43,200 guesses a day.
const ONE_UNDER_A_NAME_EVERY: Duration = Duration::from_secs(2);
const UNDER_A_NAME_AT_ONCE: u32 = 200;

/// The rules around the store and the sessions.
pub struct Service {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    /// The sessions of the account that this portal serves.
    sessions: Sessions,
    served: AccountId,
    started: Timestamp,
    touched: Touched,
    /// The destinations that also get entries of the logs.
    sinks: Arc<Sinks>,
    /// Held while a sink is made, changed or deleted. The name of a sink, its places in the logs and
    /// its token lie in three tables, and must stay consistent.
    changing_sinks: Mutex<()>,
    /// Places for those who export a log.
    exports: export_stream::ExportPlaces,
    passwords: Passwords,
    factors: Factors,
    challenges: Challenges,
    /// Forms that wait for a fresh proof of their persons.
    proofs: Proofs,
    /// Browsers that are known, whose attempts count for themselves.
    browsers: Browsers,
    /// Other attempts to sign in from an address, and under a name.
    sign_ins_from: RateLimit,
    sign_ins_as: RateLimit,
    /// Identity providers, and who is on the way to one.
    oidc: Oidc,
    /// Machines for which somebody is to sign in.
    devices: DeviceCodes,
    /// Held by a request that takes a way to sign in from owners, from the check that one is left
    /// until the write. Otherwise two owners who shut out each other at the same moment could leave
    /// none.
    shutting_out: Mutex<()>,
    /// The portal's URL, as tokens tell it to machines.
    portal: Box<dyn Fn() -> Portal + Send + Sync>,
}

impl Service {
    /// The rules around a store and its sessions. `portal` says where machines find the portal.
    ///
    /// # Errors
    /// The operating system gave no random bytes.
    pub fn new(
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        sessions: Sessions,
        served: AccountId,
        sinks: Arc<Sinks>,
        browser_key: &[u8; 32],
        portal: impl Fn() -> Portal + Send + Sync + 'static,
    ) -> Result<Self, getrandom::Error> {
        Ok(Self {
            store,
            metrics,
            sessions,
            served,
            started: now(),
            touched: Touched::default(),
            sinks,
            changing_sinks: Mutex::default(),
            exports: export_stream::ExportPlaces::default(),
            passwords: Passwords::default(),
            factors: Factors::default(),
            challenges: Challenges::new()?,
            proofs: Proofs::default(),
            browsers: Browsers::new(browser_key),
            sign_ins_from: RateLimit::new(ONE_SIGN_IN_EVERY, SIGN_INS_AT_ONCE),
            sign_ins_as: RateLimit::new(ONE_UNDER_A_NAME_EVERY, UNDER_A_NAME_AT_ONCE),
            oidc: Oidc::default(),
            devices: DeviceCodes::default(),
            shutting_out: Mutex::default(),
            portal: Box::new(portal),
        })
    }

    /// Asks the store, and notes how long it took.
    async fn ask<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let answer = answer.await;
        let failed = answer.as_ref().is_err_and(StoreError::is_local);
        self.metrics.store(operation, began.elapsed(), failed);
        answer
    }

    async fn get<T: Kind>(&self, account: AccountId, id: T::Id) -> Result<T, Fault> {
        let row = self.ask("get", self.store.get_as::<T>(account, id)).await?;
        Ok(row)
    }

    async fn write(
        &self,
        account: AccountId,
        author: Author,
        mutations: Vec<Mutation>,
    ) -> Result<Vec<Change>, StoreError> {
        let write = self.store.write(account, author, now(), mutations);
        self.ask("write", write).await
    }

    /// Makes a row.
    async fn create<T: Kind>(&self, caller: &Caller, row: T) -> Result<T, Fault> {
        caller.may_change()?;
        let id = row.id().into();
        let create = vec![Mutation::Create(row.into())];
        let changes = self
            .write(caller.account(), caller.author(), create)
            .await?;
        made(changes, id)
    }

    /// Changes a row. With `expected`, only that version of it; without, whatever it is now.
    async fn change<T: Kind>(
        &self,
        caller: &Caller,
        id: T::Id,
        expected: Option<u64>,
        change: impl Fn(&mut T) -> Result<(), Fault> + Send,
    ) -> Result<T, Fault> {
        caller.may_change()?;
        self.change_permitted(caller, id, expected, change).await
    }

    /// The same, where another rule than that for all changes lets the caller.
    async fn change_permitted<T: Kind>(
        &self,
        caller: &Caller,
        id: T::Id,
        expected: Option<u64>,
        change: impl Fn(&mut T) -> Result<(), Fault> + Send,
    ) -> Result<T, Fault> {
        for _ in 0..CHANGE_ATTEMPTS {
            let mut row: T = self.get(caller.account(), id).await?;
            let version = version_of(&row);
            if expected.is_some_and(|expected| expected != version) {
                return Err(Fault::VersionConflict { current: version });
            }
            change(&mut row)?;
            let update = Mutation::Update {
                entity: row.into(),
                expected_version: Some(version),
            };
            let written = self
                .write(caller.account(), caller.author(), vec![update])
                .await;
            match written {
                Ok(_) => return self.get(caller.account(), id).await,
                Err(StoreError::VersionConflict { .. }) if expected.is_none() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Fault::Conflict(
            "others change it all the time; try again".to_owned(),
        ))
    }

    /// Deletes a row.
    async fn delete<T: Kind>(
        &self,
        caller: &Caller,
        id: T::Id,
        expected_version: Option<u64>,
        cascade: bool,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let delete = Mutation::Delete {
            id: id.into(),
            expected_version,
            cascade,
        };
        self.write(caller.account(), caller.author(), vec![delete])
            .await?;
        Ok(())
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Service").finish_non_exhaustive()
    }
}

/// The row that a write made, as it left it.
fn made<T: Kind>(changes: Vec<Change>, id: EntityId) -> Result<T, Fault> {
    changes
        .into_iter()
        .rev()
        .filter(|change| change.id == id)
        .find_map(|change| change.after.and_then(T::from_entity))
        .ok_or_else(|| Fault::internal("a write did not return what it made"))
}

fn version_of<T: Kind>(row: &T) -> u64 {
    let entity: Entity = row.clone().into();
    entity.stamp().version
}

/// A new token's secret.
pub(crate) fn new_secret() -> Result<Secret, getrandom::Error> {
    let mut random = Zeroizing::new([0; culvert_wire::token::SECRET_LEN]);
    getrandom::fill(random.as_mut_slice())?;
    Ok(Secret::new(*random))
}
