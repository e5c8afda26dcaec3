//! Tells machines where the portal is and by which certificates it is known, and notes that for commands on its own
//! machine.

use super::certificate::{Certificate, Reloaded};
use super::home::{HandedOut, Home, Published};
use crate::PortalError;
use culvert_control_server::Sessions;
use culvert_portal_base::{Notice, now};
use culvert_store::Store;
use culvert_wire::Timestamp;
use culvert_wire::token::CertificatePin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, watch};
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the portal looks for another certificate of its own: a command on this machine, or on that of
/// another portal of the same database, may have changed it. Each time it is one row or one small file. And at which it
/// tries again to tell machines.
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
    pub(super) last: Arc<Mutex<Last>>,
}

/// The state when machines were told last.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// They were told, and it was noted. Otherwise, that is still to be done.
    is_done: bool,
    /// The portal led, or another one did.
    leads: Option<bool>,
}

impl Publisher {
    /// Tells machines, and notes since when they are told of the next certificate.
    pub(super) async fn publish(&self) -> Result<(), PortalError> {
        self.publish_anew(&mut *self.last.lock().await).await
    }

    async fn publish_anew(&self, last: &mut Last) -> Result<(), PortalError> {
        last.is_done = false;
        self.sessions.set_portals(self.certificate.portals()).await;
        let leads = self.sessions.leads();
        let before = self.home.published().ok().flatten();
        let before = before.and_then(|before| before.next);
        let next = self.certificate.next();
        let next = next.map(|pin| handed_out(pin, before, leads, now()));
        note(&self.home, &self.certificate, &self.also, next)?;
        *last = Last {
            is_done: true,
            leads,
        };
        Ok(())
    }

    /// Reads the certificate again, and tells machines if something is new, or failed before.
    pub(super) async fn reload(&self) -> Result<(), PortalError> {
        let mut last = self.last.lock().await;
        let reloaded = self.read_again(&mut last).await;
        // A certificate that can't be read does not keep the one before from being told.
        let published = self.publish_if_due(&mut last).await;
        reloaded.and(published)
    }

    async fn publish_if_due(&self, last: &mut Last) -> Result<(), PortalError> {
        match last.is_done && last.leads == self.sessions.leads() {
            true => Ok(()),
            false => self.publish_anew(last).await,
        }
    }

    async fn read_again(&self, last: &mut Last) -> Result<(), PortalError> {
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
        last.is_done = false;
        Ok(())
    }

    /// Looks for another certificate of its own and for another leader until the portal stops. Tells machines again where
    /// that has failed.
    pub(super) async fn watch(self, mut stop: watch::Receiver<bool>) {
        let mut look = interval(OWN_LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut leading = self.sessions.leading();
        let failed = Notice::once_a_minute();
        loop {
            tokio::select! {
                _ = look.tick() => {}
                // Without sessions there is nobody to tell.
                changed = leading.changed() => if changed.is_err() { return },
                () = super::listener::stopped(&mut stop) => return,
            }
            let looked = match self.certificate.is_own() {
                true => self.reload().await,
                false => self.publish_if_due(&mut *self.last.lock().await).await,
            };
            if let Err(error) = looked
                && let Some(count) = failed.due(Instant::now())
            {
                tracing::warn!(
                    %error,
                    count,
                    "the portal's certificate can't be read again, or not be noted for commands on this machine; this is \
                     tried every 5 s"
                );
            }
        }
    }
}

/// The next certificate, and since when this portal tells machines of it: the ones of all portals hear the one that leads.
/// A portal that has just started goes on where it ended, until another one is known to lead.
fn handed_out(
    pin: CertificatePin,
    before: Option<HandedOut>,
    leads: Option<bool>,
    now: Timestamp,
) -> HandedOut {
    let before = before.filter(|before| before.pin == pin);
    let before = before.and_then(|before| before.since);
    let since = match leads {
        Some(true) => before.or(Some(now)),
        Some(false) => None,
        None => before,
    };
    HandedOut { pin, since }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_since_which_machines_are_told_is_that_of_the_portal_that_leads() {
        let (pin, other) = (CertificatePin::of(b"next"), CertificatePin::of(b"other"));
        let (early, now) = (Timestamp::from_unix_ms(1), Timestamp::from_unix_ms(2));
        let noted = |pin, since| Some(HandedOut { pin, since });
        let since = |before, leads| handed_out(pin, before, leads, now).since;
        assert_eq!(since(None, Some(true)), Some(now));
        assert_eq!(since(noted(pin, Some(early)), Some(true)), Some(early));
        assert_eq!(since(noted(pin, None), Some(true)), Some(now));
        assert_eq!(since(noted(other, Some(early)), Some(true)), Some(now));
        assert_eq!(since(noted(pin, Some(early)), Some(false)), None);
        assert_eq!(since(noted(pin, Some(early)), None), Some(early));
        assert_eq!(since(noted(other, Some(early)), None), None);
    }
}
