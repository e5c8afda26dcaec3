//! The wires: NATs, networks that block UDP, and TLS streams.

use super::{End, Event, GATEWAY, Ipv6, Payload, Place, World, ipv6_address, ms};
use crate::nat::Nat;
use std::net::SocketAddr;
use std::time::Duration;

/// The time of a datagram from an end to the Internet, or through a TLS stream to its relay.
const WIRE: Duration = ms(20);

impl World {
    pub(super) fn send(&mut self, end: usize, to: SocketAddr, payload: Payload) {
        if to.ip().is_loopback() {
            return self.send_into_stream(end, to, payload);
        }
        if self.is_udp_blocked[end] {
            return;
        }
        let (behind, source) = (self.ends[end].behind, self.ends[end].address);
        self.route(behind, source, to, payload, WIRE);
    }

    /// A TLS stream loses nothing and keeps the order.
    fn send_into_stream(&mut self, end: usize, local: SocketAddr, payload: Payload) {
        let relay = self.ends[end]
            .streams
            .iter()
            .position(|it| *it == Some(local));
        if let Some(relay) = relay {
            let event = Event::Arrives(Place::Relay(relay), bridge_of(end), payload);
            self.at(WIRE, event);
        }
    }

    /// From a relay, by the address under which it knows an end.
    pub(super) fn send_from_relay(&mut self, relay: usize, to: SocketAddr, payload: Payload) {
        let (address, delay) = (self.relays[relay].address, self.relays[relay].delay);
        let Some(end) = [0, 1].into_iter().find(|end| bridge_of(*end) == to) else {
            return self.route(None, address, to, payload, delay);
        };
        if let Some(local) = self.ends[end].streams[relay] {
            self.note_probe(end, address, local, &payload, delay);
            self.at(delay, Event::Arrives(Place::End(end), local, payload));
        }
    }

    /// Carries a datagram from the network behind a NAT, or from the Internet, to where it leads.
    pub(super) fn route(
        &mut self,
        from: Option<usize>,
        source: SocketAddr,
        to: SocketAddr,
        payload: Payload,
        delay: Duration,
    ) {
        if self.random.up_to(999) < self.loss_per_mille {
            return;
        }
        let Some((place, source)) = self.lead(from, source, to) else {
            return;
        };
        let is_relays = |it: SocketAddr| self.relays.iter().any(|relay| relay.address == it);
        if let Place::End(end) = place
            && (self.is_udp_blocked[end] || self.deaf[end] && !is_relays(source))
        {
            return;
        }
        if let Place::End(end) = place {
            self.note_probe(end, source, to, &payload, delay);
        }
        self.at(delay, Event::Arrives(place, source, payload));
    }

    fn lead(
        &mut self,
        from: Option<usize>,
        mut source: SocketAddr,
        mut to: SocketAddr,
    ) -> Option<(Place, SocketAddr)> {
        if to.is_ipv6() {
            let sender = self.ends.iter().position(|end| end.address == source)?;
            let leads = self.ipv6 == Some(Ipv6::Works) && to == ipv6_address(1 - sender);
            return leads.then(|| (Place::End(1 - sender), ipv6_address(sender)));
        }
        let (mut network, now) = (from, self.now);
        // At most up through all NATs and down through all.
        for _ in 0..=2 * self.nats.len() {
            let is_here = |end: &End| end.behind == network && end.address == to;
            if let Some(end) = self.ends.iter().position(is_here) {
                return Some((Place::End(end), source));
            }
            let at_relay = self.relays.iter().position(|relay| relay.address == to);
            if let (None, Some(relay)) = (network, at_relay) {
                return Some((Place::Relay(relay), source));
            }
            let is_below = |nat: &Nat| nat.behind == network && nat.outside == to.ip();
            if let Some(below) = self.nats.iter().position(is_below) {
                to = self.nats[below].inbound(source, to, now)?;
                network = Some(below);
                continue;
            }
            let above = &mut self.nats[network?];
            if above.outside == to.ip() {
                return None;
            }
            source = above.outbound(source, to, now);
            network = above.behind;
        }
        None
    }

    /// Notes a probe on its way to an end, for those who judge the choices and for strangers.
    fn note_probe(
        &mut self,
        end: usize,
        source: SocketAddr,
        to: SocketAddr,
        payload: &Payload,
        delay: Duration,
    ) {
        let Payload::Probe(bytes) = payload else {
            return;
        };
        self.overheard.push((source, end, bytes.clone()));
        if let Some(stranger) = self.repeated_by {
            let bytes = bytes.clone();
            self.at(ms(1), Event::Injected(end, stranger, bytes));
        }
        if end == GATEWAY {
            let at = self.now.saturating_add(delay);
            self.reached.insert(to, at);
            if let Some(relay) = self.relays.iter().position(|it| it.address == source) {
                self.reached.insert(source, at);
                let local = self.ends[super::CLIENT].streams[relay];
                self.reached.extend(local.map(|local| (local, at)));
            }
        }
    }
}

/// The address that a relay sees of an end behind a TLS stream.
pub(super) fn bridge_of(end: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 60_000 + u16::try_from(end).unwrap()))
}
