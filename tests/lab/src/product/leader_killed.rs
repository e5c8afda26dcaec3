//! The leader of several portals is killed while a request waits for it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Product;
use super::first_uses::{FirstUse, FirstUses};
use super::soon::SOON;
use crate::wait_until;

/// The leader was killed, another portal leads, and the request that waited is answered.
#[derive(Clone, Copy, Debug)]
pub struct LeaderKilled {
    /// The portal that was killed, from 0.
    pub leader: usize,
    /// The portal that leads now.
    pub next: usize,
    /// The request, as it waited for the leader.
    pub request: FirstUse,
    /// The time of the kill.
    pub at: Instant,
    /// The time from the kill until the next portal was seen to lead, which is no later than that of the answer.
    pub led_after: Duration,
    /// The time from the kill until the request was answered.
    pub answered_after: Duration,
}

impl Product {
    /// Kills the portal that leads. It is paused first, until a client's first use of an address waits for it.
    ///
    /// # Errors
    /// When no other portal leads, or the use has no answer, within `deadline` of the kill.
    pub fn kill_leader_under_a_request(
        &mut self,
        uses: &FirstUses,
        deadline: Duration,
    ) -> Result<LeaderKilled> {
        let leader = self.leader()?.context("no portal leads")?;
        let portal = self.portal_mut(leader)?;
        portal.process()?.pause()?;
        let request = uses.kept_waiting_by(Instant::now(), SOON)?;
        portal.kill()?;
        let at = Instant::now();
        let (mut next, mut led_after, mut answered) = (None, Duration::ZERO, None);
        wait_until("new access by another portal", deadline, || {
            if next.is_none() {
                let leads = self.leader().ok().flatten();
                next = leads.filter(|number| *number != leader);
                led_after = at.elapsed();
            }
            answered = uses.of(request.address).and_then(|it| it.answered);
            next.is_some() && answered.is_some()
        })?;
        let answered_after = answered
            .context("it is answered")?
            .saturating_duration_since(at);
        Ok(LeaderKilled {
            leader,
            next: next.context("another portal leads")?,
            request,
            at,
            led_after: led_after.min(answered_after),
            answered_after,
        })
    }
}
