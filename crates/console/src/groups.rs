//! Groups, and their members.

use super::answers::{self, PoliciesOf};
use super::asked::Asked;
use super::edit::{rename_form, renamed};
use super::forms::{Posted, taken};
use super::listing::Listing;
use super::members;
use super::names::Names;
use super::notice::done;
use super::person::Person;
use super::selected::{Act, Selection};
use super::state::Console;
use super::view::{Action, Buttons, Cell, Field, Form, Link, Page, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::GroupId;
use culvert_portal_base::{ActorInPath, Fault, Id};
use culvert_store::{EntityId, EntityKind, OrderBy};
use culvert_wire::api::{Group, GroupPatch, NewGroup};

const AT: &str = "/groups";

fn new_form(name: &str) -> Form {
    let name = Field::line("name", "Name").value(name);
    Form::new("New group", AT, "Create", vec![name])
}

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

pub(super) async fn ask(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    Ok(person
        .form_page("New group", AT, new_form(""))
        .into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Groups",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("People", None),
        ("Policies", None),
        ("Created", Some(OrderBy::Created)),
    ],
    states: &[],
    hint: "Name",
    empty: "There is none. Policies let groups in, not single actors.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Group,
    one: "group",
    many: "groups",
    acts: &[(
        Act::Delete,
        "Their policies go with them; access that nothing else allows ends at once. The people stay.",
    )],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let request = LISTING.request(asked);
    let found = console.service.groups(&person.caller, &request).await?;
    let ids = || found.items.iter().map(|group| group.id);
    let (service, caller) = (&console.service, &person.caller);
    let members = service.member_counts(caller, ids()).await?;
    let policies = service
        .reference_counts(caller, EntityKind::Policy, ids())
        .await?;
    let rows = found.items.iter().map(|group| {
        vec![
            Cell::link(format!("{AT}/{}", group.id), &group.name),
            Cell::text(members.get(&group.id).copied().unwrap_or(0)),
            Cell::text(policies.get(&group.id.into()).copied().unwrap_or(0)),
            Cell::time(Some(group.created)),
        ]
    });
    let mut list = LISTING.table(asked, found.total, rows.collect());
    let shown = found
        .items
        .iter()
        .map(|group| (group.id, group.version, group.name.as_str()));
    SELECTION.offer(person, &mut list, shown);
    Ok(person.searched_page(
        AT,
        list,
        Some(Link {
            path: "/groups/new",
            name: "New group",
        }),
    ))
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name").to_owned();
    let new = NewGroup { name: name.clone() };
    let made = console.service.create_group(&person.caller, new).await;
    let onward = |group: Group| {
        done(
            &format!("{AT}/{}", group.id),
            &format!("Group {} created.", group.name),
        )
    };
    let page = async |form| Ok(person.form_page("New group", AT, form));
    taken(made, || new_form(&name), onward, page).await
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<GroupId>,
) -> Result<Response, Fault> {
    let page = group_page(&console, &person, &asked, id, None).await?;
    Ok(page.into_response())
}

/// `refused` stands in the place of the form for members.
pub(super) async fn group_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    id: GroupId,
    refused: Option<Form>,
) -> Result<Page, Fault> {
    let group = console.service.group(&person.caller, id).await?;
    let request = asked.part();
    let found = console
        .service
        .members(&person.caller, id, &request)
        .await?;
    let rows = found.items.iter().map(|member| {
        let remove = Action {
            name: "Remove",
            what: member.actor_name.clone(),
            path: format!("{AT}/{id}/remove/{}", member.actor),
            version: None,
            is_grave: true,
            loss: Some("They lose at once what the policies of this group alone allow."),
        };
        vec![
            Cell::link(format!("/people/{}", member.actor), &member.actor_name),
            Cell::time(Some(member.created)),
            person.menu([remove]),
        ]
    });
    let list = Table {
        title: "Members".to_owned(),
        columns: vec!["Name", "Since", "Actions"],
        rows: rows.collect(),
        empty: "There is none.".into(),
        next: asked.next(&format!("{AT}/{id}"), found.next_cursor.as_deref()),
        ..Table::default()
    };
    let counts = console.service.member_counts(&person.caller, [id]).await?;
    let mut page = person.page("", AT);
    page.sections.push(Section::Facts {
        title: "About".to_owned(),
        facts: vec![
            (
                "Members",
                Cell::text(counts.get(&id).copied().unwrap_or_default()),
            ),
            ("Created", Cell::time(Some(group.created))),
        ],
    });
    let of = PoliciesOf::Group(id, &group.name);
    page.sections
        .extend(answers::policies(console, person, of).await?);
    page.sections.push(Section::Table(list));
    if person.may_change() {
        let form = match refused {
            Some(form) => form,
            None => members::to_group(console, person, id, &asked.0).await?,
        };
        // Everybody may be a member already.
        if !form.fields.is_empty() {
            page.sections.push(Section::Form(form));
        }
    }
    page.title.clone_from(&group.name);
    let at = format!("{AT}/{id}");
    let rename = rename_form(&at, &group.name).with_version(group.version);
    page.sections.extend(person.forms([rename]));
    let delete = Buttons {
        path: at,
        what: &group.name,
        version: group.version,
    };
    if person.may_change() {
        let delete = delete.for_good(
            "Delete",
            "delete",
            "Its policies and memberships go with it: access by them ends at once.",
        );
        page.sections.push(Section::Facts {
            title: "Delete".to_owned(),
            facts: vec![("Its policies go with it", Cell::Actions(vec![delete]))],
        });
    }
    Ok(page)
}

pub(super) async fn remove_member(
    State(console): State<Console>,
    Id(id): Id<GroupId>,
    ActorInPath(actor): ActorInPath,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let ids = [EntityId::from(id), EntityId::from(actor)];
    let names = Names::of(&console, &person, ids).await?;
    console
        .service
        .remove_member(&person.caller, id, actor)
        .await?;
    let notice = format!(
        "{} removed from group {}.",
        names.text(actor),
        names.text(id)
    );
    Ok(person.back_with(&fields, &format!("{AT}/{id}"), &notice))
}

pub(super) async fn rename(
    State(console): State<Console>,
    Id(id): Id<GroupId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = Some(fields.text("name").to_owned());
    let service = &console.service;
    let changed = service
        .change_group(&person.caller, id, version, GroupPatch { name })
        .await;
    let now = async {
        let group = service.group(&person.caller, id).await?;
        Ok((group.name, group.version))
    };
    let at = (AT, format!("{AT}/{id}"));
    renamed(&person, at, &fields, changed, now).await
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<GroupId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = console.name_of(&person, id).await?;
    let service = &console.service;
    service.delete_group(&person.caller, id, version).await?;
    Ok(done(AT, &format!("Group {name} deleted.")))
}
