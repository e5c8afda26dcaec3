//! The service: its parts, each with its own state.

use super::database::Database;
use super::log_outputs::LogOutputs;
use super::served::Served;
use super::sign_in::SignInState;
use super::touch::Touched;
use culvert_control_server::Sessions;
use culvert_ids::AccountId;
use culvert_log_sinks::Sinks;
use culvert_portal_auth::PendingDb;
use culvert_portal_auth::device_codes::DeviceCodes;
use culvert_portal_auth::oidc::Oidc;
use culvert_portal_base::{Fault, Metrics};
use culvert_store::Store;
use culvert_wire::api::OwnRelayStatus;
use culvert_wire::token::Portal;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The rules around the store and the sessions.
pub struct Service {
    pub(super) database: Database,
    pub(super) metrics: Arc<Metrics>,
    /// The account that this portal serves, and its sessions.
    pub(super) served: Served,
    pub(super) touched: Touched,
    pub(super) log_outputs: LogOutputs,
    pub(super) sign_in: SignInState,
    /// Identity providers, and who is on the way to one.
    pub(super) oidc: Oidc,
    /// Machines for which somebody is to sign in.
    pub(super) devices: DeviceCodes,
    /// The portal's URL, as tokens tell it to machines.
    pub(super) portal: Box<dyn Fn() -> Portal + Send + Sync>,
    /// The relay beside the portal, if it has one.
    pub(super) own_relay: Option<watch::Receiver<OwnRelayStatus>>,
}

impl Service {
    /// The rules around a store and its sessions. `portal` says where machines find the portal.
    pub fn new(
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        sessions: Sessions,
        served: AccountId,
        sinks: Arc<Sinks>,
        browser_key: &[u8; 32],
        portal: impl Fn() -> Portal + Send + Sync + 'static,
    ) -> Self {
        Self {
            database: Database::new(store, Arc::clone(&metrics)),
            metrics,
            served: Served::new(served, sessions),
            touched: Touched::default(),
            log_outputs: LogOutputs::new(sinks),
            sign_in: SignInState::new(browser_key),
            oidc: Oidc::default(),
            devices: DeviceCodes::default(),
            portal: Box::new(portal),
            own_relay: None,
        }
    }

    /// The same with a relay beside the portal, whose state `own_relay` tells.
    #[must_use]
    pub fn with_own_relay(self, own_relay: Option<watch::Receiver<OwnRelayStatus>>) -> Self {
        Self { own_relay, ..self }
    }

    /// The rows of what waits for a next step, which all portals of the database have in common.
    pub(super) fn pending(&self) -> PendingDb<'_> {
        let store = self.database.store.as_ref();
        PendingDb::new(store, self.served.account, &self.metrics)
    }

    /// Counts an attempt that came too early among those.
    pub(super) fn counted(&self, taken: Result<(), Fault>) -> Result<(), Fault> {
        taken.inspect_err(|fault| {
            if matches!(fault, Fault::TooMany { .. }) {
                self.metrics.rate_limited.inc();
            }
        })
    }

    /// That an attempt came too early.
    pub(super) fn limited(&self, wait: Duration) -> Fault {
        self.metrics.rate_limited.inc();
        Fault::TooMany { wait }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Service").finish_non_exhaustive()
    }
}
