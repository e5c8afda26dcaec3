//! The parts of pages that answer questions about a thing: who may use it, what was denied, how much it was used.
//!
//! Each part has a few rows, and leads to the list of all.

use super::chart::bytes;
use super::explain::{self, Preset};
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::states;
use super::view::{Cell, Piece, Section, Table};
use culvert_ids::{ActorId, GroupId, ResourceId, SiteId};
use culvert_portal_base::Fault;
use culvert_portal_service::ListRequest;
use culvert_store::{EntityId, Grant, MAX_USE_ROWS, Order, OrderBy, Position, RecentUse};
use culvert_wire::api::{Actor, Client, Page, Policy};
use culvert_wire::words;
use std::collections::BTreeMap;

/// Rows of each part: what one sees at a glance.
pub(super) const ROWS: u16 = 10;

/// Groups of a person: a few lines of names.
const MAX_GROUPS: u16 = 50;

/// The thing whose policies are shown.
#[derive(Clone, Copy, Debug)]
pub(super) enum PoliciesOf<'a> {
    /// Those who may use the resource of this name.
    Resource(ResourceId, &'a str),
    /// The resources that the group of this name may use.
    Group(GroupId, &'a str),
    /// The resources that the groups of an actor may use.
    Actor(ActorId),
}

/// The request for a few rows in this order.
pub(super) fn few(by: OrderBy, is_descending: bool) -> ListRequest {
    let order = Order { by, is_descending };
    ListRequest {
        position: Some(Position { order, skipped: 0 }),
        limit: Some(ROWS),
        ..ListRequest::default()
    }
}

/// The way to a list, where a part of a page does not show all of it.
pub(super) fn all(path: &str, fields: &[(&str, &str)], total: u64, what: &str) -> Option<Section> {
    let way = || {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields)
            .finish();
        (format!("{path}?{query}"), format!("All {total} {what}"))
    };
    (total > u64::from(ROWS)).then(|| Section::Ways(vec![way()]))
}

/// The policies of a thing, with the way to all of them.
pub(super) async fn policies(
    console: &Console,
    person: &Person,
    of: PoliciesOf<'_>,
) -> Result<Vec<Section>, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let request = match of {
        PoliciesOf::Resource(id, _) => few(OrderBy::Created, false).referring_to(Some(id)),
        PoliciesOf::Group(id, _) => few(OrderBy::Created, false).referring_to(Some(id)),
        PoliciesOf::Actor(id) => {
            let mut request = few(OrderBy::Holder, false);
            request.filter.of_actor = Some(id);
            request
        }
    };
    let found = service.policies(caller, &request).await?;
    let ends = |policy: &Policy| [policy.group.into(), policy.resource.into()];
    let names = Names::of(console, person, found.items.iter().flat_map(ends)).await?;
    let counts = match of {
        PoliciesOf::Resource(..) => {
            let groups = found.items.iter().map(|policy| policy.group);
            service.member_counts(caller, groups).await?
        }
        PoliciesOf::Group(..) | PoliciesOf::Actor(_) => BTreeMap::new(),
    };
    let rows = found.items.iter().map(|policy| {
        let link = Cell::link(format!("/policies/{}", policy.id), &policy.name);
        let mut row = match of {
            PoliciesOf::Resource(..) => {
                let members = counts.get(&policy.group).copied().unwrap_or_default();
                vec![names.shown(policy.group), Cell::text(members), link]
            }
            PoliciesOf::Group(..) => vec![names.shown(policy.resource), link],
            PoliciesOf::Actor(_) => {
                vec![
                    names.shown(policy.resource),
                    link,
                    names.shown(policy.group),
                ]
            }
        };
        row.push(Cell::text(words::conditions(&policy.conditions)));
        row.push(states::policy(policy));
        row
    });
    let (title, columns, empty): (_, &[&'static str], _) = match of {
        PoliciesOf::Resource(..) => (
            "Who may use it",
            &["Group", "Members", "Policy"],
            "Nobody: no policy lets a group use it.",
        ),
        PoliciesOf::Group(..) => (
            "Resources that its members may use",
            &["Resource", "Policy"],
            "None: no policy lets this group use a resource.",
        ),
        PoliciesOf::Actor(_) => (
            "Resources that they may use",
            &["Resource", "Policy", "Group"],
            "None: no policy lets a group of theirs use a resource.",
        ),
    };
    let mut sections = vec![Section::Table(Table {
        title: title.to_owned(),
        columns: [columns, &["When", "State"]].concat(),
        rows: rows.collect(),
        empty: empty.into(),
        ..Table::default()
    })];
    let total = found.total.unwrap_or_default();
    sections.extend(match of {
        PoliciesOf::Resource(_, name) | PoliciesOf::Group(_, name) => {
            all("/policies", &[("search", name)], total, "policies")
        }
        PoliciesOf::Actor(id) => all(
            "/policies",
            &[("person", &id.to_string())],
            total,
            "policies",
        ),
    });
    Ok(sections)
}

