//! Policies.

use super::asked::Asked;
use super::condition_fields;
use super::edit::{Edit, Now};
use super::fields::Fields;
use super::forms::{Posted, taken, with_way_back};
use super::listing::{Listing, RowState};
use super::names::Names;
use super::notice::done;
use super::person::Person;
use super::resources::sentence;
use super::selected::{Act, Selection};
use super::state::Console;
use super::states;
use super::view::{Action, Buttons, Cell, Field, Form, Link, Page, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, PolicyId};
use culvert_portal_base::{Fault, Id, Problems};
use culvert_store::{self as store, EntityKind, OrderBy, Part};
use culvert_wire::api::{NewPolicy, Policy, PolicyPatch};
use culvert_wire::model::Condition;
use culvert_wire::words;

const AT: &str = "/policies";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

fn new_form(written: &Fields) -> Form {
    let text = |name| written.text(name);
    let mut fields = place_fields([text("name"), text("group"), text("resource")]).to_vec();
    fields.extend(condition_fields::as_sent(written));
    with_way_back(Form::new("New policy", AT, "Create", fields), written)
}

/// The fields for its name, its group and its resource, each by name.
fn place_fields([name, group, resource]: [&str; 3]) -> [Field; 3] {
    [
        Field::line("name", "Name")
            .optional()
            .hint("Empty: “GROUP may use RESOURCE”.")
            .value(name),
        Field::thing("group", "Group", EntityKind::Group)
            .hint("The group that may use the resource.")
            .value(group),
        Field::thing("resource", "Resource", EntityKind::Resource)
            .hint("The resource that the group may use.")
            .value(resource),
    ]
}

/// The form, with what the address has for its fields.
pub(super) async fn ask(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let form = console.with_choices(&person, new_form(&asked));
    Ok(person
        .form_page("New policy", AT, form.await?)
        .into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Policies",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Group", None),
        ("Resource", Some(OrderBy::Holder)),
        ("When", None),
        ("State", None),
        ("Actions", None),
    ],
    states: &[
        RowState::new("enabled", "In force", Part::EnabledPolicies),
        RowState::new("disabled", "Disabled", Part::DisabledPolicies),
    ],
    hint: "Name, group or resource",
    empty: "There is none, so nobody reaches anything. A policy lets a group use a resource.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Policy,
    one: "policy",
    many: "policies",
    acts: &[
        (Act::Enable, ""),
        (
            Act::Disable,
            "Access that nothing else allows ends at once.",
        ),
        (Act::Delete, "Access that nothing else allows ends at once."),
    ],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let service = &console.service;
    let mut request = LISTING.request(asked);
    let actor = asked.0.optional::<ActorId>("person")?;
    request.filter.of_actor = actor;
    let found = service.policies(&person.caller, &request).await?;
    let ends = |policy: &Policy| [policy.group.into(), policy.resource.into()];
    let names = Names::of(console, person, found.items.iter().flat_map(ends)).await?;
    let rows = found.items.iter().map(|policy| {
        vec![
            Cell::link(format!("{AT}/{}", policy.id), &policy.name),
            names.shown(policy.group),
            names.shown(policy.resource),
            Cell::text(words::conditions(&policy.conditions)),
            states::policy(policy),
            person.menu(actions(policy)),
        ]
    });
    let mut list = LISTING.table(asked, found.total, rows.collect());
    let shown = found
        .items
        .iter()
        .map(|policy| (policy.id, policy.version, policy.name.as_str()));
    SELECTION.offer(person, &mut list, shown);
    if let (Some(actor), Some(bar)) = (actor, &mut list.filter_bar) {
        bar.hidden.push(("person", actor.to_string()));
        let name = console.name_of(person, actor).await?;
        list.title = format!("Policies for {name}");
    }
    Ok(person.searched_page(
        AT,
        list,
        Some(Link {
            path: "/policies/new",
            name: "New policy",
        }),
    ))
}

fn actions(policy: &Policy) -> Vec<Action> {
    let buttons = Buttons {
        path: format!("{AT}/{}", policy.id),
        what: &policy.name,
        version: policy.version,
    };
    let switch = match policy.disabled {
        true => buttons.button("Enable", "enable"),
        false => buttons.for_good(
            "Disable",
            "disable",
            "People with access by this policy alone lose it at once, until you enable it again.",
        ),
    };
    vec![
        switch,
        buttons.for_good(
            "Delete",
            "delete",
            "People with access by this policy alone lose it at once.",
        ),
    ]
}

