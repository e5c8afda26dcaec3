//! Changes and deletions of things that others change too: the slower one sees the other's change,
//! and loses nothing.

use super::fields::Fields;
use super::forms::with_way_back;
use super::names::user_of;
use super::person::Person;
use super::view::{Cell, Field, Form, Page, Section};
use axum::http::StatusCode;
use axum::response::Response;
use culvert_portal_base::Fault;
use culvert_wire::api::Page as Part;

/// A change that someone has sent.
pub(super) struct Edit<'a> {
    pub(super) person: &'a Person,
    pub(super) fields: &'a Fields,
    /// In the list of pages.
    pub(super) at: &'static str,
    /// The form as it was sent, without its version.
    pub(super) form: Form,
    /// The page after the change, and the notice there, which names the thing.
    pub(super) onward: (String, String),
}

/// The present state of a thing.
pub(super) struct Now {
    pub(super) facts: Vec<(&'static str, Cell)>,
    pub(super) version: u64,
}

impl Edit<'_> {
    /// Answers with what the change came to.
    pub(super) async fn finish<T>(
        self,
        changed: Result<T, Fault>,
        now: impl Future<Output = Result<Now, Fault>>,
    ) -> Result<Response, Fault> {
        let Err(fault) = changed else {
            let (path, notice) = self.onward;
            return Ok(self.person.back_with(self.fields, &path, &notice));
        };
        let asked = with_way_back(self.form, self.fields);
        let mut page = self.person.page(asked.title.clone(), self.at);
        if !matches!(fault, Fault::VersionConflict { .. }) {
            let (fault, users) = in_words(fault);
            let (mut form, status) = asked.refused(fault)?;
            let version = self.fields.text("version").to_owned();
            form.hide("version", version);
            page.sections = vec![Section::Form(form)];
            page.sections.extend(users);
            return Ok(page.with_status(status));
        }
        let now = now.await?;
        let alert = "Someone else changed it since you opened it. Nothing was changed: compare, and send \
                     what it is to be.";
        let mut form = asked.with_version(now.version);
        "What you wrote".clone_into(&mut form.title);
        page.sections = vec![
            Section::Alert(alert.to_owned()),
            Section::Facts {
                title: "How it is now".to_owned(),
                facts: now.facts,
            },
            Section::Form(form),
        ];
        Ok(page.with_status(StatusCode::CONFLICT))
    }
}

/// A refusal in words for people. The users of a thing come in a section of their own, by name and as links.
fn in_words(fault: Fault) -> (Fault, Option<Section>) {
    let Fault::InUse { row, by, total, .. } = fault else {
        return (fault, None);
    };
    let count = by.len();
    let title = match total > count as u64 {
        true => format!("Used by {total}, of which {count} are"),
        false => "Used by".to_owned(),
    };
    let text = "It is still in use, so it was not deleted. Delete what uses it first, or delete all of it together.";
    let facts = by.iter();
    let facts = facts.map(|user| (user.id.kind().as_str(), user_of(row.id, user)));
    let users = Section::Facts {
        title,
        facts: facts.collect(),
    };
    (Fault::Conflict(text.to_owned()), Some(users))
}

/// Gives the thing at `path` another name.
pub(super) fn rename_form(path: &str, name: &str) -> Form {
    let name = Field::line("name", "Name").value(name);
    Form::new("Rename", format!("{path}/name"), "Rename", vec![name])
}

/// Renames the thing at `path`.
pub(super) async fn renamed<T>(
    person: &Person,
    (at, path): (&'static str, String),
    fields: &Fields,
    changed: Result<T, Fault>,
    now: impl Future<Output = Result<(String, u64), Fault>>,
) -> Result<Response, Fault> {
    let edit = Edit {
        person,
        fields,
        at,
        form: rename_form(&path, fields.text("name")),
        onward: (path, format!("Renamed to {}.", fields.text("name"))),
    };
    let now = async { now.await.map(|(name, version)| named(name, version)) };
    edit.finish(changed, now).await
}

fn named(name: String, version: u64) -> Now {
    Now {
        facts: vec![("Name", Cell::Text(name))],
        version,
    }
}

/// Deletes the thing at `path`, which others may belong to: `all` says what goes with it then.
pub(super) fn delete_form(path: &str, all: &'static str) -> Form {
    let choices = [("no", "only if nothing belongs to it"), ("yes", all)];
    let cascade = Field::choice("cascade", "Delete", &choices).value("no");
    Form::new("Delete", format!("{path}/delete"), "Delete", vec![cascade]).grave()
}

/// True if the form of [`delete_form`] also deletes everything that belongs to the thing.
pub(super) fn is_cascade(fields: &Fields) -> bool {
    fields.text("cascade") == "yes"
}

/// Asks whether a thing is to be deleted, and names what goes with it. None, if the form says that it was asked.
pub(super) fn delete_question(
    person: &Person,
    (at, path): (&'static str, &str),
    fields: &Fields,
    name: &str,
    goes: Vec<(&'static str, Cell)>,
) -> Option<Page> {
    if fields.text("sure") == "yes" {
        return None;
    }
    let (title, heading, facts) = match is_cascade(fields) {
        true => (
            format!("Delete {name} and all that belongs to it?"),
            "These go with it, and do not come back",
            goes,
        ),
        false => (
            format!("Delete {name}?"),
            "It does not come back",
            vec![(
                "What goes with it",
                Cell::text("nothing: it stays if something belongs to it"),
            )],
        ),
    };
    let mut form = Form::new("Delete", format!("{path}/delete"), "Delete", Vec::new()).grave();
    form.hide("version", fields.text("version").to_owned());
    form.hide("cascade", fields.text("cascade").to_owned());
    form.hide("sure", "yes".to_owned());
    let mut page = person.page(title, at);
    page.sections = vec![
        Section::Facts {
            title: heading.to_owned(),
            facts,
        },
        Section::Form(form),
        Section::Ways(vec![(path.to_owned(), "Keep it".to_owned())]),
    ];
    Some(page)
}

/// The first names of what goes with a thing, and whether there are more.
pub(super) fn names_on<T>(part: &Part<T>, name: impl Fn(&T) -> &str) -> Cell {
    let names: Vec<&str> = part.items.iter().map(name).collect();
    Cell::Text(match (names.is_empty(), &part.next_cursor) {
        (true, _) => "none".to_owned(),
        (false, None) => format!("{}: {}", names.len(), names.join(", ")),
        (false, Some(_)) => format!("more than {}: {} …", names.len(), names.join(", ")),
    })
}

/// Deletes the thing at `path` of the list at `at`.
pub(super) async fn deleted<T>(
    person: &Person,
    (at, path): (&'static str, String),
    (fields, all): (&Fields, &'static str),
    name: &str,
    deleted: Result<T, Fault>,
    now: impl Future<Output = Result<(String, u64), Fault>>,
) -> Result<Response, Fault> {
    let edit = Edit {
        person,
        fields,
        at,
        form: delete_form(&path, all),
        onward: (at.to_owned(), format!("{name} deleted.")),
    };
    let now = async { now.await.map(|(name, version)| named(name, version)) };
    edit.finish(deleted, now).await
}
