//! The election of the portal that has the hub, as one portal decides it: its claim with each report to the database, and
//! the role that follows from the answer.
//!
//! All times are those of a clock of this machine that runs on while it sleeps. No clocks of two machines are compared:
//! the database counts its own time of a lease, from a moment after the report was begun.

use culvert_base::BootTime;
use culvert_store::{Claim, LEASE_MS, Leader, Leading};
use std::time::Duration;

/// The part of a lease that a portal does not use: clocks of two machines do not run alike, and a decision that was
/// begun comes to its end.
pub const LEASE_MARGIN: Duration = Duration::from_millis(LEASE_MS / 4);

/// The time for which a portal that can't lead leaves it to others: some tries of each of them.
pub const MISFIT_PAUSE: Duration = Duration::from_secs(5);

/// The election of one portal.
#[derive(Debug)]
pub struct Election {
    /// The epoch in which this portal leads.
    epoch: Option<u64>,
    /// Nobody led when the database answered last. At its start a portal takes a lead that nobody has. Later it leaves the
    /// last leader an interval to come back, so that a pause of the database changes nothing.
    takes: bool,
    /// It can't lead until then.
    misfit_until: Option<BootTime>,
}

/// The outcome of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elected {
    /// The portal leads from now on, in an epoch of its own. An earlier lease of it is over.
    Leads {
        /// The epoch.
        epoch: u64,
        /// The end of its lease.
        until: BootTime,
    },
    /// It leads on.
    Renewed {
        /// The end of its lease.
        until: BootTime,
    },
    /// Another one leads. A lease of this one is over.
    Follows(Leader),
    /// Nobody leads as far as the database knows. The lease of this portal, or of the leader that it follows, may be
    /// renewed yet.
    Waits,
    /// This portal has given up. A lease of it is over.
    Left,
}

/// The time for which a hub may decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The database is one process's alone.
    Unlimited,
    /// Until this instant.
    Until(BootTime),
    /// Another portal leads, or this one stops.
    Over,
}

impl Election {
    /// That of a portal which starts.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            epoch: None,
            takes: true,
            misfit_until: None,
        }
    }

    /// The claim of a report that is begun now.
    #[must_use]
    pub fn claim(&self, now: BootTime) -> Claim {
        match self.misfit_until {
            Some(until) if now < until => Claim::Leave,
            _ if self.takes => Claim::Take,
            _ => Claim::Renew,
        }
    }

    /// The database has answered a report with this claim, which was begun at `began`.
    pub fn handle_answer(&mut self, claim: Claim, leading: Leading, began: BootTime) -> Elected {
        self.takes = leading == Leading::Nobody;
        match leading {
            Leading::This { epoch } => {
                let until = began.saturating_add(Duration::from_millis(LEASE_MS) - LEASE_MARGIN);
                match self.epoch.replace(epoch) == Some(epoch) {
                    true => Elected::Renewed { until },
                    false => Elected::Leads { epoch, until },
                }
            }
            Leading::Other(leader) => {
                self.epoch = None;
                Elected::Follows(leader)
            }
            Leading::Nobody if claim == Claim::Leave => {
                self.epoch = None;
                Elected::Left
            }
            Leading::Nobody => Elected::Waits,
        }
    }

    /// Another portal says that one leads in this epoch. True if this portal, which may have heard nothing of it, leads no
    /// more.
    pub fn handle_superseded(&mut self, epoch: u64) -> bool {
        let is_over = self.epoch.is_some_and(|own| own < epoch);
        if is_over {
            self.epoch = None;
        }
        is_over
    }

    /// This portal can't do what a leader does: it leaves that to others for a while.
    pub fn handle_misfit(&mut self, now: BootTime) {
        self.misfit_until = Some(now.saturating_add(MISFIT_PAUSE));
    }
}

impl Default for Election {
    fn default() -> Self {
        Self::new()
    }
}

