//! Names of resources, their addresses, and what is known of them.

use crate::constants::ASK_AGAIN_AFTER;
use crate::range_shares::RangeShares;
use crate::ranges::{Addresses, Offset, Ranges};
use crate::shares::Shares;
use crate::{
    LEASE_IDLE, NEGATIVE_TTL, REASON_LEN_MAX, REFRESH_AFTER, TOLD_MIN, TTL, UNREACHABLE_TTL,
};
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use domain::base::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The families that a name has addresses of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Families {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

/// The outcome of a request for access to a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Granted. The gateway resolved the name to addresses of these families.
    Families(Families),
    /// Granted. The name exists, and has no addresses (NODATA).
    NoAddress,
    /// Granted, but the gateway found no such name.
    NxDomain,
    /// Granted, but the site's DNS did not answer for the name.
    Unanswered,
    /// Denied.
    Denied {
        /// The reason, in brief. At most [`REASON_LEN_MAX`] bytes of it are told.
        brief: String,
    },
    /// There is no gateway, or no portal to ask.
    Unreachable,
}

/// A name and what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned<'a> {
    /// The name.
    pub name: &'a DomainName,
    /// The resource that it belonged to when it was last asked for.
    pub resource: ResourceId,
    /// Its addresses.
    pub addresses: Addresses,
}

/// The knowledge about a name.
#[derive(Clone, Debug)]
pub(crate) enum Decision {
    /// Nothing.
    Unknown,
    /// Access was asked for, and is asked for again from `again_at` on.
    Asked { again_at: BootTime },
    /// The outcome. A good one stays good until the access ends, but is asked for again from
    /// `until` on. A bad one is forgotten then.
    Made { outcome: Outcome, until: BootTime },
}

/// A name that a search list may have completed.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(crate) name: Name<Vec<u8>>,
    pub(crate) existence: PlainExistence,
}

/// The upstreams' answer about a plain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlainExistence {
    /// They were not asked, or did not answer.
    Unknown,
    /// They are asked.
    Asked,
    /// This, which counts for a while.
    Told { exists: bool, until: BootTime },
}

/// A name with addresses.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: DomainName,
    pub(crate) resource: ResourceId,
    pub(crate) decision: Decision,
    /// The name without its search domain, where a search list may have made it.
    pub(crate) plain: Option<Plain>,
    /// The end of the time for which anyone may use the addresses.
    lease_until: BootTime,
    /// The time at which they were last told to anyone.
    told_at: BootTime,
}

/// The reason why a name gets no addresses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// All names have addresses that are in use.
    Full,
    /// Its resource has got too many new names of late.
    TooSoon,
}

/// Names of resources, in use or once used.
#[derive(Debug)]
pub(crate) struct Names {
    ranges: Ranges,
    entries: BTreeMap<Offset, Entry>,
    by_name: BTreeMap<DomainName, Offset>,
    by_lease: BTreeSet<(BootTime, Offset)>,
    shares: Shares,
    /// The most names.
    names_max: usize,
    range_shares: RangeShares,
}

impl Names {
    pub(crate) fn new(ranges: Ranges) -> Self {
        Self {
            names_max: ranges.names_max(),
            ranges,
            entries: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_lease: BTreeSet::new(),
            shares: Shares::default(),
            range_shares: RangeShares::whole(),
        }
    }

    /// Returns the place of `name`, which belongs to `resource`. A name without one gets a new one; the
    /// entry that was removed to make room, if any, is returned too. Anything known of the name as part of
    /// another resource is forgotten. If that one's addresses are of another share, the name gets new ones.
    pub(crate) fn place(
        &mut self,
        name: &DomainName,
        resource: ResourceId,
        now: BootTime,
    ) -> Result<(Offset, Option<(Offset, Entry)>), NoPlace> {
        let moved = match self.by_name.get(name).copied() {
            Some(offset) if self.range_shares.holds(resource, offset, &self.ranges) => {
                self.pass_on(offset, resource);
                return Ok((offset, None));
            }
            other => other,
        };
        if !self.shares.take_token(resource, now) {
            return Err(NoPlace::TooSoon);
        }
        let mut gone = match moved {
            Some(offset) => self.take_out(offset),
            None => self.make_room(now),
        };
        let mut free = None;
        if self.entries.len() < self.names_max {
            free = self.free_offset(resource);
            if free.is_none() && gone.is_none() {
                gone = self.make_room_in_share(resource, now);
                free = gone.as_ref().map(|(offset, _)| *offset);
            }
        }
        let Some(offset) = free else {
            self.shares.forget_empty(resource);
            return Err(NoPlace::Full);
        };
        self.enter(offset, name, resource, now);
        Ok((offset, gone))
    }

