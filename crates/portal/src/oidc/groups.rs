//! The groups that a provider says somebody is in: all of them, or the reason why they are not known.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Values of the groups' claim. A token of 256 KiB, the largest answer, has room for about as many.
const MAX_GROUPS: usize = 5_000;

/// The remedy where there are too many.
const FEWER: &str = "Nobody's groups were changed. An administrator has the provider send only groups assigned to the \
    application, or names a claim that lists them (docs/sign-in.md, Too many groups).";

/// The groups of somebody at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// All values of the claim.
    Listed(BTreeSet<String>),
    /// There are some that the provider does not send, and why.
    Withheld(String),
    /// The provider could not be asked, and why.
    Unknown(String),
}

/// What one answer of a provider says of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Listed(BTreeSet<String>),
    Withheld(String),
    Absent,
}

/// Reads the claim of that name.
pub(super) fn read(all: &Map<String, Value>, name: &str) -> Reading {
    if let Some(marker) = reference(all, name) {
        return Reading::Withheld(format!(
            "it refers to another place for them ({marker}), as Entra ID does for people in more than 200 groups. {FEWER}"
        ));
    }
    let Some(claim) = all.get(name) else {
        return Reading::Absent;
    };
    let values = values(claim);
    match values.len() {
        0..=MAX_GROUPS => Reading::Listed(values),
        count => Reading::Withheld(format!(
            "its claim has {count} values, and at most {MAX_GROUPS} are read. {FEWER}"
        )),
    }
}

/// What says that the claim is elsewhere: distributed and aggregated claims (OpenID Connect Core 1.0 §5.6.2), and what
/// Entra ID has made of them.
fn reference(all: &Map<String, Value>, name: &str) -> Option<&'static str> {
    let member = |of: &str, name: &str| all.get(of).is_some_and(|of| of.get(name).is_some());
    let roots = [name];
    if roots.iter().any(|root| member("_claim_names", root)) {
        return Some("_claim_names");
    }
    // "groups": "src1", beside "_claim_sources": {"src1": …}
    if roots.iter().any(|root| {
        let source = all.get(*root).and_then(Value::as_str);
        source.is_some_and(|source| member("_claim_sources", source))
    }) {
        return Some("_claim_sources");
    }
    let is_source = |claim: &String| {
        let root = claim.split_once(":src").map(|(root, _)| root);
        root.is_some_and(|root| roots.contains(&root))
    };
    // A claim may be called so: then it is the wanted one.
    if all.keys().any(|claim| claim != name && is_source(claim)) {
        return Some("groups:src1");
    }
    let has_groups = all.get("hasgroups").is_some_and(|has| match has {
        Value::Bool(has) => *has,
        Value::String(has) => has.eq_ignore_ascii_case("true"),
        _ => false,
    });
    let lists = || all.get(name).is_some_and(|claim| !values(claim).is_empty());
    let is_groups = name == "groups";
    (has_groups && is_groups && !lists()).then_some("hasgroups")
}

/// One value, or several; whatever is no text names no group.
fn values(claim: &Value) -> BTreeSet<String> {
    match claim {
        Value::String(one) => [one.clone()].into(),
        Value::Array(all) => {
            let texts = all.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => BTreeSet::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_list_is_read_whole_or_not_at_all() {
        let many = |count: usize| {
            let values: Vec<_> = (0..count).map(|number| format!("g{number}")).collect();
            map(&json!({"groups": values}))
        };
        let Reading::Listed(all) = read(&many(MAX_GROUPS), "groups") else {
            panic!("as many as are read");
        };
        assert_eq!(all.len(), MAX_GROUPS);
        let Reading::Withheld(why) = read(&many(MAX_GROUPS + 1), "groups") else {
            panic!("one more");
        };
        assert!(why.contains("5001") && why.contains("5000"), "{why}");
    }

    #[test]
    fn only_a_reference_to_the_wanted_claim_withholds_it() {
        for (name, claims, is_withheld) in [
            ("groups", json!({"_claim_names": {"groups": "src1"}}), true),
            (
                "groups",
                json!({"groups": [], "_claim_names": {"groups": "src1"}}),
                true,
            ),
            (
                "groups",
                json!({"_claim_names": {"address": "src1"}}),
                false,
            ),
            ("roles", json!({"_claim_names": {"groups": "src1"}}), false),
            (
                "groups",
                json!({"groups": "src1", "_claim_sources": {"src1": {}}}),
                true,
            ),
            ("groups", json!({"groups": "src1"}), false),
            (
                "groups",
                json!({"groups:src1": "https://graph.example"}),
                true,
            ),
            ("groups:src1", json!({"groups:src1": ["a"]}), false),
            (
                "roles",
                json!({"groups:src1": "https://graph.example"}),
                false,
            ),
            ("groups", json!({"hasgroups": true}), true),
            ("groups", json!({"hasgroups": "True", "groups": []}), true),
            ("groups", json!({"hasgroups": true, "groups": ["a"]}), false),
            ("groups", json!({"hasgroups": false}), false),
            ("roles", json!({"hasgroups": true, "roles": []}), false),
        ] {
            let reading = read(&map(&claims), name);
            let found = matches!(reading, Reading::Withheld(_));
            assert_eq!(found, is_withheld, "{name} in {claims}: {reading:?}");
        }
    }
}
