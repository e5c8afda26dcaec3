//! Input of administrators is understood as a whole or refused. An unknown field may have been
//! meant to narrow the thing that contains it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_wire::api::{
    AccountPatch, ActorPatch, ApplyOptions, ClientPatch, Desired, GatewayPatch, GroupPatch,
    NewActor, NewGroup, NewMember, NewPolicy, NewResource, NewSite, NewToken, PolicyPatch,
    ResourcePatch, SetupRequest, SitePatch,
};
use culvert_wire::model::{Condition, Filter};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SITE: &str = "site_00000000000000000000000000";
const GROUP: &str = "grp_00000000000000000000000000";
const RESOURCE: &str = "res_00000000000000000000000000";
const ACTOR: &str = "act_00000000000000000000000000";

/// The same with one field more, in each of its objects once.
fn with_surprise(value: &Value) -> Vec<Value> {
    let mut surprised = Vec::new();
    match value {
        Value::Object(fields) => {
            let mut fields = fields.clone();
            fields.insert("surprise".to_owned(), json!(1));
            surprised.push(Value::Object(fields));
        }
        Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, at)| (key.clone(), at)).collect(),
        Value::Array(items) => (0..).map(|at: usize| at.to_string()).zip(items).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (key, child) in children {
        for child in with_surprise(child) {
            let mut whole = value.clone();
            *whole.pointer_mut(&format!("/{key}")).unwrap() = child;
            surprised.push(whole);
        }
    }
    surprised
}

#[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
#[track_caller]
fn takes_nothing_unknown<T: DeserializeOwned>(value: Value) {
    let read = T::deserialize(&value);
    assert!(read.is_ok(), "{value}: {}", read.err().unwrap());
    let surprised = with_surprise(&value);
    assert!(!surprised.is_empty());
    for value in surprised {
        let error = T::deserialize(&value).err();
        let error = error.unwrap_or_else(|| panic!("{value} was taken"));
        assert!(error.to_string().contains("surprise"), "{value}: {error}");
    }
}

fn conditions() -> Vec<Value> {
    vec![
        json!({"kind": "time", "zone": "UTC",
               "windows": [{"days": ["mon"], "from": "09:00", "until": "17:00"}]}),
        json!({"kind": "public_address", "cidrs": ["203.0.113.0/24"]}),
        json!({"kind": "country", "countries": ["DE"]}),
        json!({"kind": "verified"}),
        json!({"kind": "client_os", "systems": [{"id": "debian", "min_version": "12"}, {"id": "linux"}]}),
        json!({"kind": "expires", "at": "2027-01-01T00:00:00Z"}),
    ]
}

fn filters() -> Vec<Value> {
    vec![
        json!({"protocol": "any"}),
        json!({"protocol": "tcp", "ports": [443, "8000-8100"]}),
        json!({"protocol": "udp"}),
        json!({"protocol": "icmp"}),
    ]
}

fn dns() -> Value {
    json!({
        "search": ["corp.example"],
        "domains": [{"name": "corp.example", "servers": ["10.0.0.53"]}],
    })
}

#[test]
fn a_condition_and_a_filter_of_every_kind_take_no_unknown_field() {
    for condition in conditions() {
        takes_nothing_unknown::<Condition>(condition);
    }
    for filter in filters() {
        takes_nothing_unknown::<Filter>(filter);
    }
}

#[test]
fn a_condition_is_read_as_it_is_written() {
    for condition in conditions() {
        let read: Condition = serde_json::from_value(condition.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), condition);
    }
}

#[test]
fn what_makes_a_thing_takes_no_unknown_field() {
    takes_nothing_unknown::<NewSite>(json!({"name": "a"}));
    takes_nothing_unknown::<NewActor>(json!({"name": "a", "kind": "user"}));
    takes_nothing_unknown::<NewGroup>(json!({"name": "a"}));
    takes_nothing_unknown::<NewMember>(json!({"actor": ACTOR}));
    takes_nothing_unknown::<NewResource>(json!({
        "site": SITE, "name": "a", "kind": "cidr", "address": "10.0.0.0/8", "filters": filters(),
    }));
    takes_nothing_unknown::<NewPolicy>(json!({
        "name": "a", "group": GROUP, "resource": RESOURCE, "conditions": conditions(),
    }));
    takes_nothing_unknown::<NewToken>(json!({"kind": "gateway", "name": "a", "site": SITE}));
    takes_nothing_unknown::<SetupRequest>(json!({"owner": "ada"}));
}

#[test]
fn what_changes_a_thing_takes_no_unknown_field() {
    takes_nothing_unknown::<AccountPatch>(json!({"name": "a", "dns": dns()}));
    takes_nothing_unknown::<SitePatch>(json!({"name": "a"}));
    takes_nothing_unknown::<ActorPatch>(json!({"name": "a"}));
    takes_nothing_unknown::<GroupPatch>(json!({"name": "a"}));
    takes_nothing_unknown::<ResourcePatch>(json!({"filters": filters()}));
    takes_nothing_unknown::<PolicyPatch>(json!({"conditions": conditions()}));
    takes_nothing_unknown::<ClientPatch>(json!({"name": "a"}));
    takes_nothing_unknown::<GatewayPatch>(json!({"name": "a"}));
}

#[test]
fn what_is_wanted_as_a_whole_takes_no_unknown_field() {
    takes_nothing_unknown::<ApplyOptions>(json!({}));
    takes_nothing_unknown::<Desired>(json!({
        "dns": dns(),
        "sites": [{"name": "s"}],
        "actors": [{"name": "a", "kind": "user"}],
        "groups": [{"name": "g", "members": ["a"]}],
        "resources": [{
            "name": "r", "site": "s", "kind": "dns", "address": "*.corp.example",
            "filters": filters(),
        }],
        "policies": [{
            "name": "p", "group": "g", "resource": "r", "conditions": conditions(),
        }],
    }));
}
