//! One action on several rows of a list: the rows are marked, one question names all of them, and the answer says
//! which ones it was not done to, and why.

use super::fields::Fields;
use super::forms::Posted;
use super::names::Names;
use super::notice;
use super::paths::own_page;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Page, Section, SelectionBar, Table, listed};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::{ClientAction, GatewayAction, RelayAction};
use culvert_store::{self as store, EntityId, EntityKind};
use culvert_wire::api::{ActorPatch, NewMember, PolicyPatch};

/// The heading of the column of marks.
pub(super) const MARKS: &str = "Selected";

/// Characters of the names in a notice.
const NOTICE_CHARS: usize = 200;

/// The actions that the rows of a list may be selected for.
#[derive(Clone, Copy)]
pub(super) struct Selection {
    /// The path of the list.
    pub(super) at: &'static str,
    pub(super) kind: EntityKind,
    /// A row of it, and several.
    pub(super) one: &'static str,
    pub(super) many: &'static str,
    /// Each with the text about what goes with it.
    pub(super) acts: &'static [(Act, &'static str)],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Verify,
    Drain,
    Enable,
    Disable,
    AddToGroup,
    Revoke,
    Delete,
}

impl Act {
    /// As it is in a form.
    const fn word(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Drain => "drain",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::AddToGroup => "add-to-group",
            Self::Revoke => "revoke",
            Self::Delete => "delete",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Verify => "Verify",
            Self::Drain => "Drain",
            Self::Enable => "Enable",
            Self::Disable => "Disable",
            Self::AddToGroup => "Add to a group",
            Self::Revoke => "Revoke",
            Self::Delete => "Delete",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            Self::Verify => "verified",
            Self::Drain => "set to drain",
            Self::Enable => "enabled",
            Self::Disable => "disabled",
            Self::AddToGroup => "added to the group",
            Self::Revoke => "revoked",
            Self::Delete => "deleted",
        }
    }

    const fn is_grave(self) -> bool {
        matches!(self, Self::Disable | Self::Revoke | Self::Delete)
    }
}

/// A row that was marked, in the version that the page showed.
struct Marked {
    id: EntityId,
    version: u64,
}

impl Selection {
    /// Gives a table marks for its rows, and the buttons for those that are marked. `rows` has the id, the version and
    /// the name of each row.
    pub(super) fn offer<'a, I: Into<EntityId>>(
        &self,
        person: &Person,
        table: &mut Table,
        rows: impl IntoIterator<Item = (I, u64, &'a str)>,
    ) {
        if !person.may_change() || table.rows.is_empty() {
            return;
        }
        table.columns.insert(0, MARKS);
        for (cells, (id, version, name)) in table.rows.iter_mut().zip(rows) {
            let mark = Cell::Mark {
                id: id.into().to_string(),
                version,
                name: name.to_owned(),
            };
            cells.insert(0, mark);
        }
        let buttons = self.acts.iter();
        table.selection = Some(SelectionBar {
            path: format!("{}/selected", self.at),
            many: self.many,
            buttons: buttons
                .map(|(act, _)| (act.word(), act.name(), act.is_grave()))
                .collect(),
        });
    }

    /// Asks, and once it was asked, acts.
    pub(super) async fn send(
        &self,
        console: &Console,
        Posted { person, fields }: Posted,
    ) -> Result<Response, Fault> {
        person.caller.may_change()?;
        let wanted = fields.text("action");
        let mut acts = self.acts.iter();
        let Some((act, loss)) = acts.find(|(act, _)| act.word() == wanted) else {
            return Err(Fault::invalid("action", "there is no such action here"));
        };
        let mut marked = marked(&fields);
        marked.retain(|row| row.id.kind() == self.kind);
        if marked.is_empty() {
            let notice = format!("No {} is selected. Nothing is changed.", self.one);
            return Ok(person.back_with(&fields, self.at, &notice));
        }
        let ids = marked.iter().map(|row| row.id);
        let names = Names::of(console, &person, ids).await?;
        if fields.text("sure") != "yes" {
            let page = self
                .question(console, &person, &fields, (*act, loss), &marked, &names)
                .await?;
            return Ok(page.into_response());
        }
        let group = match act {
            Act::AddToGroup => {
                let chosen = console
                    .service
                    .chosen::<store::Group>(&person.caller, fields.text("group"));
                match chosen.await {
                    Ok(group) => Some(group),
                    Err(fault) => {
                        let fault = fault.at_field("group");
                        let asked = (*act, *loss);
                        let question =
                            self.question(console, &person, &fields, asked, &marked, &names);
                        let mut page = question.await?;
                        let Some(Section::Form(form)) = page.sections.pop() else {
                            return Err(fault);
                        };
                        return super::logs::refused(page, form, fault);
                    }
                }
            }
            _ => None,
        };
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for row in &marked {
            let group = group.as_ref().map(|group| group.id);
            match execute(console, &person, *act, row, group).await {
                Ok(()) => done.push(names.text(row.id)),
                // The person was signed out meanwhile: the others would get the same answer.
                Err(Fault::Unauthenticated) => return Err(Fault::Unauthenticated),
                Err(fault) => failed.push((names.shown(row.id), why(fault))),
            }
        }
        Ok(self.outcome(&person, &fields, *act, &done, failed))
    }

