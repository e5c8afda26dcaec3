//! Whether a client may use a resource now: the portal's decision.

use crate::{Condition, Conditions, Country, TimeWindow};
use culvert_base::UnixTime;
use culvert_ids::{GroupId, PolicyId, ResourceId};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// Openings and closings that are looked through for the end of a stretch in which windows follow
/// each other without a gap. Seven windows of a day each make seven a week; 64 are more than two
/// months, far beyond the lifetime of any grant. What lasts longer is said to last until then.
const MAX_ADJACENT_WINDOWS: usize = 64;

/// A group may use a resource, under conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its id.
    pub id: PolicyId,
    /// Who may.
    pub group: GroupId,
    /// What they may use.
    pub resource: ResourceId,
    /// A disabled policy allows nothing.
    pub disabled: bool,
    /// All of them must hold.
    pub conditions: Conditions,
}

/// What the portal knows of a client that asks. By default nothing, so that nothing is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The groups of its actor.
    pub groups: BTreeSet<GroupId>,
    /// Whether an administrator has verified it.
    pub verified: bool,
    /// Where the portal sees it, never what it says of itself.
    pub public_address: Option<IpAddr>,
    /// The country of that address, where a database knows it.
    pub country: Option<Country>,
}

/// Whether a client may use a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow {
        /// The policy that allows longest; of several, the oldest.
        policy: PolicyId,
        /// The instant at which that policy stops to allow; none if time does not end it.
        until: Option<UnixTime>,
    },
    /// It may not.
    Deny {
        /// What stands against each policy that joins one of its groups with the resource; empty
        /// where there is none.
        reasons: Vec<PolicyRefusal>,
    },
}

impl Decision {
    /// Whether it may.
    #[must_use]
    pub const fn is_allow(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// Why a policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRefusal {
    /// The policy.
    pub policy: PolicyId,
    /// Its group, of which the client is a member.
    pub group: GroupId,
    /// What stands against it: at least one thing.
    pub unmet: Vec<Unmet>,
}

/// Something that stands against a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// The policy is disabled.
    Disabled,
    /// Now is in none of the windows.
    Time {
        /// The windows.
        windows: Vec<TimeWindow>,
        /// The instant at which one of them opens.
        opens: Option<UnixTime>,
    },
    /// The client's address is in none of the ranges.
    PublicAddress {
        /// Where the portal sees it.
        seen: Option<IpAddr>,
    },
    /// The address is in none of the countries.
    Country {
        /// Where it is, if that is known.
        seen: Option<Country>,
    },
    /// No administrator has verified the client.
    Verified,
    /// The policy has expired.
    Expired {
        /// The instant of its end.
        at: UnixTime,
    },
}

impl fmt::Display for Unmet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => out.write_str("the policy is disabled"),
            Self::Time { windows, opens } => {
                let windows: Vec<_> = windows.iter().map(ToString::to_string).collect();
                write!(out, "now is outside of {}", windows.join(" and "))?;
                match opens.and_then(crate::time::shown) {
                    Some(opens) => write!(out, ", which opens at {opens}"),
                    None => Ok(()),
                }
            }
            Self::PublicAddress { seen: Some(seen) } => {
                write!(out, "the client's address {seen} is in none of the ranges")
            }
            Self::PublicAddress { seen: None } => out.write_str("the client's address is unknown"),
            Self::Country { seen: Some(seen) } => {
                write!(
                    out,
                    "the client is in {seen}, which is none of the countries"
                )
            }
            Self::Country { seen: None } => out.write_str("the client's country is unknown"),
            Self::Verified => out.write_str("the client is not verified"),
            Self::Expired { at } => match crate::time::shown(*at) {
                Some(at) => write!(out, "the policy expired at {at}"),
                None => out.write_str("the policy has expired"),
            },
        }
    }
}

/// Whether the subject may use the resource now. Policies of other
/// resources and other groups do not count: any that counts and allows is enough.
pub fn evaluate<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    resource: ResourceId,
    subject: &Subject,
    now: UnixTime,
) -> Decision {
    let mut best: Option<(PolicyId, Option<UnixTime>)> = None;
    let mut reasons = Vec::new();
    for policy in concerning(policies, resource, subject) {
        match outcome(policy, subject, now) {
            Ok(until) => best = Some(longer(best, (policy.id, until))),
            Err(unmet) => reasons.push(PolicyRefusal {
                policy: policy.id,
                group: policy.group,
                unmet,
            }),
        }
    }
    match best {
        Some((policy, until)) => Decision::Allow { policy, until },
        None => Decision::Deny { reasons },
    }
}

