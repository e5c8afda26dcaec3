//! Packets that have no route yet, to their address or for their service: which access they want, and how long they wait for it.

use super::access::{Held, MAX_HELD_PER_RESOURCE, refusal};
use super::guard::Standing;
use super::{Client, PacketFacts, PacketRefusal};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use std::collections::VecDeque;

/// Memory of all packets that wait, in bytes: a full superframe for each of 64 resources.
pub const MAX_HELD_BYTES: usize = 64 * 65_536;

/// What a packet is for.
enum Wanted {
    /// Nothing that there is a resource for.
    Nothing,
    /// A resource whose filters, and those of all with the same target, forbid it.
    Forbidden,
    /// This resource.
    Resource(ResourceId, Option<(DomainName, culvert_dns::Addresses)>),
}

impl<P> Client<P> {
    /// The data plane has no route for a packet.
    pub fn handle_packet(&mut self, facts: PacketFacts, packet: P, now: BootTime) {
        self.counters.packets += 1;
        match self.wanted_by(&facts) {
            Wanted::Nothing => self.refuse_packets(vec![packet], PacketRefusal::Unreachable),
            Wanted::Forbidden => self.refuse_packets(vec![packet], PacketRefusal::Prohibited),
            Wanted::Resource(id, name) => {
                let name = name.as_ref().map(|(name, addresses)| (name, *addresses));
                self.want_for_packet(id, name, Held { facts, packet }, now);
            }
        }
        self.finish(now);
    }

    /// A gateway does not let a packet pass. Its sender hears so if the resources of this moment forbid the packet too;
    /// where they allow it and it is not granted yet, it is asked for.
    pub fn handle_refused_packet(
        &mut self,
        facts: PacketFacts,
        packet: P,
        refusal: PacketRefusal,
        now: BootTime,
    ) {
        self.counters.packets_refused_by_gateway += 1;
        match (refusal, self.wanted_by(&facts)) {
            (PacketRefusal::Unreachable, _) => {
                self.refuse_packets(vec![packet], PacketRefusal::Unreachable);
            }
            (PacketRefusal::Prohibited, Wanted::Nothing | Wanted::Forbidden) => {
                self.refuse_packets(vec![packet], PacketRefusal::Prohibited);
            }
            (PacketRefusal::Prohibited, Wanted::Resource(id, name)) => {
                let name = name.as_ref().map(|(name, addresses)| (name, *addresses));
                let access = self.accesses.get(&id);
                let is_granted = access.is_some_and(|access| access.grant.is_some());
                if !is_granted && facts.is_whole {
                    self.want_for_packet(id, name, Held { facts, packet }, now);
                } else {
                    // Gateway and client do not know the same yet, or it can't go on: its sender repeats it.
                    self.want(id, name, now);
                }
            }
        }
        self.finish(now);
    }

    fn wanted_by(&self, facts: &PacketFacts) -> Wanted {
        let Some(network) = &self.network else {
            return Wanted::Nothing;
        };
        let mut wanted_name = None;
        let resource = if network.names.contains(facts.destination) {
            let assigned = self
                .stub
                .as_ref()
                .and_then(|stub| stub.at(facts.destination));
            let Some(assigned) = assigned else {
                return Wanted::Nothing;
            };
            wanted_name = Some((assigned.name.clone(), assigned.addresses));
            self.directory.for_name(assigned.name)
        } else {
            self.directory.for_address(facts.destination)
        };
        let Some(resource) = resource else {
            return Wanted::Nothing;
        };
        match self.directory.for_service(resource, facts.service) {
            Some(resource) => Wanted::Resource(resource.id, wanted_name),
            None => Wanted::Forbidden,
        }
    }

    fn want_for_packet(
        &mut self,
        id: ResourceId,
        name: Option<(&DomainName, culvert_dns::Addresses)>,
        held: Held<P>,
        now: BootTime,
    ) {
        let addresses = name.map(|(_, addresses)| addresses);
        if self.standing_of(id, addresses.into_iter()) == Standing::Pending {
            // Whoever sent it was not held to the rule. A program that may sends it again.
            self.counters.packets_displaced += 1;
            return self.want(id, name, now);
        }
        let has_route = self.has_route(&held.facts);
        let is_granted = self.accesses.get(&id).is_some_and(|it| it.grant.is_some());
        if has_route && is_granted {
            // The data plane learned of the route while the packet was on its way here.
            self.resuming.push(held);
            return;
        }
        if self.is_granted(id, name) {
            // Granted, and yet no route: another gateway has the range, or there are too many.
            return self.refuse_packets(vec![held.packet], PacketRefusal::Unreachable);
        }
        self.want_missing(id, name, now);
        let Some(access) = self.accesses.get_mut(&id) else {
            return self.refuse_packets(vec![held.packet], PacketRefusal::Unreachable);
        };
        if let Some(denial) = access.standing_denial(now) {
            let refused = refusal(denial.reason.code);
            return self.refuse_packets(vec![held.packet], refused);
        }
        if access.ask.is_none() {
            return self.refuse_packets(vec![held.packet], PacketRefusal::Unreachable);
        }
        self.hold(id, held);
    }

    /// Whether there is a grant for a resource, and for the name where one is meant.
    fn is_granted(
        &self,
        id: ResourceId,
        name: Option<(&DomainName, culvert_dns::Addresses)>,
    ) -> bool {
        let grant = self.accesses.get(&id).and_then(|it| it.grant.as_ref());
        grant.is_some_and(|grant| name.is_none_or(|(name, _)| grant.names.contains_key(name)))
    }

    /// Makes sure that access to a resource is asked for, and to those with the same target that are not granted.
    fn want_missing(
        &mut self,
        id: ResourceId,
        name: Option<(&DomainName, culvert_dns::Addresses)>,
        now: BootTime,
    ) {
        let Some(found) = self.directory.get(id) else {
            return;
        };
        for other in self.directory.with_same_target(found) {
            if !self.is_granted(other, name) {
                self.want_one(other, name, now);
            }
        }
    }

    fn hold(&mut self, id: ResourceId, held: Held<P>) {
        let Some(access) = self.accesses.get_mut(&id) else {
            return;
        };
        let mut displaced = Vec::new();
        if access.held.len() >= MAX_HELD_PER_RESOURCE {
            displaced.extend(access.held.pop_front());
        }
        while self.held_bytes + held.facts.size_bytes > MAX_HELD_BYTES
            && let Some(oldest) = access.held.pop_front()
        {
            self.held_bytes -= oldest.facts.size_bytes;
            self.counters.packets_displaced += 1;
        }
        for oldest in displaced {
            self.held_bytes -= oldest.facts.size_bytes;
            self.counters.packets_displaced += 1;
        }
        if self.held_bytes + held.facts.size_bytes > MAX_HELD_BYTES {
            // Others hold all the memory there is.
            self.counters.packets_displaced += 1;
            return;
        }
        self.held_bytes += held.facts.size_bytes;
        access.held.push_back(held);
    }

    /// The packets that wait for a resource, which do so no longer.
    pub(super) fn take_held(&mut self, id: ResourceId) -> VecDeque<Held<P>> {
        let Some(access) = self.accesses.get_mut(&id) else {
            return VecDeque::new();
        };
        let held = std::mem::take(&mut access.held);
        for one in &held {
            self.held_bytes -= one.facts.size_bytes;
        }
        held
    }

    /// Access has come: what waits goes on with the next change of the data plane.
    pub(super) fn resume_held(&mut self, id: ResourceId) {
        let held = self.take_held(id);
        self.resuming.extend(held);
    }
}
