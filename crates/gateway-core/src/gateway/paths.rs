//! Relays and probes, between the portal, the tunnel's socket and the clients.

use super::Gateway;
use crate::clients::PeerUpdate;
use crate::network::Network;
use crate::output::Output;
use crate::paths::News;
use crate::status::RelayStatus;
use culvert_base::{BootTime, LogLine};
use culvert_ids::RelayId;
use culvert_path::{CANDIDATES_MAX, Nat64Prefix};
use culvert_wire::messages::FromGateway;
use ipnet::IpNet;
use std::net::SocketAddr;

impl Gateway {
    /// A datagram that is no WireGuard message came to the tunnel's socket: a relay's answer, or a client's probe.
    pub fn handle_path_message(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) {
        self.paths.handle_message(source, datagram, now);
        self.finish(now);
    }

    /// The stream to a relay is open: `local` stands for the relay.
    pub fn handle_tls_opened(&mut self, relay: RelayId, local: SocketAddr, now: BootTime) {
        self.paths.handle_tls_opened(relay, local, now);
        self.finish(now);
    }

    /// The stream to a relay has ended, or could not be opened.
    pub fn handle_tls_ended(&mut self, relay: RelayId, why: String, now: BootTime) {
        self.paths.handle_tls_ended(relay, why, now);
        self.finish(now);
    }

    /// A client does not answer what was sent to it: its path may be dead, or the gateway's own to the relays.
    pub fn handle_silent_client(&mut self, now: BootTime) {
        self.paths.check_relays(now);
        self.finish(now);
    }

    /// True while it matters whether clients answer: there are clients, and relays through which they may come.
    #[must_use]
    pub fn watches_for_silence(&self) -> bool {
        self.paths.has_pairs()
    }

    /// Relays that are not reached at all, each as a line for the status.
    #[must_use]
    pub fn path_problems(&self) -> Vec<String> {
        self.paths.problems()
    }

    /// The UDP address at which the portal tells from where it sees the gateway; none if it does not.
    pub fn handle_portal_udp(&mut self, at: Option<SocketAddr>, now: BootTime) {
        self.paths.set_portal(at, now);
        self.finish(now);
    }

    /// IPv4 is reached by this prefix: the host has no IPv4 route, and a NAT64 (RFC 6052). None: it is reached as it is.
    pub fn handle_nat64(&mut self, prefix: Option<Nat64Prefix>, now: BootTime) {
        self.paths.set_nat64(prefix, now);
        self.finish(now);
    }

    /// The name of the relay through which records of this source come, if it is one.
    #[must_use]
    pub fn relay_at(&self, source: SocketAddr) -> Option<String> {
        self.paths.relay_at(source)
    }

    /// The addresses at which clients may reach the gateway: its own, and those at which relays see it.
    pub(super) fn candidates(&self) -> Vec<SocketAddr> {
        let mut candidates = self.portal.candidates.clone();
        for address in self.paths.reflexive() {
            if !candidates.contains(&address) {
                // Ahead of addresses that may mean nothing outside.
                candidates.insert(0, address);
            }
        }
        candidates.truncate(CANDIDATES_MAX);
        candidates
    }

    /// Clients are peers with other secrets, or no peers any more.
    pub(super) fn follow_peers(&mut self, peers: &[PeerUpdate], now: BootTime) {
        for peer in peers {
            match peer {
                PeerUpdate::Set {
                    key,
                    preshared_key,
                    device,
                    ..
                } => {
                    self.paths.add_client(*key, preshared_key, now);
                    match device {
                        Some(client) => self.endpoints.watch(*key, *client),
                        None => self.endpoints.unwatch(key),
                    }
                }
                PeerUpdate::Remove(key) => {
                    self.paths.remove_client(key);
                    self.endpoints.unwatch(key);
                }
            }
        }
    }

    /// Nothing inside the tunnel is a path.
    pub(super) fn guard_paths(&mut self) {
        let ranges = self.network.as_ref().map(Network::prefixes);
        let ranges = ranges.into_iter().flatten();
        let ranges = ranges.filter_map(|range| IpNet::new(range.address(), range.len()).ok());
        // Four ranges are below the guard's bound.
        let guard = culvert_path::Guard::new(ranges).unwrap_or_default();
        self.paths.set_guard(guard);
    }

    /// Carries out what relays and selections of paths want, and tells the portal what is news.
    pub(super) fn drive_paths(&mut self, now: BootTime) {
        self.paths.drain_relays(now);
        while let Some(news) = self.paths.poll_news() {
            match news {
                News::Send(datagram, to) => {
                    self.outputs.push(Output::SendPathMessage { datagram, to });
                }
                News::Refused(name, reason) => {
                    let line = LogLine::warn("a relay refuses this gateway: it is tried again")
                        .with_text("relay", &name)
                        .with("reason", reason);
                    self.journal.log.push(line);
                }
                News::OpenTls(relay, place) => self.outputs.push(Output::OpenTls { relay, place }),
                News::MoveClients { from, to } => {
                    self.outputs.push(Output::MoveClients { from, to });
                }
                News::CloseTls(relay) => self.outputs.push(Output::CloseTls(relay)),
                News::TlsFailed(name, why) => {
                    let line = LogLine::warn(
                        "a relay gives no answer by UDP, and is not reached by TLS: it is tried again",
                    )
                    .with_text("relay", &name)
                    .with_text("why", &why);
                    self.journal.log.push(line);
                }
            }
        }
        if !self.portal.session.is_open() {
            return;
        }
        let candidates = self.candidates();
        if self.paths.take_news() && candidates != self.portal.told_candidates {
            self.portal.told_candidates.clone_from(&candidates);
            self.tell(FromGateway::CandidatesChanged { candidates });
        }
        if let Some(relays) = self.paths.poll_reached(now) {
            self.tell(FromGateway::RelaysReached { relays });
        }
        if let Some(mapping) = self.paths.poll_nat(&self.portal.candidates) {
            self.tell(FromGateway::NatFound { mapping });
        }
    }

    pub(super) fn relay_statuses(&self) -> Vec<RelayStatus> {
        self.paths.statuses()
    }
}