/// The next instant at which [`evaluate`] may decide differently though
/// nothing but the time has changed: a window opens or closes, or a policy expires. Until then it
/// does not. None where time alone changes nothing.
pub fn next_change<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    resource: ResourceId,
    subject: &Subject,
    now: UnixTime,
) -> Option<UnixTime> {
    concerning(policies, resource, subject)
        .filter(|policy| !policy.disabled && may_ever_hold(policy, subject, now))
        .flat_map(|policy| policy.conditions.iter())
        .filter_map(|condition| match condition {
            Condition::Time(windows) => windows_change(windows, now),
            // A policy that has expired may never hold again, and is not looked at.
            Condition::Expires { at } => Some(*at),
            Condition::PublicAddress(_) | Condition::Country(_) | Condition::Verified => None,
        })
        .min()
}

/// The policies that join the resource with a group of the subject.
pub(crate) fn concerning<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    resource: ResourceId,
    subject: &Subject,
) -> impl Iterator<Item = &'a Policy> {
    let policies = policies.into_iter();
    policies
        .filter(move |policy| policy.resource == resource && subject.groups.contains(&policy.group))
}

/// The end of what the policy allows (none: for ever), or what stands against it.
pub(crate) fn outcome(
    policy: &Policy,
    subject: &Subject,
    now: UnixTime,
) -> Result<Option<UnixTime>, Vec<Unmet>> {
    let disabled = policy.disabled.then_some(Unmet::Disabled);
    let mut unmet = Vec::from_iter(disabled);
    let mut until = None;
    for condition in policy.conditions.iter() {
        match hold(condition, subject, now) {
            Ok(end) => until = earlier(until, end),
            Err(reason) => unmet.push(reason),
        }
    }
    if unmet.is_empty() {
        Ok(until)
    } else {
        Err(unmet)
    }
}

/// The end of the time for which the condition holds (none: for ever), or that it does not.
fn hold(
    condition: &Condition,
    subject: &Subject,
    now: UnixTime,
) -> Result<Option<UnixTime>, Unmet> {
    match condition {
        Condition::Time(windows) => {
            let change = windows_change(windows, now);
            match windows.iter().any(|window| window.holds(now)) {
                true => Ok(change),
                false => Err(Unmet::Time {
                    windows: windows.clone(),
                    opens: change,
                }),
            }
        }
        Condition::Expires { at } => match now < *at {
            true => Ok(Some(*at)),
            false => Err(Unmet::Expired { at: *at }),
        },
        Condition::PublicAddress(prefixes) => {
            // A listener for both families sees IPv4 clients at ::ffff:a.b.c.d.
            let seen = subject.public_address.map(|address| address.to_canonical());
            let holds = |address| prefixes.iter().any(|prefix| prefix.contains(address));
            match seen.is_some_and(holds) {
                true => Ok(None),
                false => Err(Unmet::PublicAddress { seen }),
            }
        }
        Condition::Country(countries) => {
            let seen = subject.country;
            match seen.is_some_and(|country| countries.contains(&country)) {
                true => Ok(None),
                false => Err(Unmet::Country { seen }),
            }
        }
        Condition::Verified => match subject.verified {
            true => Ok(None),
            false => Err(Unmet::Verified),
        },
    }
}

/// Whether what time does not change stands in the policy's way.
fn may_ever_hold(policy: &Policy, subject: &Subject, now: UnixTime) -> bool {
    policy.conditions.iter().all(|condition| match condition {
        Condition::Time(_) => true,
        Condition::Expires { .. }
        | Condition::PublicAddress(_)
        | Condition::Country(_)
        | Condition::Verified => hold(condition, subject, now).is_ok(),
    })
}

/// The next instant at which "now is in one of the windows" changes.
fn windows_change(windows: &[TimeWindow], now: UnixTime) -> Option<UnixTime> {
    let is_open = |at| windows.iter().any(|window| window.holds(at));
    let was_open = is_open(now);
    let mut at = now;
    for _ in 0..MAX_ADJACENT_WINDOWS {
        let changes = windows.iter().filter_map(|window| window.next_change(at));
        at = changes.min()?;
        if is_open(at) != was_open {
            break;
        }
    }
    Some(at)
}

/// Of two that allow the one that allows longer; of two alike the older.
fn longer(
    best: Option<(PolicyId, Option<UnixTime>)>,
    other: (PolicyId, Option<UnixTime>),
) -> (PolicyId, Option<UnixTime>) {
    // For ever is longest.
    let key = |(id, until): (PolicyId, Option<UnixTime>)| {
        (std::cmp::Reverse(until.unwrap_or(UnixTime::MAX)), id)
    };
    best.filter(|best| key(*best) < key(other)).unwrap_or(other)
}

fn earlier(one: Option<UnixTime>, other: Option<UnixTime>) -> Option<UnixTime> {
    [one, other].into_iter().flatten().min()
}
