//! The rules about programs: those that the host is to enforce, and those that it does enforce.
//!
//! The portal says of each resource which programs may reach it. Nothing here sees programs; the
//! host does ([`Output::Guard`](super::Output::Guard)). So nothing goes to a resource with such a rule before the
//! host has said that the rule is in force: it is not asked for, and has no route.

use super::accesses::Accesses;
use super::directory::Directory;
use culvert_dns::Addresses;
use culvert_ids::ResourceId;
use culvert_policy::{Applications, Prefix};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The places that each program may send to. Without a rule, every program may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardRules {
    /// Of addresses that are resources, the narrowest range counts. Ranges that are for every program
    /// are there only inside of others.
    pub ranges: BTreeMap<Prefix, Applications>,
    /// Of addresses that stand for names.
    pub names: BTreeMap<IpAddr, Applications>,
}

impl GuardRules {
    /// True if every program may send everywhere.
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

/// The rules that are wanted of the host, and its answer.
#[derive(Debug, Default)]
pub(super) struct Guard {
    wanted: GuardRules,
    host: HostState,
    /// Names may have come or gone since `wanted` was made.
    is_stale: bool,
}

/// The last answer of the host.
#[derive(Debug, Default)]
enum HostState {
    /// There is none yet.
    #[default]
    Unheard,
    /// These rules are in force.
    InForce(GuardRules),
    /// Nobody can be sure of any rule, for this reason.
    Failed(String),
}

/// The state of the rule about applications that a resource has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApplicationRule {
    /// Every program may reach it.
    Free,
    /// The host sees to its rule.
    InForce,
    /// The host has not said yet that it does.
    Pending,
    /// The host can't.
    Failed(String),
}

impl ApplicationRule {
    /// True if packets may go to it.
    pub(super) const fn is_passable(&self) -> bool {
        match self {
            Self::Free | Self::InForce => true,
            Self::Pending | Self::Failed(_) => false,
        }
    }
}

impl Guard {
    /// The host says that `rules` are in force, or why nobody can be sure of any. True if it had failed before and does
    /// so no longer.
    pub(super) fn handle_host(&mut self, rules: GuardRules, result: Result<(), String>) -> bool {
        let had_failed = self.fault().is_some();
        let has_failed = result.is_err();
        self.host = match result {
            Ok(()) => HostState::InForce(rules),
            Err(why) => HostState::Failed(why),
        };
        had_failed && !has_failed
    }

    /// The reason for which no rule is in force although there are some.
    pub(super) fn fault(&self) -> Option<&str> {
        match &self.host {
            HostState::Failed(why) => Some(why),
            HostState::Unheard | HostState::InForce(_) => None,
        }
    }

    /// Names have come or gone: the rules are made anew after this event.
    pub(super) const fn set_stale(&mut self) {
        self.is_stale = true;
    }

    pub(super) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The rules that the resources and the names in use call for, if they are others than before.
    pub(super) fn update<P>(
        &mut self,
        directory: &Directory,
        accesses: &Accesses<P>,
    ) -> Option<GuardRules> {
        self.is_stale = false;
        let wanted = wanted_rules(directory, accesses);
        if wanted == self.wanted {
            return None;
        }
        self.wanted = wanted.clone();
        Some(wanted)
    }

    /// True if packets may go to the resource, where it is a name to these addresses of it.
    pub(super) fn application_rule(
        &self,
        directory: &Directory,
        id: ResourceId,
        mut names: impl Iterator<Item = Addresses>,
    ) -> ApplicationRule {
        let Some(resource) = directory.get(id) else {
            return ApplicationRule::Free;
        };
        let rule = directory.rule(resource);
        if rule.is_any() {
            return ApplicationRule::Free;
        }
        let in_force = match &self.host {
            HostState::Unheard => return ApplicationRule::Pending,
            HostState::Failed(why) => return ApplicationRule::Failed(why.clone()),
            HostState::InForce(in_force) => in_force,
        };
        let has_rule = |address: IpAddr| in_force.names.get(&address) == Some(&rule);
        let stands = match resource.target.prefix() {
            // All ranges: a narrower one that is gone may be a hole in what is in force.
            Some(_) => in_force.ranges == self.wanted.ranges,
            None => names.all(|name| has_rule(name.v4.into()) && has_rule(name.v6.into())),
        };
        match stands {
            true => ApplicationRule::InForce,
            false => ApplicationRule::Pending,
        }
    }

    /// True if the host has yet to say that it sees to the rule of a range.
    pub(super) fn is_awaited(&self, range: Prefix) -> bool {
        let is_ruled = self.wanted.ranges.contains_key(&range);
        is_ruled
            && match &self.host {
                HostState::Unheard => true,
                HostState::Failed(_) => false,
                HostState::InForce(rules) => rules.ranges != self.wanted.ranges,
            }
    }
}

fn wanted_rules<P>(directory: &Directory, accesses: &Accesses<P>) -> GuardRules {
    let mut rules = GuardRules::default();
    if directory.iter().all(|found| found.applications.is_any()) {
        return rules;
    }
    rules.ranges = ranges(directory);
    for (id, access) in accesses.iter() {
        let Some(resource) = directory.get(id) else {
            continue;
        };
        let rule = directory.rule(resource);
        if resource.target.pattern().is_none() || rule.is_any() {
            continue;
        }
        for addresses in access.addresses() {
            rules.names.insert(addresses.v4.into(), rule.clone());
            rules.names.insert(addresses.v6.into(), rule.clone());
        }
    }
    rules
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
    let remaining = all
        .iter()
        .filter(|(range, rule)| !rule.is_any() || is_inside(**range));
    remaining
        .map(|(range, rule)| (*range, rule.clone()))
        .collect()
}
