//! What every request to the console goes through: whether it was meant for this portal, and whether a page
//! of this portal sent it.

use super::Console;
use super::person::{Person, session};
use super::view::{Link, Page, Section};
use crate::api;
use crate::fault::Fault;
use crate::server::check_address;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_wire::api::Problem;
use std::net::IpAddr;
use zeroize::Zeroizing;

/// What pages may load and where their forms may go: this portal, and nothing that stands in the page
/// itself.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'",
);

/// The same for pages with the portal's own script, which may ask this portal, and make no HTML from text.
pub(super) const POLICY_WITH_SCRIPT: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
     base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);

/// With `no-referrer` browsers would not say which page a form came from.
const REFERRER: HeaderValue = HeaderValue::from_static("same-origin");

/// Refuses to begin a way to a provider under another name: the provider sends people to the portal's own name, and the cookie
/// that is kept meanwhile is of one name.
pub(super) fn must_be_at_own_name(console: &Console, headers: &HeaderMap) -> Result<(), Fault> {
    if is_at_own_name(console, headers) {
        return Ok(());
    }
    let url = (console.portal)().url;
    let detail = format!("The provider sends people back to {url}: open the console there.");
    Err(Fault::Conflict(detail))
}

pub(super) async fn around(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Response {
    let asker = Asker {
        method: request.method().clone(),
        path: request.uri().path().to_owned(),
        session: session(request.headers()),
    };
    let checked = check(&(console.portal)().url, &request);
    let response = match (checked, check_address(request.uri())) {
        (Ok(()), Ok(())) => next.run(request).await,
        (Err(page), _) => *page,
        (Ok(()), Err(fault)) => fault.into_response(),
    };
    let mut response = in_html(&console, response, &asker).await;
    let headers = response.headers_mut();
    // A page with a script of ours has said so.
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(POLICY);
    headers.insert(header::REFERRER_POLICY, REFERRER);
    response
}

/// Who gets an answer that is no page yet.
struct Asker {
    method: Method,
    path: String,
    session: Option<Zeroizing<String>>,
}

impl Asker {
    /// With the pages there are, where someone has signed in and may see them.
    async fn page(&self, console: &Console, title: &str) -> Option<Page> {
        let session = self.session.as_ref()?;
        let person = Person::of_session(console, session).await.ok()?;
        Some(person.page(title, ""))
    }
}

/// Whether a request was meant for the portal at `url`, and, if it changes something, sent by one of its pages.
pub(super) fn check<B>(url: &str, request: &axum::http::Request<B>) -> Result<(), Box<Response>> {
    let headers = request.headers();
    let host = match one(headers, &header::HOST) {
        Some(host) if is_ours(url, host) => host,
        _ => {
            let text = format!("This portal is at {url}, and is not asked under another name.");
            return Err(refuse(
                StatusCode::MISDIRECTED_REQUEST,
                "Another address",
                text,
            ));
        }
    };
    if request.method().is_safe() || came_from(headers, host) {
        return Ok(());
    }
    let text = "The form was not sent by a page of this portal. Open the page again and send it from \
                there.";
    Err(refuse(
        StatusCode::FORBIDDEN,
        "Nothing was changed",
        text.to_owned(),
    ))
}

/// The portal's own name. An address is no name that someone else could make lead here.
fn is_ours(url: &str, host: &str) -> bool {
    let own = url.trim_start_matches("https://");
    own.eq_ignore_ascii_case(host) || is_address(host)
}

/// Whether the browser asks for the portal under the name of its URL.
pub(super) fn is_at_own_name(console: &Console, headers: &HeaderMap) -> bool {
    let url = (console.portal)().url;
    let own = url.trim_start_matches("https://");
    one(headers, &header::HOST).is_some_and(|host| own.eq_ignore_ascii_case(host))
}

fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

/// Browsers say where a form came from, in at least one of two headers; what none of them vouches for
/// came from nowhere.
fn came_from(headers: &HeaderMap, host: &str) -> bool {
    let origin = one(headers, &header::ORIGIN).map(|origin| origin == format!("https://{host}"));
    let site = headers
        .get("sec-fetch-site")
        .map(|site| site == "same-origin");
    match (origin, site) {
        (Some(origin), Some(site)) => origin && site,
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => false,
    }
}

/// The value of a header that is there once.
fn one<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    value.to_str().ok()
}

fn refuse(status: StatusCode, title: &str, text: String) -> Box<Response> {
    let page = plain(title.to_owned(), text);
    Box::new(page.with_status(status))
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
        sections: vec![Section::Alert(text), Section::Links(vec![back])],
    }
}

/// A fault as a page; where nobody has signed in, the way to do so, or to the first start.
async fn in_html(console: &Console, mut response: Response, asker: &Asker) -> Response {
    let Some(problem) = api::take_problem(&mut response) else {
        return response;
    };
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        let is_set_up = console.service.is_set_up().await.unwrap_or(true);
        let back = super::person::page_of(&asker.path).filter(|_| asker.method.is_safe());
        return match back {
            _ if !is_set_up => Redirect::to("/set-up"),
            Some(back) if back != "/" => Redirect::to(&format!("/sign-in?next={back}")),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(given: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = given
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        pairs
            .collect::<Vec<(header::HeaderName, HeaderValue)>>()
            .into_iter()
            .collect()
    }

    #[test]
    fn a_form_is_taken_from_a_page_of_this_portal_and_from_nowhere_else() {
        let here = "portal.example:8443";
        for given in [
            &[("origin", "https://portal.example:8443")] as &[_],
            &[("sec-fetch-site", "same-origin")],
            &[
                ("origin", "https://portal.example:8443"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert!(came_from(&headers(given), here), "{given:?}");
        }
        for given in [
            &[] as &[_],
            &[("origin", "null")],
            &[("origin", "http://portal.example:8443")],
            &[("origin", "https://portal.example")],
            &[("origin", "https://evil.example")],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "none")],
            &[
                ("origin", "https://portal.example:8443"),
                ("sec-fetch-site", "cross-site"),
            ],
            &[
                ("origin", "https://evil.example"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert!(!came_from(&headers(given), here), "{given:?}");
        }
    }

    #[test]
    fn an_address_is_nobodys_name() {
        for host in ["127.0.0.1:8443", "[::1]:8443", "192.0.2.7", "localhost:1"] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:8443",
            "localhost.evil",
            "",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }
}
