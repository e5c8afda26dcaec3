//! The parts of a page. Pages are values; the templates alone write HTML, and escape all of it.

use super::chart::Chart;
use super::content_policy::POLICY_WITH_SCRIPT;
use super::drawing::Drawing;
use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::Question;
use culvert_wire::Timestamp;
use culvert_wire::api::FieldProblem;
use std::borrow::Cow;
use std::fmt;

/// A whole page.
#[derive(Clone, Debug, Template)]
#[template(path = "page.html")]
pub(super) struct Page {
    pub(super) title: String,
    /// The person who sees it; none without a sign-in.
    pub(super) who: Option<Who>,
    /// The path of the page in the list of pages that it belongs to.
    pub(super) at: &'static str,
    /// The change that was just made.
    pub(super) done: Option<&'static str>,
    pub(super) sections: Vec<Section>,
}

/// The person who sees a page.
#[derive(Clone)]
pub(super) struct Who {
    pub(super) name: String,
    pub(super) pages: &'static [Link],
    /// The token that every form sends back, to show that it came from a page of this session.
    pub(super) form_token: String,
}

impl fmt::Debug for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Who")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A way to another page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) path: &'static str,
    pub(super) name: &'static str,
}

/// A part of a page.
#[derive(Clone, Debug)]
pub(super) enum Section {
    /// The page follows what happens, where it can run its script. `since` is how much had happened
    /// when the page was made, `path` where it is asked for again.
    Live {
        since: u64,
        path: String,
    },
    /// Text that is copied to somewhere else. It stays on the page, whatever the page follows.
    Copy {
        title: String,
        note: String,
        text: String,
    },
    Steps(Steps),
    /// A fault, or something that needs attention.
    Alert(String),
    /// Text whose line breaks count.
    Lines {
        title: String,
        text: String,
    },
    Links(Vec<Link>),
    /// Ways to files with what a page shows.
    Exports(Vec<(String, &'static str)>),
    Drawing {
        title: String,
        drawing: Drawing,
    },
    Facts {
        title: String,
        facts: Vec<(&'static str, Cell)>,
    },
    Table(Table),
    Chart(Chart),
    Form(Form),
}

/// Steps to do, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) title: String,
    /// The progress, for people who hear the page.
    pub(super) news: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) title: &'static str,
    pub(super) is_done: bool,
    /// It is the first that is not done.
    pub(super) is_next: bool,
    pub(super) text: String,
    /// A command to copy.
    pub(super) command: Option<String>,
    /// The page on which it is done.
    pub(super) link: Option<(String, &'static str)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) columns: Vec<&'static str>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// The text of a table without rows.
    pub(super) empty: &'static str,
    /// The address of the next page.
    pub(super) next: Option<String>,
}

/// The content of a table's cell, or of a named fact.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Text(String),
    Code(String),
    Link {
        path: String,
        text: String,
    },
    Badge {
        kind: &'static str,
        text: String,
    },
    /// An instant as it is written, and as people read it.
    Time {
        at: Timestamp,
        shown: String,
    },
    Actions(Vec<Action>),
}

impl Cell {
    pub(super) fn text(text: impl fmt::Display) -> Self {
        Self::Text(text.to_string())
    }

    pub(super) fn code(text: impl fmt::Display) -> Self {
        Self::Code(text.to_string())
    }

    pub(super) fn link(path: impl Into<String>, text: impl fmt::Display) -> Self {
        Self::Link {
            path: path.into(),
            text: text.to_string(),
        }
    }

    pub(super) fn good(text: impl fmt::Display) -> Self {
        Self::badge("good", text)
    }

    pub(super) fn bad(text: impl fmt::Display) -> Self {
        Self::badge("bad", text)
    }

    pub(super) fn warn(text: impl fmt::Display) -> Self {
        Self::badge("warn", text)
    }

    pub(super) fn plain(text: impl fmt::Display) -> Self {
        Self::badge("plain", text)
    }

    fn badge(kind: &'static str, text: impl fmt::Display) -> Self {
        Self::Badge {
            kind,
            text: text.to_string(),
        }
    }

    /// An instant, to the second.
    fn at(at: Timestamp) -> Self {
        let text = at.to_string();
        let seconds = text.get(..19).unwrap_or(&text).replace('T', " ");
        let shown = format!("{seconds} UTC");
        Self::Time { at, shown }
    }

