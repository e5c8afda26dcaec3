//! The person that asks for a page: the session of a browser.

use super::asked::Asked;
use super::paths::{OWN_PAGES, PAGES, SECOND_FACTOR, UNTIL_ENROLLED};
use super::state::Console;
use super::view::{Action, Cell, Form, Page, Section, Table, Who};
use aws_lc_rs::hmac;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_portal_base::Fault;
use culvert_portal_service::Caller;
use culvert_store::Role;
use zeroize::Zeroizing;

/// The cookie. Its prefix has browsers take it only with `Secure`, for `/`, and from this host alone.
const COOKIE: &str = "__Host-culvert";

/// The message whose HMAC, keyed with the session, is its form token.
const FORM_TOKEN: &[u8] = b"culvert console form";

/// The header that the page's script sends when it loads the page again: that does not count as use
/// of the session.
const LIVE: &str = "x-culvert-live";

/// The reason for which a page is not shown.
#[derive(Debug)]
pub(super) enum PageRefusal {
    Fault(Fault),
    /// A second factor comes first.
    Enrol,
}

impl From<Fault> for PageRefusal {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl IntoResponse for PageRefusal {
    fn into_response(self) -> Response {
        match self {
            Self::Fault(fault) => fault.into_response(),
            Self::Enrol => Redirect::to(SECOND_FACTOR).into_response(),
        }
    }
}

/// Someone who signed in.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) caller: Caller,
    name: String,
    form_token: String,
}

impl Person {
    /// The person of a session, if they may see pages at all. It does not count as use of the
    /// session.
    pub(super) async fn of_session(console: &Console, session: &str) -> Result<Self, PageRefusal> {
        let caller = console.service.resume_unused(session).await?;
        match caller.must_enrol() {
            true => Err(PageRefusal::Enrol),
            false => Ok(Self::of(console, session, caller).await?),
        }
    }

    async fn of(console: &Console, session: &str, caller: Caller) -> Result<Self, Fault> {
        let name = console.service.own_name(&caller).await?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, session.as_bytes());
        let form_token = URL_SAFE_NO_PAD.encode(hmac::sign(&key, FORM_TOKEN));
        Ok(Self {
            caller,
            name,
            form_token,
        })
    }

    /// True if forms are shown that change the configuration. The service decides about each
    /// change.
    pub(super) fn may_change(&self) -> bool {
        matches!(self.caller.role(), Role::Admin | Role::Owner)
    }

    /// A page for this person.
    pub(super) fn page(&self, title: impl Into<String>, at: &'static str) -> Page {
        Page {
            title: title.into(),
            who: Some(Who {
                name: self.name.clone(),
                pages: match self.caller.role() {
                    Role::User => OWN_PAGES,
                    Role::Auditor | Role::Admin | Role::Owner => PAGES,
                },
                form_token: self.form_token.clone(),
            }),
            at,
            done: None,
            sections: Vec::<Section>::new(),
        }
    }

    /// A page that follows what happens, and is asked for at `path`: with what was refused it is the answer to a
    /// form, which was sent elsewhere.
    pub(super) fn live_page(
        &self,
        title: impl Into<String>,
        at: &'static str,
        path: impl Into<String>,
        console: &Console,
    ) -> Page {
        let since = console.service.listen().count();
        let mut page = self.page(title, at);
        let path = path.into();
        page.sections.push(Section::Live { since, path });
        page
    }

    /// A page with a list, and below it a form for those who may change something.
    pub(super) fn list_page(
        &self,
        at: &'static str,
        asked: &Asked,
        list: Table,
        form: Form,
    ) -> Page {
        let mut page = self.page(list.title.clone(), at);
        page.done = asked.done();
        page.sections.push(Section::Table(list));
        page.sections.extend(self.forms([form]));
        page
    }

    /// The same of a list that may be long: what has some words in its name is found without turning pages.
    pub(super) fn searched_page(
        &self,
        at: &'static str,
        asked: &Asked,
        list: Table,
        form: Form,
    ) -> Page {
        let mut page = self.list_page(at, asked, list, form);
        page.sections.insert(0, Section::Form(asked.search(at)));
        page
    }

    /// Forms, for those who may change something.
    pub(super) fn forms(&self, forms: impl IntoIterator<Item = Form>) -> Vec<Section> {
        match self.may_change() {
            true => forms.into_iter().map(Section::Form).collect(),
            false => Vec::new(),
        }
    }

    /// Buttons, for those who may change something.
    pub(super) fn buttons(&self, buttons: impl IntoIterator<Item = Action>) -> Cell {
        Cell::Actions(match self.may_change() {
            true => buttons.into_iter().collect(),
            false => Vec::new(),
        })
    }

    /// True if the form is of this session. The comparison takes constant time.
    pub(super) fn sent(&self, form_token: &str) -> bool {
        let wanted = self.form_token.as_bytes();
        aws_lc_rs::constant_time::verify_slices_are_equal(wanted, form_token.as_bytes()).is_ok()
    }
}

impl FromRequestParts<Console> for Person {
    type Rejection = PageRefusal;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, PageRefusal> {
        // A person who was asked for a fresh proof is known already.
        if let Some(person) = parts.extensions.remove::<Self>() {
            return Ok(person);
        }
        Self::from_session(parts, console).await
    }
}

impl Person {
    /// The person of the session that the browser presents.
    pub(super) async fn from_session(
        parts: &mut Parts,
        console: &Console,
    ) -> Result<Self, PageRefusal> {
        let session = session(&parts.headers).ok_or(Fault::Unauthenticated)?;
        // Sending a form counts as use of the session, whatever the request's headers say.
        let is_unused = parts.method == Method::GET && parts.headers.contains_key(LIVE);
        let caller = match is_unused {
            true => console.service.resume_unused(&session).await?,
            false => console.service.resume(&session).await?,
        };
        caller.note_connection(parts.extensions.get());
        if caller.must_enrol() && !UNTIL_ENROLLED.contains(&parts.uri.path()) {
            return Err(PageRefusal::Enrol);
        }
        Ok(Self::of(console, &session, caller).await?)
    }
}

/// The session that the browser presents.
pub(super) fn session(headers: &HeaderMap) -> Option<Zeroizing<String>> {
    cookie_of(headers, COOKIE)
}

/// The value of a cookie.
pub(super) fn cookie_of(headers: &HeaderMap, wanted: &str) -> Option<Zeroizing<String>> {
    let cookies = headers.get_all(header::COOKIE).iter();
    let cookies = cookies.filter_map(|value| value.to_str().ok());
    let mut pairs = cookies
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
    Some(Zeroizing::new(value.to_owned()))
}

/// Has the browser keep a session until it is closed; the portal ends it before, if it is not.
pub(super) fn keep(session: &str) -> Option<HeaderValue> {
    cookie(session, "")
}

/// Has the browser forget its session.
pub(super) fn forget() -> Option<HeaderValue> {
    cookie("", "; Max-Age=0")
}

fn cookie(value: &str, more: &str) -> Option<HeaderValue> {
    let text = format!("{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Lax{more}");
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
