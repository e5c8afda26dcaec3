//! The picture of the network: who may use which resource, and the sites and gateways that lead there.
//!
//! It shows what is used most, filled up with the newest, and counts the rest.

use super::layout::{self, Line, Link, Node, Part, Picture};
use crate::answers;
use crate::gateways::{self, rate};
use crate::listing;
use crate::names::Names;
use crate::person::Person;
use crate::state::Console;
use culvert_ids::{GatewayId, GroupId, PolicyId, ResourceId, SiteId};
use culvert_portal_base::Fault;
use culvert_portal_service::ListRequest;
use culvert_store::{AccessTotals, EntityId, OrderBy};
use culvert_wire::api::{Gateway, GatewaySession, Policy, Resource};
use std::collections::{BTreeMap, HashMap};

/// Boxes of each column: as many as a screen of 900 pixels shows.
const MAX_GROUPS: usize = 8;
const MAX_RESOURCES: usize = 8;
const MAX_SITES: usize = 5;
/// Gateways of a site; most sites have two.
const MAX_GATEWAYS: usize = 3;
/// Policies of a resource.
const MAX_POLICIES: u16 = 8;

/// All that the picture is made of.
struct Network {
    groups: Vec<ShownGroup>,
    resources: Vec<Resource>,
    sites: Vec<ShownSite>,
    policies: Vec<Policy>,
    /// The number of all.
    groups_total: u64,
    resources_total: u64,
    sites_total: u64,
}

struct ShownGroup {
    id: GroupId,
    name: String,
    members: u64,
}

struct ShownSite {
    id: SiteId,
    name: String,
    /// Those that are not revoked, the ones that were seen last first.
    gateways: Vec<Gateway>,
}

/// None if there is nothing to show yet.
pub(super) async fn picture(
    console: &Console,
    person: &Person,
    totals: &AccessTotals,
    sessions: &BTreeMap<GatewayId, GatewaySession>,
) -> Result<Option<Picture>, Fault> {
    let network = Network::of(console, person, totals).await?;
    let is_empty = network.resources.is_empty() && network.sites.is_empty();
    Ok((!is_empty).then(|| network.drawn(totals, sessions)))
}

impl Network {
    async fn of(console: &Console, person: &Person, totals: &AccessTotals) -> Result<Self, Fault> {
        let (service, caller) = (&console.service, &person.caller);
        let newest = service
            .resources(caller, &listing::newest(MAX_RESOURCES))
            .await?;
        let resources_total = newest.total;
        let mut resources = Vec::new();
        for (id, _) in totals.resources.iter().take(MAX_RESOURCES) {
            match newest.items.iter().find(|resource| resource.id == *id) {
                Some(resource) => resources.push(resource.clone()),
                // It may have been deleted since it was used.
                None => resources.extend(present(service.resource(caller, *id).await)?),
            }
        }
        for resource in newest.items {
            let is_new = resources.iter().all(|shown| shown.id != resource.id);
            if is_new && resources.len() < MAX_RESOURCES {
                resources.push(resource);
            }
        }

        let mut policies = Vec::new();
        for resource in &resources {
            let request = ListRequest {
                limit: Some(MAX_POLICIES),
                ..ListRequest::default()
            };
            let request = request.referring_to(Some(resource.id));
            let page = service.policies(caller, &request).await?;
            policies.extend(page.items.into_iter().filter(|policy| !policy.disabled));
        }
        let groups_total = service.groups(caller, &listing::newest(1)).await?.total;
        let shown = first_distinct(policies.iter().map(|policy| policy.group), MAX_GROUPS);
        let newest_sites = service.sites(caller, &listing::newest(MAX_SITES)).await?;
        let used = resources.iter().map(|resource| resource.site);
        let others = newest_sites.items.iter().map(|site| site.id);
        let shown_sites = first_distinct(used.chain(others), MAX_SITES);
        let ids = shown.iter().map(|id| EntityId::from(*id));
        let ids = ids.chain(shown_sites.iter().map(|id| EntityId::from(*id)));
        let names = Names::of(console, person, ids).await?;
        let counts = service.member_counts(caller, shown.iter().copied()).await?;
        let named = shown.into_iter().filter_map(|id| {
            // It may have been deleted since its policy was read.
            let name = names.get(id.into())?.to_owned();
            let members = counts.get(&id).copied().unwrap_or(0);
            Some(ShownGroup { id, name, members })
        });
        let groups = named.collect();
        let mut sites = Vec::new();
        for id in shown_sites {
            let Some(name) = names.get(id.into()) else {
                continue;
            };
            let request = answers::few(OrderBy::Seen, true).referring_to(Some(id));
            let gateways = service.gateways(caller, &request).await?.items.into_iter();
            sites.push(ShownSite {
                id,
                name: name.to_owned(),
                gateways: gateways.filter(|it| it.revoked.is_none()).collect(),
            });
        }
        Ok(Self {
            groups,
            resources,
            sites,
            policies,
            groups_total: groups_total.unwrap_or(0),
            resources_total: resources_total.unwrap_or(0),
            sites_total: newest_sites.total.unwrap_or(0),
        })
    }

