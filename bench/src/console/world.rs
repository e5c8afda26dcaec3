//! The configuration of a large account.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::answer::give_password;
use crate::portal::process::Process;

/// Resources of `10.0.0.0/8`, in networks of 256 addresses; what one request may apply is less.
const MAX_ROWS: usize = 11_000;

/// The number of rows of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    rows: usize,
    people: usize,
}

impl Size {
    pub(crate) fn new(rows: usize, people: usize) -> Result<Self> {
        ensure!(
            (1..=MAX_ROWS).contains(&rows),
            "--rows is 1 to {MAX_ROWS}: one request makes them all"
        );
        ensure!(
            (1..=rows).contains(&people),
            "--people is 1 to the number of --rows: each has a group"
        );
        Ok(Self { rows, people })
    }
}

/// People of the request that makes resources, groups and policies.
const FIRST_PEOPLE: usize = 1_000;

/// People of each request after it: of the changes that one may make, they need a third.
const MORE_PEOPLE: usize = 4_000;

/// As many resources, groups and policies. Everybody is in a group of their own, and the first people are also in the
/// first. A tenth of the policies is about the first resource.
pub(crate) async fn make(portal: &Process, size: Size) -> Result<()> {
    portal.post("/apply", &configuration(size)).await?;
    let numbers: Vec<usize> = (FIRST_PEOPLE..size.people).collect();
    for numbers in numbers.chunks(MORE_PEOPLE) {
        portal.post("/apply", &people(numbers)).await?;
    }
    give_password(portal).await?;
    let site = portal.get("/sites?name=site").await?;
    let site = &site["items"][0]["id"];
    let token = json!({"kind": "gateway", "site": site, "name": "gateway"});
    portal.post("/tokens", &token).await?;
    Ok(())
}

fn person(number: usize) -> String {
    format!("person-{number}")
}

/// A person and a service account of each number.
fn actors(numbers: impl Iterator<Item = usize>) -> Vec<Value> {
    let both = |number| {
        [
            json!({"name": person(number), "kind": "user"}),
            json!({"name": format!("service-{number}"), "kind": "service_account"}),
        ]
    };
    numbers.flat_map(both).collect()
}

fn people(numbers: &[usize]) -> Value {
    let group =
        |number: &usize| json!({"name": format!("group-{number}"), "members": [person(*number)]});
    let groups: Vec<_> = numbers.iter().map(group).collect();
    json!({"actors": actors(numbers.iter().copied()), "groups": groups})
}

fn configuration(Size { rows, people }: Size) -> Value {
    let people = people.min(FIRST_PEOPLE);
    let actors = actors(0..people);
    let groups: Vec<_> = (0..rows)
        .map(|number| {
            let members: Vec<String> = match number {
                0 => (0..people).map(person).collect(),
                _ if number < people => vec![person(number)],
                _ => Vec::new(),
            };
            json!({"name": format!("group-{number}"), "members": members})
        })
        .collect();
    let resources: Vec<_> = (0..rows)
        .map(|number| {
            json!({
                "name": format!("net-{number}"), "site": "site", "kind": "cidr",
                "address": format!("10.{}.{}.0/24", number / 256, number % 256),
                "filters": [{"protocol": "any"}],
            })
        })
        .collect();
    let policies: Vec<_> = (0..rows)
        .map(|number| {
            let resource = if number < rows / 10 { 0 } else { number };
            json!({
                "name": format!("policy-{number}"), "resource": format!("net-{resource}"),
                "group": format!("group-{number}"), "conditions": [{"kind": "verified"}],
            })
        })
        .collect();
    json!({
        "sites": [{"name": "site"}], "actors": actors, "groups": groups, "resources": resources,
        "policies": policies,
    })
}
