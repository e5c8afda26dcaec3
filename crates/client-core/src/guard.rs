//! Which programs may send where: what the host is to see to, and what it does see to.
//!
//! The portal says of each resource which programs may reach it. Nothing here sees programs; the
//! host does ([`super::Output::Guard`]). So nothing goes to a resource with such a rule before the
//! host has said that the rule is in force: it is not asked for, and has no route.

use super::access::Access;
use super::output::Output;
use super::{Client, Directory};
use culvert_base::BootTime;
use culvert_dns::Addresses;
use culvert_ids::ResourceId;
use culvert_policy::{ApplicationName, Applications, DomainName, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Which programs may send where. Where no rule is, every program may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardRules {
    /// Of addresses that are resources, the narrowest range counts. Ranges that are for every program
    /// are there only inside of others.
    pub ranges: BTreeMap<Prefix, Applications>,
    /// Of addresses that stand for names.
    pub names: BTreeMap<IpAddr, Applications>,
}

impl GuardRules {
    /// Whether every program may send everywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.names.is_empty()
    }

    /// All of them by ranges.
    #[must_use]
    pub fn by_range(&self) -> BTreeMap<Prefix, Applications> {
        let names = self.names.iter();
        let names = names.map(|(address, rule)| (Prefix::host(*address), rule.clone()));
        let ranges = self.ranges.iter();
        let ranges = ranges.map(|(range, rule)| (*range, rule.clone()));
        ranges.chain(names).collect()
    }
}

/// What is wanted of the host, and what it has said.
#[derive(Debug, Default)]
pub(super) struct Guard {
    wanted: GuardRules,
    /// What the host last said is in force.
    in_force: Option<GuardRules>,
    /// Why the host can't.
    fault: Option<String>,
    /// Whether names may have come or gone since `wanted` was made.
    pub(super) is_stale: bool,
}

/// Whether a rule about applications stands in the way of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Every program may reach it.
    Free,
    /// The host sees to its rule.
    InForce,
    /// The host has not said yet that it does.
    Pending,
    /// The host can't.
    Failed(String),
}

impl Standing {
    /// Whether packets may go to it.
    pub(super) const fn is_passable(&self) -> bool {
        match self {
            Self::Free | Self::InForce => true,
            Self::Pending | Self::Failed(_) => false,
        }
    }
}

impl<P> Client<P> {
    /// What the host says of the last [`Output::Guard`], or of those in force since: `rules` are in
    /// force, or nobody can be sure of any, for this reason.
    pub fn handle_guard(&mut self, rules: GuardRules, result: Result<(), String>, now: BootTime) {
        match result {
            Ok(()) => {
                let had_failed = self.guard.fault.take().is_some();
                self.guard.in_force = Some(rules);
                if had_failed {
                    let ids: Vec<ResourceId> = self.accesses.keys().copied().collect();
                    for id in ids {
                        self.forget_denial(id, now);
                    }
                }
            }
            Err(why) => {
                self.guard.in_force = None;
                self.guard.fault = Some(why);
            }
        }
        self.is_stale = true;
        self.finish(now);
    }

    /// Every application that a rule of the portal names.
    #[must_use]
    pub fn applications(&self) -> BTreeSet<ApplicationName> {
        let rules = self.directory.iter().map(|found| &found.applications);
        rules.flat_map(Applications::names).cloned().collect()
    }

    /// Why no rule about applications is in force although there are some.
    #[must_use]
    pub fn guard_fault(&self) -> Option<&str> {
        self.guard.fault.as_deref()
    }

    /// Asks the host for the rules that the resources and the names in use call for.
    pub(super) fn update_guard(&mut self) {
        self.guard.is_stale = false;
        let wanted = self.wanted_rules();
        if wanted != self.guard.wanted {
            self.guard.wanted = wanted.clone();
            self.outputs.push_back(Output::Guard(wanted));
        }
    }

