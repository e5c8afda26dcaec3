//! The groups that a provider says somebody is in: all of them, or the reason why they are not known.

use super::claims;
use super::fault::copyable;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Values of the groups' claim. A token of 256 KiB, the largest answer, has room for about as many.
const MAX_GROUPS: usize = 5_000;

/// The remedy where there are too many.
const FEWER: &str = "Nobody's groups were changed. An administrator has the provider send only groups assigned to the \
    application, or names a claim that lists them (docs/sign-in.md, Too many groups).";

/// The groups of somebody at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// All values of the claim.
    Listed(BTreeSet<String>),
    /// There are some that the provider does not send, and why.
    Withheld(String),
    /// The provider could not be asked, and why.
    Unknown(String),
}

/// The groups in one answer of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Listed(BTreeSet<String>),
    Withheld(String),
    /// There is no such claim.
    Absent,
}

/// Reads the claim of that name.
pub(super) fn read(all: &Map<String, Value>, name: &str) -> Reading {
    if let Some(marker) = reference(all, name) {
        return Reading::Withheld(format!(
            "it refers to another place for them ({marker}), as Entra ID does for people in more than 200 groups. {FEWER}"
        ));
    }
    let Some(claim) = claims::find(all, name) else {
        return Reading::Absent;
    };
    let Some(values) = values(claim) else {
        return Reading::Withheld(format!(
            "its claim {} came in a form that can't be read: neither a text, an object with a name, a list of such, nor \
             roles by name. {FEWER}",
            copyable(name)
        ));
    };
    match values.len() {
        0..=MAX_GROUPS => Reading::Listed(values),
        count => Reading::Withheld(format!(
            "its claim has {count} values, and at most {MAX_GROUPS} are read. {FEWER}"
        )),
    }
}

/// The claim that refers to `name` elsewhere: distributed and aggregated claims (OpenID Connect Core 1.0 §5.6.2), and
/// Entra ID's variant.
fn reference(all: &Map<String, Value>, name: &str) -> Option<&'static str> {
    let member = |of: &str, name: &str| all.get(of).is_some_and(|of| of.get(name).is_some());
    let roots = claims::roots(name);
    if roots.iter().any(|root| member("_claim_names", root)) {
        return Some("_claim_names");
    }
    // "groups": "src1", beside "_claim_sources": {"src1": …}
    if roots.iter().any(|root| {
        let source = all.get(root).and_then(Value::as_str);
        source.is_some_and(|source| member("_claim_sources", source))
    }) {
        return Some("_claim_sources");
    }
    let is_source = |claim: &String| {
        let root = claim.split_once(":src").map(|(root, _)| root);
        root.is_some_and(|root| roots.iter().any(|wanted| wanted == root))
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
    let lists = || {
        let found = claims::find(all, name).and_then(values);
        found.is_some_and(|values| !values.is_empty())
    };
    let is_groups = roots.iter().any(|root| root == "groups");
    (has_groups && is_groups && !lists()).then_some("hasgroups")
}

/// The values of a claim; `None` if one can't be read: a list that is read in part would take groups away.
fn values(claim: &Value) -> Option<BTreeSet<String>> {
    match claim {
        Value::String(_) | Value::Number(_) => value(claim).map(|one| [one].into()),
        Value::Array(all) => all.iter().map(value).collect(),
        Value::Object(object) => match value(claim) {
            Some(one) => Some([one].into()),
            None if object.is_empty() => Some(BTreeSet::new()),
            None if claims::is_keyed(object) => Some(object.keys().cloned().collect()),
            None => None,
        },
        Value::Null | Value::Bool(_) => None,
    }
}

/// One value: a text, a number, or an object with a name.
fn value(of: &Value) -> Option<String> {
    match of {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(object) => {
            let mut names = ["name", "displayName", "display"].iter();
            names.find_map(|name| object.get(*name)?.as_str().map(str::to_owned))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn listed(values: &[&str]) -> Reading {
        Reading::Listed(values.iter().map(|value| (*value).to_owned()).collect())
    }

    /// Claims as the providers' documentation shows them.
    #[test]
    fn the_groups_of_each_provider_come_out_of_its_own_shape() {
        let shapes: Vec<Value> =
            serde_json::from_str(include_str!("shapes.json")).expect("the fixtures are JSON");
        assert!(shapes.len() >= 12);
        for shape in &shapes {
            let name = &shape["provider"];
            let claims = map(&shape["claims"]);
            let claim = shape["groups_claim"].as_str().unwrap();
            let reading = read(&claims, claim);
            match &shape["groups"] {
                Value::Array(groups) => {
                    let groups: Vec<_> = groups.iter().filter_map(Value::as_str).collect();
                    assert_eq!(reading, listed(&groups), "{name}");
                }
                Value::String(withheld) if withheld == "withheld" => {
                    assert!(
                        matches!(reading, Reading::Withheld(_)),
                        "{name}: {reading:?}"
                    );
                }
                _ => assert_eq!(reading, Reading::Absent, "{name}"),
            }
        }
    }

    #[test]
    fn values_are_texts_numbers_and_names_and_others_are_no_groups() {
        for (claim, expected) in [
            (json!("staff"), listed(&["staff"])),
            (json!(["a", 7, "a"]), listed(&["7", "a"])),
            (
                json!([{"name": "a", "display": "x"}, {"value": "1", "display": "b"}, {"displayName": "c"}]),
                listed(&["a", "b", "c"]),
            ),
            (json!({"name": "a"}), listed(&["a"])),
            (
                json!({"a": {"1": "x"}, "b": {"1": "x"}}),
                listed(&["a", "b"]),
            ),
            (json!([]), listed(&[])),
            (json!({}), listed(&[])),
            (json!(null), Reading::Absent),
        ] {
            let claims = map(&json!({"groups": claim}));
            assert_eq!(read(&claims, "groups"), expected, "{claim}");
        }
        // The roles of Keycloak are below: an object of lists is not itself one of groups.
        for unreadable in [
            json!(true),
            json!({"roles": ["a"]}),
            json!({"app": {"roles": ["a"]}}),
            // A part of a list is no list.
            json!(["a", null]),
            json!(["a", true]),
            json!(["a", ["b"]]),
            json!(["a", {"id": 1}]),
        ] {
            let reading = read(&map(&json!({"groups": unreadable})), "groups");
            assert!(matches!(reading, Reading::Withheld(_)), "{unreadable}");
        }
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
            ("a.b", json!({"_claim_names": {"a": "src1"}}), true),
            ("/a/b", json!({"_claim_names": {"a": "src1"}}), true),
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
