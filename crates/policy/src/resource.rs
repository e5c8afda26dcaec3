//! Resources, and which of those that overlap is meant.

use crate::name::Breadth;
use crate::name_index::NameIndex;
use crate::prefix_map::PrefixMap;
use crate::{Applications, DomainName, Filters, NamePattern, Prefix, Service, TargetError};
use culvert_ids::{ResourceId, SiteId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

/// Resources of one set: ten times what an organisation with a resource for every machine of its
/// data centre was seen to have; about 10 MB.
pub const MAX_RESOURCES: usize = 100_000;

/// Characters of a resource's name: what a line of a list shows.
pub const MAX_RESOURCE_NAME_CHARS: usize = 100;

/// Something in a site that may be given access to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its id. Ids begin with their time of birth: the smaller of two is the older.
    pub id: ResourceId,
    /// The site whose gateways reach it.
    pub site: SiteId,
    /// The addresses or names of it.
    pub target: Target,
    /// The services of it that may be used.
    pub filters: Filters,
    /// The services of a client's own host that its addresses may use; of names none.
    pub inbound: Filters,
    /// The programs of a client that may reach it.
    pub applications: Applications,
    /// The name that people give it.
    pub name: ResourceName,
}

/// The target of a resource.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A range of addresses.
    Network(Prefix),
    /// One address.
    Address(IpAddr),
    /// Names, resolved by the gateway.
    Name(NamePattern),
}

impl Target {
    /// The addresses; none of a name.
    #[must_use]
    pub const fn prefix(&self) -> Option<Prefix> {
        match self {
            Self::Network(prefix) => Some(*prefix),
            Self::Address(address) => Some(Prefix::host(*address)),
            Self::Name(_) => None,
        }
    }

