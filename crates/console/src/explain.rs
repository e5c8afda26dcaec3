//! Explains why a client may use a resource, or may not, and offers the change that lets it.

use super::asked::Asked;
use super::fields::Fields;
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Action, Cell, Field, Form, Section, Table};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use culvert_ids::{ClientId, ResourceId};
use culvert_portal_base::{Fault, Problems};
use culvert_portal_service::{Diagnosis, Mend, Mendable};
use culvert_store::{self as store, EntityId, EntityKind};
use culvert_wire::api::{PolicyExplanation, Verdict};
use culvert_wire::port::Port;

const AT: &str = "/explain";

/// Policies of one explanation: what a screen shows, those first that are nearest to allowing.
const MAX_POLICIES: usize = 10;

/// The part of the question that a page knows already.
pub(super) enum Preset<'a> {
    Resource(&'a str),
    Client(&'a str),
    /// One of the clients of a person, by their names.
    Clients(&'a [String]),
}

/// The question on the page of a thing.
pub(super) async fn panel(
    console: &Console,
    person: &Person,
    preset: &Preset<'_>,
) -> Result<Section, Fault> {
    let form = |title, first| Form::new(title, AT, "Explain", vec![first, port_field("")]);
    let form = match preset {
        Preset::Resource(name) => {
            let mut form = form("May a client use this resource now?", client_field(""));
            form.hide("resource", (*name).to_owned());
            form
        }
        Preset::Client(name) => {
            let mut form = form("May it use a resource now?", resource_field(""));
            form.hide("client", (*name).to_owned());
            form
        }
        Preset::Clients(names) => {
            let choices: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &**name)).collect();
            let client = Field::choice("client", "Client", &choices);
            let fields = vec![client, resource_field(""), port_field("")];
            Form::new("May they use a resource now?", AT, "Explain", fields)
        }
    };
    let form = console.with_choices(person, form.question()).await?;
    Ok(Section::Form(form))
}

fn client_field(value: &str) -> Field {
    Field::thing("client", "Client", EntityKind::Client).value(value)
}

fn resource_field(value: &str) -> Field {
    Field::thing("resource", "Resource", EntityKind::Resource).value(value)
}

fn port_field(value: &str) -> Field {
    Field::line("port", "Port")
        .optional()
        .hint("Such as tcp:443, udp:53, or 443, which is TCP. Empty asks about access alone.")
        .value(value)
}

fn form(client: &str, resource: &str, port: &str) -> Form {
    let fields = vec![
        client_field(client),
        resource_field(resource),
        port_field(port),
    ];
    Form::new(
        "May this client use this resource now?",
        AT,
        "Explain",
        fields,
    )
    .question()
}

/// The address that explains it, of two that are still there.
pub(super) fn path(names: &Names, client: ClientId, resource: ResourceId) -> Option<String> {
    names.get(client.into())?;
    names.get(resource.into())?;
    Some(format!("{AT}?client={client}&resource={resource}"))
}

/// The link to it; empty of those that are gone.
pub(super) fn link(names: &Names, client: ClientId, resource: ResourceId) -> Cell {
    match path(names, client, resource) {
        Some(path) => Cell::link(path, "Explain"),
        None => Cell::text(""),
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    // People who may not read the answer see no form either.
    person.caller.may_read()?;
    let mut page = person.page("Explain", AT);
    let [client, resource, port] = ["client", "resource", "port"].map(|name| fields.text(name));
    let (form, status) = match (client, resource) {
        ("", "") => (form("", "", port), StatusCode::OK),
        _ => match diagnosed(&console, &person, &fields).await {
            Ok(diagnosis) => {
                page.sections.extend(sections(&diagnosis));
                let (client, resource) = (&diagnosis.client.name, &diagnosis.resource.name);
                (form(client, resource, port), StatusCode::OK)
            }
            Err(fault) => form(client, resource, port).refused(fault)?,
        },
    };
    let form = console.with_choices(&person, form).await?;
    page.sections.push(Section::Form(form));
    Ok(page.with_status(status))
}

/// The answer to the question. A link has ids, and a part of a name is enough; no name has the form of an id.
async fn diagnosed(
    console: &Console,
    person: &Person,
    fields: &Fields,
) -> Result<Diagnosis, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let mut problems = Problems::default();
    let text = fields.text("client");
    let client = match text.parse::<ClientId>() {
        Ok(id) => service.client(caller, id).await.map(|client| client.id),
        Err(_) => service
            .chosen::<store::Client>(caller, text)
            .await
            .map(|client| client.id),
    };
    let client = problems.take(client.map_err(|fault| fault.at_field("client")))?;
    let text = fields.text("resource");
    let resource = match text.parse::<ResourceId>() {
        Ok(id) => service
            .resource(caller, id)
            .await
            .map(|resource| resource.id),
        Err(_) => service
            .chosen::<store::Resource>(caller, text)
            .await
            .map(|resource| resource.id),
    };
    let resource = problems.take(resource.map_err(|fault| fault.at_field("resource")))?;
    let port = problems.take(fields.optional::<Port>("port"))?.flatten();
    let (client, resource) = problems.finish_with(client.zip(resource))?;
    service.diagnose(caller, client, resource, port).await
}

