//! The state of the paths to peers: what is to be looked at again, and when.

use crate::status::ForeignSource;
use culvert_base::{BootTime, LocalAddress};
use culvert_session::PeerId;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// A path whose MTU was found small is asked again after this time, as RFC 1191 section 6.3
/// recommends ten minutes for an increase.
const PATH_MTU_MAX_AGE: Duration = Duration::from_secs(600);

/// The time for which a loop or a foreign source is told of after the last packet.
pub(super) const TOLD_FOR: Duration = Duration::from_secs(60);

/// The paths of the device.
pub(super) struct Paths {
    /// Addresses or routes changed since the peers' paths were last looked at.
    are_stale: bool,
    checked: BootTime,
    pub(super) measurements: Measurements,
    /// The last sender of packets that do not belong into the tunnel, and the time of the last one.
    foreign_source: Option<(ForeignSource, BootTime)>,
}

/// Deadlines of searches for path MTUs, at most one of each peer.
#[derive(Default)]
pub(super) struct Measurements(BTreeSet<(BootTime, PeerId)>);

impl Paths {
    pub(super) fn new(now: BootTime) -> Self {
        Self {
            are_stale: false,
            checked: now,
            measurements: Measurements::default(),
            foreign_source: None,
        }
    }

    /// Addresses or routes of the host changed.
    pub(super) const fn set_stale(&mut self) {
        self.are_stale = true;
    }

    /// `None` if no path is to be looked at now; otherwise, whether addresses or routes changed.
    pub(super) fn begin_check(&mut self, now: BootTime) -> Option<bool> {
        let due = now.saturating_since(self.checked) >= PATH_MTU_MAX_AGE;
        if !self.are_stale && !due {
            return None;
        }
        self.checked = now;
        Some(std::mem::take(&mut self.are_stale))
    }

    /// Takes in that a packet from somebody else's address was about to go into the tunnel.
    pub(super) fn hear_of_foreign(&mut self, address: IpAddr, now: BootTime) {
        let is_of_this_host = culvert_udp::is_our_address(LocalAddress {
            ip: address,
            interface: 0,
        });
        let source = ForeignSource {
            address,
            is_of_this_host,
        };
        self.foreign_source = Some((source, now));
    }

    /// The sender of packets that were dropped within the last minute: its address is not this end's in the tunnel.
    pub(super) fn foreign_source(&self, now: BootTime) -> Option<ForeignSource> {
        let (source, last) = self.foreign_source?;
        (!now.has_passed(last, TOLD_FOR)).then_some(source)
    }
}

impl Measurements {
    /// Moves the deadline of a peer's search.
    pub(super) fn replace(&mut self, id: PeerId, before: Option<BootTime>, due: Option<BootTime>) {
        if before == due {
            return;
        }
        self.0.extend(due.map(|at| (at, id)));
        if let Some(at) = before {
            self.0.remove(&(at, id));
        }
    }

    /// Takes out the next search that is due.
    pub(super) fn pop_due(&mut self, now: BootTime) -> Option<PeerId> {
        let (at, id) = *self.0.first()?;
        if at > now {
            return None;
        }
        self.0.pop_first();
        Some(id)
    }

    pub(super) fn next(&self) -> Option<BootTime> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