    /// Whether packets may go to the resource, and to all names of it that are in use or asked for.
    pub(super) fn standing(&self, id: ResourceId) -> Standing {
        let names = self.accesses.get(&id).into_iter().flat_map(addresses_of);
        self.standing_of(id, names)
    }

    /// Whether packets may go to the resource, where it is a name to these addresses of it.
    pub(super) fn standing_of(
        &self,
        id: ResourceId,
        mut names: impl Iterator<Item = Addresses>,
    ) -> Standing {
        let Some(resource) = self.directory.get(id) else {
            return Standing::Free;
        };
        let rule = self.directory.rule(resource);
        if rule.is_any() {
            return Standing::Free;
        }
        if let Some(why) = &self.guard.fault {
            return Standing::Failed(why.clone());
        }
        let Some(in_force) = &self.guard.in_force else {
            return Standing::Pending;
        };
        let has_rule = |address: IpAddr| in_force.names.get(&address) == Some(&rule);
        let stands = match resource.target.prefix() {
            // All ranges: a narrower one that is gone may be a hole in what is in force.
            Some(_) => in_force.ranges == self.guard.wanted.ranges,
            None => names.all(|name| has_rule(name.v4.into()) && has_rule(name.v6.into())),
        };
        match stands {
            true => Standing::InForce,
            false => Standing::Pending,
        }
    }

    /// Whether the host has yet to say that it sees to the rule of a range.
    pub(super) fn is_awaited(&self, range: Prefix) -> bool {
        let in_force = self.guard.in_force.as_ref();
        let is_ruled = self.guard.wanted.ranges.contains_key(&range);
        is_ruled
            && self.guard.fault.is_none()
            && in_force.is_none_or(|rules| rules.ranges != self.guard.wanted.ranges)
    }

    fn wanted_rules(&self) -> GuardRules {
        let mut rules = GuardRules::default();
        if self
            .directory
            .iter()
            .all(|found| found.applications.is_any())
        {
            return rules;
        }
        rules.ranges = ranges(&self.directory);
        for (id, access) in &self.accesses {
            let Some(resource) = self.directory.get(*id) else {
                continue;
            };
            let rule = self.directory.rule(resource);
            if resource.target.pattern().is_none() || rule.is_any() {
                continue;
            }
            for addresses in addresses_of(access) {
                rules.names.insert(addresses.v4.into(), rule.clone());
                rules.names.insert(addresses.v6.into(), rule.clone());
            }
        }
        rules
    }
}

/// The rule of each range, of which all hold that resources with the same range have; those that let
/// every program pass only where they are inside of others.
fn ranges(directory: &Directory) -> BTreeMap<Prefix, Applications> {
    let mut all: BTreeMap<Prefix, Applications> = BTreeMap::new();
    for resource in directory.iter() {
        if let Some(range) = resource.target.prefix() {
            let rule = all.entry(range).or_default();
            *rule = rule.and(&resource.applications);
        }
    }
    let is_ruled = |range: &Prefix| all.get(range).is_some_and(|rule| !rule.is_any());
    let is_inside = |range: Prefix| {
        let wider = (0..range.len()).filter_map(|len| Prefix::around(range.address(), len).ok());
        wider.into_iter().any(|wider| is_ruled(&wider))
    };
    let kept = all
        .iter()
        .filter(|(range, rule)| !rule.is_any() || is_inside(**range));
    kept.map(|(range, rule)| (*range, rule.clone())).collect()
}

/// The addresses of every name that an access has or wants.
fn addresses_of<P>(access: &Access<P>) -> impl Iterator<Item = Addresses> + '_ {
    let grants = [&access.grant, &access.successor];
    let granted = grants.into_iter().flatten().flat_map(|grant| &grant.names);
    let granted = granted.map(|(_, granted)| granted.addresses);
    let asked = access.ask.iter().flat_map(|ask| &ask.names);
    let both = |(_, addresses): (&DomainName, &Addresses)| *addresses;
    granted
        .chain(asked.map(both))
        .chain(access.wanted.iter().map(both))
}
