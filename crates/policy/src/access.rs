//! The portal's decision: may a client use a resource now?

use crate::conditions::{Conditions, Subject, Unmet};
use culvert_base::UnixTime;
use culvert_ids::{GroupId, PolicyId, ResourceId};

/// A group may use a resource, under conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its id.
    pub id: PolicyId,
    /// The group whose members may use it.
    pub group: GroupId,
    /// The resource that they may use.
    pub resource: ResourceId,
    /// A disabled policy allows nothing.
    pub disabled: bool,
    /// All of them must hold.
    pub conditions: Conditions,
}

/// The decision about a client's use of a resource.
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
        /// The refusals of the policies that join one of its groups with the resource, one for
        /// each; empty if there is no such policy.
        reasons: Vec<PolicyRefusal>,
    },
}

impl Decision {
    /// True for [`Self::Allow`].
    #[must_use]
    pub const fn is_allow(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

/// The reasons for which a policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyRefusal {
    /// The policy.
    pub policy: PolicyId,
    /// Its group, of which the client is a member.
    pub group: GroupId,
    /// The conditions that are not met: at least one.
    pub unmet: Vec<Unmet>,
}

/// Decides on the use of the resource by the subject now. Policies of other
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
        .filter_map(|condition| condition.next_change(now))
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
        match condition.hold(subject, now) {
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

/// True if every condition that time alone does not change is met.
fn may_ever_hold(policy: &Policy, subject: &Subject, now: UnixTime) -> bool {
    let mut conditions = policy.conditions.iter();
    conditions.all(|condition| condition.may_ever_hold(subject, now))
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
