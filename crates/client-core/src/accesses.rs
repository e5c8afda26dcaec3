//! The accesses to all resources: requests, grants and packets that wait, within their bounds.

use super::access::{Access, Held, MAX_HELD_PER_RESOURCE, move_names};
use super::ask::{Ask, AskState, Expedite};
use super::grant::Grant;
use culvert_base::BootTime;
use culvert_dns::Addresses;
use culvert_ids::{GatewayId, GrantId, ResourceId};
use culvert_policy::DomainName;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

/// Resources with a request, a grant or a "no" at once. A program that looks at every address of a
/// network must not fill the memory; the oldest "no" gives way.
pub const MAX_ACCESSES: usize = 4096;

/// Requests on their way at once. The portal answers in some 10 ms, so this is thousands a second.
pub const MAX_IN_FLIGHT: usize = 64;

/// The longest time of a request, in milliseconds: the portal gives each of three gateways 3 s.
pub const ANSWER_LIMIT_MS: u64 = 10_000;

/// The longest wait of a packet while there is no session with the portal, in milliseconds: a program
/// hears "unreachable" then, and a portal that restarts is back sooner.
pub const OFFLINE_LIMIT_MS: u64 = 5_000;

/// Memory of all packets that wait, in bytes: a full superframe for each of 64 resources.
pub const MAX_HELD_BYTES: usize = 64 * 65_536;

/// The accesses of the client.
#[derive(Debug)]
pub(super) struct Accesses<P> {
    by_resource: BTreeMap<ResourceId, Access<P>>,
    /// The time of the next look at each access; the same instants as in the accesses.
    timers: BTreeSet<(BootTime, ResourceId)>,
    /// The access that a grant belongs to, successors included.
    grants: BTreeMap<GrantId, ResourceId>,
    /// Accesses whose request waits to be sent.
    queue: VecDeque<ResourceId>,
    /// Requests sent and not answered.
    in_flight: BTreeMap<u64, ResourceId>,
    last_request: u64,
    /// Memory of the packets that wait.
    held_bytes: usize,
    /// The time at which resources with the target of one in use are asked for next.
    same_target_due: BootTime,
}

impl<P> Accesses<P> {
    pub(super) const fn new(now: BootTime) -> Self {
        Self {
            by_resource: BTreeMap::new(),
            timers: BTreeSet::new(),
            grants: BTreeMap::new(),
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            last_request: 0,
            held_bytes: 0,
            same_target_due: now,
        }
    }

    pub(super) fn get(&self, id: ResourceId) -> Option<&Access<P>> {
        self.by_resource.get(&id)
    }

    /// Call [`Self::schedule`] after a change.
    pub(super) fn get_mut(&mut self, id: ResourceId) -> Option<&mut Access<P>> {
        self.by_resource.get_mut(&id)
    }

    /// The access, which begins if there is none. Call [`Self::schedule`] after a change.
    pub(super) fn entry(&mut self, id: ResourceId) -> &mut Access<P> {
        self.by_resource.entry(id).or_default()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ResourceId, &Access<P>)> {
        self.by_resource.iter().map(|(id, access)| (*id, access))
    }

    pub(super) fn ids(&self) -> Vec<ResourceId> {
        self.by_resource.keys().copied().collect()
    }

    /// The grant that the data plane uses for a resource.
    pub(super) fn grant(&self, id: ResourceId) -> Option<&Grant> {
        self.get(id)?.grant.as_ref()
    }

    /// All grants that the data plane uses.
    pub(super) fn granted(&self) -> impl Iterator<Item = (ResourceId, &Grant)> {
        let granted = |(id, access): (ResourceId, _)| Some((id, Access::grant(access)?));
        self.iter().filter_map(granted)
    }

    /// True if there is a grant for a resource, and for the name if one is meant.
    pub(super) fn is_granted(&self, id: ResourceId, name: Option<&DomainName>) -> bool {
        let has_name = |grant: &Grant| name.is_none_or(|name| grant.names.contains_key(name));
        self.grant(id).is_some_and(has_name)
    }

