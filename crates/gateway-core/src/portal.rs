//! The session with the portal, and the last word of the portal about the gateway.

use culvert_base::{BootTime, Random};
use culvert_control::ControlSession;
use culvert_ids::{GrantId, SiteId};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The parties that want the gateway to drain. The portal is told of the gateway's own wish alone. Draining that
/// the portal asked for ends when the portal says so, even if the connection was lost meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drain {
    pub(super) own: bool,
    pub(super) portal: bool,
}

/// The session with the portal, the messages over it, and the state that the portal told.
pub(super) struct Portal {
    random: Random,
    pub(super) session: ControlSession,
    /// The gateway's site, by the portal's word.
    pub(super) site: Option<SiteId>,
    /// The name of that site.
    pub(super) site_name: Option<String>,
    /// The gateway's own addresses.
    pub(super) candidates: Vec<SocketAddr>,
    /// All addresses of the gateway that the portal was told.
    pub(super) told_candidates: Vec<SocketAddr>,
    pub(super) drain: Drain,
    /// Grants that are still valid, while more of them are yet to be named.
    pub(super) retained: Option<BTreeSet<GrantId>>,
    /// The portal gives it no grants until an administrator has verified it.
    pub(super) verification_awaited: bool,
}

impl Portal {
    pub(super) fn new(candidates: Vec<SocketAddr>, seed: u64, now: BootTime) -> Self {
        Self {
            random: Random::new(seed),
            session: ControlSession::new(now),
            site: None,
            site_name: None,
            candidates,
            told_candidates: Vec::new(),
            drain: Drain::default(),
            retained: None,
            verification_awaited: false,
        }
    }

    /// True if the gateway takes no new clients.
    pub(super) const fn is_draining(&self) -> bool {
        self.drain.own || self.drain.portal
    }

    /// The session is over; the next attempt follows soon.
    pub(super) fn lose(
        &mut self,
        error: Option<String>,
        retry_after_ms: Option<u64>,
        now: BootTime,
    ) {
        self.retained = None;
        let random = [self.random.next(), self.random.next()];
        self.session.lost(error, retry_after_ms, random, now);
        // Gateways are few, and without one nobody gets anywhere: they never wait long.
        self.session.hurry();
    }
}