/// The thing whose use is shown, by the field of the logs that asks for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UseOf<'a> {
    pub(super) id: EntityId,
    pub(super) field: &'static str,
    pub(super) name: &'a str,
}

/// The use of a thing in the last 24 hours, and what was denied in them, by cause.
pub(super) async fn recent_use(
    console: &Console,
    person: &Person,
    of: UseOf<'_>,
) -> Result<Vec<Section>, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let found = service.recent_use(caller, of.id).await?;
    let is_recorded = service.retention(caller).await?.flow_log;
    let causes = found.causes.iter();
    let ids = causes.flat_map(|cause| [EntityId::from(cause.last_client), cause.resource.into()]);
    let names = Names::of(console, person, ids).await?;
    let mut sections = vec![
        Section::Facts {
            title: "Last 24 hours".to_owned(),
            facts: use_facts(of, &found, is_recorded),
        },
        Section::Table(denials(of, &found, &names)),
    ];
    if found.denied > 0 {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("decision", "denied")
            .append_pair(of.field, of.name)
            .append_pair("from", "24h")
            .finish();
        let way = match found.denied {
            1 => "The denial in the access log".to_owned(),
            denied => format!("All {denied} denials"),
        };
        sections.push(Section::Ways(vec![(format!("/log/access?{query}"), way)]));
    }
    Ok(sections)
}

fn use_facts(of: UseOf<'_>, found: &RecentUse, is_recorded: bool) -> Vec<(&'static str, Cell)> {
    let mut facts = vec![("Grants", Cell::text(found.granted))];
    if !matches!(of.id, EntityId::Actor(_) | EntityId::Client(_)) {
        facts.push(("People", Cell::text(found.actors)));
    }
    if !matches!(of.id, EntityId::Client(_)) {
        facts.push(("Clients", Cell::text(found.clients)));
    }
    if !matches!(of.id, EntityId::Resource(_)) {
        facts.push(("Resources", Cell::text(found.resources)));
    }
    facts.push(("Denials", Cell::text(found.denied)));
    if is_recorded {
        facts.push(("Flows", Cell::text(found.flows)));
        facts.push(("Traffic", Cell::text(bytes(found.bytes))));
    }
    if found.is_partial {
        let text = format!("the newest {MAX_USE_ROWS} entries of each log");
        facts.push(("Counted", Cell::text(text)));
    }
    facts
}

fn denials(of: UseOf<'_>, found: &RecentUse, names: &Names) -> Table {
    let is_resource = matches!(of.id, EntityId::Resource(_));
    let rows = found.causes.iter().map(|cause| {
        let first = match is_resource {
            true => Cell::text(cause.clients),
            false => names.shown(cause.resource),
        };
        vec![
            first,
            Cell::text(&cause.reason),
            Cell::text(cause.count),
            names.shown(cause.last_client),
            Cell::time(Some(cause.last)),
            explain::link(names, cause.last_client, cause.resource),
        ]
    });
    let first = if is_resource { "Clients" } else { "Resource" };
    Table {
        title: "Denials of the last 24 hours".to_owned(),
        columns: vec![first, "Why", "Times", "Last client", "Last time", "Now"],
        rows: rows.collect(),
        empty: "Nothing was denied.".into(),
        ..Table::default()
    }
}

/// Grants that a client has, or clients that a gateway has grants of, of so many in all.
pub(super) async fn grants(
    console: &Console,
    person: &Person,
    grants: &[Grant],
    is_client: bool,
    total: u64,
) -> Result<Vec<Section>, Fault> {
    let other = |grant: &Grant| match is_client {
        true => EntityId::from(grant.gateway),
        false => grant.client.into(),
    };
    let ids = grants
        .iter()
        .flat_map(|grant| [grant.resource.into(), grant.policy.into(), other(grant)]);
    let names = Names::of(console, person, ids).await?;
    let rows = grants.iter().map(|grant| {
        vec![
            names.shown(other(grant)),
            names.shown(grant.resource),
            names.shown(grant.policy),
            Cell::time(Some(grant.issued)),
            Cell::time(Some(grant.expires)),
        ]
    });
    let first = if is_client { "Gateway" } else { "Client" };
    let shown = grants.len() as u64;
    Ok(vec![Section::Table(Table {
        title: match shown < total {
            true => format!("Grants in force, {shown} of {total}"),
            false => "Grants in force".to_owned(),
        },
        columns: vec![first, "Resource", "Policy", "Since", "Until"],
        rows: rows.collect(),
        empty: "There is none.".into(),
        ..Table::default()
    })])
}