    /// True if there is no room for another access.
    pub(super) fn is_full(&self) -> bool {
        self.by_resource.len() >= MAX_ACCESSES
    }

    /// The oldest "no" without anything else, which may give way.
    pub(super) fn oldest_denial(&self) -> Option<ResourceId> {
        let denied = self.iter().filter(|(_, it)| it.is_only_denial());
        let oldest = denied.min_by_key(|(_, access)| access.denial.as_ref().map(|it| it.at));
        oldest.map(|(id, _)| id)
    }

    /// Removes an access with its timer and its request. Its grants are to be forgotten before.
    pub(super) fn remove(&mut self, id: ResourceId) -> Option<Access<P>> {
        let access = self.by_resource.remove(&id)?;
        if let Some(due) = access.due {
            self.timers.remove(&(due, id));
        }
        if let Some(number) = access.ask.as_ref().and_then(Ask::number) {
            self.in_flight.remove(&number);
        }
        self.queue.retain(|queued| *queued != id);
        Some(access)
    }

    /// Notes the time of the next look at an access, and forgets one that is idle.
    pub(super) fn schedule(&mut self, id: ResourceId, now: BootTime) {
        let Some(access) = self.by_resource.get_mut(&id) else {
            return;
        };
        if let Some(due) = access.due.take() {
            self.timers.remove(&(due, id));
        }
        if access.is_idle(now) {
            self.by_resource.remove(&id);
            return;
        }
        // Overdue work comes next time, once: looking at it always moves it on.
        let next = now.saturating_add(Duration::from_millis(1));
        access.due = access.next_due().map(|due| due.max(next));
        if let Some(due) = access.due {
            self.timers.insert((due, id));
        }
    }

    /// The accesses that are to be looked at.
    pub(super) fn due(&self, now: BootTime) -> Vec<ResourceId> {
        let due = self.timers.iter().take_while(|(due, _)| *due <= now);
        due.map(|(_, id)| *id).collect()
    }

    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// The resource that a grant is for.
    pub(super) fn resource_of(&self, grant: GrantId) -> Option<ResourceId> {
        self.grants.get(&grant).copied()
    }

    /// True if a request for the resource is on its way, or waits to be sent.
    pub(super) fn is_asking(&self, id: ResourceId) -> bool {
        let access = self.by_resource.get(&id);
        access.is_some_and(|access| access.ask.is_some())
    }

    /// Forgets the id of a grant. Returns the resource that it was for.
    pub(super) fn forget_grant(&mut self, grant: GrantId) -> Option<ResourceId> {
        self.grants.remove(&grant)
    }

    /// All grants but these, successors included.
    pub(super) fn grants_except(&self, current: &BTreeSet<GrantId>) -> Vec<GrantId> {
        let grants = self.grants.keys();
        let ended = grants.filter(|grant| !current.contains(grant));
        ended.copied().collect()
    }

    /// Drops the successor of a grant if its time is over.
    pub(super) fn expire_successor(&mut self, id: ResourceId, now: BootTime) {
        let ended = self
            .by_resource
            .get_mut(&id)
            .and_then(|access| access.successor.take_if(|grant| grant.expires <= now));
        if let Some(grant) = ended {
            self.grants.remove(&grant.id);
        }
    }

