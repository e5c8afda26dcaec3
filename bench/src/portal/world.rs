//! The configuration that the portal manages in a measurement.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::process::Process;

/// Of `10.0.0.0/8`, in networks of 256 addresses.
const MAX_RESOURCES: usize = 1 << 16;

/// The number of objects of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) clients: usize,
    pub(crate) resources: usize,
    pub(crate) groups: usize,
}

impl Size {
    pub(crate) fn check(self) -> Result<()> {
        ensure!(
            (1..=MAX_RESOURCES).contains(&self.resources),
            "--resources is 1 to {MAX_RESOURCES}"
        );
        let most = self.clients.min(self.resources);
        ensure!(
            (1..=most).contains(&self.groups),
            "--groups is 1 to {most}: each group has a client and a resource at least"
        );
        Ok(())
    }
}

/// The configuration, and the tokens of those who come.
pub(crate) struct World {
    pub(crate) size: Size,
    /// One for each group.
    pub(crate) client_tokens: Vec<String>,
    pub(crate) gateway_token: String,
}

impl World {
    /// One site; for each group an actor, whose token its clients share; for each resource a policy
    /// that gives it to one group.
    pub(crate) async fn make(portal: &Process, size: Size) -> Result<Self> {
        portal.post("/apply", &configuration(size)).await?;
        let site = id_of(portal, "/sites?name=site").await?;
        let gateway = json!({"kind": "gateway", "site": site, "name": "gateway"});
        let gateway_token = issue(portal, &gateway).await?;
        let mut client_tokens = Vec::with_capacity(size.groups);
        for group in 0..size.groups {
            let actor = id_of(portal, &format!("/actors?name=actor-{group}")).await?;
            let token = json!({"kind": "client", "actor": actor, "name": format!("token {group}")});
            client_tokens.push(issue(portal, &token).await?);
        }
        Ok(Self {
            size,
            client_tokens,
            gateway_token,
        })
    }
}

fn configuration(size: Size) -> Value {
    let groups = 0..size.groups;
    let actors: Vec<_> = groups
        .clone()
        .map(|group| json!({"name": format!("actor-{group}"), "kind": "service_account"}))
        .collect();
    let groups: Vec<_> = groups
        .map(|group| json!({"name": format!("group-{group}"), "members": [format!("actor-{group}")]}))
        .collect();
    let resources: Vec<_> = (0..size.resources)
        .map(|number| {
            json!({
                "name": format!("net-{number}"), "site": "site", "kind": "cidr",
                "address": format!("10.{}.{}.0/24", number / 256, number % 256),
                "filters": [{"protocol": "any"}],
            })
        })
        .collect();
    let policies: Vec<_> = (0..size.resources)
        .map(|number| {
            json!({
                "name": format!("policy-{number}"), "resource": format!("net-{number}"),
                "group": format!("group-{}", number % size.groups),
            })
        })
        .collect();
    json!({
        "sites": [{"name": "site"}], "actors": actors, "groups": groups, "resources": resources,
        "policies": policies,
    })
}

async fn id_of(portal: &Process, list: &str) -> Result<Value> {
    let found = portal.get(list).await?;
    let id = found["items"][0].get("id").cloned();
    id.with_context(|| format!("{list} is empty"))
}

async fn issue(portal: &Process, token: &Value) -> Result<String> {
    let issued = portal.post("/tokens", token).await?;
    let secret = issued["secret"].as_str().map(str::to_owned);
    secret.context("a token without its secret")
}
