//! The portal: the shipped hub, and around it what the server does for it.

use super::catalog::{Machine, actor, client_token, gateway_token, site};
use super::config::Edit;
use super::net::{Event, Frame, Net, Side};
use super::trace::brief;
use super::wire_id::WireId;
use culvert_hub::{
    ClientJoin, Directory, Facts, GatewayJoin, Hub, OWNER_RETRY_AFTER_S, Output, PortalKeys,
    SessionId,
};
use culvert_ids::GrantId;
use culvert_policy::ClientFacts;
use culvert_store::{Change, Grant};
use culvert_wire::messages::{
    FromClient, FromGateway, OWNER_DISABLED, Reason, ReasonCode, Sequenced, ToClient, ToGateway,
};
use culvert_wire::{Decoded, GrantClaims, Message, Timestamp, decode, encode};
use pasetors::Public;
use pasetors::token::UntrustedToken;
use pasetors::version4::V4;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Over how long machines come back after the portal was stopped, in seconds.
const COME_BACK_WITHIN_S: u32 = 10;

/// The portal.
pub(crate) struct Portal {
    hub: Option<Hub>,
    /// Its number among several.
    number: usize,
    /// Writes of grants that wait for the fence of the database, of a portal that shares it.
    unwritten: Option<Vec<GrantWrite>>,
    sessions: BTreeMap<SessionId, WireId>,
    last_session: u64,
    starts: u8,
    /// The actor of each client, and the site of each gateway.
    actors: Vec<u16>,
    sites: Vec<u16>,
    /// Machines that were told something since this was last taken.
    told: BTreeSet<Machine>,
}

/// A write of a hub that shares the database.
#[derive(Clone, Debug)]
pub(crate) enum GrantWrite {
    Save(Grant),
    End(GrantId),
}

impl Portal {
    pub(crate) fn new(actors: Vec<u16>, sites: Vec<u16>) -> Self {
        Self {
            hub: None,
            number: 0,
            unwritten: None,
            sessions: BTreeMap::new(),
            last_session: 0,
            starts: 0,
            actors,
            sites,
            told: BTreeSet::new(),
        }
    }

    /// One of several portals that share a database.
    pub(crate) fn of_several(number: usize, actors: Vec<u16>, sites: Vec<u16>) -> Self {
        Self {
            number,
            unwritten: Some(Vec::new()),
            // The seeds of no two hubs are alike.
            starts: u8::try_from(number * 80).unwrap_or(u8::MAX),
            ..Self::new(actors, sites)
        }
    }

    /// The actor of each client, and the site of each gateway.
    pub(crate) fn layout(&self) -> (&[u16], &[u16]) {
        (&self.actors, &self.sites)
    }

