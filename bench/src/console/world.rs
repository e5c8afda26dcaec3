//! The configuration of a large account.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::answer::give_password;
use crate::portal::process::Process;

/// Resources of `10.0.0.0/8`, in networks of 256 addresses; what one request may apply is less.
const MAX_ROWS: usize = 11_000;

/// The number of rows of each kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    rows: usize,
    people: usize,
}

impl Size {
    pub(super) fn new(rows: usize, people: usize) -> Result<Self> {
        ensure!(
            (1..=MAX_ROWS).contains(&rows),
            "--rows is 1 to {MAX_ROWS}: one request makes them all"
        );
        ensure!(
            (1..=rows.min(1_000)).contains(&people),
            "--people is 1 to 1000, and not more than --rows"
        );
        Ok(Self { rows, people })
    }
}

/// As many resources, groups and policies; everybody is in the first group, and in one of their own. A tenth of
/// the policies is about the first resource.
pub(super) async fn make(portal: &Process, size: Size) -> Result<()> {
    portal.post("/apply", &configuration(size)).await?;
    give_password(portal).await?;
    let site = portal.get("/sites?name=site").await?;
    let site = &site["items"][0]["id"];
    let token = json!({"kind": "gateway", "site": site, "name": "gateway"});
    portal.post("/tokens", &token).await?;
    Ok(())
}

fn configuration(Size { rows, people }: Size) -> Value {
    let person = |number: usize| format!("person-{number}");
    let actor = |name: String, kind: &str| json!({"name": name, "kind": kind});
    let users = (0..people).map(|number| actor(person(number), "user"));
    let services = (0..people).map(|number| actor(format!("service-{number}"), "service_account"));
    let actors: Vec<_> = users.chain(services).collect();
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