    /// Puts a grant to use, or keeps it as a successor until the flows through the one in use have ended. True if it is
    /// in use now.
    pub(super) fn install(
        &mut self,
        id: ResourceId,
        mut grant: Grant,
        is_avoided: impl Fn(GatewayId) -> bool,
        now: BootTime,
    ) -> bool {
        let access = self.by_resource.entry(id).or_default();
        access.denial = None;
        access.denials = 0;
        self.grants.insert(grant.id, id);
        let replaced = access.grant.take();
        // A gateway that drains: the flows through it may end there.
        let waits = replaced.as_ref().is_some_and(|old| {
            old.gateway.id != grant.gateway.id
                && old.expires > now
                && access.held.is_empty()
                && !is_avoided(old.gateway.id)
        });
        if waits {
            let dropped = access.successor.replace(grant);
            access.grant = replaced;
            if let Some(old) = &mut access.grant {
                old.renew = old.expires;
            }
            if let Some(dropped) = dropped {
                self.grants.remove(&dropped.id);
            }
            return false;
        }
        if let Some(old) = replaced {
            self.grants.remove(&old.id);
            move_names(old, &mut grant, &mut access.wanted, &access.ask);
        }
        if let Some(successor) = access.successor.take() {
            self.grants.remove(&successor.id);
        }
        access.grant = Some(grant);
        true
    }

    /// True if names wait to be asked for.
    pub(super) fn wants_names(&self, id: ResourceId) -> bool {
        self.get(id).is_some_and(|access| !access.wanted.is_empty())
    }

    /// The grants through a gateway for which `is_lost` holds, successors before the grants that they follow.
    pub(super) fn grants_lost(&self, is_lost: impl Fn(&Grant) -> bool) -> Vec<GrantId> {
        let mut lost = Vec::new();
        for access in self.by_resource.values() {
            let grants = [&access.successor, &access.grant];
            let grants = grants.into_iter().flatten().filter(|grant| is_lost(grant));
            lost.extend(grants.map(|grant| grant.id));
        }
        lost
    }

    /// Puts a request into the queue, unless there is one.
    pub(super) fn begin_ask(&mut self, id: ResourceId, limit_ms: u64, now: BootTime) {
        if let Some(access) = self.by_resource.get_mut(&id)
            && access.ask.is_none()
        {
            access.ask = Some(Ask {
                state: AskState::Queued,
                since: now,
                names: BTreeMap::new(),
                until: now.saturating_add(Duration::from_millis(limit_ms)),
            });
            self.queue.push_back(id);
        }
    }

    /// The access whose request is sent next; `None` if there is none, or too many are on their way.
    pub(super) fn next_queued(&mut self) -> Option<ResourceId> {
        match self.in_flight.len() < MAX_IN_FLIGHT {
            true => self.queue.pop_front(),
            false => None,
        }
    }

    /// Requests that can't be sent yet wait in the queue.
    pub(super) fn queue_again(&mut self, mut ids: VecDeque<ResourceId>) {
        self.queue.append(&mut ids);
    }

    /// A queued request is sent. Returns its number and the names that it asks for.
    pub(super) fn send_ask(
        &mut self,
        id: ResourceId,
        now: BootTime,
    ) -> Option<(u64, &BTreeMap<DomainName, Addresses>)> {
        let access = self.by_resource.get_mut(&id)?;
        access.ask.as_ref().filter(|ask| ask.number().is_none())?;
        let names = access.take_names();
        self.last_request += 1;
        let number = self.last_request;
        self.in_flight.insert(number, id);
        let expedite = Expedite::Never;
        let ask = access.ask.insert(Ask {
            state: AskState::Sent { number, expedite },
            since: now,
            names,
            until: now.saturating_add(Duration::from_millis(ANSWER_LIMIT_MS)),
        });
        Some((number, &ask.names))
    }

    /// The request with this number, which is answered.
    pub(super) fn take_answered(&mut self, number: u64, id: ResourceId) -> Option<Ask> {
        if self.in_flight.get(&number) != Some(&id) {
            return None;
        }
        self.in_flight.remove(&number);
        let access = self.by_resource.get_mut(&id)?;
        access.ask.take_if(|ask| ask.number() == Some(number))
    }