fn sections(diagnosis: &Diagnosis) -> Vec<Section> {
    let mut sections = vec![
        Section::Facts {
            title: "Now".to_owned(),
            facts: facts(diagnosis),
        },
        Section::Prose {
            title: "Why".to_owned(),
            text: text(diagnosis),
        },
    ];
    if !diagnosis.mends.is_empty() {
        let rows = diagnosis
            .mends
            .iter()
            .map(|mendable| mend(diagnosis, mendable));
        sections.push(Section::Table(Table {
            title: "To let it in".to_owned(),
            columns: vec!["Reason", "Change"],
            rows: rows.collect(),
            ..Table::default()
        }));
    }
    sections.extend(policies(diagnosis));
    sections
}

fn facts(diagnosis: &Diagnosis) -> Vec<(&'static str, Cell)> {
    let (client, resource) = (&diagnosis.client, &diagnosis.resource);
    let explanation = &diagnosis.explanation;
    let mut facts = vec![
        (
            "Would it be let in?",
            match diagnosis.passes() {
                true => Cell::good("yes"),
                false => Cell::bad("no"),
            },
        ),
        (
            "Client",
            Cell::link(format!("/clients/{}", client.id), &client.name),
        ),
        (
            "Owner",
            Cell::link(format!("/people/{}", client.actor), &diagnosis.owner),
        ),
        (
            "Resource",
            Cell::link(format!("/resources/{}", resource.id), &resource.name),
        ),
    ];
    if let Some(port) = &diagnosis.port {
        facts.push((
            "Port",
            match port.passes {
                true => Cell::text(&port.text),
                false => Cell::bad(&port.text),
            },
        ));
    }
    facts.push((
        "Gateway",
        match &explanation.gateway {
            Some(choice) => Cell::link(format!("/gateways/{}", choice.gateway), &choice.name),
            None => Cell::text("–"),
        },
    ));
    facts.push(("Until", Cell::time(explanation.until)));
    facts
}

/// The explanation without its lines about policies, which are in a table of their own.
fn text(diagnosis: &Diagnosis) -> String {
    let explanation = &diagnosis.explanation;
    let count = explanation.policies.len();
    let lines = explanation.text.lines().enumerate();
    let others = lines.filter(|(at, _)| *at == 0 || *at > count);
    let mut lines: Vec<&str> = others.map(|(_, line)| line).collect();
    lines.extend(diagnosis.port.as_ref().map(|port| &*port.text));
    lines.join("\n")
}