/// The conditions that a form asks for, in JSON or in a field for each. Wrong fields are noted; the conditions of the
/// others are returned, to be judged too.
fn conditions(fields: &Fields, problems: &mut Problems) -> Result<Vec<Condition>, Fault> {
    if let Some(text) = fields.filled("conditions") {
        let read = serde_json::from_str(text)
            .map_err(|error| Fault::invalid("conditions", not_json(&error)));
        return Ok(problems.take(read)?.unwrap_or_default());
    }
    condition_fields::asked(fields, problems)
}

/// The policy that a form asks for, with everything but its state. All wrong fields are named at once.
async fn wanted(
    console: &Console,
    person: &Person,
    id: Option<PolicyId>,
    fields: &Fields,
) -> Result<PolicyPatch, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    caller.may_change()?;
    let mut problems = Problems::default();
    let group = service.chosen::<store::Group>(caller, fields.text("group"));
    let group = group.await.map_err(|fault| fault.at_field("group"));
    let group = problems.take(group)?;
    let resource = service.chosen::<store::Resource>(caller, fields.text("resource"));
    let resource = resource.await.map_err(|fault| fault.at_field("resource"));
    let resource = problems.take(resource)?;
    let name = match (fields.filled("name"), &group, &resource) {
        (None, Some(group), Some(resource)) if id.is_none() => {
            words::policy_name(&group.name, &resource.name)
        }
        (written, _, _) => written.unwrap_or_default().to_owned(),
    };
    let patch = PolicyPatch {
        name: Some(name),
        group: group.map(|group| group.id),
        resource: resource.map(|resource| resource.id),
        conditions: Some(conditions(fields, &mut problems)?),
        disabled: None,
    };
    let checked = service.check_policy(caller, id, &patch).await;
    let asked = patch.conditions.as_deref().unwrap_or_default();
    problems.take(match fields.filled("conditions") {
        Some(_) => checked,
        None => checked.map_err(|fault| at_fields(fault, asked)),
    })?;
    problems.finish()?;
    Ok(patch)
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let service = &console.service;
    let made = async {
        let wanted = wanted(&console, &person, None, &fields).await?;
        let (Some(group), Some(resource)) = (wanted.group, wanted.resource) else {
            return Err(Fault::internal("a policy without a group or a resource"));
        };
        let new = NewPolicy {
            name: wanted.name.unwrap_or_default(),
            group,
            resource,
            disabled: false,
            conditions: wanted.conditions.unwrap_or_default(),
        };
        service.create_policy(&person.caller, new).await
    };
    let form = || new_form(&fields);
    let page = async |form| {
        let form = console.with_choices(&person, form).await?;
        Ok(person.form_page("New policy", AT, form))
    };
    let onward = |policy: Policy| {
        let notice = format!("Policy {} created.", policy.name);
        person.back_with(&fields, AT, &notice)
    };
    taken(made.await, form, onward, page).await
}

/// A fault of a condition at the field that asks for it.
fn at_fields(fault: Fault, asked: &[Condition]) -> Fault {
    let Fault::Invalid(mut problems) = fault else {
        return fault;
    };
    for problem in &mut problems {
        let index = problem.field.strip_prefix("conditions[");
        let index = index.and_then(|rest| rest.split(']').next()?.parse::<usize>().ok());
        if let Some(condition) = index.and_then(|index| asked.get(index)) {
            problem.field = condition.field().name.to_owned();
        }
        // Of all conditions together, which have no field of their own.
        if problem.field == "conditions" {
            problem.field.clear();
        }
    }
    Fault::Invalid(problems)
}

fn edit_form(id: PolicyId, place: [&str; 3], conditions: Vec<Field>) -> Form {
    let mut fields = place_fields(place).to_vec();
    fields.extend(conditions);
    Form::new("Change the policy", format!("{AT}/{id}"), "Change", fields)
}

/// In fields of their own where those can say it, otherwise as the API has them.
fn as_is(policy: &Policy) -> Vec<Field> {
    condition_fields::as_they_are(&policy.conditions).unwrap_or_else(|| {
        let text = serde_json::to_string_pretty(&policy.conditions).unwrap_or_default();
        vec![conditions_field(&text)]
    })
}

