//! From an owner to the first protected connection: what is there already, and what comes next.

use super::enrolment::secret_of;
use super::fields::Fields;
use super::forms::{Posted, taken};
use super::notice::done;
use super::person::Person;
use super::state::Console;
use super::view::{Field, Form, Page, Section, Step, Steps};
use crate::machine_commands;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{GroupId, SiteId};
use culvert_portal_base::{Fault, Problems};
use culvert_portal_service::{Caller, ListRequest};
use culvert_wire::api::{
    ActorKind, ApplyOptions, Desired, DesiredGroup, DesiredPolicy, DesiredResource, FieldProblem,
    IssuedToken, NewActor, NewMember, NewSite, NewToken, ResourcePatch,
};
use culvert_wire::model::{Applications, Filter};
use culvert_wire::token::TokenKind;
use culvert_wire::words;

pub(super) const AT: &str = "/first-steps";

/// The progress of the first steps.
struct Progress {
    site: Option<(SiteId, String)>,
    is_gateway_connected: bool,
    /// The group that the first policy lets in.
    group: Option<GroupId>,
    is_client_connected: bool,
    is_used: bool,
}

async fn progress(console: &Console, caller: &Caller) -> Result<Progress, Fault> {
    let service = &console.service;
    let one = ListRequest {
        limit: Some(1),
        ..ListRequest::default()
    };
    let mut sites = service.sites(caller, &one).await?.items;
    let mut policies = service.policies(caller, &one).await?.items;
    let status = service.status(caller).await?;
    Ok(Progress {
        site: sites.pop().map(|site| (site.id, site.name)),
        is_gateway_connected: status.gateways > 0,
        group: policies.pop().map(|policy| policy.group),
        is_client_connected: status.clients > 0,
        is_used: status.grants > 0,
    })
}

impl Progress {
    fn steps(&self) -> Steps {
        let site = self.site.as_ref().map_or("", |(_, name)| name);
        let step = Step::new;
        let mut steps = vec![
            step("An owner", true, "That is you."),
            step(
                "A site",
                self.site.is_some(),
                "A place with gateways and the resources behind them: an office, a network of a cloud.",
            ),
            step(
                "A gateway is connected",
                self.is_gateway_connected,
                "It runs on a machine of the site, and lets clients to the resources there.",
            ),
            step(
                "A resource, and who may use it",
                self.group.is_some(),
                "A network, an address or a name, and a policy that lets a group use it. Without a policy \
                 nobody reaches anything.",
            ),
            step(
                "A client is connected",
                self.is_client_connected,
                "It runs on the machine that is to reach the resource.",
            ),
            step(
                "The first access",
                self.is_used,
                "Open the resource on the client. This shows what it may use, and how far each way is:",
            ),
        ];
        if let Some(last) = steps.last_mut() {
            last.command = Some(machine_commands::RESOURCES.to_owned());
        }
        if let Some((id, _)) = &self.site {
            steps[2].link = Some((format!("/sites/{id}"), "The gateways of the site"));
            steps[1].text = format!("{site} is one. {}", steps[1].text);
        }
        steps[3].link = Some(("/policies".to_owned(), "All policies"));
        steps[4].link = Some(("/clients".to_owned(), "All clients"));
        let count = steps.iter().filter(|step| step.is_done).count();
        let news = format!("{count} of {} steps are done.", steps.len());
        Steps::new("From here to the first protected connection", news, steps)
    }

