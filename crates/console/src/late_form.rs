//! Forms that arrive after their session has ended. The sign-in page says so. If the session ended by time, the form
//! waits for its person, who sends it from the page that follows.

use super::fields::Fields;
use super::paths::{CONFIRM, next_page, page_of_form};
use super::person::{PageRefusal, is_form_token, session};
use super::state::Console;
use super::view::Section;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, header};
use culvert_portal_base::Fault;

/// The field of the sign-in page's address that says what became of a form.
const FORM: &str = "form";
/// Its values.
const WAITS: &str = "waits";
const GONE: &str = "gone";

/// The refusal of a form whose sender is refused. If their session has ended, it says where to sign in again, and what
/// becomes of the form.
pub(super) async fn refused(
    refusal: PageRefusal,
    console: &Console,
    request: Request,
) -> PageRefusal {
    if !matches!(refusal, PageRefusal::Fault(Fault::Unauthenticated)) {
        return refusal;
    }
    match sign_in_after(console, request).await {
        Ok(Some(address)) => PageRefusal::SignIn(address),
        Ok(None) => refusal,
        Err(fault) => PageRefusal::Fault(fault),
    }
}

/// The address of the page for signing in after this form; none, where nothing that anyone filled in is lost.
async fn sign_in_after(console: &Console, request: Request) -> Result<Option<String>, Fault> {
    let path = request.uri().path().to_owned();
    let Some(session) = session(request.headers()) else {
        return Ok(None);
    };
    if matches!(&*path, "/sign-out" | "/theme") {
        return Ok(None);
    }
    let from = page_of(console, request.headers()).unwrap_or_else(|| "/".to_owned());
    // A proof is no input that anyone wants to keep.
    let is_kept = !path.starts_with(CONFIRM);
    let ended = match is_kept {
        true => console.service.ended_session(&session).await?,
        false => None,
    };
    let Some(ended) = ended else {
        return Ok(Some(sign_in(&from, GONE)));
    };
    // Nobody else makes the portal read or keep a form.
    let fields = Fields::from_request(request, &()).await?;
    if !is_form_token(&session, fields.text("form_token")) {
        return Ok(Some(sign_in(&from, GONE)));
    }
    let ticket = console
        .service
        .keep_late_form(&ended, path, fields.into_stored())
        .await?;
    Ok(Some(sign_in(&page_of_form(&ticket), WAITS)))
}

fn sign_in(next: &str, form: &str) -> String {
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("next", next)
        .append_pair(FORM, form)
        .finish();
    format!("/sign-in?{query}")
}

/// The page that the form is on, as the browser says.
fn page_of(console: &Console, headers: &HeaderMap) -> Option<String> {
    let referrer = headers.get(header::REFERER)?.to_str().ok()?;
    let page = referrer.strip_prefix(&*(console.portal)().url)?;
    Some(next_page(page))
}

/// The word about a form on the page for signing in.
pub(super) fn notice(asked: &Fields) -> Option<Section> {
    let text = match asked.text(FORM) {
        WAITS => {
            "Your session had ended, so nothing was changed. Your form waits for 15 minutes: sign in as the same person, and \
             send it from the page that follows."
        }
        GONE => {
            "Your session had ended, so nothing was changed, and the form was not kept. Sign in, and fill it in once more."
        }
        _ => return None,
    };
    Some(Section::Alert(text.to_owned()))
}