    /// Divides the ranges into shares, a power of two of them.
    pub(crate) fn divide(&mut self, shares: u8) {
        self.range_shares.divide(shares);
    }

    /// Says which share the names of resources get addresses of from now on: the usual one, unless they are in `of`.
    pub(crate) fn assign_shares(
        &mut self,
        usual: u8,
        of: impl IntoIterator<Item = (ResourceId, u8)>,
    ) {
        self.range_shares.assign(usual, of);
    }

    /// A smaller bound than that of the ranges; it may change while names have addresses.
    pub(crate) fn set_names_max(&mut self, names_max: usize) {
        self.names_max = names_max.min(self.ranges.names_max());
    }

    /// The next new name gets an address from this place of the ranges on.
    pub(crate) fn begin_at(&mut self, place: u32) {
        self.range_shares.begin_at(place, &self.ranges);
    }

    /// A name has had these addresses before. False if they are not of its share of the ranges, or another name has them.
    pub(crate) fn keep(
        &mut self,
        name: &DomainName,
        resource: ResourceId,
        addresses: Addresses,
        now: BootTime,
    ) -> bool {
        let offset = self.ranges.offset_of(addresses.v4.into());
        let offset = offset.filter(|offset| {
            self.ranges.addresses(*offset) == addresses
                && self.range_shares.holds(resource, *offset, &self.ranges)
                && !self.entries.contains_key(offset)
        });
        let has_room = self.entries.len() < self.names_max && !self.by_name.contains_key(name);
        let Some(offset) = offset.filter(|_| has_room) else {
            return false;
        };
        self.enter(offset, name, resource, now);
        self.extend(offset, now.saturating_add(TTL).saturating_add(LEASE_IDLE));
        true
    }

    fn enter(&mut self, offset: Offset, name: &DomainName, resource: ResourceId, now: BootTime) {
        self.entries.insert(
            offset,
            Entry {
                name: name.clone(),
                resource,
                decision: Decision::Unknown,
                plain: None,
                lease_until: now,
                told_at: now,
            },
        );
        self.shares.add(resource, offset, now);
        self.by_name.insert(name.clone(), offset);
        self.by_lease.insert((now, offset));
    }

    /// The name belongs to this resource from here on.
    fn pass_on(&mut self, offset: Offset, resource: ResourceId) {
        if let Some(entry) = self.entries.get_mut(&offset)
            && entry.resource != resource
        {
            self.shares.remove(entry.resource, offset, entry.told_at);
            self.shares.add(resource, offset, entry.told_at);
            entry.resource = resource;
            entry.decision = Decision::Unknown;
        }
    }

    /// Takes a name out if there is no room for another. This is the name whose addresses were unused for
    /// the longest time, if its lease is over. Otherwise it is a name of the resource with the most
    /// names: the one that was told the longest time ago.
    fn make_room(&mut self, now: BootTime) -> Option<(Offset, Entry)> {
        if self.entries.len() < self.names_max {
            return None;
        }
        let (lease_until, unused) = self.by_lease.first().copied()?;
        match lease_until <= now {
            true => self.take_out(unused),
            false => self.take_out(self.shares.oldest_of_largest(now)?),
        }
    }

    /// Takes the name out that was told the longest time ago of those that have all addresses of a share. Ranges are so small
    /// only where an administrator made them so: a share has 30 addresses at least.
    fn make_room_in_share(
        &mut self,
        resource: ResourceId,
        now: BootTime,
    ) -> Option<(Offset, Entry)> {
        let of_share = self
            .entries
            .iter()
            .filter(|(offset, _)| self.range_shares.holds(resource, **offset, &self.ranges));
        let oldest = of_share.min_by_key(|(_, entry)| entry.told_at);
        let (offset, _) = oldest.filter(|(_, entry)| now.has_passed(entry.told_at, TOLD_MIN))?;
        self.take_out(*offset)
    }

    fn take_out(&mut self, offset: Offset) -> Option<(Offset, Entry)> {
        let entry = self.entries.remove(&offset)?;
        self.by_lease.remove(&(entry.lease_until, offset));
        self.shares.remove(entry.resource, offset, entry.told_at);
        self.by_name.remove(&entry.name);
        Some((offset, entry))
    }

