//! Judges packets of both directions.

use super::datagram::DatagramKey;
use super::early::Early;
use super::flow::{End, Flow, FlowKey, FlowRecord};
use super::flows::Flows;
use super::fragments::Fragments;
use super::heading::{Heading, Kind, address, address_bits};
use super::inbound::permit_inbound;
use super::index::Place;
use super::portless::Portless;
use super::seed::Seed;
use super::table::{ClientGrants, Permit, Way};
use super::{DropReason, Evicted, Frame, GateTable, MAX_FLOWS, PeerKey, Verdict};
use crate::translate::{Rewrite, rewrite};
use culvert_base::BootTime;
use culvert_packet::ip::IpVersion;

/// Remembers the flows of some clients, and judges their packets.
///
/// `now` is read from the clock that grants expire by.
///
/// Both directions of a flow have to come to the same gate: answers to a flow that another gate has
/// admitted belong to no flow here. If packets of one client may come to several workers, the
/// client's address chooses the gate.
#[derive(Debug)]
pub struct Gate {
    pub(super) flows: Flows,
    fragments: Fragments,
    /// The holders of addresses, if all clients have one address for resources.
    portless: Option<Portless>,
    early: Early,
    /// Of the datagram whose first fragment was admitted last.
    released: Vec<Box<[u8]>>,
}

