//! Judges packets of both directions.

use super::datagram::DatagramKey;
use super::early::Early;
use super::flow::{End, Flow, FlowKey, FlowRecord};
use super::flows::Flows;
use super::fragments::Fragments;
use super::heading::{Heading, Kind};
use super::index::Place;
use super::portless::Portless;
use super::seed::Seed;
use super::table::owner;
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
    pub(super) portless: Option<Portless>,
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
