//! Datagrams of the device that come back into its own interface, and what is done about them.

use super::Control;
use crate::status::ForeignSource;
use culvert_base::BootTime;
use culvert_base::{Family, LocalAddress};
use culvert_datapath::Lane;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// For how long a loop is told of after the last datagram that came back.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// Peers whose route is looked up, at some 10 µs each. A device with more does not bind its sockets: they would hardly
/// all be reached by one interface.
const MAX_LOOKED_UP: usize = 64;

/// The state of a loop.
#[derive(Debug, Default)]
pub(super) struct Looping {
    last: Option<BootTime>,
    /// The interfaces that the sockets are bound to, of IPv4 and IPv6.
    bound: [Option<u32>; 2],
}

impl Control {
    /// Takes in that a datagram to `to` came back. Another program has changed its mark, so the rules that the host has
    /// for the mark lead it here; a socket that is bound to an interface sends there whatever the mark.
    pub(super) fn leave_loop(&mut self, to: SocketAddr, now: BootTime) {
        if self.looping.last.is_none() {
            tracing::warn!(%to, "the device's own datagrams come back into its interface; they are dropped");
        }
        self.looping.last = Some(now);
        if self.options.bind_when_looped {
            self.bind_outwards(Family::of(to.ip().to_canonical()));
        }
    }

    /// The route to a peer may have moved to another interface.
    pub(super) fn follow_interfaces(&mut self) {
        for family in [Family::V4, Family::V6] {
            if self.looping.bound[family as usize].is_some() {
                self.bind_outwards(family);
            }
        }
    }

    /// Binds the sockets of a family to the one interface that leads to all peers; to none where there is no such.
    fn bind_outwards(&mut self, family: Family) {
        let interface = self.interface_of(family);
        let bound = &mut self.looping.bound[family as usize];
        if *bound == interface {
            return;
        }
        let Some(sockets) = &self.sockets else {
            return;
        };
        let lanes = match family {
            Family::V4 => [Lane::V4, Lane::PriorityV4],
            Family::V6 => [Lane::V6, Lane::PriorityV6],
        };
        let sockets = sockets
            .iter()
            .flat_map(|pair| lanes.iter().filter_map(|lane| pair.lane(*lane)));
        let index = interface.unwrap_or(0);
        for socket in sockets {
            if let Err(error) = socket.bind_to_interface(index) {
                tracing::warn!(%error, index, "the sockets can't be bound to the interface towards the peers");
                return;
            }
        }
        tracing::info!(%family, index, "the sockets are bound to the interface towards the peers");
        *bound = interface;
    }

    /// The interface by which all peers of a family are reached; `None` where there are several, or none but ours.
    fn interface_of(&self, family: Family) -> Option<u32> {
        let endpoints = self.peers().filter_map(|state| state.shared.endpoint());
        let mut endpoints =
            endpoints.filter(|to| Family::of(to.address.ip().to_canonical()) == family);
        let mut found = None;
        for to in endpoints.by_ref().take(MAX_LOOKED_UP) {
            let interface = culvert_udp::interface_towards(to.address, self.mark).ok()??;
            if interface == self.tun.index() || found.is_some_and(|found| found != interface) {
                return None;
            }
            found = Some(interface);
        }
        found.filter(|_| endpoints.next().is_none())
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

    /// A line for people, while it matters.
    pub(super) fn loop_problem(&self, now: BootTime) -> Option<String> {
        let is_bound = self.looping.bound.iter().any(Option::is_some);
        let last = self.looping.last?;
        if !is_bound && now.has_passed(last, TOLD_FOR) {
            return None;
        }
        let port = self.bound_port();
        let why = match self.mark {
            0 => "they bear no firewall mark, and the host's routes lead to the peers through this tunnel: set a mark \
                  that a routing rule keeps out of it"
                .to_owned(),
            mark => format!(
                "a firewall rule of another program changes their mark {mark:#x}: have it leave UDP from port {port} \
                 alone (`nft list ruleset` and `iptables-save -t mangle` show rules that set marks)"
            ),
        };
        let meanwhile = match is_bound {
            true => {
                "; its sockets are bound to the interface towards the peers, and receive there alone"
            }
            false => "",
        };
        Some(format!(
            "the tunnel's own datagrams came back into it and were dropped: {why}{meanwhile}"
        ))
    }
}
