//! The rules between relays, gateways and the portal: each of them hears what the others found.

use super::client::Client;
use super::gateway::{Gateway, Making};
use super::log::LogEvent;
use super::output::Output;
use super::paths::ToldPath;
use culvert_base::{BootTime, LogLine};
use culvert_ids::{GatewayId, RelayId};
use culvert_path::{Nat64Prefix, RelaysOutput, SelectedPath, SelectionOutput};
use culvert_wire::messages::{FromClient, RelayAccess};
use std::net::SocketAddr;

/// Turns between selections and relays, in each of which one may have news for the other: a suspected path makes the
/// relays answer for themselves, and what they say changes the paths.
const PATH_TURNS_MAX: usize = 4;

impl<P> Client<P> {
    /// A datagram that is no WireGuard message came to the tunnel's socket: a relay's answer, or a gateway's probe.
    pub fn handle_path_message(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) {
        if !self.paths.relays.handle_datagram(source, datagram, now) {
            self.gateways.handle_probe(source, datagram, now);
        }
        self.finish(now);
    }

    /// The stream to a relay is open: `local` stands for the relay.
    pub fn handle_tls_opened(
        &mut self,
        gateway: GatewayId,
        relay: RelayId,
        local: SocketAddr,
        now: BootTime,
    ) {
        let relays = &mut self.paths.relays;
        relays.handle_tls_opened(gateway, relay, local, now);
        self.finish(now);
    }

    /// The stream to a relay has ended, or could not be opened.
    pub fn handle_tls_ended(
        &mut self,
        gateway: GatewayId,
        relay: RelayId,
        why: String,
        now: BootTime,
    ) {
        self.paths.relays.handle_tls_ended(gateway, relay, why, now);
        self.finish(now);
    }

    /// Relays that are not reached at all, each as a line for the status.
    #[must_use]
    pub fn path_problems(&self) -> Vec<String> {
        self.paths.problems()
    }

    /// The UDP address at which the portal tells from where it sees this client; none if it does not.
    pub const fn handle_portal_udp(&mut self, at: Option<SocketAddr>) {
        self.paths.set_portal(at);
    }

    /// The addresses of this machine's interfaces, with the port of the tunnel's socket; none while that is closed.
    pub fn handle_own_addresses(&mut self, addresses: Vec<SocketAddr>, now: BootTime) {
        if self.paths.own != addresses {
            self.paths.own = addresses;
            // Questions of before may have found no socket, or came from another one.
            self.paths.handle_network_changed(now);
            self.finish(now);
        }
    }

    /// IPv4 is reached by this prefix: the host has no IPv4 route, and a NAT64 (RFC 6052). None: it is reached as it is.
    pub fn handle_nat64(&mut self, prefix: Option<Nat64Prefix>, now: BootTime) {
        if self.paths.set_nat64(prefix, now) {
            self.gateways
                .set_nat64(prefix, self.outbox.log_queue(), now);
            self.finish(now);
        }
    }

    /// A gateway is reached through other relays, or by other tokens.
    pub(super) fn set_gateway_relays(
        &mut self,
        gateway: GatewayId,
        relays: &[RelayAccess],
        now: BootTime,
    ) {
        if self.gateways.contains(gateway) {
            self.paths.set_relays(gateway, relays, now);
            self.follow_relays(gateway, now);
        }
    }

    /// A gateway has a selection of paths as long as it has relays.
    pub(super) fn follow_relays(&mut self, id: GatewayId, now: BootTime) {
        let (known, usable) = (self.paths.relays.known(id), self.paths.relays.usable(id));
        let has_selection = |gateway: &Gateway| gateway.selection.is_some();
        let had_selection = self.gateways.get(id).is_some_and(has_selection);
        if known.is_empty() && !had_selection {
            return;
        }
        let network = self.network.as_ref();
        let guard = network.map(super::network::Network::path_guard);
        let seed = self.random.next();
        if let Some(gateway) = self.gateways.get_mut(id) {
            let making = Making {
                guard: guard.unwrap_or_default(),
                seed,
                nat64: self.paths.nat64,
            };
            gateway.set_relays(&known, &usable, making, now);
            if had_selection && gateway.selection.is_none() {
                let key = gateway.introduction.key;
                self.outbox.push(Output::UsePath { key, address: None });
            }
        }
    }