    pub(super) fn time(at: Option<Timestamp>) -> Self {
        at.map_or_else(|| Self::text("–"), Self::at)
    }
}

/// A button that does something at once.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub(super) name: &'static str,
    /// The thing that it is done to, for people who hear the page.
    pub(super) what: String,
    pub(super) path: String,
    /// The version that the page shows.
    pub(super) version: Option<u64>,
    /// It takes something away.
    pub(super) is_grave: bool,
    /// The text about things that are lost for good with it. The button appears only once the text
    /// was shown.
    pub(super) loss: Option<&'static str>,
}

/// The targets of the buttons of one thing.
#[derive(Clone, Debug)]
pub(super) struct Buttons<'a> {
    /// The path of the thing.
    pub(super) path: String,
    pub(super) what: &'a str,
    pub(super) version: u64,
}

impl Buttons<'_> {
    pub(super) fn button(&self, name: &'static str, word: &str) -> Action {
        Action {
            name,
            what: self.what.to_owned(),
            path: format!("{}/{word}", self.path),
            version: Some(self.version),
            is_grave: false,
            loss: None,
        }
    }

    /// A button that takes something away for good, behind what goes with it.
    pub(super) fn for_good(&self, name: &'static str, word: &str, loss: &'static str) -> Action {
        Action {
            loss: Some(loss),
            ..self.grave(name, word)
        }
    }

    /// A button that takes something away.
    pub(super) fn grave(&self, name: &'static str, word: &str) -> Action {
        let is_grave = true;
        Action {
            is_grave,
            ..self.button(name, word)
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Form {
    pub(super) title: String,
    pub(super) method: &'static str,
    pub(super) action: String,
    pub(super) fields: Vec<Field>,
    pub(super) hidden: Vec<(Cow<'static, str>, String)>,
    pub(super) submit: &'static str,
    pub(super) is_grave: bool,
    /// The fault of the whole form.
    pub(super) problem: Option<String>,
    /// Its first field has the focus, unless there is a fault to read.
    pub(super) takes_focus: bool,
    /// The kind and the options of the request to an authenticator: its answer goes into the field
    /// `credential`.
    pub(super) passkey: Option<(&'static str, String)>,
}

/// The task of an authenticator.
#[derive(Clone, Copy, Debug)]
pub(super) enum PasskeyKind {
    /// Create a key.
    Create,
    /// Sign with one that it has.
    Get,
}

impl PasskeyKind {
    /// The method of `navigator.credentials`.
    const fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) kind: Kind,
    pub(super) value: String,
    pub(super) hint: &'static str,
    pub(super) is_required: bool,
    pub(super) problem: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Line {
        kind: &'static str,
        autocomplete: &'static str,
    },
    Lines,
    Choice(Vec<(String, String)>),
}

impl Field {
    pub(super) const fn line(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            kind: Kind::Line {
                kind: "text",
                autocomplete: "off",
            },
            value: String::new(),
            hint: "",
            is_required: true,
            problem: None,
        }
    }

    /// A password: never with what was written before. `autocomplete` is `current-password` or
    /// `new-password`.
    pub(super) fn password(
        name: &'static str,
        label: &'static str,
        autocomplete: &'static str,
    ) -> Self {
        let kind = Kind::Line {
            kind: "password",
            autocomplete,
        };
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    pub(super) fn lines(name: &'static str, label: &'static str) -> Self {
        let kind = Kind::Lines;
        Self {
            kind,
            is_required: false,
            ..Self::line(name, label)
        }
    }

    pub(super) fn choice(
        name: &'static str,
        label: &'static str,
        choices: &[(&str, &str)],
    ) -> Self {
        let choices = choices
            .iter()
            .map(|(value, label)| ((*value).to_owned(), (*label).to_owned()));
        let kind = Kind::Choice(choices.collect());
        Self {
            kind,
            ..Self::line(name, label)
        }
    }

    pub(super) fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    pub(super) fn value(self, value: impl Into<String>) -> Self {
        let value = value.into();
        Self { value, ..self }
    }

    pub(super) fn optional(self) -> Self {
        let is_required = false;
        Self {
            is_required,
            ..self
        }
    }

    fn has_note(&self) -> bool {
        self.problem.is_some() || !self.hint.is_empty()
    }
}

impl Form {
    pub(super) fn new(
        title: impl Into<String>,
        action: impl Into<String>,
        submit: &'static str,
        fields: Vec<Field>,
    ) -> Self {
        Self {
            title: title.into(),
            method: "post",
            action: action.into(),
            fields,
            hidden: Vec::new(),
            submit,
            is_grave: false,
            problem: None,
            takes_focus: false,
            passkey: None,
        }
    }

    /// The same, with the focus in its first field.
    pub(super) fn with_focus(self) -> Self {
        let takes_focus = true;
        Self {
            takes_focus,
            ..self
        }
    }

    /// Has the form send a value that nobody sees.
    pub(super) fn hide(&mut self, name: impl Into<Cow<'static, str>>, value: String) {
        self.hidden.push((name.into(), value));
    }

    /// A form for what an authenticator answers, which the script of the page puts into it.
    pub(super) fn for_passkey(mut self, kind: PasskeyKind, question: Question) -> Self {
        self.hide("credential", String::new());
        self.passkey = Some((kind.word(), question.0));
        self
    }

    /// A form that only asks for a page.
    pub(super) fn question(self) -> Self {
        let method = "get";
        Self { method, ..self }
    }

    pub(super) fn with_version(mut self, version: u64) -> Self {
        self.hide("version", version.to_string());
        self
    }

    pub(super) fn grave(self) -> Self {
        let is_grave = true;
        Self { is_grave, ..self }
    }

    /// Tells its fields from those of another form on the page.
    fn key(&self) -> String {
        let plain = |char: char| match char.is_ascii_alphanumeric() {
            true => char.to_ascii_lowercase(),
            false => '-',
        };
        self.title.chars().map(plain).collect()
    }

    /// The same form with what is wrong: beside its field, or above where there is none for it.
    pub(super) fn with_problems(mut self, problems: &[FieldProblem]) -> Self {
        let mut others = Vec::new();
        for problem in problems {
            let root = problem.field.split(['[', '.']).next().unwrap_or_default();
            let detail = problem.detail.clone();
            match self.fields.iter_mut().find(|field| field.name == root) {
                Some(field) => field.problem = Some(detail),
                None if problem.field.is_empty() => others.push(detail),
                None => others.push(format!("{}: {detail}", problem.field)),
            }
        }
        let others = others.join("\n");
        self.problem = Some(match (others.is_empty(), self.method) {
            // A question changes nothing anyway.
            (true, "get") => "Look at the marked fields.".to_owned(),
            (true, _) => "Nothing was changed: look at the marked fields.".to_owned(),
            (false, _) => others,
        });
        self
    }
}

impl Form {
    /// The form again, with why it was refused; faults that are not about what it says go on.
    pub(super) fn refused(self, fault: Fault) -> Result<(Self, StatusCode), Fault> {
        match fault {
            Fault::Invalid(problems) => Ok((
                self.with_problems(&problems),
                StatusCode::UNPROCESSABLE_ENTITY,
            )),
            Fault::Conflict(detail) => {
                let problem = Some(detail);
                Ok((Self { problem, ..self }, StatusCode::CONFLICT))
            }
            fault => Err(fault),
        }
    }
}

impl Page {
    /// True if it does more in a browser that can run the portal's script.
    fn is_scripted(&self) -> bool {
        let is_scripted = |section: &Section| {
            matches!(
                section,
                Section::Live { .. } | Section::Copy { .. } | Section::Steps(_)
            )
        };
        self.sections.iter().any(is_scripted)
    }

    /// The page with what is wrong above its first form.
    pub(super) fn with_problem(mut self, problem: &str) -> Self {
        let form = self.sections.iter_mut().find_map(|section| match section {
            Section::Form(form) => Some(form),
            _ => None,
        });
        if let Some(form) = form {
            form.problem = Some(problem.to_owned());
        }
        self
    }

    /// True if it asks an authenticator.
    fn asks_authenticator(&self) -> bool {
        let asks =
            |section: &Section| matches!(section, Section::Form(form) if form.passkey.is_some());
        self.sections.iter().any(asks)
    }

    pub(super) fn with_status(&self, status: StatusCode) -> Response {
        match self.render() {
            Ok(text) => {
                let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
                let mut response = (status, headers, text).into_response();
                if self.is_scripted() || self.asks_authenticator() {
                    let headers = response.headers_mut();
                    headers.insert(header::CONTENT_SECURITY_POLICY, POLICY_WITH_SCRIPT);
                }
                response
            }
            Err(error) => Fault::internal(error).into_response(),
        }
    }
}

impl IntoResponse for Page {
    fn into_response(self) -> Response {
        self.with_status(StatusCode::OK)
    }
}