    /// The one question about all of them.
    async fn question(
        &self,
        console: &Console,
        person: &Person,
        fields: &Fields,
        (act, loss): (Act, &str),
        marked: &[Marked],
        names: &Names,
    ) -> Result<Page, Fault> {
        let counted = self.counted(marked.len());
        let title = match act {
            Act::AddToGroup => format!("Add {counted} to a group"),
            _ => format!("{} {counted}?", act.name()),
        };
        let mut page = person.page(title, self.at);
        if !loss.is_empty() {
            page.sections.push(Section::Alert(loss.to_owned()));
        }
        page.sections.push(Section::Table(Table {
            title: "Selected".to_owned(),
            columns: vec!["Name"],
            rows: marked.iter().map(|row| vec![names.shown(row.id)]).collect(),
            ..Table::default()
        }));
        let asked = match act {
            Act::AddToGroup => {
                vec![Field::thing("group", "Group", EntityKind::Group).value(fields.text("group"))]
            }
            _ => Vec::new(),
        };
        let action = format!("{}/selected", self.at);
        let title = match act {
            Act::AddToGroup => "Group",
            _ => "Are you sure?",
        };
        let mut form = Form::new(title, action, act.name(), asked);
        if act.is_grave() {
            form = form.grave();
        }
        for row in marked {
            form.hide(row.id.to_string(), row.version.to_string());
        }
        form.hide("action", act.word().to_owned());
        form.hide("back", fields.text("back").to_owned());
        form.hide("sure", "yes".to_owned());
        let form = console.with_choices(person, form).await?;
        page.sections.push(Section::Form(form));
        Ok(page)
    }

    fn outcome(
        &self,
        person: &Person,
        fields: &Fields,
        act: Act,
        done: &[String],
        failed: Vec<(Cell, String)>,
    ) -> Response {
        let counted = self.counted(done.len());
        let back = own_page(fields.text("back")).unwrap_or(self.at);
        if failed.is_empty() {
            let names = listed(done, NOTICE_CHARS);
            let notice = format!("{counted} {}: {names}.", act.done());
            return notice::noticed(Redirect::to(back).into_response(), &notice);
        }
        let mut page = person.page(format!("{}: not all was done", act.name()), self.at);
        page.sections = vec![
            Section::Alert(match done.len() {
                0 => "Nothing is changed.".to_owned(),
                _ => format!("{counted} {}, and these not:", act.done()),
            }),
            Section::Table(Table {
                title: "Not done".to_owned(),
                columns: vec!["Name", "Why"],
                rows: failed
                    .into_iter()
                    .map(|(name, why)| vec![name, Cell::Text(why)])
                    .collect(),
                ..Table::default()
            }),
            Section::Ways(vec![(back.to_owned(), "Back to the list".to_owned())]),
        ];
        page.with_status(StatusCode::CONFLICT)
    }

    fn counted(&self, number: usize) -> String {
        match number {
            1 => format!("1 {}", self.one),
            number => format!("{number} {}", self.many),
        }
    }
}

/// The marks among the fields: an id, and the version.
fn marked(fields: &Fields) -> Vec<Marked> {
    let marked = fields.iter().filter_map(|(name, value)| {
        Some(Marked {
            id: name.parse().ok()?,
            version: value.parse().ok()?,
        })
    });
    marked.collect()
}