    /// Gives up a request that nobody answered in time.
    pub(super) fn take_overdue(&mut self, id: ResourceId, now: BootTime) -> Option<Ask> {
        let access = self.by_resource.get_mut(&id)?;
        let ask = access.ask.take_if(|ask| ask.until <= now)?;
        if let Some(number) = ask.number() {
            self.in_flight.remove(&number);
        }
        self.queue.retain(|queued| *queued != id);
        Some(ask)
    }

    /// The session is gone, and with it every request: they are sent again in the next one. True if somebody waits for
    /// one of them.
    pub(super) fn queue_all_again(&mut self, now: BootTime) -> bool {
        self.in_flight.clear();
        self.queue.clear();
        let mut somebody_waits = false;
        for id in self.ids() {
            let Some(access) = self.by_resource.get_mut(&id) else {
                continue;
            };
            let Some(ask) = &mut access.ask else { continue };
            ask.state = AskState::Queued;
            let offline_limit = Duration::from_millis(OFFLINE_LIMIT_MS);
            ask.until = ask.until.min(now.saturating_add(offline_limit));
            let names = std::mem::take(&mut ask.names);
            for (name, addresses) in names {
                access.wanted.entry(name).or_insert(addresses);
            }
            somebody_waits |= access.somebody_waits();
            self.queue.push_back(id);
            self.schedule(id, now);
        }
        somebody_waits
    }

    /// Has a packet wait. Returns the number of those that gave way to it, or 1 if it had no room itself.
    pub(super) fn hold(&mut self, id: ResourceId, held: Held<P>) -> u64 {
        let Some(access) = self.by_resource.get_mut(&id) else {
            return 0;
        };
        let size_bytes = held.facts.size_bytes;
        let mut displaced = 0;
        let surplus = match access.held.len() >= MAX_HELD_PER_RESOURCE {
            true => access.held.pop_front(),
            false => None,
        };
        while self.held_bytes + size_bytes > MAX_HELD_BYTES
            && let Some(oldest) = access.held.pop_front()
        {
            self.held_bytes -= oldest.facts.size_bytes;
            displaced += 1;
        }
        if let Some(oldest) = surplus {
            self.held_bytes -= oldest.facts.size_bytes;
            displaced += 1;
        }
        if self.held_bytes + size_bytes > MAX_HELD_BYTES {
            // Others hold all the memory there is.
            return displaced + 1;
        }
        self.held_bytes += size_bytes;
        access.held.push_back(held);
        displaced
    }

    /// The packets that wait for a resource, which do so no longer.
    pub(super) fn take_held(&mut self, id: ResourceId) -> VecDeque<Held<P>> {
        let Some(access) = self.by_resource.get_mut(&id) else {
            return VecDeque::new();
        };
        let held = std::mem::take(&mut access.held);
        for one in &held {
            self.held_bytes -= one.facts.size_bytes;
        }
        held
    }

    /// A name lost its addresses: they mean nothing any more. True if a grant had it.
    pub(super) fn release_name(&mut self, name: &DomainName) -> bool {
        let mut was_granted = false;
        for access in self.by_resource.values_mut() {
            was_granted |= access.release_name(name);
        }
        was_granted
    }

    /// A gateway is elsewhere.
    pub(super) fn move_gateway(&mut self, gateway: GatewayId, candidates: &[SocketAddr]) {
        for access in self.by_resource.values_mut() {
            let grants = [&mut access.grant, &mut access.successor];
            for grant in grants.into_iter().flatten() {
                if grant.gateway.id == gateway {
                    grant.gateway.candidates = candidates.to_vec();
                }
            }
        }
    }

    /// True if resources with the target of one in use are to be asked for; the next time is `interval` later.
    pub(super) fn begin_same_target(&mut self, interval: Duration, now: BootTime) -> bool {
        let is_due = now >= self.same_target_due;
        if is_due {
            self.same_target_due = now.saturating_add(interval);
        }
        is_due
    }

    /// A resource is new: those with the target of one in use are asked for at once.
    pub(super) const fn hurry_same_target(&mut self, now: BootTime) {
        self.same_target_due = now;
    }
}
