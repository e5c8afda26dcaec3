//! People are brought into groups, several at once: from the page of a group, and from the page of a person.

use super::asked::Asked;
use super::forms::Posted;
use super::members::Adding;
use super::notice::done;
use super::person::Person;
use super::state::Console;
use super::view::listed;
use super::{actor_page, groups};
use axum::extract::State;
use axum::response::Response;
use culvert_ids::{ActorId, GroupId};
use culvert_portal_base::{Fault, Id};
use culvert_store as store;
use culvert_wire::api::NewMember;

/// Characters of the names in a notice.
const NOTICE_CHARS: usize = 120;

/// Adds a member; one that is there already stays.
async fn add(
    console: &Console,
    person: &Person,
    group: GroupId,
    actor: ActorId,
) -> Result<(), Fault> {
    let new = NewMember { actor };
    match console.service.add_member(&person.caller, group, new).await {
        Ok(_) | Err(Fault::Conflict(_)) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// People into a group.
pub(super) async fn add_members(
    State(console): State<Console>,
    asked: Asked,
    Id(id): Id<GroupId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let adding = Adding::to_group(&console, &person, id).await?;
    let added = async {
        let wanted = adding.wanted::<store::Actor>(&console, &person, &fields);
        let wanted = wanted.await?;
        for actor in &wanted {
            add(&console, &person, id, actor.id).await?;
        }
        Ok(wanted.into_iter().map(|actor| actor.name).collect())
    };
    let added: Result<Vec<String>, Fault> = added.await;
    match added {
        Ok(names) => {
            let group = console.name_of(&person, id).await?;
            let names = listed(&names, NOTICE_CHARS);
            let notice = format!("{names} added to group {group}.");
            Ok(person.back_with(&fields, &format!("/groups/{id}"), &notice))
        }
        Err(fault) => {
            let form = adding.form(&console, &person, Some(&fields)).await?;
            let (form, status) = form.refused(fault)?;
            let page = groups::group_page(&console, &person, &asked, id, Some(form)).await?;
            Ok(page.with_status(status))
        }
    }
}

/// A person into groups.
pub(super) async fn add_to_groups(
    State(console): State<Console>,
    asked: Asked,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let adding = Adding::of_actor(&console, &person, id).await?;
    let added = async {
        let wanted = adding.wanted::<store::Group>(&console, &person, &fields);
        let wanted = wanted.await?;
        for group in &wanted {
            add(&console, &person, group.id, id).await?;
        }
        Ok(wanted.into_iter().map(|group| group.name).collect())
    };
    let added: Result<Vec<String>, Fault> = added.await;
    match added {
        Ok(names) => {
            let actor = console.name_of(&person, id).await?;
            let names = listed(&names, NOTICE_CHARS);
            let notice = format!("{actor} added to {names}.");
            Ok(done(&format!("/people/{id}"), &notice))
        }
        Err(fault) => {
            let form = adding.form(&console, &person, Some(&fields)).await?;
            let (form, status) = form.refused(fault)?;
            let page = actor_page::actor_page(&console, &person, &asked, id, Some(form)).await?;
            Ok(page.with_status(status))
        }
    }
}
