//! The difference between two states of a row, field by field.

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Fields of every row that its entry tells already, and its version.
const ASIDE: [&str; 4] = ["id", "version", "created", "updated"];

/// Fields whose value people read as one, though it is an object.
const WHOLE: [&str; 1] = ["applications"];

/// The name of an element that is told apart by its name.
const NAME: &str = "name";

type Fields = Map<String, Value>;

/// A field that is not as it was.
#[derive(Debug, PartialEq)]
pub(super) struct Difference<'v> {
    /// The names of the objects around the field, and its own at the end. An element of a list stands there with its
    /// name, if all elements have names.
    pub(super) path: Vec<&'v str>,
    pub(super) change: Change<'v>,
}

/// The change of a field.
#[derive(Debug, PartialEq)]
pub(super) enum Change<'v> {
    /// Another value. There is none in place of `null`.
    Value {
        before: Option<&'v Value>,
        after: Option<&'v Value>,
    },
    /// A list with other elements.
    List {
        removed: Vec<&'v Value>,
        added: Vec<&'v Value>,
    },
    /// A list with the same elements in another order.
    Order,
}

/// The fields that differ; all, of a row that is new or gone.
pub(super) fn differences<'v>(
    before: Option<&'v Value>,
    after: Option<&'v Value>,
) -> Vec<Difference<'v>> {
    let mut comparison = Comparison::default();
    comparison.compare(States { before, after });
    comparison.found
}

/// A value before and after.
#[derive(Clone, Copy, PartialEq)]
struct States<T> {
    before: Option<T>,
    after: Option<T>,
}

impl<T> States<T> {
    /// The same as another type, if each value that is there is of it.
    fn all<U>(self, read: impl Fn(T) -> Option<U>) -> Option<States<U>> {
        let read = |value: Option<T>| match value {
            Some(value) => read(value).map(Some),
            None => Some(None),
        };
        Some(States {
            before: read(self.before)?,
            after: read(self.after)?,
        })
    }

    fn map<U>(self, read: impl Fn(T) -> Option<U>) -> States<U> {
        States {
            before: self.before.and_then(&read),
            after: self.after.and_then(&read),
        }
    }
}

#[derive(Default)]
struct Comparison<'v> {
    path: Vec<&'v str>,
    found: Vec<Difference<'v>>,
}

impl<'v> Comparison<'v> {
    fn compare(&mut self, states: States<&'v Value>) {
        let states = states.map(|value| (!value.is_null()).then_some(value));
        if states.before == states.after {
            return;
        }
        let is_whole = self.path.last().is_some_and(|name| WHOLE.contains(name));
        if let Some(fields) = states.all(Value::as_object).filter(|_| !is_whole) {
            return self.fields(fields, if self.path.is_empty() { &ASIDE } else { &[] });
        }
        let lists = states.all(|value| value.as_array().map(Vec::as_slice));
        let elements = lists.and_then(|lists| lists.all(by_name));
        let is_empty = |of: &Option<Named<'v>>| of.as_ref().is_none_or(BTreeMap::is_empty);
        if let Some(elements) = elements
            && !(is_empty(&elements.before) && is_empty(&elements.after))
        {
            return self.elements(&elements);
        }
        self.note(match lists {
            Some(States {
                before: Some(before),
                after: Some(after),
            }) => in_lists(before, after),
            _ => Change::Value {
                before: states.before,
                after: states.after,
            },
        });
    }

    fn note(&mut self, change: Change<'v>) {
        let path = self.path.clone();
        self.found.push(Difference { path, change });
    }

    /// The fields of an object, but for those that are left aside.
    fn fields(&mut self, states: States<&'v Fields>, aside: &[&str]) {
        let fields = states.before.into_iter().chain(states.after);
        let names: BTreeSet<&str> = fields.flat_map(Map::keys).map(String::as_str).collect();
        for name in names {
            if !aside.contains(&name) {
                self.path.push(name);
                self.compare(states.map(|fields| fields.get(name)));
                self.path.pop();
            }
        }
    }

    /// Elements that are told apart by their names.
    fn elements(&mut self, states: &States<Named<'v>>) {
        let known = self.found.len();
        let elements = states.before.iter().chain(&states.after);
        let names: BTreeSet<&str> = elements.flat_map(BTreeMap::keys).copied().collect();
        for name in names {
            self.path.push(name);
            let of = |elements: &Option<Named<'v>>| elements.as_ref()?.get(name).copied();
            let fields = States {
                before: of(&states.before),
                after: of(&states.after),
            };
            self.fields(fields, &[NAME]);
            self.path.pop();
        }
        if self.found.len() == known {
            self.note(Change::Order);
        }
    }
}

/// The elements of a list, under their names.
type Named<'v> = BTreeMap<&'v str, &'v Fields>;

/// The elements under their names, if each has one of its own.
fn by_name(list: &[Value]) -> Option<Named<'_>> {
    let named = list.iter().map(|element| {
        let fields = element.as_object()?;
        Some((fields.get(NAME)?.as_str()?, fields))
    });
    let named: Named<'_> = named.collect::<Option<_>>()?;
    (named.len() == list.len()).then_some(named)
}

