//! A relay's session with the portal: who it is, the key of its tokens, withdrawals, draining.
//!
//! Events go in through `handle_*`; call [`PortalSession::poll_output`] after each until it returns `None`, then sleep
//! until [`PortalSession::poll_timeout`].

use culvert_base::{BootTime, PresharedKey, Random, UnixTime};
use culvert_control::{ControlSession, ControlState};
use culvert_ids::{ClientId, GatewayId, RelayId};
use culvert_wire::messages::{
    FromRelay, MAX_RELAY_ADDRESSES, PortalSet, Reason, ReasonCode, RelayLoad, RelayPort, RelayTls,
    ToRelay, decode_sequenced,
};
use culvert_wire::{Decoded, PROTOCOL, Timestamp};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// The parts of a relay that stay as they are as long as it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// Its display name.
    pub name: String,
    /// The software's version.
    pub version: String,
    /// Its first gateway port.
    pub first_port: u16,
    /// The number of its gateway ports.
    pub ports: u16,
}

/// The end of a relay's service, by the portal's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The portal will not have its token.
    NotEnrolled(String),
    /// An administrator revoked it.
    Revoked(String),
    /// Portal and relay do not understand each other.
    Failed(String),
}

/// An action for the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Connect to the portal.
    Connect,
    /// End the connection.
    Disconnect,
    /// Send a message.
    ToPortal(FromRelay),
    /// The portal is reached here from now on.
    Portals(PortalSet),
    /// The relay is this one, and this is the newest key of its tokens.
    Identity {
        /// Its id.
        relay: RelayId,
        /// The key.
        key: PresharedKey,
    },
    /// Tokens of a pair count no more.
    Withdraw {
        /// The gateway.
        gateway: GatewayId,
        /// Its client; `None`: the gateway and all its clients.
        client: Option<ClientId>,
        /// Tokens up to this time of issue.
        until: Timestamp,
    },
    /// True if new ends are refused.
    Drain(bool),
    /// The relay ends.
    End(Ending),
}

/// The session of a relay with the portal.
pub struct PortalSession {
    machine: Machine,
    addresses: Vec<SocketAddr>,
    tls: Option<RelayTls>,
    random: Random,
    session: ControlSession,
    relay: Option<RelayId>,
    drains_itself: bool,
    drained_by_portal: bool,
    outputs: VecDeque<Output>,
}

impl PortalSession {
    /// A session that begins at once. `addresses` are those at which ends reach the relay.
    #[must_use]
    pub fn new(machine: Machine, addresses: Vec<SocketAddr>, seed: u64, now: BootTime) -> Self {
        Self {
            machine,
            addresses: bounded(addresses),
            tls: None,
            random: Random::new(seed),
            session: ControlSession::new(now),
            relay: None,
            drains_itself: false,
            drained_by_portal: false,
            outputs: VecDeque::new(),
        }
    }

    /// The state of the session.
    #[must_use]
    pub const fn session(&self) -> &ControlSession {
        &self.session
    }

    /// The relay's id, once the portal has said it.
    #[must_use]
    pub const fn relay(&self) -> Option<RelayId> {
        self.relay
    }

