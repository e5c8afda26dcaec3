//! The form by which a person chooses light or dark.

use super::forms::Posted;
use super::theme::{COOKIE, Theme};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use culvert_portal_base::Fault;

/// A year, in seconds: browsers keep no cookie for much longer.
const COOKIE_AGE_S: u32 = 31_536_000;

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
