//! Policies, and why a client may use a resource or may not.

use super::Console;
use super::forms::{Asked, Fields, Posted, done};
use super::person::Person;
use super::view::{Action, Cell, Field, Form, Page, Section, Table};
use crate::api::Id;
use crate::fault::Fault;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::PolicyId;
use culvert_wire::api::{NewPolicy, Policy, PolicyPatch, Verdict};
use culvert_wire::words::{self, Wanted};

const AT: &str = "/policies";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked, new_form(None)).await?;
    Ok(page.into_response())
}

fn new_form(written: Option<&Fields>) -> Form {
    let text = |name| written.map_or("", |fields| fields.text(name));
    let fields = vec![
        Field::line("name", "Name").value(text("name")),
        Field::line("group", "Group")
            .hint("The name of the group that is let in.")
            .value(text("group")),
        Field::line("resource", "Resource")
            .hint("The name of what it is let to.")
            .value(text("resource")),
        Field::lines("time", "Only at these times")
            .hint("One a line, any is enough: mon-fri 08:00-18:00 Europe/Berlin")
            .value(text("time")),
        Field::lines("from_address", "Only from these addresses")
            .hint("One a line: 203.0.113.0/24")
            .value(text("from_address")),
        Field::line("country", "Only from these countries")
            .optional()
            .hint("Codes with spaces between: DE AT. The portal needs a database of countries.")
            .value(text("country")),
        Field::choice(
            "verified",
            "Clients",
            &[("no", "all"), ("yes", "only verified ones")],
        )
        .value(text("verified")),
        Field::line("expires", "Until")
            .optional()
            .hint("Such as 2027-01-31T18:00:00Z; without, for good.")
            .value(text("expires")),
    ];
    Form::new("New policy", AT, "Make", fields)
}

async fn list_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    form: Form,
) -> Result<Page, Fault> {
    let service = &console.service;
    let request = asked.part();
    let found = service.policies(&person.caller, &request).await?;
    let mut rows = Vec::new();
    for policy in found.items {
        let group = service.group(&person.caller, policy.group).await?;
        let resource = service.resource(&person.caller, policy.resource).await?;
        rows.push(vec![
            Cell::text(&policy.name),
            Cell::link(format!("/groups/{}", group.id), group.name),
            Cell::link(format!("/resources/{}", resource.id), resource.name),
            Cell::text(words::conditions(&policy.conditions)),
            match policy.disabled {
                true => Cell::warn("disabled"),
                false => Cell::good("allows"),
            },
            Cell::Actions(actions(person, &policy)),
        ]);
    }
    let list = Table {
        title: "Policies".to_owned(),
        columns: vec!["Name", "Group", "Resource", "When", "State", "Do"],
        rows,
        empty: "There is none, so nobody reaches anything. A policy lets a group to a resource.",
        next: asked.next(AT, found.next_cursor.as_deref()),
    };
    Ok(person.list_page("Policies", AT, asked, list, form))
}

fn actions(person: &Person, policy: &Policy) -> Vec<Action> {
    if !person.may_change() {
        return Vec::new();
    }
    let action = |name, word: &str, is_grave| Action {
        name,
        what: policy.name.clone(),
        path: format!("{AT}/{}/{word}", policy.id),
        version: Some(policy.version),
        is_grave,
    };
    let switch = match policy.disabled {
        true => action("Enable", "enable", false),
        false => action("Disable", "disable", false),
    };
    vec![switch, action("Delete", "delete", true)]
}

fn wanted(fields: &Fields) -> Result<Wanted, Fault> {
    Ok(Wanted {
        expires: match fields.filled("expires") {
            Some(_) => Some(fields.parse("expires")?),
            None => None,
        },
        time: fields.lines("time"),
        from_address: fields.lines("from_address"),
        country: fields
            .text("country")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        is_verified: fields.text("verified") == "yes",
    })
}

pub(super) async fn create(
    State(console): State<Console>,
    asked: Asked,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let service = &console.service;
    let made = async {
        let conditions = wanted(&fields)?.conditions();
        let new = NewPolicy {
            name: fields.text("name").to_owned(),
            group: service
                .group_named(&person.caller, fields.text("group"))
                .await
                .map_err(|fault| fault.at_field("group"))?
                .id,
            resource: service
                .resource_named(&person.caller, fields.text("resource"))
                .await
                .map_err(|fault| fault.at_field("resource"))?
                .id,
            disabled: false,
            conditions: conditions.map_err(|error| Fault::invalid("", error))?,
        };
        service.create_policy(&person.caller, new).await
    };
    match made.await {
        Ok(_) => Ok(done(AT, "made")),
        Err(fault) => {
            let (form, status) = new_form(Some(&fields)).refused(fault)?;
            let page = list_page(&console, &person, &asked, form).await?;
            Ok(page.with_status(status))
        }
    }
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
    console
        .service
        .change_policy(&person.caller, id, version, patch)
        .await?;
    Ok(done(AT, "changed"))
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<PolicyId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    console
        .service
        .delete_policy(&person.caller, id, version)
        .await?;
    Ok(done(AT, "deleted"))
}

pub(super) async fn explain(
    State(console): State<Console>,
    person: Person,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    const AT: &str = "/explain";
    let service = &console.service;
    let form = Form::new(
        "May this client use this resource now?",
        AT,
        "Explain",
        vec![
            Field::line("client", "Client")
                .hint("By its name.")
                .value(fields.text("client")),
            Field::line("resource", "Resource")
                .hint("By its name.")
                .value(fields.text("resource")),
        ],
    )
    .question();
    let mut page = person.page("Explain", AT);
    let (Some(client), Some(resource)) = (fields.filled("client"), fields.filled("resource"))
    else {
        // Who may read nothing of it is not asked either.
        person.caller.may_read()?;
        page.sections.push(Section::Form(form));
        return Ok(page.into_response());
    };
    let explained = async {
        let client = service.client_named(&person.caller, client).await;
        let client = client.map_err(|fault| fault.at_field("client"))?;
        let resource = service.resource_named(&person.caller, resource).await;
        let resource = resource.map_err(|fault| fault.at_field("resource"))?;
        service
            .explain(&person.caller, client.id, resource.id)
            .await
    };
    match explained.await {
        Ok(explanation) => {
            let verdict = match explanation.verdict {
                Verdict::Allow => Cell::good("yes"),
                Verdict::Deny => Cell::bad("no"),
            };
            page.sections.push(Section::Facts {
                title: "Now".to_owned(),
                facts: vec![
                    ("Would it be let in?", verdict),
                    ("Until", Cell::time(explanation.until)),
                ],
            });
            page.sections.push(Section::Lines {
                title: "Why".to_owned(),
                text: explanation.text,
            });
            page.sections.push(Section::Form(form));
            Ok(page.into_response())
        }
        Err(fault) => {
            let (form, status) = form.refused(fault)?;
            page.sections.push(Section::Form(form));
            Ok(page.with_status(status))
        }
    }
}