    /// Carries out what relays and selections of paths want, and tells the portal what is news.
    pub(super) fn drive_paths(&mut self, now: BootTime) {
        let gateways = &self.gateways;
        self.paths.keep_only(|id| gateways.contains(id));
        for _ in 0..PATH_TURNS_MAX {
            for id in self.gateways.ids() {
                self.drive_selection(id, now);
            }
            if !self.drive_relays(now) {
                break;
            }
        }
        if self.portal.is_open() {
            for message in self.paths.poll_news(now) {
                self.outbox.tell_portal(message);
            }
        }
    }

    /// Carries out what relays want. True if selections may have something to do for it.
    fn drive_relays(&mut self, now: BootTime) -> bool {
        let mut has_changed = false;
        while let Some(output) = self.paths.relays.poll_output() {
            match output {
                RelaysOutput::Send { datagram, to } => {
                    self.outbox.push(Output::SendPathMessage { datagram, to });
                }
                RelaysOutput::Registering { owner, address } => {
                    if let Some(gateway) = self.gateways.get(owner) {
                        let key = gateway.introduction.key;
                        self.outbox
                            .push(Output::RepeatInitiation { key, to: address });
                    }
                }
                RelaysOutput::Refused { relay, reason } => {
                    let name = self.paths.name_of(relay).unwrap_or_default().to_owned();
                    let line = LogLine::warn("a relay refuses this client: it is tried again")
                        .with_text("relay", &name)
                        .with("reason", reason);
                    self.outbox.log(line);
                }
                RelaysOutput::OpenTls {
                    owner: gateway,
                    relay,
                    place,
                } => self.outbox.push(Output::OpenTls {
                    gateway,
                    relay,
                    place,
                }),
                RelaysOutput::CloseTls {
                    owner: gateway,
                    relay,
                } => self.outbox.push(Output::CloseTls { gateway, relay }),
                RelaysOutput::TlsFailed { relay, why } => {
                    let name = self.paths.name_of(relay).unwrap_or_default().to_owned();
                    let line = LogLine::warn(
                        "a relay gives no answer by UDP, and is not reached by TLS: it is tried again",
                    )
                    .with_text("relay", &name)
                    .with_text("why", &why);
                    self.outbox.log(line);
                }
                RelaysOutput::Changed => has_changed = true,
            }
        }
        if has_changed {
            for id in self.gateways.ids() {
                self.follow_relays(id, now);
            }
        }
        has_changed
    }

    fn drive_selection(&mut self, id: GatewayId, now: BootTime) {
        let Some(gateway) = self.gateways.get_mut(id) else {
            return;
        };
        let key = gateway.introduction.key;
        let Some(selection) = &mut gateway.selection else {
            return;
        };
        while let Some(output) = selection.poll_output() {
            match output {
                SelectionOutput::Send { datagram, to } => {
                    let datagram = datagram.to_vec();
                    self.outbox.push(Output::SendPathMessage { datagram, to });
                }
                SelectionOutput::Use(address) => {
                    self.outbox.push(Output::UsePath {
                        key,
                        address: Some(address),
                    });
                    // A relay forwards to this end only what is for an index that it saw in a handshake.
                    let by_relay = selection.path().is_some_and(|path| path.relay.is_some());
                    if by_relay && gateway.told_path.is_some() {
                        gateway.race.handle_network_changed(now);
                    }
                }
                SelectionOutput::CheckRelays => self.paths.relays.check(id, now),
                SelectionOutput::Changed => {}
            }
        }
        if let Some(path) = selection.path() {
            self.tell_path(id, path, now);
        }
    }

    /// Tells the portal, and the log, of a path that is another one.
    fn tell_path(&mut self, id: GatewayId, path: SelectedPath, now: BootTime) {
        let told = ToldPath::of(&path);
        let Some(gateway) = self.gateways.get_mut(id).filter(|_| self.portal.is_open()) else {
            return;
        };
        if gateway.told_path.replace(told) == Some(told) {
            return;
        }
        let name = &gateway.introduction.name;
        let event = match path.by_tls {
            false => LogEvent::Path(id),
            true => LogEvent::PathByTls(id),
        };
        self.outbox.log_event(event, now, || {
            LogLine::info(match path.relay {
                Some(_) if path.by_tls => {
                    "a gateway is reached through a relay by TLS: UDP gets no answer"
                }
                Some(_) => "a gateway is reached through a relay",
                None => "a gateway is reached directly",
            })
            .with_text("gateway", name)
            .with("address", path.address)
        });
        let round_trip = path.round_trip.map(|it| it.as_micros());
        self.outbox.tell_portal(FromClient::PathChanged {
            gateway: id,
            path: told.kind,
            relay: told.relay,
            round_trip_us: round_trip.map(|us| u32::try_from(us).unwrap_or(u32::MAX)),
        });
    }
}