    /// The addresses at which ends reach the relay.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// True if it takes no new ends.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.drains_itself || self.drained_by_portal
    }

    /// True if somebody at this machine asked for that.
    #[must_use]
    pub const fn drains_itself(&self) -> bool {
        self.drains_itself
    }

    /// The reason why no new ends come to it, if there is one.
    #[must_use]
    pub fn not_ready(&self) -> Option<&'static str> {
        if self.is_draining() {
            return Some("it drains: SIGUSR1 or the portal ends that");
        }
        self.relay
            .is_none()
            .then_some("the portal has not welcomed it yet")
    }

    /// There is a connection, and `portal` is the portal's clock. `assigned` are the gateways that have a port now.
    pub fn handle_connected(&mut self, portal: UnixTime, assigned: Vec<RelayPort>, now: BootTime) {
        if !self.session.connected(portal, now) {
            return;
        }
        let machine = self.machine.clone();
        self.send(FromRelay::Hello {
            protocols: vec![PROTOCOL],
            version: machine.version,
            machine: machine.machine,
            name: machine.name,
            addresses: self.addresses.clone(),
            first_port: machine.first_port,
            ports: machine.ports,
            tls: self.tls.clone(),
            draining: self.drains_itself,
            assigned,
        });
    }

    /// The connection ended, or did not come about.
    pub fn handle_disconnected(&mut self, why: String, retry_after_ms: Option<u64>, now: BootTime) {
        self.lose(why, retry_after_ms, now);
    }

    /// The portal will not have the token.
    pub fn handle_unauthorized(&mut self, why: String, now: BootTime) {
        self.end(Ending::NotEnrolled(why), now);
    }

    /// A text of the portal.
    pub fn handle_text(&mut self, text: &str, now: BootTime) {
        if !self.session.is_connected() {
            return;
        }
        match decode_sequenced::<ToRelay>(text) {
            Ok(placed) if self.session.take_place(placed.epoch, placed.seq).is_ok() => {
                self.handle_message(placed.message, now);
            }
            Ok(_) => self.break_off("a message of the portal is missing", now),
            Err(error) => self.break_off(&error.to_string(), now),
        }
    }

    fn handle_message(&mut self, message: Decoded<ToRelay>, now: BootTime) {
        let message = match message {
            Decoded::Known(message) => message,
            Decoded::Unknown { kind } => {
                self.send(FromRelay::Unsupported { kind });
                return;
            }
        };
        match message {
            ToRelay::Welcome {
                protocol,
                relay,
                key,
                draining,
                portals,
            } => {
                if protocol != PROTOCOL || self.session.is_open() || key.is_zero() {
                    let why = "the portal's welcome is none, or of a protocol that was not offered";
                    self.break_off(why, now);
                    return;
                }
                self.session.open(now);
                self.relay = Some(relay);
                self.outputs.push_back(Output::Identity { relay, key });
                self.drained_by_portal = draining;
                self.tell_drain();
                self.learn(portals);
            }
            ToRelay::Refused {
                reason,
                retry_after_s,
            } => self.handle_refused(reason, retry_after_s, now),
            // The rest belongs to a session that is open.
            _ if !self.session.is_open() => {
                self.break_off("the portal did not begin with welcome", now);
            }
            ToRelay::Withdraw {
                gateway,
                client,
                until,
            } => self.outputs.push_back(Output::Withdraw {
                gateway,
                client,
                until,
            }),
            ToRelay::Drain { on } => {
                self.drained_by_portal = on;
                self.tell_drain();
            }
            ToRelay::PortalsSet { portals } => self.learn(portals),
            ToRelay::Unsupported { .. } => {}
        }
    }

    fn handle_refused(&mut self, reason: Reason, retry_after_s: Option<u32>, now: BootTime) {
        if let Some(retry_after_s) = retry_after_s {
            self.outputs.push_back(Output::Disconnect);
            self.lose(reason.text, Some(u64::from(retry_after_s) * 1_000), now);
            return;
        }
        let ending = match reason.code {
            ReasonCode::BadToken => Ending::NotEnrolled(reason.text),
            ReasonCode::Revoked => Ending::Revoked(reason.text),
            _ => Ending::Failed(reason.text),
        };
        self.end(ending, now);
    }

    /// Somebody at this machine asks it to drain, or to stop draining.
    pub fn handle_drain(&mut self, on: bool) {
        self.drains_itself = on;
        self.tell_drain();
        self.send_if_open(FromRelay::Draining { on });
    }

    /// Ends reach the relay at these addresses from now on.
    pub fn handle_addresses(&mut self, addresses: Vec<SocketAddr>) {
        let addresses = bounded(addresses);
        if self.addresses != addresses {
            self.addresses.clone_from(&addresses);
            self.send_if_open(FromRelay::AddressesChanged { addresses });
        }
    }

    /// The relay listens for TLS there, and shows that certificate, from now on. The portal hears it by the next hello, so
    /// a session that is there begins anew.
    pub fn handle_tls(&mut self, tls: Option<RelayTls>, now: BootTime) {
        if self.tls != tls {
            self.tls = tls;
            if self.session.is_connected() {
                self.break_off("the portal is told of another certificate for TLS", now);
            }
        }
    }

    /// The network of this host changed: what failed before may work now.
    pub fn handle_network_change(&mut self, now: BootTime) {
        self.session.network_changed(now);
    }

    /// The load of the relay.
    pub fn handle_load(&mut self, load: RelayLoad) {
        self.send_if_open(FromRelay::Load(load));
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        if self.session.is_overdue(now) {
            self.break_off("the portal did not answer hello in time", now);
        }
        if self.session.begin_attempt(now) {
            self.outputs.push_back(Output::Connect);
        }
    }

    /// The instant at which [`Self::handle_timeout`] is due.
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<BootTime> {
        self.session.next_timeout()
    }

    /// The next output, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn tell_drain(&mut self) {
        let is_draining = self.is_draining();
        self.outputs.push_back(Output::Drain(is_draining));
    }

    fn learn(&mut self, portals: PortalSet) {
        if !portals.is_empty() {
            self.outputs.push_back(Output::Portals(portals));
        }
    }

    fn send(&mut self, message: FromRelay) {
        self.outputs.push_back(Output::ToPortal(message));
    }

    fn send_if_open(&mut self, message: FromRelay) {
        if self.session.is_open() {
            self.send(message);
        }
    }

    fn break_off(&mut self, why: &str, now: BootTime) {
        self.outputs.push_back(Output::Disconnect);
        self.lose(why.to_owned(), None, now);
    }

    fn lose(&mut self, why: String, retry_after_ms: Option<u64>, now: BootTime) {
        let random = [self.random.next(), self.random.next()];
        self.session.lost(Some(why), retry_after_ms, random, now);
        // Relays are few, and ends wait for their tokens: they never wait long.
        self.session.hurry();
    }

    fn end(&mut self, ending: Ending, now: BootTime) {
        let (Ending::NotEnrolled(why) | Ending::Revoked(why) | Ending::Failed(why)) = &ending;
        self.session.end(now, why.clone());
        self.outputs.push_back(Output::Disconnect);
        self.outputs.push_back(Output::End(ending));
    }

    /// True if there will be no further attempt.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.session.state() == ControlState::Ended
    }
}

fn bounded(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    addresses.truncate(MAX_RELAY_ADDRESSES);
    addresses
}
