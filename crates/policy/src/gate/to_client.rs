//! The flows of packets to clients, and of clients' answers to what resources began.

use super::flow::{End, Flow, FlowKey, TCP_ACK, TCP_SYN};
use super::flows::Beginner;
use super::grants::Permit;
use super::heading::Heading;
use super::inbound::{beginning_to_host, permit_inbound};
use super::index::Place;
use super::{DropReason, Gate, GateTable, PeerKey};
use culvert_base::BootTime;

impl Gate {
    /// The flow of a packet to a client: one that is known and still allowed, or a new one where a grant opens that.
    #[inline]
    pub(super) fn flow_to_client(
        &mut self,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
    ) -> Result<Place, DropReason> {
        let key = FlowKey::of_remote(heading);
        let Some(place) = self.flows.find_far(&key) else {
            return self.begin_inbound(table, now, heading, key);
        };
        if heading.tcp_flags & (TCP_SYN | TCP_ACK) == TCP_SYN {
            return self.flow_of_syn(table, now, heading, key, place);
        }
        self.keep(table, now, place)
            .or_else(|reason| self.begin_or(reason, table, now, heading, key))
    }

    /// The flow of a query of ICMP to a client. Nobody answers a query with another one, so it is none that the client began.
    #[cold]
    pub(super) fn flow_of_query(
        &mut self,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
    ) -> Result<Place, DropReason> {
        let key = FlowKey::of_remote(heading);
        match self.flows.find_far(&key) {
            None => self.begin_inbound(table, now, heading, key),
            Some(place) if !self.flows.get(place).is_inbound => Err(DropReason::NotAFlow),
            Some(place) => self
                .keep(table, now, place)
                .or_else(|reason| self.begin_or(reason, table, now, heading, key)),
        }
    }

    /// The flow of a client's answer to a query of ICMP.
    #[cold]
    pub(super) fn flow_of_answer(
        &mut self,
        table: &GateTable,
        now: BootTime,
        peer: PeerKey,
        heading: &Heading,
    ) -> Result<Place, DropReason> {
        let place = self.flows.find_near(&FlowKey::of_client(heading));
        let place = place.ok_or(DropReason::NotAFlow)?;
        let flow = self.flows.get(place);
        match flow.is_inbound && flow.peer == peer {
            true => self.keep(table, now, place),
            false => Err(DropReason::NotAFlow),
        }
    }

    /// A resource uses a port again, or repeats its SYN.
    #[cold]
    fn flow_of_syn(
        &mut self,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
        key: FlowKey,
        place: Place,
    ) -> Result<Place, DropReason> {
        let flow = self.flows.get(place);
        let is_over = flow.is_idle(now) || flow.is_closed();
        let client = table.owner(key.client_address());
        let opens = |client| permit_inbound(table, client, &key, now).is_ok();
        if !is_over || !client.is_some_and(opens) {
            return self.keep(table, now, place);
        }
        let end = match flow.is_closed() {
            true => End::Closed,
            false => End::Idle,
        };
        self.flows.end(place, end);
        self.begin_inbound(table, now, heading, key)
    }

    #[cold]
    fn begin_or(
        &mut self,
        reason: DropReason,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
        key: FlowKey,
    ) -> Result<Place, DropReason> {
        self.begin_inbound(table, now, heading, key).or(Err(reason))
    }

    /// Begins a flow that a grant opens to a resource.
    #[cold]
    #[inline(never)]
    fn begin_inbound(
        &mut self,
        table: &GateTable,
        now: BootTime,
        heading: &Heading,
        key: FlowKey,
    ) -> Result<Place, DropReason> {
        let client = table.owner(key.client_address());
        let client = client.ok_or(DropReason::NotAFlow)?;
        let permit = permit_inbound(table, client, &key, now)?;
        // Its answers would be those of a flow whose client's port is translated.
        let is_taken = self.flows.find_near(&key).is_some();
        if is_taken || beginning_to_host(heading).is_none() {
            return Err(DropReason::NotAFlow);
        }
        let Permit {
            grant, resource, ..
        } = permit;
        let room = self
            .flows
            .room_for(client.peer(), Beginner::Resource, now)?;
        let flow = Flow::new(key, key, client.peer(), grant, resource, now).inbound();
        let place = self.flows.insert(flow, room);
        self.adopt(place, &permit, table);
        Ok(place)
    }
}
