//! The person that asks for a page: the session of a browser.

use super::cookies::cookie_of;
use super::fields::Fields;
use super::navigation;
use super::notice;
use super::paths::{SECOND_FACTOR, UNTIL_ENROLLED, own_page};
use super::state::Console;
use super::theme::Theme;
use super::view::{Action, Cell, Form, Link, Page, Section, Table, Who};
use aws_lc_rs::hmac;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method};
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
    /// The session of a form has ended: signing in comes first, at this address.
    SignIn(String),
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
            Self::SignIn(address) => Redirect::to(&address).into_response(),
        }
    }
}

/// Someone who signed in.
#[derive(Clone, Debug)]
pub(super) struct Person {
    pub(super) caller: Caller,
    name: String,
    organisation: String,
    form_token: String,
    visit: Visit,
}

/// The request for a page, as far as it shapes the page's frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Visit {
    theme: Theme,
    notice: Option<String>,
    /// The address of the page that is asked for; empty for the answer to a form, and where no form may lead back.
    here: String,
}

impl Visit {
    pub(super) fn of(method: &Method, address: &str, headers: &HeaderMap) -> Self {
        let is_page = method == Method::GET;
        let is_live = headers.contains_key(LIVE);
        let here = own_page(address).filter(|_| is_page);
        Self {
            theme: Theme::of(headers),
            // The script that loads a page again leaves the notice to the person.
            notice: notice::of(headers).filter(|_| is_page && !is_live),
            here: here.unwrap_or_default().to_owned(),
        }
    }
}

impl Person {
    /// The person of a session, if they may see pages at all. It does not count as use of the
    /// session.
    pub(super) async fn of_session(
        console: &Console,
        session: &str,
        visit: Visit,
    ) -> Result<Self, PageRefusal> {
        let caller = console.service.resume_unused(session).await?;
        match caller.must_enrol() {
            true => Err(PageRefusal::Enrol),
            false => Ok(Self::of(console, session, caller, visit).await?),
        }
    }

    async fn of(
        console: &Console,
        session: &str,
        caller: Caller,
        visit: Visit,
    ) -> Result<Self, Fault> {
        let organisation = console.service.organisation(&caller).await?;
        let name = console.service.own_name(&caller).await?;
        Ok(Self {
            caller,
            name,
            organisation,
            form_token: form_token(session),
            visit,
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
                organisation: self.organisation.clone(),
                groups: match self.caller.role() {
                    Role::User => navigation::OWN,
                    Role::Auditor | Role::Admin | Role::Owner => navigation::ALL,
                },
                theme: self.visit.theme,
                here: self.visit.here.clone(),
                form_token: self.form_token.clone(),
            }),
            at,
            done: self.visit.notice.clone(),
            create: None,
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

    /// A page with one form.
    pub(super) fn form_page(&self, title: &str, at: &'static str, form: Form) -> Page {
        let mut page = self.page(title, at);
        page.sections.push(Section::Form(form));
        page
    }

    /// A page with a list that can be searched, and the way to a new thing for those who may create one.
    pub(super) fn searched_page(
        &self,
        at: &'static str,
        list: Table,
        create: Option<Link>,
    ) -> Page {
        let mut page = self.page(list.title.clone(), at);
        page.create = create.filter(|_| self.may_change()).map(Into::into);
        page.sections.push(Section::Table(list));
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

    /// Back to the page that the form came from, search and part of the list included; to `fallback` where the form
    /// does not say.
    pub(super) fn back(&self, fields: &Fields, fallback: &str) -> Response {
        Redirect::to(own_page(fields.text("back")).unwrap_or(fallback)).into_response()
    }

    /// The same, with a notice about the change.
    pub(super) fn back_with(&self, fields: &Fields, fallback: &str, notice: &str) -> Response {
        notice::noticed(self.back(fields, fallback), notice)
    }

    /// The same, in a menu.
    pub(super) fn menu(&self, buttons: impl IntoIterator<Item = Action>) -> Cell {
        match self.buttons(buttons) {
            Cell::Actions(actions) => Cell::Menu(actions),
            other => other,
        }
    }

    /// True if the form is of this session.
    pub(super) fn sent(&self, form_token: &str) -> bool {
        is_same(&self.form_token, form_token)
    }
}

/// The token of the forms of a session.
fn form_token(session: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, session.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, FORM_TOKEN))
}

/// True if a form with this token is of this session, ended or not.
pub(super) fn is_form_token(session: &str, sent: &str) -> bool {
    is_same(&form_token(session), sent)
}

/// Compares in constant time.
fn is_same(wanted: &str, sent: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(wanted.as_bytes(), sent.as_bytes()).is_ok()
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
        let visit = Visit::of(&parts.method, &parts.uri.to_string(), &parts.headers);
        Ok(Self::of(console, &session, caller, visit).await?)
    }
}

/// The session that the browser presents.
pub(super) fn session(headers: &HeaderMap) -> Option<Zeroizing<String>> {
    cookie_of(headers, COOKIE)
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
