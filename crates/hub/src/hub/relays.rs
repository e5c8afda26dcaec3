//! Relays that come, what they say, and the places that clients are told of.

use super::Hub;
use crate::directory::Barred;
use crate::limits::{MAX_RELAY_PORTS, RELAY_RETURN_MS, RELAY_TOKEN_MS};
use crate::output::SessionId;
use crate::reasons;
use crate::relays::{Issues, KnownRelay, Ports, RelaySession};
use crate::sessions::Party;
use crate::timers::{Timer, later};
use culvert_base::LogLine;
use culvert_ids::{RelayId, TokenId};
use culvert_store::{PathRule, Relay, TokenScope};
use culvert_wire::messages::{
    FromRelay, MAX_RELAY_ADDRESSES, MAX_RELAY_PLACES, Reason, RelayLoad, RelayPlace, RelayPort,
    RelayTls, ToClient, ToRelay,
};
use culvert_wire::{PROTOCOL, Timestamp};
use std::net::SocketAddr;

/// A relay that has said hello, with a token that was accepted, and was enrolled.
#[derive(Clone, Debug)]
pub struct RelayJoin {
    /// The relay's id.
    pub relay: RelayId,
    /// The token that it came with.
    pub token: TokenId,
    /// The addresses at which it is reached, each with its main port.
    pub addresses: Vec<SocketAddr>,
    /// Its TLS listener, if it has one.
    pub tls: Option<RelayTls>,
    /// Its first gateway port.
    pub first_port: u16,
    /// The number of its gateway ports.
    pub ports: u16,
    /// It takes no new ends.
    pub draining: bool,
    /// The gateways that have a port now.
    pub assigned: Vec<RelayPort>,
}

impl Hub {
    /// A relay has connected. The changes that its enrolment made have to be in already.
    pub fn handle_relay_joined(&mut self, session: SessionId, join: RelayJoin, now: Timestamp) {
        let epoch = self.random.epoch();
        self.outbox.open(session, epoch);
        let relay = match self.admit_relay(&join, now) {
            Ok(relay) => relay,
            Err(barred) => {
                self.refuse_relay(session, reasons::not_admitted(barred));
                return;
            }
        };
        if let Some(old) = self.relays.session(relay.id) {
            self.sessions.remove(old);
            self.refuse_relay(old, reasons::replaced());
        }
        if let Some(expires) = self
            .directory
            .token(join.token)
            .and_then(|token| token.expires)
        {
            self.timers.set(expires, Timer::Token(join.token));
        }
        let before = self.relays.known.remove(&relay.id);
        let until = later(now, RELAY_TOKEN_MS);
        let mut ports = Ports::new(join.first_port, join.ports);
        let said = join.assigned.into_iter().take(MAX_RELAY_PORTS.into());
        // Its own word first: it knows what other portals assigned.
        ports.adopt(said, until);
        ports.adopt(before.iter().flat_map(|it| it.ports.held()), until);
        let mut place = RelayPlace {
            relay: relay.id,
            name: relay.name.clone(),
            addresses: join.addresses,
            tls: join.tls,
        };
        place.addresses.truncate(MAX_RELAY_ADDRESSES);
        let key = self.random.key();
        let joined = KnownRelay {
            session: Some(RelaySession {
                id: session,
                since: now,
                token: join.token,
                told_draining: relay.draining,
            }),
            expected_until: now,
            place,
            key: key.clone(),
            ports,
            draining: join.draining,
            load: RelayLoad::default(),
            issues: Issues::new(now),
        };
        self.relays.known.insert(relay.id, joined);
        self.sessions.join_relay(session, relay.id);
        let welcome = ToRelay::Welcome {
            protocol: PROTOCOL,
            relay: relay.id,
            key,
            draining: relay.draining,
            portals: self.portals.clone(),
        };
        self.outbox.tell_relay(session, welcome);
        self.repeat_withdrawals(relay.id, session, now);
        // Its tokens are of another key now.
        self.review_relays_of_all(Some(relay.id), now);
        self.tell_places();
        self.finish(now);
    }

