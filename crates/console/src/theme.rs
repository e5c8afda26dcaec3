//! Light or dark: what a person chose, kept by the browser.

use super::cookies::cookie_of;
use axum::http::HeaderMap;

/// The cookie with the choice.
pub(super) const COOKIE: &str = "__Host-culvert-theme";

/// The colours of pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Those that the browser prefers.
    #[default]
    Auto,
    Light,
    Dark,
}

impl Theme {
    pub(crate) const ALL: [Self; 3] = [Self::Auto, Self::Light, Self::Dark];

    /// The word in the cookie and on the page.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    /// The name of its button.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "Colours of the system",
            Self::Light => "Light colours",
            Self::Dark => "Dark colours",
        }
    }

    pub(crate) const fn icon(self) -> super::icons::Icon {
        match self {
            Self::Auto => super::icons::Icon::AUTO,
            Self::Light => super::icons::Icon::LIGHT,
            Self::Dark => super::icons::Icon::DARK,
        }
    }

    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.word() == word)
    }

    /// The choice that the browser presents.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let word = cookie_of(headers, COOKIE);
        word.and_then(|word| Self::named(&word)).unwrap_or_default()
    }
}
