//! The election of the portal that leads: reports to the database, and the roles that follow from the answers.
//!
//! This task reports and keeps the lease. Another one does the work of the role (`conductor.rs`).

use super::lease::{Lease, Leaseholder};
use super::reach::Reach;
use culvert_portal_base::{boot_time, now};
use culvert_store::{LEASE_MS, Leader, Leading, PortalReport, REPORT_EVERY_MS, Store};
use culvert_wire::PortalKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The part of a lease that this portal does not use: clocks of two machines do not run alike, and a decision that was
/// begun comes to its end.
const MARGIN: Duration = Duration::from_millis(LEASE_MS / 4);

/// The longest wait for the answer to a report. A later one is of little use, and the next report is due.
const REPORT_TIMEOUT: Duration = Duration::from_millis(LEASE_MS);

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
    (mut stop, mut told): (watch::Receiver<bool>, watch::Receiver<u64>),
) {
    let mut tick = interval(Duration::from_millis(REPORT_EVERY_MS));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut held: Option<(u64, Leaseholder)> = None;
    // At its start a portal takes a lead that nobody has. Later it leaves the last leader an interval to come back, so
    // that a pause of the database changes nothing.
    let mut takes = true;
    let mut has_answer = true;
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = stop.wait_for(|stops| *stops) => break,
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
        let epoch = held.as_ref().map(|(epoch, _)| *epoch);
        let answered = tokio::select! {
            answered = timeout(REPORT_TIMEOUT, store.report(&report, takes)) => answered,
            () = superseded(epoch, &mut told) => {
                end(held.take());
                roles.send_replace(Role::Unknown);
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
        takes = matches!(leading, Leading::Nobody);
        let until = began.saturating_add(Duration::from_millis(LEASE_MS) - MARGIN);
        let role = match leading {
            Leading::This { epoch } => match &held {
                Some((known, holder)) if *known == epoch => {
                    holder.renew(until);
                    continue;
                }
                _ => {
                    tracing::info!(epoch, "this portal leads");
                    let (holder, lease) = Leaseholder::begin(Some(until));
                    end(held.replace((epoch, holder)));
                    Role::Leader { epoch, lease }
                }
            },
            Leading::Other(leader) => {
                end(held.take());
                Role::Follower(leader)
            }
            // The lease of this portal, or of the leader that it follows, may be renewed yet.
            Leading::Nobody => continue,
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

/// Returns once another portal is told to lead with a newer epoch than this one does. The database alone says who leads:
/// this portal only gives up what it may have lost.
async fn superseded(epoch: Option<u64>, told: &mut watch::Receiver<u64>) {
    let is_newer = |told: &u64| epoch.is_some_and(|epoch| *told > epoch);
    if told.wait_for(is_newer).await.is_err() {
        // Without a sender there is nobody who tells.
        std::future::pending::<()>().await;
    }
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
