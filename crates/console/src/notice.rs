//! The notice about a finished change, on the page that follows the form: a cookie that is shown once. An address with
//! the notice in it would show it again at each reload, and would let a link put words into the console's mouth.

use super::cookies::cookie_of;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The cookie. Its prefix has browsers take it only from this host, over TLS.
const COOKIE: &str = "__Host-culvert-notice";

/// Has the browser forget the notice that is shown.
pub(crate) const FORGET: HeaderValue = HeaderValue::from_static(
    "__Host-culvert-notice=; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=0",
);

/// Longest notice, in bytes: a sentence with the longest name of two things.
const MAX_LEN: usize = 1024;

/// To the page at `path`, which shows the notice once.
pub(super) fn done(path: &str, notice: &str) -> Response {
    noticed(Redirect::to(path).into_response(), notice)
}

/// An answer that leads to a page, with the notice for it.
pub(super) fn noticed(mut response: Response, notice: &str) -> Response {
    let mut end = notice.len().min(MAX_LEN);
    while !notice.is_char_boundary(end) {
        end -= 1;
    }
    let text = URL_SAFE_NO_PAD.encode(&notice[..end]);
    // A minute: the page that follows comes at once.
    let cookie = format!("{COOKIE}={text}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The notice that the browser presents.
pub(super) fn of(headers: &HeaderMap) -> Option<String> {
    let text = cookie_of(headers, COOKIE)?;
    let bytes = URL_SAFE_NO_PAD.decode(text.as_bytes()).ok()?;
    let notice = String::from_utf8(bytes).ok()?;
    (!notice.is_empty() && notice.len() <= MAX_LEN).then_some(notice)
}
