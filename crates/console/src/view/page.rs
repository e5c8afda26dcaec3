//! A whole page and its sections.

use super::{Cell, Chip, DeviceFile, Form, Kind, Piece, PortRow, Table};
use crate::chart::Chart;
use crate::content_policy::POLICY_WITH_SCRIPT;
use crate::drawing::Drawing;
use crate::icons::Icon;
use crate::link::Link;
use crate::navigation::{self, Group};
use crate::notice;
use crate::overview::{self, Picture};
use crate::theme::Theme;
use askama::Template;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use std::fmt;

/// A whole page.
#[derive(Clone, Debug, Template)]
#[template(path = "page.html")]
pub(crate) struct Page {
    pub(crate) title: String,
    /// The person who sees it; none without a sign-in.
    pub(crate) who: Option<Who>,
    /// The path of the page in the navigation that it belongs to.
    pub(crate) at: &'static str,
    /// The change that was just made, which names the thing.
    pub(crate) done: Option<String>,
    /// The page on which another thing of this kind is created.
    pub(crate) create: Option<Create>,
    pub(crate) sections: Vec<Section>,
}

/// The way to the page on which a thing is created.
#[derive(Clone, Debug)]
pub(crate) struct Create {
    pub(crate) path: String,
    pub(crate) name: &'static str,
}

impl From<Link> for Create {
    fn from(link: Link) -> Self {
        Self {
            path: link.path.to_owned(),
            name: link.name,
        }
    }
}

/// The person who sees a page.
#[derive(Clone)]
pub(crate) struct Who {
    pub(crate) name: String,
    /// The name of the account.
    pub(crate) organisation: String,
    pub(crate) groups: &'static [Group],
    pub(crate) theme: Theme,
    /// The address of this page, to which a form of a row or of the frame leads back.
    pub(crate) here: String,
    /// The token that every form sends back, to show that it came from a page of this session.
    pub(crate) form_token: String,
}

impl fmt::Debug for Who {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Who")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A part of a page.
#[derive(Clone, Debug)]
pub(crate) enum Section {
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
    /// Several texts to copy, of which one is shown: each is a way to the same end. They stay as well.
    Alternatives {
        title: String,
        note: String,
        ways: Vec<Way>,
    },
    Steps(Steps),
    /// A fault, or something that needs attention.
    Alert(String),
    /// Things to look after, each with the way there.
    Warnings(Vec<Warning>),
    /// A remark about what stands above it.
    Note(String),
    /// Sentences; their line breaks count.
    Prose {
        title: String,
        text: String,
    },
    /// Text for a machine, whose line breaks count.
    Lines {
        title: String,
        text: String,
    },
    /// Sentences, each of which stands alone.
    List {
        title: String,
        items: Vec<String>,
    },
    DeviceFile(DeviceFile),
    /// Things by their names, each a link to its page.
    Chips {
        title: String,
        chips: Vec<Piece>,
        empty: &'static str,
    },
    Links(Vec<Link>),
    /// Ways on, as buttons: address and name.
    Ways(Vec<(String, String)>),
    /// The spans of time that a log is asked for, and the ways to files with what it shows.
    Ranges {
        chips: Vec<Chip>,
        /// The zone in which days begin at midnight.
        zone: String,
        /// True if the address of the page names it: a script does not replace it.
        has_own_zone: bool,
        exports: Vec<(String, &'static str)>,
    },
    Drawing {
        title: String,
        drawing: Drawing,
    },
    Facts {
        title: String,
        facts: Vec<(&'static str, Cell)>,
    },
    Table(Table),
    /// Two tables beside each other, where there is room.
    Pair(Box<[Table; 2]>),
    /// Charts beside each other, where there is room.
    Charts(Vec<Chart>),
    Network(Picture),
    Form(Form),
}

/// Something to look after, and what mends it.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    pub(crate) text: String,
    /// The page about it: its address and the name of the link.
    pub(crate) link: Option<(String, &'static str)>,
}

/// One of several ways, with what is copied for it.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    pub(crate) note: &'static str,
    pub(crate) text: String,
}

/// Steps to do, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    pub(crate) title: String,
    /// The progress, for people who hear the page.
    pub(crate) news: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) title: &'static str,
    pub(crate) is_done: bool,
    /// It is the first that is not done.
    pub(crate) is_next: bool,
    pub(crate) text: String,
    /// A command to copy.
    pub(crate) command: Option<String>,
    /// The page on which it is done.
    pub(crate) link: Option<(String, &'static str)>,
}

impl Step {
    pub(crate) fn new(title: &'static str, is_done: bool, text: &str) -> Self {
        Self {
            title,
            is_done,
            is_next: false,
            text: text.to_owned(),
            command: None,
            link: None,
        }
    }
}

impl Steps {
    /// The first step that is not done is the next.
    pub(crate) fn new(title: &str, news: String, mut steps: Vec<Step>) -> Self {
        if let Some(next) = steps.iter_mut().find(|step| !step.is_done) {
            next.is_next = true;
        }
        Self {
            title: title.to_owned(),
            news,
            steps,
        }
    }
}

impl Page {
    /// True if it does more in a browser that can run the portal's script.
    fn is_scripted(&self) -> bool {
        let is_scripted = |section: &Section| match section {
            Section::Live { .. }
            | Section::Copy { .. }
            | Section::Alternatives { .. }
            | Section::DeviceFile(_)
            | Section::Steps(_) => true,
            // Its times are told in the zone of the browser.
            Section::Table(table) => table.has_times() || table.selection.is_some(),
            Section::Pair(tables) => tables.iter().any(Table::has_times),
            Section::Charts(_) | Section::Ranges { .. } => true,
            Section::Facts { facts, .. } => facts.iter().any(|(_, cell)| cell.is_moment()),
            _ => false,
        };
        self.sections.iter().any(is_scripted)
    }