    /// The writes of grants since this was last taken.
    pub(crate) fn take_unwritten(&mut self) -> Vec<GrantWrite> {
        self.unwritten
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    pub(crate) const fn hub(&self) -> Option<&Hub> {
        self.hub.as_ref()
    }

    pub(crate) fn site_of(&self, gateway: usize) -> u16 {
        self.sites[gateway]
    }

    pub(crate) fn actor_of(&self, client: usize) -> u16 {
        self.actors[client]
    }

    pub(crate) fn wake_ms(&self, net: &Net) -> Option<u64> {
        let at = self.hub.as_ref()?.poll_timeout()?;
        Some(at.unix_ms().saturating_sub(net.portal_epoch_ms))
    }

    pub(crate) fn handle_timeout(&mut self, net: &mut Net) {
        if let Some(hub) = &mut self.hub {
            hub.handle_timeout(now(net));
        }
        self.drain(net);
    }

    /// Starts on what the database has.
    pub(crate) fn start(&mut self, net: &mut Net) {
        if self.hub.is_some() {
            return;
        }
        net.trace(|| "the portal starts".to_owned());
        self.starts += 1;
        let facts = net.config.seen.iter().map(|(client, address)| {
            let facts = Facts {
                token: None,
                seen: ClientFacts::seen_at(Some(*address), |_| None),
                keeps_applications: None,
            };
            (*client, facts)
        });
        let keys = PortalKeys::new(&[7; 32], &[8; 32]).expect("any seed makes a key");
        let hub = Hub::new(
            Directory::new(net.config.snapshot()),
            Box::new(keys),
            &[self.starts; 32],
            net.config.grants().into_values().collect(),
            facts.collect(),
            now(net),
        );
        self.hub = Some(hub);
        net.is_portal_up = true;
        self.drain(net);
    }

    /// Ends without a word to anybody; the host tells who asks, unless it is gone as well.
    pub(crate) fn kill(&mut self, with_host: bool, net: &mut Net) {
        if self.hub.take().is_none() {
            return;
        }
        net.trace(|| "the portal is killed".to_owned());
        if self.unwritten.is_none() {
            net.is_portal_up = false;
            net.config.lose_writes(net.now_ms);
        }
        self.sessions.clear();
        for id in self.wires(net) {
            if net.is_open(id, Side::Portal) {
                match with_host {
                    true => net.vanish(id, Side::Portal),
                    false => net.close(id, Side::Portal),
                }
                Self::note_closed(id, net);
            }
        }
    }

    /// Ends in order.
    pub(crate) fn stop(&mut self, net: &mut Net) {
        let Some(hub) = &mut self.hub else { return };
        net.trace(|| "the portal stops".to_owned());
        hub.handle_stop(COME_BACK_WITHIN_S);
        self.drain(net);
        self.hub = None;
        self.sessions.clear();
        net.is_portal_up = self.unwritten.is_some();
        for id in self.wires(net) {
            net.close(id, Side::Portal);
            Self::note_closed(id, net);
        }
    }

    /// The connections of its machines.
    fn wires(&self, net: &Net) -> Vec<WireId> {
        let wires = net.wires.iter();
        let own = wires.filter(|(_, wire)| wire.portal == self.number);
        own.map(|(id, _)| *id).collect()
    }

    /// Changes the configuration. Returns what has changed, and who was told something.
    pub(crate) fn commit(
        &mut self,
        edits: Vec<Edit>,
        net: &mut Net,
    ) -> (Vec<Change>, BTreeSet<Machine>) {
        let changes = net.config.commit(edits, now(net));
        self.told.clear();
        self.follow(&changes, net);
        (changes, std::mem::take(&mut self.told))
    }

    pub(crate) fn follow(&mut self, changes: &[Change], net: &mut Net) {
        if changes.is_empty() {
            return;
        }
        net.tally.changes += changes.len() as u64;
        net.ledger
            .review(&net.config, net.portal_epoch_ms, net.now_ms);
        if let Some(hub) = &mut self.hub {
            hub.handle_changes(changes, now(net))
                .expect("no change is left out");
        }
        self.drain(net);
    }

    /// An attempt to connect has arrived.
    pub(crate) fn knock(&mut self, machine: Machine, life: u32, net: &mut Net) {
        let token = match machine {
            Machine::Client(number) => client_token(self.actors[number]),
            Machine::Gateway(number) => gateway_token(self.sites[number]),
        };
        let is_there = self.hub.is_some() && !net.cut_control.contains(&machine);
        if is_there && net.config.is_token_good(token, now(net)) {
            net.open(machine, life);
        } else {
            let is_unauthorized = is_there;
            let range = net.weather.control_ms.clone();
            let delay_ms = net.draw_ms(&range);
            net.after(
                delay_ms,
                Event::Failed {
                    machine,
                    life,
                    is_unauthorized,
                },
            );
        }
    }

    /// A frame of a machine. `address` is where the portal sees it.
    pub(crate) fn hear(&mut self, wire: WireId, frame: Frame, address: IpAddr, net: &mut Net) {
        let Some((machine, session)) = net.wires.get(&wire).map(|it| (it.machine, it.session))
        else {
            return;
        };
        match (frame, machine) {
            (Frame::Closed, _) => self.lose(wire, net),
            (Frame::Text(text), Machine::Client(number)) => match decode::<FromClient>(&text) {
                Ok(Decoded::Known(hello @ FromClient::Hello { .. })) if session.is_none() => {
                    self.greet_client(wire, number, hello, address, net);
                }
                Ok(message) => self.client_says(wire, session, message, net),
                Err(_) => self.lose(wire, net),
            },
            (Frame::Text(text), Machine::Gateway(number)) => match decode::<FromGateway>(&text) {
                Ok(Decoded::Known(hello @ FromGateway::Hello { .. })) if session.is_none() => {
                    self.greet_gateway(wire, number, hello, net);
                }
                Ok(message) => self.gateway_says(wire, session, message, net),
                Err(_) => self.lose(wire, net),
            },
        }
        self.drain(net);
    }

    /// The session of a connection.
    pub(crate) fn session_of(&self, wire: WireId) -> Option<SessionId> {
        let mut sessions = self.sessions.iter();
        sessions
            .find(|(_, of)| **of == wire)
            .map(|(session, _)| *session)
    }

    /// A session is over because its way to the hub is broken.
    pub(crate) fn interrupt(&mut self, session: SessionId, net: &mut Net) {
        if self.sessions.remove(&session).is_some()
            && let Some(hub) = &mut self.hub
        {
            hub.handle_interrupted(session, now(net));
        }
        self.drain(net);
    }

    /// A connection is over, as far as the portal knows.
    pub(crate) fn lose(&mut self, wire: WireId, net: &mut Net) {
        net.close(wire, Side::Portal);
        Self::note_closed(wire, net);
        let session = net
            .wires
            .get_mut(&wire)
            .and_then(|wire| wire.session.take());
        if let Some(session) = session
            && self.sessions.remove(&session).is_some()
            && let Some(hub) = &mut self.hub
        {
            hub.handle_left(session, now(net));
        }
        self.drain(net);
    }

    fn client_says(
        &mut self,
        wire: WireId,
        session: Option<SessionId>,
        message: Decoded<FromClient>,
        net: &mut Net,
    ) {
        let (Some(session), Some(hub)) = (session, &mut self.hub) else {
            return self.lose(wire, net);
        };
        match message {
            Decoded::Known(message) => hub.handle_client_message(session, message, now(net)),
            Decoded::Unknown { kind } => hub.handle_unknown(session, kind, now(net)),
        }
    }

    fn gateway_says(
        &mut self,
        wire: WireId,
        session: Option<SessionId>,
        message: Decoded<FromGateway>,
        net: &mut Net,
    ) {
        let (Some(session), Some(hub)) = (session, &mut self.hub) else {
            return self.lose(wire, net);
        };
        match message {
            Decoded::Known(message) => hub.handle_gateway_message(session, message, now(net)),
            Decoded::Unknown { kind } => hub.handle_unknown(session, kind, now(net)),
        }
    }

    fn greet_client(
        &mut self,
        wire: WireId,
        number: usize,
        hello: FromClient,
        address: IpAddr,
        net: &mut Net,
    ) {
        let FromClient::Hello {
            public_key,
            ciphers,
            features,
            ..
        } = hello
        else {
            return;
        };
        let of = actor(self.actors[number]);
        if net.config.is_disabled(of) {
            let reason = Reason {
                code: ReasonCode::OwnerDisabled,
                text: OWNER_DISABLED.to_owned(),
            };
            let refused = ToClient::Refused {
                reason,
                retry_after_s: Some(OWNER_RETRY_AFTER_S),
            };
            return self.turn_away(wire, refused, net);
        }
        let at = now(net);
        let enrolled = net.config.enrol_client(number, of, public_key, at);
        let (client, changes) = match enrolled {
            Ok(enrolled) => enrolled,
            Err(reason) => {
                let retry_after_s = None;
                let refused = ToClient::Refused {
                    reason,
                    retry_after_s,
                };
                return self.turn_away(wire, refused, net);
            }
        };
        self.follow(&changes, net);
        net.config.seen.insert(client, address);
        net.ledger
            .review(&net.config, net.portal_epoch_ms, net.now_ms);
        let session = self.seat(wire, net);
        let join = ClientJoin {
            client,
            token: client_token(self.actors[number]),
            public_key,
            ciphers,
            seen: ClientFacts::seen_at(Some(address), |_| None),
            features,
        };
        if let Some(hub) = &mut self.hub {
            hub.handle_client_joined(session, join, now(net));
        }
    }

    fn greet_gateway(&mut self, wire: WireId, number: usize, hello: FromGateway, net: &mut Net) {
        let FromGateway::Hello {
            public_key,
            ciphers,
            candidates,
            draining,
            grants,
            more_grants,
            features,
            ..
        } = hello
        else {
            return;
        };
        let at = now(net);
        let place = site(self.sites[number]);
        let enrolled = net.config.enrol_gateway(number, place, public_key, at);
        let (gateway, changes) = match enrolled {
            Ok(enrolled) => enrolled,
            Err(reason) => {
                let retry_after_s = None;
                let refused = ToGateway::Refused {
                    reason,
                    retry_after_s,
                };
                return self.turn_away(wire, refused, net);
            }
        };
        self.follow(&changes, net);
        let session = self.seat(wire, net);
        let join = GatewayJoin {
            gateway,
            token: gateway_token(self.sites[number]),
            public_key,
            ciphers,
            candidates,
            draining,
            grants,
            more_grants,
            features,
        };
        if let Some(hub) = &mut self.hub {
            hub.handle_gateway_joined(session, join, now(net));
        }
    }

    fn turn_away(&mut self, wire: WireId, message: impl Message, net: &mut Net) {
        let said = Sequenced {
            epoch: 1,
            seq: 1,
            message,
        };
        net.send(wire, Side::Portal, Frame::Text(encode(&said)));
        self.lose(wire, net);
    }

    fn seat(&mut self, wire: WireId, net: &mut Net) -> SessionId {
        self.last_session += 1;
        let session = SessionId(self.last_session);
        self.sessions.insert(session, wire);
        if let Some(wire) = net.wires.get_mut(&wire) {
            wire.session = Some(session);
        }
        session
    }

    fn drain(&mut self, net: &mut Net) {
        while let Some(output) = self.hub.as_mut().and_then(Hub::poll_output) {
            match output {
                Output::ToClient { session, message } => {
                    self.post(session, encode(&message), net);
                }
                Output::ToGateway { session, message } => {
                    if let ToGateway::Grant { token, .. } = &message.message {
                        self.enter_grant(session, token, net);
                    }
                    self.post(session, encode(&message), net);
                }
                Output::Close { session, .. } => {
                    if let Some(wire) = self.sessions.remove(&session) {
                        net.close(wire, Side::Portal);
                        Self::note_closed(wire, net);
                    }
                }
                Output::SaveGrants(grants) => {
                    self.write(grants.into_iter().map(GrantWrite::Save), net);
                }
                Output::EndGrants(grants) => {
                    self.write(grants.into_iter().map(GrantWrite::End), net);
                }
                // No relay takes part.
                Output::ToRelay { .. }
                | Output::AccessLog(_)
                | Output::Seen(_)
                | Output::Flows { .. }
                | Output::Traffic { .. } => {}
            }
        }
    }

    fn write(&mut self, writes: impl Iterator<Item = GrantWrite>, net: &mut Net) {
        match &mut self.unwritten {
            Some(unwritten) => unwritten.extend(writes),
            None => writes.for_each(|write| write.apply(net)),
        }
    }

    fn post(&mut self, session: SessionId, text: String, net: &mut Net) {
        let Some(wire) = self.sessions.get(&session).copied() else {
            return;
        };
        if let Some(wire) = net.wires.get(&wire) {
            self.told.insert(wire.machine);
            net.trace(|| format!("portal → {:?}: {}", wire.machine, brief(&text)));
        }
        net.tally.messages += 1;
        net.send(wire, Side::Portal, Frame::Text(text));
    }

    fn enter_grant(&self, session: SessionId, token: &str, net: &mut Net) {
        let wire = self.sessions.get(&session);
        let machine = wire
            .and_then(|wire| net.wires.get(wire))
            .map(|it| it.machine);
        let Some(Machine::Gateway(number)) = machine else {
            return;
        };
        let claims = claims_of(token).expect("the portal signs what can be read");
        let (epoch_ms, now_ms) = (net.portal_epoch_ms, net.now_ms);
        let entered = net
            .ledger
            .issue(claims, number, &net.config, epoch_ms, now_ms);
        if let Err(fault) = entered {
            panic!("at {now_ms} ms: {fault}");
        }
    }

    fn note_closed(wire: WireId, net: &mut Net) {
        if let Some(Machine::Gateway(number)) = net.wires.get(&wire).map(|it| it.machine) {
            net.ledger.link_closed(number, wire, net.now_ms);
        }
    }
}

impl GrantWrite {
    /// The database has it from now on.
    pub(crate) fn apply(self, net: &mut Net) {
        match self {
            Self::Save(grant) => net.config.save_grant(grant, net.now_ms),
            Self::End(grant) => net.config.end_grant(grant, net.now_ms),
        }
    }
}

fn now(net: &Net) -> Timestamp {
    Timestamp::from_unix_ms(net.portal_unix_ms())
}

/// The claims of a grant, whoever has signed it.
pub(crate) fn claims_of(token: &str) -> Option<GrantClaims> {
    let token = UntrustedToken::<Public, V4>::try_from(token).ok()?;
    serde_json::from_slice(token.untrusted_payload()).ok()
}
