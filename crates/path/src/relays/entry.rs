//! One relay of one owner: the registration by UDP, and the one through a TLS stream where UDP is blocked.

use super::grant::RelayGrant;
use super::output::RelaysOutput;
use super::seeds::Seeds;
use super::stream::{Order, Registering, Stream};
use super::trouble::RelayTrouble;
use crate::candidates::RelayPath;
use crate::mapping::Seen;
use culvert_base::BootTime;
use culvert_ids::RelayId;
use culvert_relay_core::message::{KIND_REGISTER, RefusalReason};
use culvert_relay_core::registration::{Datagram, Output, Registration};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// A relay that an owner may use.
pub(super) struct Entry {
    grant: RelayGrant,
    udp: Registration,
    stream: Stream,
    round_trip: Duration,
    /// The address of this end, as the relay sees it by UDP.
    mapped: Option<SocketAddr>,
    seeds: Seeds,
    /// The registration by UDP has been lost since [`Self::take_lost`].
    is_lost: bool,
    /// The reason of the last refusal by UDP, until the relay registers the end.
    refused: Option<RefusalReason>,
}

impl Entry {
    /// Begins to register.
    pub(super) fn new(grant: RelayGrant, mut seeds: Seeds, now: BootTime) -> Self {
        let permission = grant.permission.clone();
        let mut udp = Registration::new(&grant.addresses, permission, seeds.next(), now);
        udp.handle_timeout(now);
        Self {
            grant,
            udp,
            stream: Stream::new(),
            round_trip: Duration::MAX,
            mapped: None,
            seeds,
            is_lost: false,
            refused: None,
        }
    }

    /// The portal gave another permission, or says that the relay is elsewhere.
    pub(super) fn set_grant(&mut self, grant: RelayGrant, now: BootTime) {
        if self.grant.addresses != grant.addresses {
            self.udp.set_addresses(&grant.addresses, now);
        }
        if self.grant.tls != grant.tls {
            self.stream.handle_place_changed(now);
        }
        if grant.tls.is_none() {
            self.stream.close(now);
        }
        if self.grant.permission != grant.permission {
            self.refused = None;
        }
        self.udp.set_permission(grant.permission.clone(), now);
        if let Some(open) = self.stream.open_mut() {
            let permission = grant.permission.clone();
            open.registration.set_permission(permission, now);
        }
        self.grant = grant;
    }

    pub(super) fn handle_network_changed(&mut self, now: BootTime) {
        self.udp.handle_network_change(now);
        self.stream.handle_network_changed(now);
        self.mapped = None;
    }

    /// The path may be dead: the relay is asked whether it lives.
    pub(super) fn check(&mut self, now: BootTime) {
        self.udp.check(now);
        if let Some(open) = self.stream.open_mut() {
            open.registration.check(now);
        }
    }

    pub(super) fn handle_datagram(
        &mut self,
        source: SocketAddr,
        datagram: &[u8],
        now: BootTime,
    ) -> bool {
        if self.udp.handle_datagram(source, datagram, now) {
            return true;
        }
        let open = self.stream.open_mut();
        open.is_some_and(|open| open.registration.handle_datagram(source, datagram, now))
    }

    pub(super) fn handle_opened(&mut self, local: SocketAddr, now: BootTime) {
        let new = registering(&self.grant, &mut self.seeds);
        self.stream.handle_opened(local, new, now);
    }

