//! Light or dark: what a person chose, kept by the browser.

use super::forms::Posted;
use super::person::cookie_of;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use culvert_portal_base::Fault;

/// The cookie with the choice.
const COOKIE: &str = "__Host-culvert-theme";

/// A year, in seconds: browsers keep no cookie for much longer.
const COOKIE_AGE_S: u32 = 31_536_000;

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

    fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|theme| theme.word() == word)
    }

    /// The choice that the browser presents.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let word = cookie_of(headers, COOKIE);
        word.and_then(|word| Self::named(&word)).unwrap_or_default()
    }
}

/// Keeps the choice, and goes back to the page on which it was made.
pub(super) async fn choose(Posted { person, fields }: Posted) -> Result<Response, Fault> {
    let word = fields.text("theme");
    let theme =
        Theme::named(word).ok_or_else(|| Fault::invalid("theme", "choose auto, light or dark"))?;
    let mut response = person.back(&fields, "/");
    let cookie = format!(
        "{COOKIE}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={COOKIE_AGE_S}",
        theme.word()
    );
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}
