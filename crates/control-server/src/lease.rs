//! The lease by which this portal leads.
//!
//! A hub does nothing while its lease does not hold: another portal may lead by then. It goes on where it was renewed and
//! nobody led in between.

use culvert_base::BootTime;
use culvert_hub::Term;
use culvert_portal_base::boot_time;
use tokio::sync::watch;

/// The lease, for whoever acts by it.
#[derive(Clone, Debug)]
pub(super) struct Lease(watch::Receiver<Term>);

/// The end of the lease that the election has.
#[derive(Debug)]
pub(super) struct Leaseholder(watch::Sender<Term>);

impl Leaseholder {
    /// A lease that holds until `until`; without it, until it is given up.
    pub(super) fn begin(until: Option<BootTime>) -> (Self, Lease) {
        let (sender, receiver) = watch::channel(until.map_or(Term::Unlimited, Term::Until));
        (Self(sender), Lease(receiver))
    }

    /// The lease holds until then. One that is over stays so.
    pub(super) fn renew(&self, until: BootTime) {
        self.0.send_if_modified(|term| {
            let renewed = term.renewed(until);
            std::mem::replace(term, renewed) != renewed
        });
    }

    /// It holds no more, and never again.
    pub(super) fn end(&self) {
        self.0.send_replace(Term::Over);
    }
}

impl Lease {
    /// Returns true at once while the lease holds, or as soon as it does again; false once it is over.
    pub(super) async fn holds(&mut self) -> bool {
        loop {
            self.0.mark_unchanged();
            if self.holds_now() {
                return true;
            }
            // Without a holder nobody renews it.
            if self.is_over() || self.0.changed().await.is_err() {
                return false;
            }
        }
    }

    /// True while the lease holds.
    fn holds_now(&self) -> bool {
        self.0.borrow().holds(boot_time())
    }

    /// True once the lease is over for good.
    pub(super) fn is_over(&self) -> bool {
        *self.0.borrow() == Term::Over
    }

    /// Returns once the lease is over for good.
    pub(super) async fn over(&mut self) {
        while *self.0.borrow_and_update() != Term::Over {
            if self.0.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn later(ms: u64) -> BootTime {
        boot_time().saturating_add(Duration::from_millis(ms))
    }

    #[tokio::test]
    async fn a_lease_that_ran_out_holds_again_once_it_is_renewed_and_never_once_it_is_over() {
        let (holder, mut lease) = Leaseholder::begin(Some(later(0)));
        assert!(!lease.holds_now());
        holder.renew(later(60_000));
        assert!(lease.holds().await);
        holder.end();
        assert!(!lease.holds().await);
        holder.renew(later(60_000));
        assert!(!lease.holds().await);
        lease.over().await;
    }

    #[tokio::test]
    async fn a_lease_without_a_holder_is_over() {
        let (holder, mut lease) = Leaseholder::begin(Some(later(0)));
        drop(holder);
        assert!(!lease.holds().await);
        let (holder, mut lease) = Leaseholder::begin(None);
        assert!(lease.holds().await);
        drop(holder);
        lease.over().await;
    }
}
