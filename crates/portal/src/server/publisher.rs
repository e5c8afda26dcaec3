//! Tells machines where the portal is and by which certificates it is known, and notes that for commands on its own
//! machine.

use super::certificate::{Certificate, Reloaded};
use super::home::{HandedOut, Home, Published};
use crate::PortalError;
use culvert_control_server::Sessions;
use culvert_portal_base::{Notice, now};
use culvert_store::Store;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the portal looks for another certificate of its own: a command on this machine, or on that of
/// another portal of the same database, may have changed it. Each time it is one row or one small file.
const OWN_LOOK: Duration = Duration::from_secs(5);

/// Everything that machines are told about the way to the portal.
#[derive(Clone, Debug)]
pub(super) struct Publisher {
    pub(super) certificate: Arc<Certificate>,
    pub(super) home: Arc<Home>,
    pub(super) store: Arc<dyn Store>,
    pub(super) sessions: Sessions,
    /// Other URLs of the portal than that of tokens.
    pub(super) also: Vec<String>,
}

impl Publisher {
    /// Tells machines, and notes since when they are told of the next certificate.
    pub(super) async fn publish(&self) -> Result<(), PortalError> {
        self.sessions.set_portals(self.certificate.portals()).await;
        let before = self.home.published().ok().flatten();
        let before = before.and_then(|before| before.next);
        let next = self.certificate.next();
        let next = next.map(|pin| match before.filter(|before| before.pin == pin) {
            Some(before) => before,
            None => HandedOut { pin, since: now() },
        });
        note(&self.home, &self.certificate, &self.also, next)
    }

    /// Reads the certificate again, and tells machines if something is new.
    pub(super) async fn reload(&self) -> Result<(), PortalError> {
        let certificate = &self.certificate;
        let reloaded = certificate.reload(&self.home, self.store.as_ref()).await?;
        let pin = certificate.pin();
        match (reloaded, certificate.next()) {
            (Reloaded::Unchanged, _) => return Ok(()),
            (Reloaded::Next, Some(next)) => tracing::info!(
                %next,
                "machines that are connected are told of the next certificate, and those that come"
            ),
            (Reloaded::Next, None) => tracing::info!("no certificate comes after the present one"),
            (Reloaded::Changed, _) => tracing::info!(%pin, "the certificate was changed"),
            (Reloaded::Switched, _) => tracing::info!(
                %pin,
                "the next certificate is in use: machines that were told of it go on, and tokens that were made before \
                 are of no use to any other"
            ),
            (Reloaded::ChangedAtOnce, _) => tracing::warn!(
                %pin,
                "the certificate was changed, and no public authority vouches for it: machines whose \
                 token names the one before no longer find the portal; give them new tokens, or put the former \
                 certificate back and tell machines of this one first (--next-cert)"
            ),
        }
        self.publish().await
    }

    /// Looks for another certificate of its own until the portal stops.
    pub(super) async fn watch_own(self, mut stop: watch::Receiver<bool>) {
        let mut look = interval(OWN_LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let unread = Notice::once_a_minute();
        loop {
            tokio::select! {
                _ = look.tick() => {}
                () = super::listener::stopped(&mut stop) => return,
            }
            if let Err(error) = self.reload().await
                && let Some(count) = unread.due(Instant::now())
            {
                tracing::warn!(%error, count, "the portal's certificate stays as it was");
            }
        }
    }
}

/// Notes for commands on this machine what machines are told.
pub(super) fn note(
    home: &Home,
    certificate: &Certificate,
    also: &[String],
    next: Option<HandedOut>,
) -> Result<(), PortalError> {
    home.note_published(&Published {
        portal: certificate.portal(),
        also: also.to_vec(),
        is_given: !certificate.is_own(),
        next,
    })
}
