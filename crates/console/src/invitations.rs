//! Invitations, as administrators make them: a person with role and groups, and a link that is shown once.

use super::forms::{Posted, taken};
use super::notice::done;
use super::paths::PEOPLE as AT;
use super::person::Person;
use super::roles::roles_for;
use super::state::Console;
use super::view::{CheckBox, Field, Form, Link, Page, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, GroupId};
use culvert_portal_base::{Fault, Id, Problems};
use culvert_portal_service::{ListRequest, MAX_INVITED_GROUPS};
use culvert_wire::api::{ApiRole, Group, IssuedInvitation, NewInvitation, NewPerson};

/// The page that invites a person.
pub(super) const INVITE: Link = Link {
    path: "/people/invitations/new",
    name: "Invite a person",
};

const TITLE: &str = "Invite a person";

/// Groups that are shown as boxes. A form has at most 64 fields.
const MAX_BOXES: u16 = 50;

/// The fields as they were filled in before a fault.
#[derive(Default)]
struct Typed<'a> {
    name: &'a str,
    role: &'a str,
    checked: Vec<&'a str>,
    groups: &'a str,
}

/// The groups of the account: of many, people write the names.
async fn groups_of(console: &Console, person: &Person) -> Result<Option<Vec<Group>>, Fault> {
    let request = ListRequest {
        limit: Some(MAX_BOXES),
        ..ListRequest::default()
    };
    let page = console.service.groups(&person.caller, &request).await?;
    Ok(page.next_cursor.is_none().then_some(page.items))
}

fn form(person: &Person, groups: Option<&[Group]>, typed: &Typed<'_>) -> Form {
    let role = Some(typed.role).filter(|role| !role.is_empty());
    let mut fields = vec![
        Field::line("name", "Name")
            .value(typed.name)
            .hint("They sign in under it; it may be an e-mail address."),
        Field::choice("role", "Role", roles_for(person)).value(role.unwrap_or("user")),
    ];
    match groups {
        Some([]) => {}
        Some(groups) => {
            let boxes = groups.iter().map(|group| {
                let key = group.id.to_string();
                CheckBox {
                    is_checked: typed.checked.contains(&&*key),
                    label: group.name.clone(),
                    key,
                }
            });
            fields.push(Field::boxes("groups", "Groups", boxes.collect()));
        }
        None => {
            let names = Field::lines("groups", "Groups").value(typed.groups);
            fields.push(names.hint("The names of groups, one a line."));
        }
    }
    Form::new(TITLE, INVITE.path, "Create the link", fields).with_focus()
}

async fn page(
    console: &Console,
    person: &Person,
    form_of: impl FnOnce(Option<&[Group]>) -> Form,
) -> Result<Page, Fault> {
    let groups = groups_of(console, person).await?;
    let mut page = person.form_page(TITLE, AT, form_of(groups.as_deref()));
    page.sections.push(Section::Links(vec![
        Link {
            path: "/people/new",
            name: "Create a person without a link",
        },
        Link {
            path: "/service-accounts/new",
            name: "Create a service account",
        },
    ]));
    Ok(page)
}

pub(super) async fn ask(State(console): State<Console>, person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let form = |groups: Option<&[Group]>| form(&person, groups, &Typed::default());
    Ok(page(&console, &person, form).await?.into_response())
}

/// Creates the person, and shows the link.
pub(super) async fn invite(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let typed = Typed {
        name: fields.text("name"),
        role: fields.text("role"),
        checked: fields.checked("groups").collect(),
        groups: fields.text("groups"),
    };
    let invited = async {
        let (service, caller) = (&console.service, &person.caller);
        caller.may_change()?;
        let mut problems = Problems::default();
        let role = problems.take(fields.word("role"))?;
        let mut groups = Vec::new();
        for id in &typed.checked {
            let id = id.parse::<GroupId>().map_err(|_| {
                let detail = "there is no such group any more: choose again";
                Fault::invalid("groups", detail)
            });
            groups.extend(problems.take(id)?);
        }
        let mut names = fields.lines("groups");
        if names.len() > MAX_INVITED_GROUPS {
            let detail = format!("at most {MAX_INVITED_GROUPS} groups");
            problems.take::<()>(Err(Fault::invalid("groups", detail)))?;
            // Each is looked up by itself, and a form has room for many thousand.
            names.clear();
        }
        for name in names {
            let found = service.group_named(caller, &name).await;
            let found = found.map_err(|fault| fault.at_field("groups"));
            groups.extend(problems.take(found)?.map(|group| group.id));
        }
        let new = NewPerson {
            name: typed.name.to_owned(),
            role: role.unwrap_or(ApiRole::User),
            groups,
        };
        problems.take(service.check_person(caller, &new).await)?;
        problems.finish()?;
        service.invite_person(caller, new).await
    };
    let known = groups_of(&console, &person).await?;
    let again = || form(&person, known.as_deref(), &typed);
    let onward = |issued| once(&person, &issued).into_response();
    let page = async |form| page(&console, &person, |_| form).await;
    taken(invited.await, again, onward, page).await
}

/// Another link for a person, who may have forgotten the password.
pub(super) async fn invite_again(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let service = &console.service;
    let issued = service
        .invite(&person.caller, id, version, NewInvitation::default())
        .await?;
    Ok(once(&person, &issued).into_response())
}

pub(super) async fn withdraw(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let service = &console.service;
    let actor = service
        .withdraw_invitation(&person.caller, id, None)
        .await?;
    let notice = format!("The link of {} is withdrawn.", actor.name);
    Ok(done(&format!("{AT}/{id}"), &notice))
}

/// A page that shows a new link, this once.
fn once(person: &Person, issued: &IssuedInvitation) -> Page {
    let actor = &issued.actor;
    let mut page = person.page(format!("Link for {}", actor.name), AT);
    page.sections.push(Section::Copy {
        title: "The link".to_owned(),
        note: "It is shown this once. Send it to the person, and to nobody else: whoever opens it sets the \
               password. It works once, within seven days."
            .to_owned(),
        text: issued.link.clone(),
    });
    let to_person = (format!("{AT}/{}", actor.id), format!("To {}", actor.name));
    let another = (INVITE.path.to_owned(), "Invite another person".to_owned());
    page.sections.push(Section::Ways(vec![to_person, another]));
    page
}