    /// The forms of what can be done now.
    fn forms(&self, written: Option<&Fields>) -> Vec<Form> {
        let text = |name, otherwise: &str| {
            let written = written.and_then(|fields| fields.filled(name));
            written.unwrap_or(otherwise).to_owned()
        };
        let form = |step: &str, title, submit, fields| {
            let mut form = Form::new(title, AT, submit, fields);
            form.hide("step", step.to_owned());
            form
        };
        let mut forms = Vec::new();
        if self.site.is_none() {
            let name = Field::line("site", "Name of the site").value(text("site", "office"));
            forms.push(form("site", "Create the site", "Create", vec![name]));
            return forms;
        }
        if !self.is_gateway_connected {
            let name = Field::line("gateway", "Name of its token")
                .hint("It enrols one machine.")
                .value(text("gateway", "first gateway"));
            let title = "Create the command for the gateway";
            forms.push(form("gateway", title, "Create", vec![name]));
        }
        if self.group.is_none() {
            let fields = vec![
                Field::line("name", "Name of the resource").value(text("name", "")),
                Field::line("address", "Address")
                    .hint("10.0.0.0/8, 10.1.2.3, db.corp.example or *.corp.example")
                    .value(text("address", "")),
                Field::lines("within", "Networks of its names")
                    .optional()
                    .hint(
                        "Only of names: the networks that their addresses must be in, one a line. Left \
                         empty, they may lead to any host that the gateways reach.",
                    )
                    .value(text("within", "")),
                Field::lines("filters", "Allowed")
                    .hint("One a line: tcp:80,443, udp:53, icmp, any. Empty allows nothing.")
                    .value(text("filters", "any")),
                Field::line("group", "Group that may use it")
                    .hint("It is created, if there is none of that name.")
                    .value(text("group", "everyone")),
            ];
            let title = "Create the resource and its policy";
            forms.push(form("resource", title, "Create", fields));
        } else if !self.is_client_connected {
            let name = Field::line("client", "Name of a service account")
                .hint(
                    "It is created, if there is none of that name, and becomes a member of the group.",
                )
                .value(text("client", "first machine"));
            let title = "Create the command for the client";
            forms.push(form("client", title, "Create", vec![name]));
        }
        forms
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let page = page(&console, &person, None, None, Vec::new()).await?;
    Ok(page.into_response())
}

async fn page(
    console: &Console,
    person: &Person,
    written: Option<&Fields>,
    refused: Option<Form>,
    secret: Vec<Section>,
) -> Result<Page, Fault> {
    let mut page = person.live_page("First steps", "/", AT, console);
    let progress = progress(console, &person.caller).await?;
    page.sections.extend(secret);
    page.sections.push(Section::Steps(progress.steps()));
    let mut forms = progress.forms(written);
    if let Some(refused) = refused
        && let Some(form) = forms.iter_mut().find(|form| form.title == refused.title)
    {
        *form = refused;
    }
    page.sections.extend(person.forms(forms));
    Ok(page)
}

/// The result of a step.
enum Made {
    Thing,
    Token(IssuedToken),
}

pub(super) async fn take(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let progress = progress(&console, &person.caller).await?;
    let made = match fields.text("step") {
        "site" => make_site(&console, &person.caller, &fields).await,
        "gateway" => make_gateway_token(&console, &person.caller, &fields, &progress).await,
        "resource" => make_resource(&console, &person.caller, &fields, &progress).await,
        "client" => make_client_token(&console, &person.caller, &fields, &progress).await,
        _ => Err(Fault::invalid("step", "there is no such step")),
    };
    let made = match made {
        Ok(Made::Token(issued)) => {
            let secret = secret_of(&issued);
            let page = page(&console, &person, None, None, secret).await?;
            return Ok(page.into_response());
        }
        Ok(Made::Thing) => Ok(()),
        Err(fault) => Err(fault),
    };
    let form = || {
        let step = fields.text("step");
        let mut forms = progress.forms(Some(&fields)).into_iter();
        let form = forms.find(|form| form.hidden.iter().any(|(_, value)| value == step));
        form.unwrap_or_else(|| Form::new("Step", AT, "Send", Vec::new()))
    };
    let again = |form| page(&console, &person, Some(&fields), Some(form), Vec::new());
    taken(made, form, |()| done(AT, "The step is done."), again).await
}

async fn make_site(console: &Console, caller: &Caller, fields: &Fields) -> Result<Made, Fault> {
    let name = fields.text("site").to_owned();
    let made = console.service.create_site(caller, NewSite { name }).await;
    made.map_err(|fault| at_field(fault, "site"))?;
    Ok(Made::Thing)
}

/// A fault of a thing's name, at the field of this page that has it.
fn at_field(fault: Fault, field: &str) -> Fault {
    match fault {
        Fault::Invalid(problems) => {
            let here = |problem: FieldProblem| FieldProblem {
                field: field.to_owned(),
                ..problem
            };
            Fault::Invalid(problems.into_iter().map(here).collect())
        }
        other => other,
    }
}

async fn make_gateway_token(
    console: &Console,
    caller: &Caller,
    fields: &Fields,
    progress: &Progress,
) -> Result<Made, Fault> {
    let site = progress.site.as_ref().map(|(id, _)| *id);
    let new = NewToken {
        kind: TokenKind::Gateway,
        actor: None,
        site,
        role: None,
        name: fields.text("gateway").to_owned(),
        expires: None,
        one_time: true,
    };
    let issued = console.service.create_token(caller, new).await;
    let issued = issued.map_err(|fault| at_field(fault, "gateway"))?;
    Ok(Made::Token(issued))
}

/// Resource, group and policy, all or none.
async fn make_resource(
    console: &Console,
    caller: &Caller,
    fields: &Fields,
    progress: &Progress,
) -> Result<Made, Fault> {
    let Some((_, site)) = &progress.site else {
        return Err(Fault::invalid("", "create a site first"));
    };
    let filters = wanted_filters(console, caller, fields).await?;
    let text = |name| fields.text(name).to_owned();
    let desired = Desired {
        groups: vec![DesiredGroup {
            name: text("group"),
            members: None,
        }],
        resources: vec![DesiredResource {
            name: text("name"),
            site: site.clone(),
            kind: words::target_kind(fields.text("address")),
            address: text("address"),
            filters,
            applications: Applications::Any,
            within: Some(networks(fields)),
            inbound: Vec::new(),
        }],
        policies: vec![DesiredPolicy {
            name: text("name"),
            group: text("group"),
            resource: text("name"),
            disabled: false,
            conditions: Vec::new(),
        }],
        ..Desired::default()
    };
    let service = &console.service;
    let applied = service
        .apply(caller, &desired, ApplyOptions::default())
        .await;
    applied.map_err(by_field)?;
    Ok(Made::Thing)
}

/// The filters that the form asks for. All wrong fields of the resource are named at once.
async fn wanted_filters(
    console: &Console,
    caller: &Caller,
    fields: &Fields,
) -> Result<Vec<Filter>, Fault> {
    caller.may_change()?;
    let mut problems = Problems::default();
    let each = words::parse_all_allowed(fields.text("filters"));
    let filters = each.and_then(|each| words::allowed(&each));
    let filters = problems.take(filters.map_err(|error| Fault::invalid("filters", error)))?;
    let patch = ResourcePatch {
        name: Some(fields.text("name").to_owned()),
        kind: Some(words::target_kind(fields.text("address"))),
        address: Some(fields.text("address").to_owned()),
        filters: filters.clone(),
        within: Some(networks(fields)),
        ..ResourcePatch::default()
    };
    problems.take(console.service.check_resource(caller, None, &patch).await)?;
    problems.finish_with(filters)
}

/// The ranges that names may lead into; none for an empty field.
fn networks(fields: &Fields) -> Vec<String> {
    let each = fields.text("within").split_whitespace();
    let networks: Vec<String> = each.map(str::to_owned).collect();
    match networks.is_empty() {
        true => vec![words::ANYWHERE.to_owned()],
        false => networks,
    }
}

/// The API tells of `groups[0].name`, this page of `group`.
fn by_field(fault: Fault) -> Fault {
    let Fault::Invalid(problems) = fault else {
        return fault;
    };
    let here = |problem: FieldProblem| {
        let field = match problem.field.rsplit('.').next().unwrap_or_default() {
            "name" if problem.field.starts_with("groups") => "group",
            last => last,
        };
        FieldProblem {
            field: field.to_owned(),
            detail: problem.detail,
        }
    };
    Fault::Invalid(problems.into_iter().map(here).collect())
}

async fn make_client_token(
    console: &Console,
    caller: &Caller,
    fields: &Fields,
    progress: &Progress,
) -> Result<Made, Fault> {
    let Some(group) = progress.group else {
        return Err(Fault::invalid("", "create a policy first"));
    };
    let service = &console.service;
    let name = fields.text("client").to_owned();
    let actor = match service.actor_named(caller, &name).await {
        Ok(actor) => actor,
        Err(Fault::NotFound(_)) => {
            let new = NewActor {
                kind: ActorKind::ServiceAccount,
                name: name.clone(),
            };
            let made = service.create_actor(caller, new).await;
            made.map_err(|fault| at_field(fault, "client"))?
        }
        Err(fault) => return Err(fault),
    };
    let member = NewMember { actor: actor.id };
    match service.add_member(caller, group, member).await {
        // It is one already.
        Ok(_) | Err(Fault::Conflict(_)) => {}
        Err(fault) => return Err(fault),
    }
    let new = NewToken {
        kind: TokenKind::Client,
        actor: Some(actor.id),
        site: None,
        role: None,
        name,
        expires: None,
        one_time: true,
    };
    let issued = service.create_token(caller, new).await;
    let issued = issued.map_err(|fault| at_field(fault, "client"))?;
    Ok(Made::Token(issued))
}
