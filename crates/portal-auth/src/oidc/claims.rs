//! Finds a claim among those that a provider sent, and lists the names of all.

use super::fault::copyable;
use serde_json::{Map, Value};

/// Names of claims that a log line has room for.
const MAX_NAMES: usize = 64;

/// The depth to which names are listed: `resource_access.CLIENT.roles`.
const MAX_DEPTH: usize = 3;

/// The claim of that name. A claim that is called just so comes first, even with dots or slashes in its name. Otherwise
/// `/a/b` is a JSON pointer (RFC 6901) and `a.b` a path, in which names may have dots too. `null` is no claim.
pub(super) fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let found = claims
        .get(name)
        .or_else(|| by_pointer(claims, name))
        .or_else(|| by_path(claims, name));
    found.filter(|value| !value.is_null())
}

/// The names of top-level claims that `name` may be within.
pub(super) fn roots(name: &str) -> Vec<String> {
    let mut roots = vec![name.to_owned()];
    if let Some(first) = name
        .strip_prefix('/')
        .and_then(|rest| rest.split('/').next())
    {
        roots.push(unescaped(first));
    }
    roots.extend(name.match_indices('.').map(|(at, _)| name[..at].to_owned()));
    roots
}

/// The names of all claims, as paths, and no values.
pub(super) fn names(claims: &Map<String, Value>) -> String {
    let mut all = Vec::new();
    collect("", claims, 1, &mut all);
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

/// True if the keys of an object are the values, as ZITADEL writes roles: `{"admin": {"ORGANISATION": "DOMAIN"}}`.
pub(super) fn is_keyed(object: &Map<String, Value>) -> bool {
    let is_detail = |value: &Value| {
        let detail = value.as_object();
        detail.is_some_and(|detail| !detail.is_empty() && detail.values().all(Value::is_string))
    };
    !object.is_empty() && object.values().all(is_detail)
}

fn by_pointer<'c>(claims: &'c Map<String, Value>, pointer: &str) -> Option<&'c Value> {
    let mut tokens = pointer.strip_prefix('/')?.split('/').map(unescaped);
    let first = claims.get(&tokens.next()?)?;
    tokens.try_fold(first, |value, token| match value {
        Value::Object(members) => members.get(&token),
        Value::Array(items) => items.get(token.parse::<usize>().ok()?),
        _ => None,
    })
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Tries the longest name first at every step. Each object is entered by one name alone, so the work is bounded by the
/// size of the claims.
fn by_path<'c>(claims: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(path) {
        return Some(value);
    }
    path.rmatch_indices('.').find_map(|(at, _)| {
        let members = claims.get(&path[..at])?.as_object()?;
        by_path(members, &path[at + 1..])
    })
}

fn collect(prefix: &str, claims: &Map<String, Value>, depth: usize, all: &mut Vec<String>) {
    for (name, value) in claims {
        if all.len() >= MAX_NAMES {
            return;
        }
        let path = match prefix {
            "" => name.clone(),
            prefix => format!("{prefix}.{name}"),
        };
        match value.as_object() {
            Some(members) if depth < MAX_DEPTH && !members.is_empty() && !is_keyed(members) => {
                collect(&path, members, depth + 1, all);
            }
            _ => all.push(copyable(&path)),
        }
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
    fn a_claim_is_found_by_its_name_then_by_pointer_then_by_path() {
        let claims = map(&json!({
            "a.b": 1, "a": {"b": 2, "c.d": {"e": 3}, "x/y": 4, "list": [5, {"name": 6}], "nothing": null},
            "a.c": {"d": {"e": 7}}, "/a/b": 8, "https://app.example/roles": 9, "": {"": 10},
        }));
        for (name, found) in [
            ("a.b", Some(json!(1))),
            ("/a/b", Some(json!(8))),
            ("/a/c.d/e", Some(json!(3))),
            ("/a/x~1y", Some(json!(4))),
            ("/a/list/1/name", Some(json!(6))),
            ("a.c.d.e", Some(json!(7))),
            ("https://app.example/roles", Some(json!(9))),
            ("/", Some(json!({"": 10}))),
            ("//", Some(json!(10))),
            ("a.nothing", None),
            ("a.list.0", None),
            ("a.b.c", None),
            ("/a/list/9", None),
            ("/a/list/x", None),
            ("a.", None),
            (".", Some(json!(10))),
            ("b", None),
        ] {
            assert_eq!(find(&claims, name), found.as_ref(), "{name}");
        }
    }

    #[test]
    fn claims_that_came_are_listed_by_name_without_values_and_without_end() {
        let claims = map(&json!({
            "sub": "secret-1", "realm_access": {"roles": ["secret-2"]},
            "resource_access": {"app": {"roles": ["secret-3"]}}, "empty": {},
            "urn:zitadel:iam:org:project:roles": {"secret-4": {"secret-5": "secret-6"}},
            "deep": {"er": {"and": {"secret-7": 1}}}, "bad\n\u{202e}": 1,
        }));
        let listed = names(&claims);
        assert_eq!(
            listed,
            "bad\\u{a}\\u{202e}, deep.er.and, empty, realm_access.roles, resource_access.app.roles, sub, \
             urn:zitadel:iam:org:project:roles"
        );
        assert_eq!(names(&Map::new()), "none");
        let many: Map<_, _> = (0..5_000)
            .map(|number| (format!("{number}{}", "x".repeat(5_000)), json!(1)))
            .collect();
        assert!(names(&many).len() < 64 * 600);
    }

    #[test]
    fn a_claim_within_another_is_known_by_it() {
        assert_eq!(roots("groups"), ["groups"]);
        assert_eq!(roots("a.b.c"), ["a.b.c", "a", "a.b"]);
        assert_eq!(roots("/x~1y/z"), ["/x~1y/z", "x/y"]);
    }
}
