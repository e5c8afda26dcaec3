//! The cells of tables, and the buttons in them.

use super::{Lines, Moment};
use culvert_portal_base::now;
use culvert_wire::Timestamp;
use std::fmt;

/// The content of a table's cell, or of a named fact.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
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
    /// An instant: its distance from now, and the exact time beside.
    Time(Moment),
    /// An instant of a log: the exact time, and its distance beside.
    Logged(Moment),
    Actions(Vec<Action>),
    /// The same in a menu, so that the rows of a list stay one line high.
    Menu(Vec<Action>),
    Lines(Lines),
    /// The mark that selects a row for an action on several.
    Mark {
        id: String,
        version: u64,
        name: String,
    },
}

/// The longest text that stays in one line of a table, in characters.
const ONE_LINE: usize = 36;

impl Cell {
    pub(crate) fn text(text: impl fmt::Display) -> Self {
        Self::Text(text.to_string())
    }

    pub(crate) fn code(text: impl fmt::Display) -> Self {
        Self::Code(text.to_string())
    }

    pub(crate) fn link(path: impl Into<String>, text: impl fmt::Display) -> Self {
        Self::Link {
            path: path.into(),
            text: text.to_string(),
        }
    }

    pub(crate) fn good(text: impl fmt::Display) -> Self {
        Self::badge("good", text)
    }

    pub(crate) fn bad(text: impl fmt::Display) -> Self {
        Self::badge("bad", text)
    }

    pub(crate) fn warn(text: impl fmt::Display) -> Self {
        Self::badge("warn", text)
    }

    pub(crate) fn plain(text: impl fmt::Display) -> Self {
        Self::badge("plain", text)
    }

    fn badge(kind: &'static str, text: impl fmt::Display) -> Self {
        Self::Badge {
            kind,
            text: text.to_string(),
        }
    }

    pub(crate) fn logged(at: Timestamp) -> Self {
        Self::Logged(Moment::new(at, now()))
    }

    pub(crate) const fn is_moment(&self) -> bool {
        matches!(self, Self::Time(_) | Self::Logged(_))
    }

    /// True for a text that a table breaks between words.
    pub(crate) fn is_long(&self) -> bool {
        matches!(self, Self::Text(text) if text.chars().count() > ONE_LINE)
    }

    pub(crate) const fn is_mark(&self) -> bool {
        matches!(self, Self::Mark { .. })
    }

    pub(crate) fn is_menu(&self) -> bool {
        matches!(self, Self::Menu(_) | Self::Actions(_))
    }

    pub(crate) fn time(at: Option<Timestamp>) -> Self {
        at.map_or_else(|| Self::text("–"), |at| Self::Time(Moment::new(at, now())))
    }
}

/// A button that does something at once.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub(crate) name: &'static str,
    /// The thing that it is done to, for people who hear the page.
    pub(crate) what: String,
    pub(crate) path: String,
    /// The version that the page shows.
    pub(crate) version: Option<u64>,
    /// It takes something away.
    pub(crate) is_grave: bool,
    /// The text about things that are lost for good with it. The button appears only once the text
    /// was shown.
    pub(crate) loss: Option<&'static str>,
}

impl Action {
    /// The id of the menu that this action is the first of: the path of its thing.
    pub(crate) fn menu_id(&self) -> String {
        let thing = self.path.rsplit_once('/').map_or("", |(thing, _)| thing);
        let plain = |char: char| match char.is_ascii_alphanumeric() || char == '_' {
            true => char,
            false => '-',
        };
        format!("menu{}", thing.chars().map(plain).collect::<String>())
    }
}

/// The targets of the buttons of one thing.
#[derive(Clone, Debug)]
pub(crate) struct Buttons<'a> {
    /// The path of the thing.
    pub(crate) path: String,
    pub(crate) what: &'a str,
    pub(crate) version: u64,
}

impl Buttons<'_> {
    pub(crate) fn button(&self, name: &'static str, word: &str) -> Action {
        Action {
            name,
            what: self.what.to_owned(),
            path: format!("{}/{word}", self.path),
            version: Some(self.version),
            is_grave: false,
            loss: None,
        }
    }

    /// A button that takes something away, behind the question that says what goes with it.
    pub(crate) fn for_good(&self, name: &'static str, word: &str, loss: &'static str) -> Action {
        Action {
            is_grave: true,
            loss: Some(loss),
            ..self.button(name, word)
        }
    }
}
