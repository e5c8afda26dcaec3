//! Judges flows by the grants of their client: new ones, and known ones when the table has changed.

use super::flow::{End, Flow, FlowKey};
use super::flows::Beginner;
use super::grants::{ClientGrants, Permit, Way};
use super::heading::{Heading, address_bits};
use super::inbound::permit_inbound;
use super::index::Place;
use super::table::owner;
use super::{DropReason, Gate, GateTable, PeerKey};
use culvert_base::BootTime;

impl Gate {
    /// Judges a client's packet by the table, and begins or renews its flow.
    #[cold]
    #[inline(never)]
    pub(super) fn judge(
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
        let room = self.flows.room_for(peer, Beginner::Client, now)?;
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

    /// Judges a known flow by the table; ends it where it is no longer allowed.
    #[cold]
    #[inline(never)]
    pub(super) fn renew(
        &mut self,
        table: &GateTable,
        now: BootTime,
        place: Place,
    ) -> Result<(), DropReason> {
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