    /// True for the answer to a form with something to copy, such as a new token.
    fn is_shown_once(&self) -> bool {
        let is_answer = self.who.as_ref().is_some_and(|who| who.here.is_empty());
        let is_copy =
            |section: &Section| matches!(section, Section::Copy { .. } | Section::DeviceFile(_));
        is_answer && self.sections.iter().any(is_copy)
    }

    fn tabs(&self) -> &'static [Link] {
        navigation::tabs(self.at)
    }

    /// True if the page is the one at this path, and not one that belongs to it.
    fn is_at_path(&self, path: &str) -> bool {
        let here = self.who.as_ref().map_or("", |who| &*who.here);
        here.split('?').next() == Some(path)
    }

    fn is_at(&self, path: &str) -> bool {
        self.at == path
    }

    /// The theme that the person chose; the browser's own otherwise.
    fn theme(&self) -> Theme {
        self.who.as_ref().map_or(Theme::Auto, |who| who.theme)
    }

    /// The page with what is wrong above its first form.
    pub(crate) fn with_problem(mut self, problem: &str) -> Self {
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

    /// True if it makes the key of a device, or shows its file.
    fn makes_key(&self) -> bool {
        let makes_key = |section: &Section| match section {
            Section::Form(form) => form.makes_key(),
            Section::DeviceFile(_) => true,
            _ => false,
        };
        self.sections.iter().any(makes_key)
    }

    /// True if the browser may run the portal's own scripts on it.
    fn runs_scripts(&self) -> bool {
        self.is_scripted() || self.suggests() || self.asks_authenticator() || self.makes_key()
    }

    /// True if a form does more with a script.
    fn suggests(&self) -> bool {
        let suggests =
            |section: &Section| matches!(section, Section::Form(form) if form.is_scripted());
        self.sections.iter().any(suggests)
    }

    pub(crate) fn with_status(&self, status: StatusCode) -> Response {
        match self.render() {
            Ok(text) => {
                let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
                let mut response = (status, headers, text).into_response();
                let headers = response.headers_mut();
                if self.done.is_some() {
                    headers.append(header::SET_COOKIE, notice::FORGET);
                }
                if self.runs_scripts() {
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