    /// The names; none of addresses.
    #[must_use]
    pub const fn pattern(&self) -> Option<&NamePattern> {
        match self {
            Self::Network(_) | Self::Address(_) => None,
            Self::Name(pattern) => Some(pattern),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(prefix) => prefix.fmt(out),
            Self::Address(address) => address.fmt(out),
            Self::Name(pattern) => pattern.fmt(out),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The name that people give a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName(Box<str>);

impl ResourceName {
    /// The name without the white space around it.
    ///
    /// # Errors
    /// [`TargetError::ResourceName`].
    pub fn new(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        let fits = (1..=MAX_RESOURCE_NAME_CHARS).contains(&text.chars().count());
        if !fits || text.chars().any(char::is_control) {
            return Err(TargetError::ResourceName);
        }
        Ok(Self(text.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The order of several resources that hold an address or a name: the smallest is meant. Ranges and
/// names are never compared, because an address is looked up among ranges alone and a name among
/// names; the order puts ranges first.
///
/// 1. Ranges: the longer prefix. A single address and a range of one address have the same target.
/// 2. Names: one without wildcards; more literal labels; `*` before `**`; fewer `*`.
/// 3. Of two with the same target, the older: the smaller id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MatchOrder {
    breadth: TargetBreadth,
    id: ResourceId,
}

impl MatchOrder {
    /// The resource's place.
    #[must_use]
    pub fn of(resource: &Resource) -> Self {
        let breadth = match &resource.target {
            Target::Network(prefix) => TargetBreadth::Range(Reverse(prefix.len())),
            Target::Address(address) => TargetBreadth::Range(Reverse(Prefix::host(*address).len())),
            Target::Name(pattern) => TargetBreadth::Name(pattern.breadth()),
        };
        Self {
            breadth,
            id: resource.id,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TargetBreadth {
    Range(Reverse<u8>),
    Name(Breadth),
}

/// A set of resources that finds the one that is meant by an address or a name.
///
/// A look-up does not grow with the number of resources beyond its logarithm, and neither does a
/// change.
#[derive(Clone, Debug, Default)]
pub struct Resources {
    by_id: BTreeMap<ResourceId, Resource>,
    by_prefix: PrefixMap<BTreeSet<ResourceId>>,
    by_name: NameIndex,
}

impl Resources {
    /// The set of these resources.
    ///
    /// # Errors
    /// [`TargetError::Duplicate`] and [`TargetError::TooManyResources`].
    pub fn new(resources: impl IntoIterator<Item = Resource>) -> Result<Self, TargetError> {
        let mut set = Self::default();
        for resource in resources {
            let id = resource.id;
            if set.set(resource)?.is_some() {
                return Err(TargetError::Duplicate(id));
            }
        }
        Ok(set)
    }

    /// Adds a resource, or replaces the one with its id, which is returned.
    ///
    /// # Errors
    /// [`TargetError::TooManyResources`]; nothing has changed then.
    pub fn set(&mut self, resource: Resource) -> Result<Option<Resource>, TargetError> {
        let before = self.remove(resource.id);
        if self.by_id.len() >= MAX_RESOURCES {
            return Err(TargetError::TooManyResources);
        }
        match &resource.target {
            Target::Name(pattern) => self.by_name.insert(pattern, resource.id),
            Target::Network(_) | Target::Address(_) => {
                if let Some(prefix) = resource.target.prefix() {
                    self.by_prefix.entry(prefix).insert(resource.id);
                }
            }
        }
        self.by_id.insert(resource.id, resource);
        Ok(before)
    }

    /// Removes a resource and returns it.
    pub fn remove(&mut self, id: ResourceId) -> Option<Resource> {
        let resource = self.by_id.remove(&id)?;
        if let Some(pattern) = resource.target.pattern() {
            self.by_name.remove(pattern, id);
        }
        if let Some(prefix) = resource.target.prefix()
            && let Some(same_target) = self.by_prefix.get_mut(prefix)
        {
            same_target.remove(&id);
            if same_target.is_empty() {
                self.by_prefix.remove(prefix);
            }
        }
        Some(resource)
    }

    /// The resource with this id.
    #[must_use]
    pub fn get(&self, id: ResourceId) -> Option<&Resource> {
        self.by_id.get(&id)
    }

    /// The resource that is meant by the address.
    #[must_use]
    pub fn for_address(&self, address: IpAddr) -> Option<&Resource> {
        let same_target = self.by_prefix.longest(address)?;
        self.get(*same_target.first()?)
    }

    /// The resource that is meant by the name.
    #[must_use]
    pub fn for_name(&self, name: &DomainName) -> Option<&Resource> {
        let mut best: Option<(MatchOrder, &Resource)> = None;
        self.by_name.matches(name, |id| {
            let Some(resource) = self.get(id) else { return };
            let order = MatchOrder::of(resource);
            if best.is_none_or(|(best, _)| order < best) {
                best = Some((order, resource));
            }
        });
        best.map(|(_, resource)| resource)
    }

    /// The resources with the same target as this one, oldest first, itself included: one host may
    /// be several resources with other ports.
    pub fn with_same_target<'a>(
        &'a self,
        resource: &'a Resource,
    ) -> impl Iterator<Item = &'a Resource> {
        let prefix = resource.target.prefix();
        let ranges = prefix.and_then(|prefix| self.by_prefix.get(prefix));
        let ranges = ranges.into_iter().flatten().copied();
        let pattern = resource.target.pattern();
        let names = pattern
            .into_iter()
            .flat_map(|pattern| self.by_name.of_pattern(pattern));
        ranges.chain(names).filter_map(|id| self.get(id))
    }

    /// Of the resources with the same target as this one, the oldest whose filters allow the
    /// service. If none does, there is no access: a wider resource is not asked.
    #[must_use]
    pub fn for_service<'a>(
        &'a self,
        resource: &'a Resource,
        service: Service,
    ) -> Option<&'a Resource> {
        self.with_same_target(resource)
            .find(|same_target| same_target.filters.allows(service))
    }

    /// Every resource, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Resource> {
        self.by_id.values()
    }

    /// The number of resources.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}