fn conditions_field(text: &str) -> Field {
    Field::lines("conditions", "Conditions")
        .hint("As the API has them: it says more than this page has fields for.")
        .value(text)
}

/// The place at which conditions are not as the API has them.
fn not_json(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let reason = text
        .rsplit_once(" at line ")
        .map_or(&*text, |(reason, _)| reason);
    format!(
        "write a list of conditions as the API has them, in JSON: at line {line}, column {column} this is none ({reason})"
    )
}

/// The form as it was sent.
fn as_sent(fields: &Fields) -> Vec<Field> {
    match fields.filled("conditions") {
        Some(text) => vec![conditions_field(text)],
        None => condition_fields::as_sent(fields),
    }
}

/// A policy, and the names of what it joins.
struct Joined {
    policy: Policy,
    group: String,
    resource: String,
}

impl Joined {
    async fn read(console: &Console, person: &Person, id: PolicyId) -> Result<Self, Fault> {
        let service = &console.service;
        let policy = service.policy(&person.caller, id).await?;
        let ends = [policy.group.into(), policy.resource.into()];
        let names = Names::of(console, person, ends).await?;
        Ok(Self {
            group: names.text(policy.group),
            resource: names.text(policy.resource),
            policy,
        })
    }

    fn facts(&self) -> Vec<(&'static str, Cell)> {
        let policy = &self.policy;
        vec![
            ("Name", Cell::text(&policy.name)),
            (
                "Lets",
                Cell::link(format!("/groups/{}", policy.group), &self.group),
            ),
            (
                "To",
                Cell::link(format!("/resources/{}", policy.resource), &self.resource),
            ),
            ("When", Cell::text(words::conditions(&policy.conditions))),
            ("State", states::policy(policy)),
        ]
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<PolicyId>,
) -> Result<Response, Fault> {
    let joined = Joined::read(&console, &person, id).await?;
    let policy = &joined.policy;
    let mut facts = joined.facts();
    let mut page = person.page(&policy.name, AT);
    if person.may_change() {
        facts.push(("Actions", person.buttons(actions(policy))));
    }
    let warnings = policy.warnings.iter();
    let warnings = warnings.map(|warning| Section::Alert(sentence(warning)));
    page.sections.extend(warnings);
    page.sections.push(Section::Facts {
        title: "Policy".to_owned(),
        facts,
    });
    let place = [&*policy.name, &joined.group, &joined.resource];
    if person.may_change() {
        let form = edit_form(id, place, as_is(policy));
        let form = console.with_choices(&person, form).await?;
        let form = with_way_back(form.with_version(policy.version), &asked.0);
        page.sections.push(Section::Form(form));
    }
    Ok(page.into_response())
}

pub(super) async fn change(
    State(console): State<Console>,
    Id(id): Id<PolicyId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let changed = async {
        let patch = wanted(&console, &person, Some(id), &fields).await?;
        let service = &console.service;
        service
            .change_policy(&person.caller, id, version, patch)
            .await
    };
    let place = ["name", "group", "resource"].map(|name| fields.text(name));
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: AT,
        form: console
            .with_choices(&person, edit_form(id, place, as_sent(&fields)))
            .await?,
        onward: (
            format!("{AT}/{id}"),
            format!("Policy {} changed.", fields.text("name")),
        ),
    };
    let now = async {
        let joined = Joined::read(&console, &person, id).await?;
        Ok(Now {
            facts: joined.facts(),
            version: joined.policy.version,
        })
    };
    edit.finish(changed.await, now).await
}

pub(super) async fn switch(
    State(console): State<Console>,
    Id(id): Id<PolicyId>,
    Posted { person, fields }: Posted,
    disabled: bool,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let patch = PolicyPatch {
        disabled: Some(disabled),
        ..PolicyPatch::default()
    };
    let policy = console
        .service
        .change_policy(&person.caller, id, version, patch)
        .await?;
    let word = if disabled { "disabled" } else { "enabled" };
    let notice = format!("Policy {} {word}.", policy.name);
    Ok(person.back_with(&fields, AT, &notice))
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<PolicyId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = console.name_of(&person, id).await?;
    console
        .service
        .delete_policy(&person.caller, id, version)
        .await?;
    Ok(done(AT, &format!("Policy {name} deleted.")))
}