fn in_lists<'v>(before: &'v [Value], after: &'v [Value]) -> Change<'v> {
    let (removed, added) = (without(before, after), without(after, before));
    match removed.is_empty() && added.is_empty() {
        true => Change::Order,
        false => Change::List { removed, added },
    }
}

/// The elements that the other list has not, or not as often.
fn without<'v>(list: &'v [Value], other: &[Value]) -> Vec<&'v Value> {
    let mut others = BTreeMap::<String, usize>::new();
    for element in other {
        *others.entry(element.to_string()).or_default() += 1;
    }
    let is_left = |element: &&Value| match others.get_mut(&element.to_string()) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        Some(_) | None => true,
    };
    list.iter().filter(is_left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The paths with what changed there, as texts.
    fn texts(before: &Value, after: &Value) -> Vec<String> {
        let all = differences(Some(before), Some(after)).into_iter();
        let text = |value: Option<&Value>| value.map_or_else(|| "-".to_owned(), Value::to_string);
        let each = |values: &[&Value]| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            values.join(" ")
        };
        all.map(|Difference { path, change }| {
            let path = path.join("/");
            match change {
                Change::Value { before, after } => {
                    format!("{path}: {} > {}", text(before), text(after))
                }
                Change::List { removed, added } => {
                    format!("{path}: less {} more {}", each(&removed), each(&added))
                }
                Change::Order => format!("{path}: order"),
            }
        })
        .collect()
    }

    #[test]
    fn only_fields_that_differ_are_told_however_deep() {
        let before = json!({
            "id": "x", "version": 1, "name": "a", "disabled": false,
            "settings": {"dns": {"search": []}, "logs": {"access": {"days": 92, "entries": 7}}},
        });
        let after = json!({
            "id": "x", "version": 2, "name": "a", "disabled": true,
            "settings": {"dns": {"search": []}, "logs": {"access": {"days": 30, "entries": 7}}},
        });
        assert_eq!(
            texts(&before, &after),
            [
                "disabled: false > true",
                "settings/logs/access/days: 92 > 30"
            ]
        );
        assert_eq!(texts(&before, &before), Vec::<String>::new());
    }

    #[test]
    fn a_row_that_is_new_or_gone_is_told_with_all_its_fields() {
        let row = json!({"id": "x", "name": "a", "used": null, "target": {"kind": "dns", "address": "b"}});
        let fields = |before, after| -> Vec<String> {
            let all = differences(before, after).into_iter();
            all.map(|difference| difference.path.join("/")).collect()
        };
        let wanted = ["name", "target/address", "target/kind"];
        assert_eq!(fields(None, Some(&row)), wanted);
        assert_eq!(fields(Some(&row), None), wanted);
        assert!(fields(None, None).is_empty());
    }

    #[test]
    fn nothing_and_null_are_the_same() {
        assert!(texts(&json!({"a": null}), &json!({})).is_empty());
        assert_eq!(texts(&json!({"a": null}), &json!({"a": 1})), ["a: - > 1"]);
        assert_eq!(
            texts(&json!({"a": {"at": 1, "by": "x"}}), &json!({"a": null})),
            ["a/at: 1 > -", "a/by: \"x\" > -"]
        );
    }

    #[test]
    fn of_a_list_only_what_was_added_and_removed_is_told() {
        let list = |of: &[u32]| json!({ "ports": of });
        assert_eq!(
            texts(&list(&[1, 2, 2, 3]), &list(&[4, 3, 2])),
            ["ports: less 1 2 more 4"]
        );
        assert_eq!(texts(&list(&[1, 2]), &list(&[2, 1])), ["ports: order"]);
        assert_eq!(texts(&list(&[]), &list(&[1])), ["ports: less  more 1"]);
        assert_eq!(texts(&json!({}), &list(&[])), ["ports: - > []"]);
    }

    #[test]
    fn elements_with_names_are_compared_one_by_one() {
        let sink = |name: &str, paused: bool| json!({"name": name, "paused": paused});
        let sinks = |of: &[Value]| json!({ "sinks": of });
        assert_eq!(
            texts(
                &sinks(&[sink("a", false), sink("b", false)]),
                &sinks(&[sink("b", true), sink("c", false)])
            ),
            [
                "sinks/a/paused: false > -",
                "sinks/b/paused: false > true",
                "sinks/c/paused: - > false"
            ]
        );
        assert_eq!(
            texts(&sinks(&[]), &sinks(&[sink("a", false)])),
            ["sinks/a/paused: - > false"]
        );
        let (a, b) = (sink("a", false), sink("b", false));
        assert_eq!(
            texts(&sinks(&[a.clone(), b.clone()]), &sinks(&[b, a.clone()])),
            ["sinks: order"]
        );
        // Two of a name can't be told apart by it.
        assert_eq!(
            texts(
                &sinks(std::slice::from_ref(&a)),
                &sinks(&[a.clone(), a.clone()])
            ),
            [format!("sinks: less  more {a}")]
        );
    }

    #[test]
    fn a_rule_about_programs_is_one_value() {
        let rule = |of: Value| json!({ "applications": of });
        let (any, only) = (json!("any"), json!({"only": ["backup"]}));
        assert_eq!(
            texts(&rule(any), &rule(only)),
            ["applications: \"any\" > {\"only\":[\"backup\"]}"]
        );
    }
}