/// The service checks the rights to each of them, and the version.
async fn execute(
    console: &Console,
    person: &Person,
    act: Act,
    row: &Marked,
    group: Option<culvert_ids::GroupId>,
) -> Result<(), Fault> {
    let (service, caller, version) = (&console.service, &person.caller, Some(row.version));
    let disabled = |disabled| ActorPatch {
        disabled: Some(disabled),
        ..ActorPatch::default()
    };
    let policy = |disabled| PolicyPatch {
        disabled: Some(disabled),
        ..PolicyPatch::default()
    };
    match (row.id, act) {
        (EntityId::Client(id), Act::Verify) => {
            let done = service.judge_client(caller, id, version, ClientAction::Verify);
            done.await.map(drop)
        }
        (EntityId::Client(id), Act::Revoke) => {
            let done = service.judge_client(caller, id, version, ClientAction::Revoke);
            done.await.map(drop)
        }
        (EntityId::Client(id), Act::Delete) => service.delete_client(caller, id, version).await,
        (EntityId::Gateway(id), Act::Drain) => {
            let done = service.judge_gateway(caller, id, version, GatewayAction::Drain);
            done.await.map(drop)
        }
        (EntityId::Gateway(id), Act::Revoke) => {
            let done = service.judge_gateway(caller, id, version, GatewayAction::Revoke);
            done.await.map(drop)
        }
        (EntityId::Gateway(id), Act::Delete) => service.delete_gateway(caller, id, version).await,
        (EntityId::Relay(id), Act::Drain) => {
            let done = service.judge_relay(caller, id, version, RelayAction::Drain);
            done.await.map(drop)
        }
        (EntityId::Relay(id), Act::Revoke) => {
            let done = service.judge_relay(caller, id, version, RelayAction::Revoke);
            done.await.map(drop)
        }
        (EntityId::Relay(id), Act::Delete) => service.delete_relay(caller, id, version).await,
        (EntityId::Actor(id), Act::Disable | Act::Enable) => {
            let patch = disabled(act == Act::Disable);
            service
                .change_actor(caller, id, version, patch)
                .await
                .map(drop)
        }
        (EntityId::Actor(actor), Act::AddToGroup) => match group {
            Some(group) => {
                let added = service.add_member(caller, group, NewMember { actor });
                match added.await {
                    // One that is there already stays.
                    Ok(_) | Err(Fault::Conflict(_)) => Ok(()),
                    Err(fault) => Err(fault),
                }
            }
            None => Err(Fault::invalid("group", "choose a group")),
        },
        (EntityId::Actor(id), Act::Delete) => {
            service.delete_actor(caller, id, version, false).await
        }
        (EntityId::Policy(id), Act::Disable | Act::Enable) => {
            let patch = policy(act == Act::Disable);
            service
                .change_policy(caller, id, version, patch)
                .await
                .map(drop)
        }
        (EntityId::Policy(id), Act::Delete) => service.delete_policy(caller, id, version).await,
        (EntityId::Resource(id), Act::Delete) => service.delete_resource(caller, id, version).await,
        (EntityId::Group(id), Act::Delete) => service.delete_group(caller, id, version).await,
        (EntityId::Token(id), Act::Revoke) => {
            service.revoke_token(caller, id, version).await.map(drop)
        }
        _ => Err(Fault::Conflict("this can't be done to it".to_owned())),
    }
}

/// A refusal in a row of the answer.
fn why(fault: Fault) -> String {
    match fault {
        Fault::Invalid(problems) => {
            let details = problems.into_iter().map(|problem| problem.detail);
            details.collect::<Vec<_>>().join("; ")
        }
        Fault::Forbidden(detail)
        | Fault::NotFound(detail)
        | Fault::Conflict(detail)
        | Fault::InUse { detail, .. }
        | Fault::Unavailable(detail) => detail,
        Fault::VersionConflict { .. } => {
            "it was changed since the page was loaded: look at it again".to_owned()
        }
        Fault::TooMany { wait } => {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            format!("too many requests: try again in {} s", seconds.max(1))
        }
        _ => "the portal could not do it: its log has the reason".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn too_many_requests_are_told_with_the_time_to_wait() {
        for (wait_ms, seconds) in [(0, 1), (1, 1), (1_000, 1), (1_001, 2), (60_000, 60)] {
            let wait = Duration::from_millis(wait_ms);
            let text = format!("too many requests: try again in {seconds} s");
            assert_eq!(why(Fault::TooMany { wait }), text);
        }
    }
}
