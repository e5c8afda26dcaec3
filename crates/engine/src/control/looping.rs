//! Datagrams of the device that come back into its own interface, and what is done about them.

use super::thread::Control;
use culvert_base::{BootTime, Family};
use std::net::SocketAddr;

impl Control {
    /// Takes in that a datagram to `to` came back. Another program has changed its mark, so the rules that the host has
    /// for the mark lead it here; a socket that is bound to an interface sends there whatever the mark.
    pub(super) fn leave_loop(&mut self, to: SocketAddr, now: BootTime) {
        if self.sockets.note_looped(now) {
            tracing::warn!(%to, "the device's own datagrams come back into its interface; they are dropped");
        }
        if self.sockets.binds_when_looped() {
            self.bind_outwards(Family::of(to.ip().to_canonical()));
        }
    }

    /// The route to a peer may have moved to another interface.
    pub(super) fn follow_interfaces(&mut self) {
        for family in [Family::V4, Family::V6] {
            if self.sockets.is_bound(family) {
                self.bind_outwards(family);
            }
        }
    }

    /// Binds the sockets of a family to the one interface that leads to all peers; to none if there is no such.
    fn bind_outwards(&mut self, family: Family) {
        let own = self.link.tun().index();
        let mark = self.sockets.mark();
        let interface = self.peers.interface_towards(family, mark, own);
        self.sockets.bind_to(family, interface);
    }
}