    pub(super) fn handle_ended(&mut self, why: String, now: BootTime) {
        self.stream.handle_ended(why, now);
    }

    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        if self.udp.poll_timeout() <= now {
            self.udp.handle_timeout(now);
        }
        if self.grant.tls.is_some() {
            let (grant, seeds) = (&self.grant, &mut self.seeds);
            let silent_since = self.udp.unanswered_since();
            let new = || registering(grant, seeds);
            self.stream.handle_timeout(silent_since, new, now);
        }
    }

    pub(super) fn poll_timeout(&self) -> BootTime {
        let has_tls = self.grant.tls.is_some();
        let stream = || self.stream.poll_timeout(self.udp.unanswered_since());
        let stream = has_tls.then(stream).flatten();
        stream.map_or(self.udp.poll_timeout(), |at| {
            at.min(self.udp.poll_timeout())
        })
    }

    /// The stream is not closed.
    pub(super) fn has_stream(&self) -> bool {
        !self.stream.is_closed()
    }

    /// It asks for a stream.
    pub(super) fn asks_for_stream(&self) -> bool {
        self.stream.asks()
    }

    /// There are enough streams.
    pub(super) fn refuse_stream(&mut self, now: BootTime) {
        self.stream.refuse(now);
    }

    /// The path through the relay, where this end is registered, with its round trip. UDP comes before TLS.
    pub(super) fn usable(&self) -> Option<(RelayPath, Duration)> {
        let by_udp = self.udp.relay().map(|at| (self.path(at), self.round_trip));
        let by_tls = || {
            let open = self.stream.registered()?;
            Some((self.tls_path(open.local), open.round_trip))
        };
        by_udp.or_else(by_tls)
    }

    /// The paths through the relay, where this end is registered, is about to be, or was until lately.
    pub(super) fn known(&self) -> impl Iterator<Item = RelayPath> {
        let first = self.grant.addresses.first().copied();
        let by_udp = self.udp.relay().or(first).map(|at| self.path(at));
        let by_tls = self.stream.local().map(|at| self.tls_path(at));
        by_udp.into_iter().chain(by_tls)
    }

    /// The address of this end, and the one of the relay that sees it there, by UDP.
    pub(super) fn seen(&self) -> Option<Seen> {
        let (by, mapped) = (self.udp.relay()?, self.mapped?);
        Some(Seen { by, mapped })
    }

    pub(super) const fn mapped(&self) -> Option<SocketAddr> {
        self.mapped
    }

    /// The reason why the relay carries nothing of this end: it refuses, or is reached neither by UDP nor by TLS once both
    /// were tried.
    pub(super) fn trouble(&self) -> Option<RelayTrouble<'_>> {
        if self.usable().is_some() {
            return None;
        }
        let refused = self.refused.map(RelayTrouble::Refused);
        let unreached = self.stream.trouble().map(RelayTrouble::Unreached);
        match self.udp.unanswered_since() {
            None => refused.or(unreached),
            Some(_) => unreached.or(refused),
        }
    }

    /// True once after the registration by UDP was lost.
    pub(super) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Takes in the news of both registrations and of the stream. True if it has changed what others see.
    pub(super) fn drain<K: Copy>(
        &mut self,
        owner: K,
        outputs: &mut VecDeque<RelaysOutput<K>>,
        now: BootTime,
    ) -> bool {
        let mut has_changed = self.drain_stream(owner, outputs, now);
        while let Some(output) = self.udp.poll_output() {
            match output {
                Output::Send { to, datagram } => send(owner, to, &datagram, outputs),
                Output::Mapped { address, .. } => {
                    has_changed |= self.mapped != Some(address);
                    self.mapped = Some(address);
                }
                Output::Registered { round_trip, .. } => {
                    self.round_trip = round_trip;
                    self.refused = None;
                    self.stream.handle_udp_answers(now);
                    has_changed = true;
                }
                Output::Alive { round_trip } => {
                    self.round_trip = round_trip;
                    // The relay has one registration of an end: what it answers is in force.
                    self.stream.handle_udp_answers(now);
                }
                Output::Lost => {
                    has_changed = true;
                    self.is_lost = true;
                }
                Output::Refused(reason) => {
                    self.refused = Some(reason);
                    outputs.push_back(self.refusal(reason));
                }
            }
        }
        let relay = self.grant.relay;
        while let Some(order) = self.stream.poll_order() {
            match (order, self.grant.tls.clone()) {
                (Order::Open, Some(place)) => outputs.push_back(RelaysOutput::OpenTls {
                    owner,
                    relay,
                    place,
                }),
                (Order::Open, None) => {}
                (Order::Close, _) => {
                    outputs.push_back(RelaysOutput::CloseTls { owner, relay });
                    has_changed = true;
                }
            }
        }
        if let Some(why) = self.stream.take_news() {
            outputs.push_back(RelaysOutput::TlsFailed { relay, why });
        }
        has_changed
    }

    fn drain_stream<K: Copy>(
        &mut self,
        owner: K,
        outputs: &mut VecDeque<RelaysOutput<K>>,
        now: BootTime,
    ) -> bool {
        let mut has_changed = false;
        let mut refused = None;
        let mut is_lost = false;
        let mut is_registered = false;
        if let Some(open) = self.stream.open_mut() {
            while let Some(output) = open.registration.poll_output() {
                match output {
                    Output::Send { to, datagram } => send(owner, to, &datagram, outputs),
                    // Its own loopback address, as the relay sees it.
                    Output::Mapped { .. } => {}
                    Output::Registered { round_trip, .. } => {
                        open.round_trip = round_trip;
                        is_registered = true;
                    }
                    Output::Alive { round_trip } => open.round_trip = round_trip,
                    Output::Lost => is_lost = true,
                    Output::Refused(reason) => refused = Some(reason),
                }
            }
        }
        if is_registered {
            self.refused = None;
            self.stream.handle_registered();
            self.udp.handle_superseded(now);
            has_changed = true;
        }
        if let Some(reason) = refused {
            outputs.push_back(self.refusal(reason));
            self.stream
                .fail(format!("the relay refuses: {reason}"), now);
        } else if is_lost {
            let why = "the relay gives no answer through it".to_owned();
            self.stream.fail(why, now);
        }
        has_changed || is_lost
    }

    const fn refusal<K>(&self, reason: RefusalReason) -> RelaysOutput<K> {
        RelaysOutput::Refused {
            relay: self.grant.relay,
            reason,
        }
    }

    const fn path(&self, address: SocketAddr) -> RelayPath {
        RelayPath {
            relay: self.grant.relay,
            address,
            by_tls: false,
        }
    }

    const fn tls_path(&self, address: SocketAddr) -> RelayPath {
        RelayPath {
            relay: self.grant.relay,
            address,
            by_tls: true,
        }
    }

    /// Closes the stream: the owner does not use the relay any more.
    pub(super) fn end<K: Copy>(&self, owner: K) -> Option<RelaysOutput<K>> {
        let relay: RelayId = self.grant.relay;
        self.has_stream()
            .then_some(RelaysOutput::CloseTls { owner, relay })
    }
}

fn registering(grant: &RelayGrant, seeds: &mut Seeds) -> Registering {
    Registering {
        permission: grant.permission.clone(),
        seed: seeds.next(),
    }
}

fn send<K: Copy>(
    owner: K,
    to: SocketAddr,
    datagram: &Datagram,
    outputs: &mut VecDeque<RelaysOutput<K>>,
) {
    let datagram = datagram.as_bytes().to_vec();
    let registers = datagram.get(3) == Some(&KIND_REGISTER);
    outputs.push_back(RelaysOutput::Send { datagram, to });
    if registers {
        outputs.push_back(RelaysOutput::Registering { owner, address: to });
    }
}