fn policies(diagnosis: &Diagnosis) -> Vec<Section> {
    let mut all: Vec<&PolicyExplanation> = diagnosis.explanation.policies.iter().collect();
    all.sort_by_key(|policy| policy.reasons.len());
    let rows = all.iter().take(MAX_POLICIES).map(|policy| {
        vec![
            Cell::link(format!("/policies/{}", policy.policy), &policy.name),
            Cell::link(format!("/groups/{}", policy.group), &policy.group_name),
            match (policy.verdict, policy.until) {
                (Verdict::Allow, None) => Cell::good("allows"),
                (Verdict::Allow, Some(until)) => Cell::good(format_args!("allows until {until}")),
                (Verdict::Deny, _) => Cell::bad("does not allow"),
            },
            Cell::text(policy.reasons.join("; ")),
        ]
    });
    let mut sections = vec![Section::Table(Table {
        title: "Policies of the groups of its owner".to_owned(),
        columns: vec!["Policy", "Group", "Outcome", "Why"],
        rows: rows.collect(),
        empty: "No policy lets a group of the owner use this resource.".into(),
        ..Table::default()
    })];
    if all.len() > MAX_POLICIES {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("search", &diagnosis.resource.name)
            .finish();
        let way = (format!("/policies?{query}"), format!("All {}", all.len()));
        sections.push(Section::Ways(vec![way]));
    }
    sections
}

/// A row with the button or the link that removes a reason.
fn mend(diagnosis: &Diagnosis, mendable: &Mendable) -> Vec<Cell> {
    let (client, resource) = (&diagnosis.client, &diagnosis.resource);
    let id = |id: EntityId, word: &str| match id {
        EntityId::Client(id) => format!("/clients/{id}/{word}"),
        EntityId::Actor(id) => format!("/people/{id}/{word}"),
        _ => format!("/policies/{id}/{word}"),
    };
    let button = |name, what: &str, path, version| {
        Cell::Actions(vec![Action {
            name,
            what: what.to_owned(),
            path,
            version: Some(version),
            is_grave: false,
            loss: None,
        }])
    };
    let back = query(&[("back", &here(diagnosis))]);
    let change = match &mendable.mend {
        Mend::VerifyClient(of, version) => button(
            "Verify this client",
            &client.name,
            id((*of).into(), "verify"),
            *version,
        ),
        Mend::EnableActor(of, version) => button(
            "Enable the owner",
            &diagnosis.owner,
            id((*of).into(), "enable"),
            *version,
        ),
        Mend::EnablePolicy(of, name, version) => button(
            "Enable the policy",
            name,
            id((*of).into(), "enable"),
            *version,
        ),
        Mend::EditPolicy(of, name) => Cell::link(
            format!("/policies/{of}?{back}"),
            format_args!("Edit policy {name}"),
        ),
        Mend::JoinGroup(of, name) => {
            let query = query(&[("actor", &diagnosis.owner), ("back", &here(diagnosis))]);
            Cell::link(
                format!("/groups/{of}?{query}"),
                format_args!("Add {} to group {name}", diagnosis.owner),
            )
        }
        Mend::CreatePolicy(group) => {
            create_policy(diagnosis, group.as_ref().map(|(_, name)| &**name))
        }
        Mend::NewToken(of) => Cell::link(
            format!("/people/{of}"),
            format_args!("Create a client token for {}", diagnosis.owner),
        ),
        Mend::EditResource(of) => Cell::link(
            format!("/resources/{of}?{back}"),
            format_args!("Edit resource {}", resource.name),
        ),
        Mend::OpenSite(of, name) => Cell::link(
            format!("/sites/{of}"),
            format_args!("Gateways of site {name}"),
        ),
    };
    vec![Cell::text(&mendable.reason), change]
}

fn create_policy(diagnosis: &Diagnosis, group: Option<&str>) -> Cell {
    let resource = &diagnosis.resource.name;
    let back = here(diagnosis);
    let group = group.map(|group| ("group", group));
    let fields: Vec<(&str, &str)> = group
        .into_iter()
        .chain([("resource", &**resource), ("back", &*back)])
        .collect();
    let text = match group {
        Some((_, group)) => format!("Create a policy for group {group} and {resource}"),
        None => format!("Create a policy for {resource}"),
    };
    Cell::link(format!("/policies/new?{}", query(&fields)), text)
}

/// The address of this question.
fn here(diagnosis: &Diagnosis) -> String {
    let (client, resource) = (diagnosis.client.id, diagnosis.resource.id);
    let port = diagnosis.port.as_ref();
    let port = port.map(|answer| format!("&port={}", answer.port));
    format!(
        "{AT}?client={client}&resource={resource}{}",
        port.unwrap_or_default()
    )
}

fn query(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish()
}