    /// Someone was told the addresses of the name.
    pub(crate) fn told(&mut self, offset: Offset, now: BootTime) {
        if let Some(entry) = self.entries.get_mut(&offset) {
            self.shares.tell(entry.resource, offset, entry.told_at, now);
            entry.told_at = now;
        }
        self.extend(offset, now.saturating_add(TTL).saturating_add(LEASE_IDLE));
    }

    /// The addresses of the name are in use until `until` at least.
    pub(crate) fn extend(&mut self, offset: Offset, until: BootTime) {
        if let Some(entry) = self.entries.get_mut(&offset)
            && entry.lease_until < until
        {
            self.by_lease.remove(&(entry.lease_until, offset));
            entry.lease_until = until;
            self.by_lease.insert((until, offset));
        }
    }

    /// Access to the name was asked for.
    pub(crate) fn asked(&mut self, offset: Offset, now: BootTime) {
        let again_at = now.saturating_add(ASK_AGAIN_AFTER);
        if let Some(entry) = self.entries.get_mut(&offset) {
            match &mut entry.decision {
                Decision::Made {
                    outcome: Outcome::Families(_),
                    until,
                } => *until = again_at,
                decision => *decision = Decision::Asked { again_at },
            }
        }
    }

    /// This came of it. A name that nobody could be asked about stays as it was known.
    pub(crate) fn resolved(&mut self, offset: Offset, outcome: Outcome, now: BootTime) {
        let Some(entry) = self.entries.get_mut(&offset) else {
            return;
        };
        let was_good = matches!(
            entry.decision,
            Decision::Made {
                outcome: Outcome::Families(_),
                ..
            }
        );
        if was_good && matches!(outcome, Outcome::Unreachable | Outcome::Unanswered) {
            return;
        }
        let (outcome, keep) = match outcome {
            Outcome::Families(families) => (Outcome::Families(families), REFRESH_AFTER),
            Outcome::Denied { brief } => (
                Outcome::Denied {
                    brief: shortened(&brief).to_owned(),
                },
                NEGATIVE_TTL,
            ),
            outcome @ (Outcome::NoAddress | Outcome::NxDomain | Outcome::Unanswered) => {
                (outcome, NEGATIVE_TTL)
            }
            Outcome::Unreachable => (Outcome::Unreachable, UNREACHABLE_TTL),
        };
        entry.decision = Decision::Made {
            outcome,
            until: now.saturating_add(keep),
        };
    }

    /// Nothing is known any more of the names of `resource`, but their addresses stay.
    pub(crate) fn forget(&mut self, resource: ResourceId) {
        for entry in self.entries.values_mut() {
            if entry.resource == resource {
                entry.decision = Decision::Unknown;
            }
        }
    }

    /// Nothing is known any more of any name, but their addresses stay.
    pub(crate) fn forget_all(&mut self) {
        for entry in self.entries.values_mut() {
            entry.decision = Decision::Unknown;
        }
    }

    pub(crate) fn entry(&self, offset: Offset) -> Option<&Entry> {
        self.entries.get(&offset)
    }

    /// The name without its search domain.
    pub(crate) fn plain_mut(&mut self, offset: Offset) -> Option<&mut Plain> {
        self.entries.get_mut(&offset)?.plain.as_mut()
    }

    /// Notes what the name is without its search domain; what is known of that stays.
    pub(crate) fn set_plain(&mut self, offset: Offset, plain: Option<Name<Vec<u8>>>) {
        let Some(entry) = self.entries.get_mut(&offset) else {
            return;
        };
        if entry.plain.as_ref().map(|it| &it.name) != plain.as_ref() {
            entry.plain = plain.map(|name| Plain {
                name,
                existence: PlainExistence::Unknown,
            });
        }
    }

    pub(crate) fn offset_of(&self, name: &DomainName) -> Option<Offset> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn offset_at(&self, address: IpAddr) -> Option<Offset> {
        let offset = self.ranges.offset_of(address)?;
        self.entries.contains_key(&offset).then_some(offset)
    }

    pub(crate) fn assigned(&self, offset: Offset) -> Option<Assigned<'_>> {
        let entry = self.entries.get(&offset)?;
        Some(Assigned {
            name: &entry.name,
            resource: entry.resource,
            addresses: self.ranges.addresses(offset),
        })
    }

    pub(crate) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn free_offset(&mut self, resource: ResourceId) -> Option<Offset> {
        let share = self.range_shares.share_of(resource);
        let entries = &self.entries;
        let is_taken = |offset| entries.contains_key(&offset);
        self.range_shares.next_free(share, &self.ranges, is_taken)
    }
}

/// As much of a reason as is told, whole characters.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(REASON_LEN_MAX)]
}
