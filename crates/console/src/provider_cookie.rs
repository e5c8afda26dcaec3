//! The cookie of a browser that is on the way to an identity provider.

use axum::http::{HeaderValue, header};
use axum::response::Response;
use culvert_portal_auth::oidc;

/// The cookie of a browser on the way to a provider: for ten minutes, for this host alone.
pub(super) const COOKIE: &str = "__Host-culvert-way";

/// An answer with what the browser is to keep.
pub(super) fn on_the_way(begun: &oidc::Begun, mut response: Response) -> Response {
    let keep = cookie(&begun.browser, "; Max-Age=600");
    if let Some(keep) = keep {
        response.headers_mut().append(header::SET_COOKIE, keep);
    }
    response
}

/// Has the browser forget it.
pub(super) fn forget() -> Option<HeaderValue> {
    cookie("", "; Max-Age=0")
}

fn cookie(value: &str, more: &str) -> Option<HeaderValue> {
    let text = format!("{COOKIE}={value}; Path=/; Secure; HttpOnly; SameSite=Lax{more}");
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