impl Gate {
    /// A gate that remembers [`MAX_FLOWS`] flows.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self::with_max_flows(seed, MAX_FLOWS)
    }

    /// A gate that remembers fewer flows, at least one.
    #[must_use]
    pub fn with_max_flows(seed: Seed, max_flows: usize) -> Self {
        Self {
            flows: Flows::new(seed, max_flows),
            fragments: Fragments::new(seed),
            portless: None,
            early: Early::default(),
            released: Vec::new(),
        }
    }

    /// The same gate where resources see one address for all clients, by what it shares with the other gates there.
    #[must_use]
    pub fn masquerading(self, portless: Portless) -> Self {
        Self {
            portless: Some(portless),
            ..self
        }
    }

    /// Judges a packet that came from a peer, and translates it towards the resource.
    #[inline]
    pub fn admit_from_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        peer: PeerKey,
        frame: Frame<'_>,
    ) -> Verdict {
        let passed = self.pass_from_client(table, now, peer, frame);
        passed.unwrap_or_else(Verdict::Drop)
    }

    /// Keeps a fragment of a peer that was dropped for [`DropReason::Fragment`] until the first one of its datagram has come.
    /// False where it is not kept.
    #[cold]
    pub fn hold(&mut self, now: BootTime, peer: PeerKey, packet: &[u8]) -> bool {
        let mut heading = Heading::NONE;
        let is_later = heading.read(packet).is_ok() && heading.kind == Kind::LaterFragment;
        let Some(packet) = packet.get(..heading.len).filter(|_| is_later) else {
            return false;
        };
        let key = datagram(&heading, true);
        self.early.hold(key, peer, packet, now)
    }

    /// The fragments that waited for the one that was admitted last ([`Verdict::AdmitFirst`]), as they came: they are to be
    /// judged behind it.
    pub fn take_released(&mut self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.released)
    }

    /// Fragments that were kept in vain.
    #[must_use]
    pub fn fragments_lost(&self) -> u64 {
        self.early.lost()
    }

    /// Judges a packet that is on its way to a client, and translates it back to what the client
    /// knows.
    #[inline]
    pub fn admit_to_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        frame: Frame<'_>,
    ) -> Verdict {
        self.pass_to_client(table, now, frame).into()
    }

    /// Ends flows that are over: looks at `count` of them, and at the next ones when it is called
    /// again. Flows that the table no longer allows end too, so that they are reported without
    /// waiting for a packet that would find out.
    pub fn sweep(&mut self, table: &GateTable, now: BootTime, count: usize) {
        self.early.expire(now);
        for place in self.flows.next_places(count) {
            if self.flows.is_used(place) {
                self.renew_portless(place);
                // Ends the flow if it has to end.
                let _ = self.keep(table, now, place);
            }
        }
    }

    /// Hands out the records of flows that have ended, oldest first.
    pub fn drain_ended(&mut self, mut take: impl FnMut(FlowRecord)) {
        while let Some(record) = self.flows.pop_ended() {
            take(record);
        }
    }

    /// Records of the remembered flows, for reports about flows that last. A flow that both ends
    /// have closed counts as ended, though it is still remembered for late packets.
    pub fn flows(&self) -> impl Iterator<Item = FlowRecord> {
        self.some_flows(0, usize::MAX).into_iter().flatten()
    }

    /// The same of `count` places of the table from `start` on, for whoever must not keep a gate from
    /// packets for as long as all take. None where there are no more places.
    #[must_use]
    pub fn some_flows(
        &self,
        start: usize,
        count: usize,
    ) -> Option<impl Iterator<Item = FlowRecord>> {
        let record = |flow: &Flow| flow.record(flow.is_closed().then_some(End::Closed));
        Some(self.flows.part(start, count)?.map(record))
    }

    /// The number of flows that have not ended.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// Places of flows that a sweep looks at: those that are in use, and those that were.
    #[must_use]
    pub fn flow_places(&self) -> usize {
        self.flows.places()
    }

    /// Entries that made room for others.
    #[must_use]
    pub fn evicted(&self) -> Evicted {
        Evicted {
            datagrams: self.fragments.evicted(),
            ..self.flows.evicted()
        }
    }

    /// Records of ended flows that were lost, since nobody took them in time.
    #[must_use]
    pub fn records_lost(&self) -> u64 {
        self.flows.records_lost()
    }

    #[inline]
    fn pass_from_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        peer: PeerKey,
        frame: Frame<'_>,
    ) -> Result<Verdict, DropReason> {
        let mut heading = Heading::NONE;
        heading.read(frame.packet)?;
        let place = match heading.kind {
            Kind::Plain | Kind::Query => self.flow_from_client(table, now, peer, &heading)?,
            Kind::LaterFragment => {
                // A flow found was begun by the owner of the source address.
                let place = self.of_fragment(table, now, &heading, true);
                self.owned(table, peer, &heading, place)?
            }
            Kind::Error => {
                let passed = self.error_from_client(table, now, peer, &heading, frame);
                return passed.map(Verdict::Admit);
            }
            Kind::Answer => {
                owner(table, peer, &heading)?;
                self.flow_of_answer(table, now, peer, &heading)?
            }
        };
        let flow = self.flows.get_mut(place);
        flow.note_of_client(&heading, &frame, now);
        if flow.is_translated() {
            let change = to_far(flow);
            rewrite(frame.packet, &heading, &change, frame.checksum);
        }
        self.remember_first_fragment(&heading, place, now, true);
        if heading.is_first_fragment && self.releases(peer, &heading, now) {
            return Ok(Verdict::AdmitFirst(peer));
        }
        Ok(Verdict::Admit(peer))
    }

    /// True if later fragments waited for this first one. They are released.
    #[cold]
    fn releases(&mut self, peer: PeerKey, heading: &Heading, now: BootTime) -> bool {
        if self.early.is_empty() {
            return false;
        }
        self.released = self.early.take(&datagram(heading, true), peer, now);
        !self.released.is_empty()
    }

    #[inline]
    fn pass_to_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        frame: Frame<'_>,
    ) -> Result<PeerKey, DropReason> {
        let mut heading = Heading::NONE;
        heading.read(frame.packet)?;
        let place = match heading.kind {
            Kind::Plain | Kind::Answer => self.flow_to_client(table, now, &heading)?,
            Kind::LaterFragment => self.of_fragment(table, now, &heading, false)?,
            Kind::Error => return self.error_to_client(table, now, &heading, frame),
            Kind::Query => self.flow_of_query(table, now, &heading)?,
        };
        let flow = self.flows.get_mut(place);
        flow.note_of_remote(&heading, &frame, now);
        let peer = flow.peer;
        if flow.is_translated() {
            let change = to_near(flow);
            rewrite(frame.packet, &heading, &change, frame.checksum);
        }
        self.remember_first_fragment(&heading, place, now, false);
        Ok(peer)
    }

    /// The flow of a client's packet: one that is known and still allowed, or a new one.
    #[inline]
    fn flow_from_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        peer: PeerKey,
        heading: &Heading,
    ) -> Result<Place, DropReason> {
        let near = FlowKey::of_client(heading);
        let found = self.flows.find_near(&near);
        if let Some(place) = found {
            let flow = self.flows.get(place);
            let is_same = flow.peer == peer && !flow.is_idle(now) && !flow.begins_anew(heading);
            if is_same && self.is_current(place, table, now) {
                return Ok(place);
            }
        }
        self.judge(table, now, peer, heading, near, found)
    }

    /// Judges a client's packet by the table, and begins or renews its flow.
    #[cold]
    #[inline(never)]
    fn judge(
        &mut self,
        table: &GateTable,
        now: BootTime,
        peer: PeerKey,
        heading: &Heading,
        near: FlowKey,
        found: Option<Place>,
    ) -> Result<Place, DropReason> {
        // Before anything else: nobody but its owner may end a flow.
        let client = owner(table, peer, heading)?;
        if let Some(place) = found
            && self.goes_on(place, table, client, heading, now)
        {
            self.flows.get_mut(place).epoch = table.epoch();
            return Ok(place);
        }
        if let Some(place) = found
            && self.is_of_inbound(place, heading, now)
        {
            return self.keep(table, now, place);
        }
        let permit = match permit(table, client, &near, now) {
            Ok(permit) => permit,
            Err(reason) => {
                if let Some(place) = found {
                    self.flows.end(place, End::Denied(reason));
                }
                return Err(reason);
            }
        };
        if let Some(place) = found {
            let flow = self.flows.get(place);
            let is_over = flow.is_idle(now) || flow.begins_anew(heading);
            if !is_over && flow.peer == peer && is_same_way(flow, &permit) {
                self.adopt(place, &permit, table);
                return Ok(place);
            }
            let end = match (is_over, flow.is_closed()) {
                (true, true) => End::Closed,
                (true, false) => End::Idle,
                (false, _) => End::Replaced,
            };
            self.flows.end(place, end);
        }
        let remote = match permit.way {
            Way::Itself => near.remote,
            Way::To(resolved) => address_bits(resolved),
            Way::Lost => return Err(DropReason::NoAddress),
        };
        let room = self.flows.room_for(peer).ok_or(DropReason::FlowsFull)?;
        let far = self
            .flows
            .far_key(&near, remote)
            .ok_or(DropReason::NoPortLeft)?;
        if near.is_portless()
            && let Some(portless) = &self.portless
        {
            portless.take(peer, &far, now)?;
        }
        let flow = Flow::new(near, far, peer, permit.grant, permit.resource, now);
        let place = self.flows.insert(flow, room);
        self.adopt(place, &permit, table);
        Ok(place)
    }

    /// True if a known flow goes on without being judged: another client's grants have changed, not those of its own.
    fn goes_on(
        &self,
        place: Place,
        table: &GateTable,
        client: &ClientGrants,
        heading: &Heading,
        now: BootTime,
    ) -> bool {
        let flow = self.flows.get(place);
        flow.is_allowed_still(table, client, now)
            && !flow.is_idle(now)
            && !flow.begins_anew(heading)
    }

    /// True if the client's packet is part of a flow that a resource began: it goes on by that right, or ends.
    fn is_of_inbound(&self, place: Place, heading: &Heading, now: BootTime) -> bool {
        let flow = self.flows.get(place);
        flow.is_inbound && !flow.is_idle(now) && !flow.begins_anew(heading)
    }

    /// Tells the other gates how long the client of a flow without ports keeps the address.
    fn renew_portless(&self, place: Place) {
        let flow = self.flows.get(place);
        if let Some(portless) = self.portless.as_ref().filter(|_| flow.near.is_portless()) {
            portless.renew(flow.peer, &flow.far, flow.last);
        }
    }

    /// Lets a known flow go on, judging it anew if need be.
    #[inline]
    pub(super) fn keep(
        &mut self,
        table: &GateTable,
        now: BootTime,
        place: Place,
    ) -> Result<Place, DropReason> {
        if self.end_if_idle(place, now) {
            return Err(DropReason::NotAFlow);
        }
        if !self.is_current(place, table, now) {
            self.renew(table, now, place)?;
        }
        Ok(place)
    }

    /// Judges a known flow by the table; ends it where it is no longer allowed.
    #[cold]
    #[inline(never)]
    fn renew(&mut self, table: &GateTable, now: BootTime, place: Place) -> Result<(), DropReason> {
        let flow = self.flows.get(place);
        let client = table.owner(flow.near.client_address());
        if client.is_some_and(|client| flow.is_allowed_still(table, client, now)) {
            self.flows.get_mut(place).epoch = table.epoch();
            return Ok(());
        }
        let permit = match client {
            None => Err(DropReason::NoGrant),
            Some(client) if flow.is_inbound => {
                permit_inbound(table, client, &flow.near, now).map(|permit| (client, permit))
            }
            Some(client) => permit(table, client, &flow.near, now).map(|permit| (client, permit)),
        };
        match permit {
            Err(reason) => {
                self.flows.end(place, End::Denied(reason));
                Err(reason)
            }
            Ok((client, permit)) if client.peer() == flow.peer && is_same_way(flow, &permit) => {
                self.adopt(place, &permit, table);
                Ok(())
            }
            Ok(_) => {
                self.flows.end(place, End::Replaced);
                Err(DropReason::NotAFlow)
            }
        }
    }

    pub(super) fn adopt(&mut self, place: Place, permit: &Permit, table: &GateTable) {
        let flow = self.flows.get_mut(place);
        flow.epoch = table.epoch();
        flow.expires = permit.expires;
        flow.grant = permit.grant;
        flow.resource = permit.resource;
        flow.is_named = permit.way.is_named();
    }

    /// True if the table and the grant that allowed the flow are still current: the table itself is
    /// not read.
    #[inline(always)]
    fn is_current(&self, place: Place, table: &GateTable, now: BootTime) -> bool {
        let flow = self.flows.get(place);
        flow.epoch == table.epoch() && now < flow.expires
    }

    #[inline(always)]
    fn end_if_idle(&mut self, place: Place, now: BootTime) -> bool {
        let flow = self.flows.get(place);
        let is_idle = flow.is_idle(now);
        if is_idle {
            let end = if flow.is_closed() {
                End::Closed
            } else {
                End::Idle
            };
            self.flows.end(place, end);
        }
        is_idle
    }

    /// The flow that a later fragment belongs to.
    fn of_fragment(
        &mut self,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
        is_of_client: bool,
    ) -> Result<Place, DropReason> {
        let key = datagram(heading, is_of_client);
        let hash = self.flows.hash_datagram(&key);
        let flow = self.fragments.find(hash, &key, now);
        let place = flow.and_then(|flow| self.flows.resolve(flow));
        self.keep(table, now, place.ok_or(DropReason::Fragment)?)
    }

    /// The place of a flow that the peer owns; otherwise why not, a forged source before anything.
    fn owned(
        &self,
        table: &GateTable,
        peer: PeerKey,
        heading: &Heading,
        place: Result<Place, DropReason>,
    ) -> Result<Place, DropReason> {
        owner(table, peer, heading)?;
        place
    }

    #[inline(always)]
    fn remember_first_fragment(
        &mut self,
        heading: &Heading,
        place: Place,
        now: BootTime,
        is_of_client: bool,
    ) {
        if heading.is_first_fragment {
            let key = datagram(heading, is_of_client);
            let hash = self.flows.hash_datagram(&key);
            let peer = self.flows.get(place).peer;
            let flow = self.flows.reference(place);
            self.fragments.insert(hash, key, (peer, flow), now);
        }
    }
}