impl Term {
    /// True while a hub may decide.
    #[must_use]
    pub fn holds(self, now: BootTime) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Until(until) => now < until,
            Self::Over => false,
        }
    }

    /// The term once it is renewed. One that is over stays so.
    #[must_use]
    pub const fn renewed(self, until: BootTime) -> Self {
        match self {
            Self::Until(_) => Self::Until(until),
            Self::Unlimited | Self::Over => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::PortalId;
    use culvert_wire::token::CertificatePin;

    const fn at(ms: u64) -> BootTime {
        BootTime::from_millis(ms)
    }

    fn other(epoch: u64) -> Leader {
        Leader {
            epoch,
            portal: PortalId::from_bytes([9; 16]),
            address: ([192, 0, 2, 1], 443).into(),
            pin: CertificatePin::of(b"another"),
        }
    }

    #[test]
    fn a_lease_counts_from_the_beginning_of_its_report_and_leaves_a_quarter_unused() {
        let mut election = Election::new();
        assert_eq!(election.claim(at(0)), Claim::Take);
        let leads = election.handle_answer(Claim::Take, Leading::This { epoch: 7 }, at(1_000));
        let until = at(1_000 + LEASE_MS * 3 / 4);
        assert_eq!(leads, Elected::Leads { epoch: 7, until });
        assert_eq!(election.claim(at(1_400)), Claim::Renew);
        let renewed = election.handle_answer(Claim::Renew, Leading::This { epoch: 7 }, at(1_400));
        let until = at(1_400 + LEASE_MS * 3 / 4);
        assert_eq!(renewed, Elected::Renewed { until });
        // It was away while another one led.
        let again = election.handle_answer(Claim::Renew, Leading::This { epoch: 9 }, at(9_000));
        assert!(
            matches!(again, Elected::Leads { epoch: 9, .. }),
            "{again:?}"
        );
    }

    #[test]
    fn the_last_leader_has_an_interval_to_come_back() {
        let mut election = Election::new();
        let follows = election.handle_answer(Claim::Take, Leading::Other(other(3)), at(0));
        assert_eq!(follows, Elected::Follows(other(3)));
        assert_eq!(election.claim(at(400)), Claim::Renew);
        let waits = election.handle_answer(Claim::Renew, Leading::Nobody, at(400));
        assert_eq!(waits, Elected::Waits);
        assert_eq!(election.claim(at(800)), Claim::Take);
    }

    #[test]
    fn a_portal_that_cannot_lead_leaves_it_to_others_for_a_while() {
        let mut election = Election::new();
        election.handle_answer(Claim::Take, Leading::This { epoch: 1 }, at(0));
        election.handle_misfit(at(100));
        assert_eq!(election.claim(at(400)), Claim::Leave);
        let left = election.handle_answer(Claim::Leave, Leading::Nobody, at(400));
        assert_eq!(left, Elected::Left);
        assert_eq!(election.claim(at(4_000)), Claim::Leave);
        assert_eq!(election.claim(at(5_100)), Claim::Take);
        let leads = election.handle_answer(Claim::Take, Leading::This { epoch: 2 }, at(5_100));
        assert!(
            matches!(leads, Elected::Leads { epoch: 2, .. }),
            "{leads:?}"
        );
    }

    #[test]
    fn a_leader_that_hears_of_a_later_epoch_leads_no_more() {
        let mut election = Election::new();
        assert!(!election.handle_superseded(9));
        election.handle_answer(Claim::Take, Leading::This { epoch: 3 }, at(0));
        assert!(!election.handle_superseded(3));
        assert!(election.handle_superseded(4));
        assert!(!election.handle_superseded(5));
        // The answer to a report from before is an epoch that ended.
        let follows = election.handle_answer(Claim::Renew, Leading::Other(other(4)), at(400));
        assert_eq!(follows, Elected::Follows(other(4)));
    }

    #[test]
    fn a_term_ends_by_itself_and_is_renewed_unless_it_is_over() {
        let term = Term::Until(at(10));
        assert!(term.holds(at(9)) && !term.holds(at(10)));
        assert!(term.renewed(at(20)).holds(at(19)));
        assert!(!Term::Over.renewed(at(20)).holds(at(0)));
        assert_eq!(Term::Unlimited.renewed(at(20)), Term::Unlimited);
    }
}
