//! Names for denials that an earlier portal logged with ids.
//!
//! Such a reason is `denied`, and then a line for each policy: `pol_… of grp_…: why`. No reason of today
//! begins like that, so that an id in somebody's name is never taken for one.

use super::{Caller, Service};
use culvert_base::quoted;
use culvert_ids::{GroupId, PolicyId};
use culvert_portal_base::Fault;
use culvert_store::{EntityId, MAX_BATCH};
use culvert_wire::api::AccessLogEntry;
use std::collections::{BTreeMap, BTreeSet};

/// The first line of a reason with ids.
const HEAD: &str = "denied\n";

impl Service {
    /// Gives the entries' reasons the names that are still known. It asks only if a reason has ids.
    pub(super) async fn name_denials(
        &self,
        caller: &Caller,
        entries: &mut [AccessLogEntry],
    ) -> Result<(), Fault> {
        let reasons = entries.iter_mut().map(|entry| &mut entry.reason);
        self.name_reasons(caller, reasons.collect()).await
    }

    /// The same of reasons alone.
    pub(super) async fn name_reasons(
        &self,
        caller: &Caller,
        reasons: Vec<&mut String>,
    ) -> Result<(), Fault> {
        let wanted = ids(reasons.iter().map(|reason| reason.as_str()));
        let names = self.names_of(caller, wanted).await?;
        for reason in reasons {
            *reason = named(std::mem::take(reason), &names);
        }
        Ok(())
    }
}

/// The policies and groups whose names the reasons lack, at most as many as one question may have.
fn ids<'a>(reasons: impl IntoIterator<Item = &'a str>) -> BTreeSet<EntityId> {
    let lines = reasons
        .into_iter()
        .filter_map(|reason| reason.strip_prefix(HEAD));
    let ids = lines
        .flat_map(str::lines)
        .filter_map(Line::parse)
        .flat_map(|line| [EntityId::from(line.policy), line.group.into()]);
    let mut found = BTreeSet::new();
    for id in ids {
        if found.len() == MAX_BATCH {
            break;
        }
        found.insert(id);
    }
    found
}

/// The reason with the names that are known, in the form of today.
fn named(reason: String, names: &BTreeMap<EntityId, String>) -> String {
    let Some(lines) = reason.strip_prefix(HEAD) else {
        return reason;
    };
    let lines = lines.lines().map(|line| match Line::parse(line) {
        Some(line) => line.with(names),
        None => line.to_owned(),
    });
    format!("denied: {}", lines.collect::<Vec<_>>().join("; "))
}

/// The outcome of one policy.
struct Line<'a> {
    policy: PolicyId,
    group: GroupId,
    why: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (policy, rest) = line.split_once(" of ")?;
        let (group, why) = rest.split_once(": ")?;
        Some(Self {
            policy: policy.parse().ok()?,
            group: group.parse().ok()?,
            why,
        })
    }

    fn with(&self, names: &BTreeMap<EntityId, String>) -> String {
        let named = |kind: &str, id: EntityId| match names.get(&id) {
            Some(name) => format!("{kind} {}", quoted(name)),
            None => id.to_string(),
        };
        let policy = named("policy", self.policy.into());
        let group = named("group", self.group.into());
        format!("{policy} of {group}: {}", self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "pol_01jd7m2v9q8k4x0c5t3w6y1z2a";
    const GROUP: &str = "grp_01jd7m2v9q8k4x0c5t3w6y1z2b";
    const GONE: &str = "pol_01jd7m2v9q8k4x0c5t3w6y1z2c";

    fn names() -> BTreeMap<EntityId, String> {
        let policy = POLICY.parse::<PolicyId>().unwrap();
        let group = GROUP.parse::<GroupId>().unwrap();
        BTreeMap::from([
            (policy.into(), "office".to_owned()),
            (group.into(), "staff".to_owned()),
        ])
    }

    #[test]
    fn a_denial_with_ids_is_shown_with_the_names_that_are_known() {
        let old = format!(
            "denied\n{POLICY} of {GROUP}: the client is not verified; it is late\n\
             {GONE} of {GROUP}: the policy expired\npolicies of groups without the client: 1"
        );
        assert_eq!(ids([old.as_str(), old.as_str()]).len(), 3);
        assert_eq!(
            named(old, &names()),
            format!(
                "denied: policy \"office\" of group \"staff\": the client is not verified; it is late; \
                 {GONE} of group \"staff\": the policy expired; policies of groups without the client: 1"
            )
        );
    }

    #[test]
    fn a_character_that_nobody_sees_in_a_name_is_shown() {
        let policy = POLICY.parse::<PolicyId>().unwrap();
        let names = BTreeMap::from([(policy.into(), "off\u{202e}ice".to_owned())]);
        assert_eq!(
            named(format!("denied\n{POLICY} of {GROUP}: late"), &names),
            format!("denied: policy \"off<U+202E>ice\" of {GROUP}: late")
        );
    }

    #[test]
    fn every_other_reason_stays_as_it_is() {
        for reason in [
            "",
            "denied",
            "the client is revoked",
            "denied: policy \"office\" of group \"staff\": the client is not verified",
            "denied: policy \"pol_01jd7m2v9q8k4x0c5t3w6y1z2a of grp_01jd7m2v9q8k4x0c5t3w6y1z2b: \" of group \"x\": late",
        ] {
            assert!(ids([reason]).is_empty(), "{reason}");
            assert_eq!(named(reason.to_owned(), &names()), reason);
        }
        // It was cut off at the most bytes of a reason.
        let cut = format!("denied\n{POLICY} of grp_01jd");
        assert_eq!(
            named(cut, &names()),
            format!("denied: {POLICY} of grp_01jd")
        );
    }
}
