//! The checks of every request to the console: it was meant for this portal, and a page of this
//! portal sent it.

use super::content_policy::POLICY;
use super::host::{HostRefusal, host_that_came, is_at_own_name, own_host};
use super::person::{Person, Visit, session};
use super::state::Console;
use super::view::{Link, Page, Section};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_portal_base::take_problem;
use culvert_portal_base::{Fault, check_address};
use culvert_portal_service::INVITATION_PATH;
use culvert_wire::api::Problem;
use zeroize::Zeroizing;

/// With `no-referrer` browsers would not say which page a form came from.
const REFERRER: HeaderValue = HeaderValue::from_static("same-origin");

/// Of pages whose address is a secret: their path is told to nobody, this portal included.
const REFERRER_OF_SECRETS: HeaderValue = HeaderValue::from_static("strict-origin");

/// Refuses to begin a way to a provider under another name: the provider sends people to the portal's own name, and the cookie
/// that is kept meanwhile is of one name.
pub(super) fn must_be_at_own_name(console: &Console, headers: &HeaderMap) -> Result<(), Fault> {
    let url = (console.portal)().url;
    match is_at_own_name(&url, headers) {
        true => Ok(()),
        false => Err(Fault::Conflict(other_address(&url, headers))),
    }
}

/// The message for a console that was opened by an address and needs its own name.
pub(super) fn other_address(url: &str, headers: &HeaderMap) -> String {
    format!(
        "The provider sends people back to {url}: open the console there. The request came {}, and `Host: {}` was \
         expected; a reverse proxy must pass it on.",
        host_that_came(headers),
        own_host(url)
    )
}

pub(super) async fn around(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let asker = Asker {
        method: request.method().clone(),
        address: request.uri().to_string(),
        session: session(request.headers()),
        visit: Visit::of(
            request.method(),
            &request.uri().to_string(),
            request.headers(),
        ),
    };
    let url = (console.portal)().url;
    let refusal = HostRefusal::of(&url, request.method(), request.headers());
    let response = match (refusal, check_address(request.uri())) {
        (None, Ok(())) => next.run(request).await,
        (Some(refusal), _) => {
            console.refusals.note(&refusal);
            render(refusal, request.headers())
        }
        (None, Err(fault)) => fault.into_response(),
    };
    let mut response = in_html(&console, response, &asker).await;
    let headers = response.headers_mut();
    // A page with a script of ours has said so.
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(POLICY);
    let referrer = match asker.address.starts_with(INVITATION_PATH) {
        true => REFERRER_OF_SECRETS,
        false => REFERRER,
    };
    headers.insert(header::REFERRER_POLICY, referrer);
    response
}

/// The sender of a request whose answer is no page yet.
struct Asker {
    method: Method,
    /// The path and the query that were asked for.
    address: String,
    session: Option<Zeroizing<String>>,
    visit: Visit,
}

impl Asker {
    /// With the pages there are, where someone has signed in and may see them.
    async fn page(&self, console: &Console, title: &str) -> Option<Page> {
        let session = self.session.as_ref()?;
        let person = Person::of_session(console, session, self.visit.clone())
            .await
            .ok()?;
        Some(person.page(title, ""))
    }
}

/// A refusal as a page, or as text for programs that ask for that.
fn render(refusal: HostRefusal, headers: &HeaderMap) -> Response {
    let HostRefusal {
        status,
        title,
        text,
        fix,
    } = refusal;
    if !wants_text(headers) {
        let mut page = plain(title.to_owned(), text);
        page.sections.splice(
            1..1,
            fix.map(|fix| Section::Lines {
                title: "Where a reverse proxy is in front of the portal".to_owned(),
                text: fix.to_owned(),
            }),
        );
        return page.with_status(status);
    }
    let text = match fix {
        Some(fix) => format!("{text}\n{fix}\n"),
        None => format!("{text}\n"),
    };
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, headers, text).into_response()
}

/// True if the request accepts text and no page: `culvert netcheck` does so.
fn wants_text(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let accepted = accepted.collect::<Vec<_>>().join(",");
    accepted.contains("text/plain") && !accepted.contains("text/html")
}

fn plain(title: String, text: String) -> Page {
    plain_to(title, text, "/", "To the overview")
}

/// A page that says one thing, and leads on to a page.
pub(super) fn plain_to(
    title: impl Into<String>,
    text: String,
    path: &'static str,
    name: &'static str,
) -> Page {
    let back = Link { path, name };
    let title = title.into();
    Page {
        title,
        who: None,
        at: "",
        done: None,
        create: None,
        sections: vec![Section::Alert(text), Section::Links(vec![back])],
    }
}

/// A fault as a page; where nobody has signed in, the way to do so, or to the first start.
async fn in_html(console: &Console, mut response: Response, asker: &Asker) -> Response {
    let Some(problem) = take_problem(&mut response) else {
        return response;
    };
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        let is_set_up = console.service.is_set_up().await.unwrap_or(true);
        let back = super::paths::own_page(&asker.address).filter(|_| asker.method.is_safe());
        return match back {
            _ if !is_set_up => Redirect::to("/set-up"),
            Some(back) if back != "/" => {
                let query = form_urlencoded::Serializer::new(String::new())
                    .append_pair("next", back)
                    .finish();
                Redirect::to(&format!("/sign-in?{query}"))
            }
            _ => Redirect::to("/sign-in"),
        }
        .into_response();
    }
    let Problem { title, detail, .. } = problem;
    // The API's own words speak of tokens and things.
    let title = match status {
        StatusCode::FORBIDDEN => "This is not open to you".to_owned(),
        StatusCode::NOT_FOUND => "There is nothing here".to_owned(),
        _ => title,
    };
    let mut page = plain(title, detail.unwrap_or_default());
    if let Some(own) = asker.page(console, &page.title).await {
        let sections = std::mem::take(&mut page.sections);
        page = Page { sections, ..own };
    }
    let mut page = page.with_status(status);
    if let Some(wait) = response.headers_mut().remove(header::RETRY_AFTER) {
        page.headers_mut().insert(header::RETRY_AFTER, wait);
    }
    page
}