/// Gateways of a site, those that were there last first.
pub(super) async fn gateways_of(
    console: &Console,
    person: &Person,
    site: SiteId,
) -> Result<Vec<Section>, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let request = few(OrderBy::Seen, true).referring_to(Some(site));
    let found = service.gateways(caller, &request).await?;
    let sessions = service.sessions_of_gateways(caller).await?;
    let account = service.account(caller).await?;
    let rows = found.items.iter().map(|gateway| {
        let session = sessions.get(&gateway.id);
        vec![
            Cell::link(format!("/gateways/{}", gateway.id), &gateway.name),
            states::gateway(gateway, session, account.require_verified_gateways),
            Cell::text(session.map_or("–".to_owned(), states::load)),
            Cell::time(gateway.last_seen),
        ]
    });
    let total = found.total.unwrap_or_default();
    let mut sections = vec![Section::Table(Table {
        title: "Gateways that lead there".to_owned(),
        columns: vec!["Gateway", "State", "Load", "Last seen"],
        rows: rows.collect(),
        empty: "None: its site has no gateway, so nobody can reach it.".into(),
        ..Table::default()
    })];
    if total > u64::from(ROWS) {
        let way = (format!("/sites/{site}"), format!("All {total} gateways"));
        sections.push(Section::Ways(vec![way]));
    }
    Ok(sections)
}

/// The groups and machines of somebody, what they may use, what they were denied, and the question why.
pub(super) async fn of_actor(
    console: &Console,
    person: &Person,
    actor: &Actor,
) -> Result<Vec<Section>, Fault> {
    let mut sections = groups_of(console, person, actor).await?;
    let clients = few(OrderBy::Seen, true).referring_to(Some(actor.id));
    let clients = console.service.clients(&person.caller, &clients).await?;
    sections.extend(machines(console, person, actor, &clients).await?);
    let of = PoliciesOf::Actor(actor.id);
    sections.extend(policies(console, person, of).await?);
    let of = UseOf {
        id: actor.id.into(),
        field: "actor",
        name: &actor.name,
    };
    sections.extend(recent_use(console, person, of).await?);
    let live = clients.items.into_iter();
    let live = live.filter(|client| client.revoked.is_none());
    let names: Vec<String> = live.map(|client| client.name).collect();
    if !names.is_empty() {
        sections.push(explain::panel(console, person, &Preset::Clients(&names)).await?);
    }
    Ok(sections)
}

/// The groups that somebody is in.
async fn groups_of(
    console: &Console,
    person: &Person,
    actor: &Actor,
) -> Result<Vec<Section>, Fault> {
    let service = &console.service;
    let (groups, total) = service
        .groups_of_actor(&person.caller, actor.id, MAX_GROUPS)
        .await?;
    let names = Names::of(console, person, groups.iter().map(|group| (*group).into())).await?;
    let mut chips: Vec<Piece> = groups
        .iter()
        .map(|group| names.piece((*group).into()))
        .collect();
    let others = total.saturating_sub(chips.len() as u64);
    if others > 0 {
        chips.push(Piece::text(format!("and {others} more")));
    }
    Ok(vec![Section::Chips {
        title: "Groups".to_owned(),
        chips,
        empty: "They are in no group.",
    }])
}

/// The clients of somebody.
async fn machines(
    console: &Console,
    person: &Person,
    actor: &Actor,
    found: &Page<Client>,
) -> Result<Vec<Section>, Fault> {
    let service = &console.service;
    let sessions = service.sessions_of_clients(&person.caller, &found.items);
    let sessions = sessions.await?;
    let rows = found.items.iter().map(|client| {
        vec![
            Cell::link(format!("/clients/{}", client.id), &client.name),
            states::presence(client, sessions.contains_key(&client.id)),
            states::client(client),
            Cell::time(client.last_seen),
            states::software(client),
        ]
    });
    let mut sections = vec![Section::Table(Table {
        title: "Machines".to_owned(),
        columns: vec!["Client", "Now", "State", "Last seen", "Software"],
        rows: rows.collect(),
        empty: "They have no client yet. A client token for them is created below.".into(),
        ..Table::default()
    })];
    let total = found.total.unwrap_or_default();
    sections.extend(all(
        "/clients",
        &[("search", &actor.name)],
        total,
        "clients",
    ));
    Ok(sections)
}
