//! Packets that have no route yet, to their address or for their service: which access they want, and how long they wait for it.

use super::access::Held;
use super::client::Client;
use super::guard::ApplicationRule;
use super::packet::{PacketFacts, PacketRefusal};
use super::reason::refusal;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;

/// The purpose of a packet.
enum Wanted {
    /// Nothing that there is a resource for.
    Nothing,
    /// A resource whose filters, and those of all with the same target, forbid it.
    Forbidden,
    /// A resource that was there before.
    Ended,
    /// This resource.
    Resource(ResourceId, Option<(DomainName, culvert_dns::Addresses)>),
}

impl<P> Client<P> {
    /// The data plane has no route for a packet.
    pub fn handle_packet(&mut self, facts: PacketFacts, packet: P, now: BootTime) {
        self.outbox.counters.packets += 1;
        match self.wanted_by(&facts) {
            Wanted::Nothing => self.outbox.refuse(vec![packet], PacketRefusal::Unreachable),
            Wanted::Forbidden => self.outbox.refuse(vec![packet], PacketRefusal::Prohibited),
            Wanted::Ended => {
                self.outbox.counters.packets_of_ended_access += 1;
                self.outbox.refuse(vec![packet], PacketRefusal::Prohibited);
            }
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
        self.outbox.counters.packets_refused_by_gateway += 1;
        match (refusal, self.wanted_by(&facts)) {
            (PacketRefusal::Unreachable, _) => {
                self.outbox.refuse(vec![packet], PacketRefusal::Unreachable);
            }
            (PacketRefusal::Prohibited, Wanted::Nothing | Wanted::Forbidden | Wanted::Ended) => {
                self.outbox.refuse(vec![packet], PacketRefusal::Prohibited);
            }
            (PacketRefusal::Prohibited, Wanted::Resource(id, name)) => {
                let name = name.as_ref().map(|(name, addresses)| (name, *addresses));
                if self.accesses.grant(id).is_none() && facts.is_whole {
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
        let mut ended = self.directory.ended().for_address(facts.destination);
        let resource = if network.names.contains(facts.destination) {
            let Some((name, addresses)) = self.names.at(facts.destination) else {
                return Wanted::Nothing;
            };
            let resource = self.directory.for_name(&name);
            ended = self.directory.ended().for_name(&name);
            wanted_name = Some((name, addresses));
            resource
        } else {
            self.directory.for_address(facts.destination)
        };
        let Some(resource) = resource else {
            return ended.map_or(Wanted::Nothing, |_| Wanted::Ended);
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
        if self
            .guard
            .application_rule(&self.directory, id, addresses.into_iter())
            == ApplicationRule::Pending
        {
            // Its sender was not held to the rule. A program that may sends it again.
            self.outbox.counters.packets_displaced += 1;
            return self.want(id, name, now);
        }
        let has_route = self.routes.has_route(&held.facts);
        let is_granted = self.accesses.grant(id).is_some();
        if has_route && is_granted {
            // The data plane learned of the route while the packet was on its way here.
            self.routes.resume([held]);
            return;
        }
        if self.accesses.is_granted(id, name.map(|(name, _)| name)) {
            // Granted, and yet no route: another gateway has the range, or there are too many.
            return self
                .outbox
                .refuse(vec![held.packet], PacketRefusal::Unreachable);
        }
        self.want_missing(id, name, now);
        let Some(access) = self.accesses.get_mut(id) else {
            return self
                .outbox
                .refuse(vec![held.packet], PacketRefusal::Unreachable);
        };
        if let Some(denial) = access.current_denial(now) {
            let refused = refusal(denial.reason.code);
            return self.outbox.refuse(vec![held.packet], refused);
        }
        if access.ask.is_none() {
            return self
                .outbox
                .refuse(vec![held.packet], PacketRefusal::Unreachable);
        }
        self.outbox.counters.packets_displaced += self.accesses.hold(id, held);
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
            if !self.accesses.is_granted(other, name.map(|(name, _)| name)) {
                self.want_one(other, name, now);
            }
        }
    }
}