/// The client whose tunnel address the packet comes from, if it is that of the peer.
pub(super) fn owner<'a>(
    table: &'a GateTable,
    peer: PeerKey,
    heading: &Heading,
) -> Result<&'a ClientGrants, DropReason> {
    let source = address(heading.version, heading.source);
    let client = table.owner(source).filter(|client| client.peer() == peer);
    client.ok_or(DropReason::ForgedSource)
}

fn permit(
    table: &GateTable,
    client: &ClientGrants,
    near: &FlowKey,
    now: BootTime,
) -> Result<Permit, DropReason> {
    let destination = near.remote_address();
    let permit = client.permit(destination, near.service(), now)?;
    let reached = match permit.way {
        Way::To(address) => address,
        Way::Itself | Way::Lost => destination,
    };
    match table.is_host_address(reached) {
        true => Err(DropReason::HostAddress),
        false => Ok(permit),
    }
}

/// True if an allowed flow continues unchanged. A flow by address does. A flow by name does if the
/// permit is for a name of the same resource; it keeps its address, though the name may stand for
/// another one by now.
fn is_same_way(flow: &Flow, permit: &Permit) -> bool {
    match permit.way {
        Way::Itself => !flow.is_named,
        Way::To(_) | Way::Lost => flow.is_named && flow.resource == permit.resource,
    }
}

pub(super) fn datagram(heading: &Heading, is_of_client: bool) -> DatagramKey {
    DatagramKey {
        source: heading.source,
        destination: heading.destination,
        identification: heading.identification,
        version: heading.version,
        protocol: (heading.version == IpVersion::V4).then_some(heading.protocol),
        is_of_client,
    }
}

fn to_far(flow: &Flow) -> Rewrite {
    Rewrite {
        destination: Some(flow.far.remote),
        source_port: Some(flow.far.client_port()),
        ..Rewrite::default()
    }
}

fn to_near(flow: &Flow) -> Rewrite {
    Rewrite {
        source: Some(flow.near.remote),
        destination_port: Some(flow.near.client_port()),
        ..Rewrite::default()
    }
}