    /// A relay said something.
    pub fn handle_relay_message(&mut self, session: SessionId, message: FromRelay, now: Timestamp) {
        let Some(Party::Relay(id)) = self.sessions.party(session) else {
            return;
        };
        let Some(relay) = self.relays.known.get_mut(&id) else {
            return;
        };
        match message {
            FromRelay::Hello { .. } => self.misbehaved(session, now),
            FromRelay::Load(load) => relay.load = load,
            FromRelay::AddressesChanged { mut addresses } => {
                addresses.truncate(MAX_RELAY_ADDRESSES);
                if relay.place.addresses != addresses {
                    relay.place.addresses = addresses;
                    self.review_relays_of_all(Some(id), now);
                    self.tell_places();
                }
            }
            FromRelay::Draining { on } => {
                if relay.draining != on {
                    relay.draining = on;
                    self.review_relays_of_all(None, now);
                    self.tell_places();
                }
            }
            FromRelay::Unsupported { kind } => {
                let line = LogLine::debug("the relay does not know a message")
                    .with("relay", id)
                    .with_text("kind", &kind);
                self.outbox.push_line(line);
            }
        }
        self.finish(now);
    }

    /// The session of a relay is over. The relay itself may be well, so its ends keep it for a while.
    pub(super) fn expect_relay(&mut self, id: RelayId, now: Timestamp) {
        if let Some(relay) = self.relays.known.get_mut(&id) {
            relay.session = None;
            let end = later(now, RELAY_RETURN_MS);
            relay.expected_until = end;
            self.timers.set(end, Timer::RelayReturn(id));
        }
    }

    /// The time is over in which a relay was expected back.
    pub(super) fn lose_relay_unless_back(&mut self, id: RelayId, now: Timestamp) {
        let is_away = self
            .relays
            .known
            .get(&id)
            .is_some_and(|relay| relay.session.is_none() && relay.expected_until <= now);
        if is_away {
            self.lose_relay(id, now);
        }
    }

    /// Nobody is to use the relay any more.
    fn lose_relay(&mut self, id: RelayId, now: Timestamp) {
        if self.relays.known.remove(&id).is_some() {
            self.review_relays_of_all(None, now);
            self.tell_places();
        }
    }

    /// The row of a relay has changed.
    pub(super) fn review_relay(&mut self, id: RelayId, now: Timestamp) {
        let row = self.directory.admit_relay(id).cloned();
        let session = self.relays.session(id);
        let row = match row {
            Ok(row) => row,
            Err(barred) => {
                if let Some(session) = session {
                    self.sessions.remove(session);
                    self.refuse_relay(session, reasons::not_admitted(barred.known()));
                }
                self.lose_relay(id, now);
                return;
            }
        };
        let Some(relay) = self.relays.known.get_mut(&id) else {
            return;
        };
        let is_renamed = relay.place.name != row.name;
        relay.place.name = row.name;
        if let Some(session) = &mut relay.session
            && session.told_draining != row.draining
        {
            session.told_draining = row.draining;
            let drain = ToRelay::Drain { on: row.draining };
            self.outbox.tell_relay(session.id, drain);
        }
        self.review_relays_of_all(is_renamed.then_some(id), now);
        self.tell_places();
    }

    /// True if the relay takes no new ends.
    pub(super) fn is_relay_draining(&self, id: RelayId) -> bool {
        let said = self.relays.known.get(&id).map(|relay| relay.draining);
        let row = self.directory.admit_relay(id).map(|row| row.draining);
        said != Some(false) || row != Ok(false)
    }

    /// Has every client that uses relays know those of the account as they are now.
    pub(super) fn tell_places(&mut self) {
        let places = self.places();
        if places == self.relays.told_places {
            return;
        }
        let clients = self.sessions.clients.iter();
        let using = clients.filter(|(_, client)| client.relaying.uses_relays);
        let sessions: Vec<_> = using.map(|(_, client)| client.id).collect();
        for session in sessions {
            let relays = places.clone();
            self.outbox
                .tell_client(session, ToClient::RelayPlacesSet { relays });
        }
        self.relays.told_places = places;
    }

    /// The relays that clients may measure.
    fn places(&self) -> Vec<RelayPlace> {
        if self.directory.settings().paths == PathRule::Direct {
            return Vec::new();
        }
        let known = self.relays.known.iter();
        let open = known.filter(|(id, _)| !self.is_relay_draining(**id));
        let places = open.map(|(_, relay)| relay.place.clone());
        places.take(MAX_RELAY_PLACES).collect()
    }

    fn admit_relay(&self, join: &RelayJoin, now: Timestamp) -> Result<Relay, Barred> {
        let token = self.directory.admit_token(join.token, now)?;
        match token.scope {
            TokenScope::Relay => self.directory.admit_relay(join.relay).cloned(),
            _ => Err(Barred::Token),
        }
    }

    pub(super) fn refuse_relay(&mut self, session: SessionId, reason: Reason) {
        let code = reason.code;
        let retry_after_s = reasons::retry_after_s(code);
        let refused = ToRelay::Refused {
            reason,
            retry_after_s,
        };
        self.outbox.tell_relay(session, refused);
        self.outbox.close(session, code);
    }
}
