//! Whether a client may use a resource now: the portal's decision.

use crate::conditions::{Conditions, Subject, Unmet};
use culvert_ids::{GroupId, PolicyId, ResourceId};

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

/// Whether a client may use a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Allow {
        /// The policy that allows longest; of several, the oldest.
        policy: PolicyId,
        /// When that policy stops to allow, in Unix milliseconds; none if time does not end it.
        until_ms: Option<u64>,
    },
    /// It may not.
    Deny {
        /// What stands against each policy that joins one of its groups with the resource; empty
        /// where there is none.
        reasons: Vec<Refusal>,
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
pub struct Refusal {
    /// The policy.
    pub policy: PolicyId,
    /// Its group, of which the client is a member.
    pub group: GroupId,
    /// What stands against it: at least one thing.
    pub unmet: Vec<Unmet>,
}

/// Whether the subject may use the resource at `now_ms`, in Unix milliseconds. Policies of other
/// resources and other groups do not count: any that counts and allows is enough.
pub fn evaluate<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    resource: ResourceId,
    subject: &Subject,
    now_ms: u64,
) -> Decision {
    let mut best: Option<(PolicyId, Option<u64>)> = None;
    let mut reasons = Vec::new();
    for policy in concerning(policies, resource, subject) {
        match outcome(policy, subject, now_ms) {
            Ok(until_ms) => best = Some(longer(best, (policy.id, until_ms))),
            Err(unmet) => reasons.push(Refusal {
                policy: policy.id,
                group: policy.group,
                unmet,
            }),
        }
    }
    match best {
        Some((policy, until_ms)) => Decision::Allow { policy, until_ms },
        None => Decision::Deny { reasons },
    }
}

/// The next instant, in Unix milliseconds, at which [`evaluate`] may decide differently though
/// nothing but the time has changed: a window opens or closes, or a policy expires. Until then it
/// does not. None where time alone changes nothing.
pub fn next_change_ms<'a>(
    policies: impl IntoIterator<Item = &'a Policy>,
    resource: ResourceId,
    subject: &Subject,
    now_ms: u64,
) -> Option<u64> {
    concerning(policies, resource, subject)
        .filter(|policy| !policy.disabled && may_ever_hold(policy, subject, now_ms))
        .flat_map(|policy| policy.conditions.iter())
        .filter_map(|condition| condition.next_change_ms(now_ms))
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

/// Until when the policy allows, in Unix milliseconds (none: for ever), or what stands against it.
pub(crate) fn outcome(
    policy: &Policy,
    subject: &Subject,
    now_ms: u64,
) -> Result<Option<u64>, Vec<Unmet>> {
    let disabled = policy.disabled.then_some(Unmet::Disabled);
    let mut unmet = Vec::from_iter(disabled);
    let mut until_ms = None;
    for condition in policy.conditions.iter() {
        match condition.hold(subject, now_ms) {
            Ok(end_ms) => until_ms = earlier(until_ms, end_ms),
            Err(reason) => unmet.push(reason),
        }
    }
    if unmet.is_empty() {
        Ok(until_ms)
    } else {
        Err(unmet)
    }
}

/// Whether what time does not change stands in the policy's way.
fn may_ever_hold(policy: &Policy, subject: &Subject, now_ms: u64) -> bool {
    let mut conditions = policy.conditions.iter();
    conditions.all(|condition| condition.may_ever_hold(subject, now_ms))
}

/// Of two that allow the one that allows longer; of two alike the older.
fn longer(
    best: Option<(PolicyId, Option<u64>)>,
    other: (PolicyId, Option<u64>),
) -> (PolicyId, Option<u64>) {
    // For ever is longest.
    let key = |(id, until_ms): (PolicyId, Option<u64>)| {
        (std::cmp::Reverse(until_ms.unwrap_or(u64::MAX)), id)
    };
    best.filter(|best| key(*best) < key(other)).unwrap_or(other)
}

fn earlier(a_ms: Option<u64>, b_ms: Option<u64>) -> Option<u64> {
    [a_ms, b_ms].into_iter().flatten().min()
}
