//! The task that reports to the database and keeps the lease. The decisions are those of [`Election`], and another task does
//! the work of the role (`conductor.rs`).

use super::lease::{Lease, Leaseholder};
use super::reach::Reach;
use culvert_hub::{Elected, Election};
use culvert_portal_base::{boot_time, now};
use culvert_store::{LEASE_MS, Leader, PortalReport, REPORT_EVERY_MS, Store};
use culvert_wire::PortalKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The longest wait for the answer to a report. A later one is of little use, and the next report is due.
const REPORT_TIMEOUT: Duration = Duration::from_millis(LEASE_MS);

/// Objections that wait: one that finds no room is repeated, or was made already.
const MAX_OBJECTIONS: usize = 16;

/// A reason for which this portal must not lead.
#[derive(Clone, Copy, Debug)]
pub(super) enum Objection {
    /// The database has something that only a later version of the program knows.
    LaterVersion,
    /// The database has gone back in time, by a restore or a failover: this hub knows what is no more.
    WentBack,
    /// Another portal leads, in this epoch.
    Superseded(u64),
}

/// A handle by which objections are made.
#[derive(Clone, Debug)]
pub(super) struct Objections(mpsc::Sender<Objection>);

impl Objections {
    pub(super) fn new() -> (Self, mpsc::Receiver<Objection>) {
        let (sender, receiver) = mpsc::channel(MAX_OBJECTIONS);
        (Self(sender), receiver)
    }

    pub(super) fn make(&self, objection: Objection) {
        // A process that has its database for itself leads anyway.
        let _ = self.0.try_send(objection);
    }
}

/// The role of this portal, as far as it knows.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// Nobody is known to.
    Unknown,
    /// This portal, with this lease.
    Leader { epoch: u64, lease: Lease },
    /// Another one.
    Follower(Leader),
    /// This portal stops.
    Stopping,
}

impl Role {
    /// The epoch of the leader that it says.
    pub(super) const fn epoch(&self) -> Option<u64> {
        match self {
            Self::Leader { epoch, .. } => Some(*epoch),
            Self::Follower(leader) => Some(leader.epoch),
            Self::Unknown | Self::Stopping => None,
        }
    }

    /// True if the two ask for the same. Another certificate of the same leader ends no link to it.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unknown, Self::Unknown) | (Self::Stopping, Self::Stopping) => true,
            (Self::Leader { epoch, .. }, Self::Leader { epoch: other, .. }) => epoch == other,
            (Self::Follower(one), Self::Follower(other)) => {
                (one.epoch, one.portal) == (other.epoch, other.portal)
            }
            _ => false,
        }
    }
}

/// Reports until the portal stops, and publishes its role.
pub(super) async fn report(
    store: Arc<dyn Store>,
    (key, reach): (PortalKey, Reach),
    roles: watch::Sender<Role>,
    (mut objections, mut stop): (mpsc::Receiver<Objection>, watch::Receiver<bool>),
) {
    let mut tick = interval(Duration::from_millis(REPORT_EVERY_MS));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut held: Option<(u64, Leaseholder)> = None;
    let mut election = Election::new();
    let mut has_answer = true;
    let mut objected = None;
    loop {
        let objection = match objected.take() {
            Some(objection) => Some(objection),
            None => tokio::select! {
                _ = tick.tick() => None,
                Some(objection) = objections.recv() => Some(objection),
                _ = stop.wait_for(|stops| *stops) => break,
            },
        };
        match objection {
            Some(Objection::LaterVersion | Objection::WentBack) => {
                election.handle_misfit(boot_time());
            }
            Some(Objection::Superseded(epoch)) => {
                if election.handle_superseded(epoch) {
                    end(held.take());
                    roles.send_replace(Role::Unknown);
                }
                // The database may not say who leads: it is asked when the next report is due.
                continue;
            }
            None => {}
        }
        let began = boot_time();
        let report = PortalReport {
            id: key.portal,
            address: reach.address,
            pin: (reach.pin)(),
            key: key.digest(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            now: now(),
        };
        let claim = election.claim(began);
        let answered = tokio::select! {
            answered = timeout(REPORT_TIMEOUT, store.report(&report, claim)) => answered,
            // A database that can't be reached keeps nobody waiting who is told of the next leader by another portal.
            Some(objection) = objections.recv() => {
                objected = Some(objection);
                continue;
            }
        };
        let leading = match answered {
            Ok(Ok(leading)) => leading,
            Ok(Err(error)) => {
                note_silence(&mut has_answer, &error.to_string());
                continue;
            }
            Err(_) => {
                note_silence(&mut has_answer, "no answer in time");
                continue;
            }
        };
        if !has_answer {
            has_answer = true;
            tracing::info!("the database takes this portal's reports again");
        }
        let role = match election.handle_answer(claim, leading, began) {
            Elected::Renewed { until } => {
                if let Some((_, holder)) = &held {
                    holder.renew(until);
                }
                continue;
            }
            Elected::Leads { epoch, until } => {
                tracing::info!(epoch, "this portal leads");
                let (holder, lease) = Leaseholder::begin(Some(until));
                end(held.replace((epoch, holder)));
                Role::Leader { epoch, lease }
            }
            Elected::Follows(leader) => {
                end(held.take());
                Role::Follower(leader)
            }
            Elected::Left => {
                end(held.take());
                Role::Unknown
            }
            Elected::Waits => continue,
        };
        roles.send_if_modified(|before| {
            let is_new = !before.is_same(&role);
            *before = role;
            is_new
        });
    }
    end(held);
    roles.send_replace(Role::Stopping);
}

fn end(held: Option<(u64, Leaseholder)>) {
    if let Some((epoch, holder)) = held {
        tracing::warn!(epoch, "this portal leads no more");
        holder.end();
    }
}

fn note_silence(has_answer: &mut bool, error: &str) {
    if std::mem::take(has_answer) {
        tracing::warn!(
            error,
            "the database does not take this portal's reports: it decides nothing new until it does"
        );
    }
}

/// The role of a process that has its database for itself, until it stops.
pub(super) async fn be_alone(
    holder: Leaseholder,
    roles: watch::Sender<Role>,
    mut stop: watch::Receiver<bool>,
) {
    // Without a sender nobody can stop it but by ending it.
    let _ = stop.wait_for(|stops| *stops).await;
    holder.end();
    roles.send_replace(Role::Stopping);
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::PortalId;
    use culvert_wire::token::CertificatePin;

    #[test]
    fn a_leader_that_shows_another_certificate_is_still_the_same() {
        let leader = |epoch, portal, pin: &[u8]| {
            Role::Follower(Leader {
                epoch,
                portal: PortalId::from_bytes([portal; 16]),
                address: ([192, 0, 2, 1], 443).into(),
                pin: CertificatePin::of(pin),
            })
        };
        let before = leader(1, 1, b"before");
        assert!(before.is_same(&leader(1, 1, b"after")));
        assert!(!before.is_same(&leader(2, 1, b"before")));
        assert!(!before.is_same(&leader(1, 2, b"before")));
        assert!(!before.is_same(&Role::Unknown));
    }
}
