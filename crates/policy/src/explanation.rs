//! The reasons of a decision: in full for administrators, in brief for clients.

use crate::access::{concerning, outcome};
use crate::conditions::{Subject, Unmet};
use crate::{Decision, Policy, evaluate};
use culvert_base::{UnixTime, quoted};
use culvert_ids::{GroupId, PolicyId, ResourceId};
use serde::{Serialize, Serializer};
use std::fmt;

/// A decision and what every policy that concerns it comes to. Its text and its serialised form
/// name policies and groups: they are for administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    decision: Decision,
    policies: Vec<PolicyOutcome>,
    other_groups: usize,
}

/// The names that people gave to policies and groups.
pub trait PolicyNames {
    /// The name of the policy; none if it is unknown.
    fn policy(&self, id: PolicyId) -> Option<&str>;
    /// The name of the group; none if it is unknown.
    fn group(&self, id: GroupId) -> Option<&str>;
}

/// The outcome of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyOutcome {
    /// The policy.
    pub policy: PolicyId,
    /// Its group.
    pub group: GroupId,
    /// The instant until which it allows (none: until something else changes), or the conditions
    /// that are not met.
    pub outcome: Result<Option<UnixTime>, Vec<Unmet>>,
}

impl Explanation {
    /// The decision of [`evaluate`] about the same things, with its reasons.
    #[must_use]
    pub fn new(
        policies: &[Policy],
        resource: ResourceId,
        subject: &Subject,
        now: UnixTime,
    ) -> Self {
        let concerned = concerning(policies, resource, subject).map(|policy| PolicyOutcome {
            policy: policy.id,
            group: policy.group,
            outcome: outcome(policy, subject, now),
        });
        let concerned: Vec<_> = concerned.collect();
        let of_resource = policies.iter().filter(|policy| policy.resource == resource);
        Self {
            decision: evaluate(policies, resource, subject, now),
            other_groups: of_resource.count() - concerned.len(),
            policies: concerned,
        }
    }

    /// The decision.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The outcome of each policy that joins a group of the client with the resource.
    #[must_use]
    pub fn policies(&self) -> &[PolicyOutcome] {
        &self.policies
    }

    /// The part that the client may know.
    #[must_use]
    pub fn brief(&self) -> Brief {
        self.decision.brief()
    }

    /// The decision and its reasons in one line, for administrators.
    pub fn in_words<'a, N: PolicyNames>(&'a self, names: &'a N) -> impl fmt::Display + use<'a, N> {
        InWords {
            explanation: self,
            names,
        }
    }
}

impl Decision {
    /// The part that the client may know. It names neither policies nor groups, nor anything that
    /// would have been allowed instead. A resource without policies looks the same as one that does
    /// not exist.
    #[must_use]
    pub fn brief(&self) -> Brief {
        let Self::Deny { reasons } = self else {
            return Brief {
                code: BriefCode::Allowed,
                text: "allowed".to_owned(),
            };
        };
        // The policy that is nearest to allowing: what to do about it is the best advice.
        let enabled = reasons
            .iter()
            .filter(|refusal| !refusal.unmet.contains(&Unmet::Disabled));
        let Some(nearest) = enabled.min_by_key(|refusal| refusal.unmet.len()) else {
            return Brief {
                code: BriefCode::NoAccess,
                text: "no policy gives access".to_owned(),
            };
        };
        let advice = nearest.unmet.iter().map(Unmet::advice);
        Brief {
            code: BriefCode::ConditionNotMet,
            text: advice.collect::<Vec<_>>().join("; "),
        }
    }
}

/// A decision as the client may know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Brief {
    /// For programs.
    pub code: BriefCode,
    /// For people: one line.
    pub text: String,
}

/// The codes of a brief explanation, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BriefCode {
    /// Access is allowed.
    Allowed,
    /// There is no such resource, or none for this client.
    NoAccess,
    /// A condition does not hold now.
    ConditionNotMet,
}

struct InWords<'a, N> {
    explanation: &'a Explanation,
    names: &'a N,
}

impl<N: PolicyNames> InWords<'_, N> {
    fn policy(&self, id: PolicyId) -> Named<'_, PolicyId> {
        let name = self.names.policy(id);
        Named("policy", name, id)
    }

    fn group(&self, id: GroupId) -> Named<'_, GroupId> {
        let name = self.names.group(id);
        Named("group", name, id)
    }
}

impl<N: PolicyNames> fmt::Display for InWords<'_, N> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies = &self.explanation.policies;
        let mut separator = match &self.explanation.decision {
            Decision::Allow { policy, until } => {
                write!(out, "allowed by {}{}", self.policy(*policy), Until(*until))?;
                "; "
            }
            Decision::Deny { .. } if policies.is_empty() => {
                out.write_str("denied: no policy joins a group of the client with the resource")?;
                "; "
            }
            Decision::Deny { .. } => {
                out.write_str("denied")?;
                ": "
            }
        };
        for one in policies {
            let (policy, group) = (self.policy(one.policy), self.group(one.group));
            write!(out, "{separator}{policy} of {group}: ")?;
            separator = "; ";
            match &one.outcome {
                Ok(until) => write!(out, "allows{}", Until(*until))?,
                Err(unmet) => out.write_str(&texts(unmet).join("; "))?,
            }
        }
        match self.explanation.other_groups {
            0 => Ok(()),
            count => write!(
                out,
                "{separator}policies of groups without the client: {count}"
            ),
        }
    }
}

/// `policy "office"`; the id of what has no name.
struct Named<'a, I>(&'static str, Option<&'a str>, I);

impl<I: fmt::Display> fmt::Display for Named<'_, I> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(kind, name, id) = self;
        match name {
            Some(name) => write!(out, "{kind} {}", quoted(name)),
            None => id.fmt(out),
        }
    }
}

impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let (policy, until) = match self.decision {
            Decision::Allow { policy, until } => (Some(policy), until),
            Decision::Deny { .. } => (None, None),
        };
        Form {
            verdict: verdict(self.decision.is_allow()),
            policy,
            until_ms: until.map(UnixTime::as_millis),
            policies: self.policies.iter().map(PolicyForm::from).collect(),
            policies_of_other_groups: self.other_groups,
        }
        .serialize(out)
    }
}

#[derive(Serialize)]
struct Form {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<PolicyId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    policies: Vec<PolicyForm>,
    policies_of_other_groups: usize,
}

#[derive(Serialize)]
struct PolicyForm {
    policy: PolicyId,
    group: GroupId,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<u64>,
    reasons: Vec<String>,
}

impl From<&PolicyOutcome> for PolicyForm {
    fn from(outcome: &PolicyOutcome) -> Self {
        let unmet = outcome.outcome.as_ref().err();
        Self {
            policy: outcome.policy,
            group: outcome.group,
            verdict: verdict(outcome.outcome.is_ok()),
            until_ms: outcome.until().map(UnixTime::as_millis),
            reasons: unmet.map(|unmet| texts(unmet)).unwrap_or_default(),
        }
    }
}

impl PolicyOutcome {
    fn until(&self) -> Option<UnixTime> {
        self.outcome.as_ref().ok().copied().flatten()
    }
}

fn verdict(is_allow: bool) -> &'static str {
    if is_allow { "allow" } else { "deny" }
}

fn texts(unmet: &[Unmet]) -> Vec<String> {
    unmet.iter().map(ToString::to_string).collect()
}

/// ` until …`, or nothing.
struct Until(Option<UnixTime>);

impl fmt::Display for Until {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.and_then(crate::time::shown) {
            Some(until) => write!(out, " until {until}"),
            None => Ok(()),
        }
    }
}