    fn drawn(
        &self,
        totals: &AccessTotals,
        sessions: &BTreeMap<GatewayId, GatewaySession>,
    ) -> Picture {
        let by_resource: HashMap<ResourceId, u64> = totals.resources.iter().copied().collect();
        let by_policy: HashMap<PolicyId, u64> = totals.policies.iter().copied().collect();
        let used = |id: &ResourceId| by_resource.get(id).copied().unwrap_or(0);
        let groups = self.groups.iter().map(|group| Node {
            key: group.id.to_string(),
            path: format!("/groups/{}", group.id),
            name: group.name.clone(),
            note: count(group.members, "member", "members"),
            lines: Vec::new(),
        });
        let resources = self.resources.iter().map(|resource| Node {
            key: resource.id.to_string(),
            path: format!("/resources/{}", resource.id),
            name: resource.name.clone(),
            note: resource.address.clone(),
            lines: Vec::new(),
        });
        let sites = self.sites.iter().map(|site| node_of(site, sessions));
        let mut links = Vec::new();
        for policy in &self.policies {
            let weight = by_policy.get(&policy.id).copied().unwrap_or(0);
            links.push(Link {
                from: policy.group.to_string(),
                to: policy.resource.to_string(),
                label: format!("{}: {}", policy.name, requests(weight)),
                weight,
            });
        }
        for resource in &self.resources {
            let weight = used(&resource.id);
            links.push(Link {
                from: resource.id.to_string(),
                to: resource.site.to_string(),
                label: format!("{}: {}", resource.name, requests(weight)),
                weight,
            });
        }
        let parts = [
            part("Groups", "/groups", groups.collect(), self.groups_total),
            part(
                "Resources",
                "/resources",
                resources.collect(),
                self.resources_total,
            ),
            part(
                "Sites and gateways",
                "/sites",
                sites.collect(),
                self.sites_total,
            ),
        ];
        layout::place(parts, &links, self.summary(sessions))
    }

    fn summary(&self, sessions: &BTreeMap<GatewayId, GatewaySession>) -> String {
        format!(
            "Network: {}, {}, {}, {} connected.",
            count(self.groups_total, "group", "groups"),
            count(self.resources_total, "resource", "resources"),
            count(self.sites_total, "site", "sites"),
            count(sessions.len() as u64, "gateway", "gateways"),
        )
    }
}

fn part(title: &'static str, path: &'static str, nodes: Vec<Node>, total: u64) -> Part {
    let more = total.saturating_sub(nodes.len() as u64);
    Part {
        title,
        path,
        nodes,
        more,
    }
}

/// A site with its gateways.
fn node_of(site: &ShownSite, sessions: &BTreeMap<GatewayId, GatewaySession>) -> Node {
    let gateways = &site.gateways;
    let lines = gateways.iter().take(MAX_GATEWAYS).map(|gateway| {
        let session = sessions.get(&gateway.id);
        let (state, note) = match session {
            None => ("away", "not connected".to_owned()),
            Some(session) if session.awaits_verification => ("warn", "not verified".to_owned()),
            Some(session) if session.draining => ("warn", "draining".to_owned()),
            Some(session) => ("good", rate(session.rate_bytes_per_s)),
        };
        Line {
            path: format!("{}/{}", gateways::AT, gateway.id),
            name: gateway.name.clone(),
            note,
            state,
        }
    });
    let connected = gateways
        .iter()
        .filter_map(|gateway| sessions.get(&gateway.id));
    let clients: u64 = connected.map(|session| session.clients).sum();
    Node {
        key: site.id.to_string(),
        path: format!("/sites/{}", site.id),
        name: site.name.clone(),
        note: match gateways.is_empty() {
            true => "no gateway".to_owned(),
            false if gateways.len() > MAX_GATEWAYS => format!(
                "{}, {}",
                count(clients, "client", "clients"),
                count(gateways.len() as u64, "gateway", "gateways")
            ),
            false => count(clients, "client", "clients"),
        },
        lines: lines.collect(),
    }
}

fn requests(count: u64) -> String {
    self::count(count, "request", "requests") + " in 24 hours"
}

fn count(number: u64, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// The first of them, each once.
fn first_distinct<T: PartialEq>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if found.len() < most && !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

/// Nothing for what was deleted in between.
fn present<T>(found: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Fault::NotFound(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}
