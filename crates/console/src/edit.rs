//! Changes and deletions of things that others change too: the slower one sees the other's change,
//! and loses nothing.

use super::fields::Fields;
use super::forms::done;
use super::person::Person;
use super::view::{Cell, Field, Form, Section};
use axum::http::StatusCode;
use axum::response::Response;
use culvert_portal_base::Fault;

/// A change that someone has sent.
pub(super) struct Edit<'a> {
    pub(super) person: &'a Person,
    pub(super) fields: &'a Fields,
    /// In the list of pages.
    pub(super) at: &'static str,
    /// The form as it was sent, without its version.
    pub(super) form: Form,
    /// The page after the change, and the word for the change.
    pub(super) onward: (String, &'static str),
}

/// The present state of a thing.
pub(super) struct Now {
    pub(super) facts: Vec<(&'static str, Cell)>,
    pub(super) version: u64,
}

impl Edit<'_> {
    /// Answers with what the change came to.
    pub(super) async fn settle<T>(
        self,
        changed: Result<T, Fault>,
        now: impl Future<Output = Result<Now, Fault>>,
    ) -> Result<Response, Fault> {
        let Err(fault) = changed else {
            let (path, word) = self.onward;
            return Ok(done(&path, word));
        };
        let mut page = self.person.page(self.form.title.clone(), self.at);
        if !matches!(fault, Fault::VersionConflict { .. }) {
            let (mut form, status) = self.form.refused(fault)?;
            let version = self.fields.text("version").to_owned();
            form.hide("version", version);
            page.sections = vec![Section::Form(form)];
            return Ok(page.with_status(status));
        }
        let now = now.await?;
        let alert = "Someone else changed it since you opened it. Nothing was changed: compare, and send \
                     what it is to be.";
        let mut form = self.form.with_version(now.version);
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
        onward: (path, "changed"),
    };
    let now = async { now.await.map(|(name, version)| named(name, version)) };
    edit.settle(changed, now).await
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

/// Deletes the thing at `path` of the list at `at`.
pub(super) async fn deleted<T>(
    person: &Person,
    (at, path): (&'static str, String),
    (fields, all): (&Fields, &'static str),
    deleted: Result<T, Fault>,
    now: impl Future<Output = Result<(String, u64), Fault>>,
) -> Result<Response, Fault> {
    let edit = Edit {
        person,
        fields,
        at,
        form: delete_form(&path, all),
        onward: (at.to_owned(), "deleted"),
    };
    let now = async { now.await.map(|(name, version)| named(name, version)) };
    edit.settle(deleted, now).await
}
