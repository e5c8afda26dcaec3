//! The configuration that the portal manages in a measurement.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::process::Process;

/// Of `10.0.0.0/8`, in networks of 256 addresses.
const MAX_RESOURCES: usize = 1 << 16;

/// Gateways of one site: the second takes over if one fails.
const GATEWAYS_PER_SITE: usize = 2;

/// The resource of everybody, which nobody may use yet, and the name of its policy.
pub(super) const EVERYBODY: &str = "everybody";

/// A resource of a group without members, and the name of its policy.
pub(super) const NOBODY: &str = "nobody";

/// The number of objects of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) clients: usize,
    pub(crate) gateways: usize,
    pub(crate) resources: usize,
    pub(crate) groups: usize,
}

impl Size {
    pub(crate) fn check(self) -> Result<()> {
        ensure!(self.gateways > 0, "--gateways is at least 1");
        ensure!(
            (1..=MAX_RESOURCES).contains(&self.resources),
            "--resources is 1 to {MAX_RESOURCES}"
        );
        let most = self.clients.min(self.resources);
        ensure!(
            (1..=most).contains(&self.groups),
            "--groups is 1 to {most}: each group has a client and a resource at least"
        );
        ensure!(
            self.sites() <= self.groups,
            "there is a site for {GATEWAYS_PER_SITE} --gateways, and at least one of --groups for each site"
        );
        Ok(())
    }

    const fn sites(self) -> usize {
        self.gateways.div_ceil(GATEWAYS_PER_SITE)
    }
}

/// The configuration, and the tokens of those who come.
pub(crate) struct World {
    pub(crate) size: Size,
    /// One for each group.
    client_tokens: Vec<String>,
    /// One for each site.
    gateway_tokens: Vec<String>,
}

impl World {
    /// Some sites; for each group an actor, whose token its clients share; for each resource a policy that gives it to
    /// one group. All resources of a group are in one site.
    pub(crate) async fn make(portal: &Process, size: Size) -> Result<Self> {
        portal.post("/apply", &configuration(size)).await?;
        let mut gateway_tokens = Vec::with_capacity(size.sites());
        for number in 0..size.sites() {
            let site = id_of(portal, &format!("/sites?name={}", name(SITE, number))).await?;
            let name = format!("gateways {number}");
            let token = json!({"kind": "gateway", "site": site, "name": name});
            gateway_tokens.push(issue(portal, &token).await?);
        }
        let mut client_tokens = Vec::with_capacity(size.groups);
        for group in 0..size.groups {
            let actor = id_of(portal, &format!("/actors?name={}", name(ACTOR, group))).await?;
            let token = json!({"kind": "client", "actor": actor, "name": format!("token {group}")});
            client_tokens.push(issue(portal, &token).await?);
        }
        Ok(Self {
            size,
            client_tokens,
            gateway_tokens,
        })
    }

    /// The token of a client.
    pub(crate) fn client_token(&self, client: usize) -> &str {
        &self.client_tokens[client % self.client_tokens.len()]
    }

    /// The token of a gateway.
    pub(crate) fn gateway_token(&self, gateway: usize) -> &str {
        &self.gateway_tokens[gateway % self.gateway_tokens.len()]
    }
}

const SITE: &str = "site";
const ACTOR: &str = "actor";
const GROUP: &str = "group";

fn name(kind: &str, number: usize) -> String {
    format!("{kind}-{number}")
}

fn configuration(size: Size) -> Value {
    let sites: Vec<_> = (0..size.sites())
        .map(|site| json!({"name": name(SITE, site)}))
        .collect();
    let groups = 0..size.groups;
    let members: Vec<_> = groups.clone().map(|group| name(ACTOR, group)).collect();
    let actors: Vec<_> = members
        .iter()
        .map(|actor| json!({"name": actor, "kind": "service_account"}))
        .collect();
    let mut groups: Vec<_> = groups
        .map(|group| json!({"name": name(GROUP, group), "members": [name(ACTOR, group)]}))
        .collect();
    let (resources, policies): (Vec<_>, Vec<_>) = (0..size.resources)
        .map(|number| {
            let group = number % size.groups;
            let (site, net) = (group % size.sites(), name("net", number));
            let address = format!("10.{}.{}.0/24", number / 256, number % 256);
            let policy = name("policy", number);
            (
                resource(&net, site, &address),
                json!({"name": policy, "resource": net, "group": name(GROUP, group)}),
            )
        })
        .unzip();
    let (mut resources, mut policies) = (resources, policies);
    for (number, who, members) in [(1, EVERYBODY, members), (2, NOBODY, Vec::new())] {
        groups.push(json!({"name": who, "members": members}));
        resources.push(resource(who, 0, &format!("192.0.2.{number}/32")));
        policies.push(json!({
            "name": who, "resource": who, "group": who, "disabled": who == EVERYBODY,
        }));
    }
    json!({
        "sites": sites, "actors": actors, "groups": groups, "resources": resources, "policies": policies,
    })
}

fn resource(name: &str, site: usize, address: &str) -> Value {
    json!({
        "name": name, "site": self::name(SITE, site), "kind": "cidr", "address": address,
        "filters": [{"protocol": "any"}],
    })
}

/// The id of the first of a list.
pub(super) async fn id_of(portal: &Process, list: &str) -> Result<Value> {
    let found = portal.get(list).await?;
    let id = found["items"][0].get("id").cloned();
    id.with_context(|| format!("{list} is empty"))
}

async fn issue(portal: &Process, token: &Value) -> Result<String> {
    let issued = portal.post("/tokens", token).await?;
    let secret = issued["secret"].as_str().map(str::to_owned);
    secret.context("a token without its secret")
}
