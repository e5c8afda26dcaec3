//! To an identity provider and back.

use super::confirm;
use super::cookies::cookie_of;
use super::fields::Fields;
use super::guard;
use super::host::is_at_own_name;
use super::notice::done;
use super::paths::next_page;
use super::person;
use super::provider_cookie::{COOKIE, forget, on_the_way};
use super::sign_in_page::with_session;
use super::state::Console;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use culvert_ids::ProviderId;
use culvert_portal_auth::oidc::SignInFault;
use culvert_portal_base::{Fault, Id, PublicAddress};
use culvert_portal_service::{Arrived, CameBack};
use zeroize::Zeroizing;

/// The mark in the query of people who were led to the portal's own name.
const MOVED: &str = "moved";

pub(super) async fn begin(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    headers: HeaderMap,
    uri: Uri,
    Id(id): Id<ProviderId>,
) -> Result<Response, Fault> {
    // The provider sends people to the portal's own name, and the cookie is kept for one name.
    let fields = Fields::parse_query(uri.query().unwrap_or_default())?;
    let url = (console.portal)().url;
    if !is_at_own_name(&url, &headers) {
        // A proxy that changes `Host` would have the browser come back for ever.
        if !fields.text(MOVED).is_empty() {
            return Err(Fault::Conflict(guard::other_address(&url, &headers)));
        }
        let path = uri
            .path_and_query()
            .map_or("/sign-in", |path| path.as_str());
        let mark = if path.contains('?') { '&' } else { '?' };
        let to = format!("{url}{path}{mark}{MOVED}=1");
        return Ok(Redirect::to(&to).into_response());
    }
    let next = next_page(fields.text("next"));
    let begun = console.service.begin_provider_sign_in(from, id, next);
    match begun.await {
        Ok(begun) => Ok(on_the_way(&begun, Redirect::to(&begun.url).into_response())),
        Err(Fault::Forbidden(text)) => Ok(not_signed_in(StatusCode::FORBIDDEN, text)),
        Err(Fault::Unavailable(text)) => Ok(not_signed_in(StatusCode::BAD_GATEWAY, text)),
        Err(fault) => Err(fault),
    }
}

/// Receives a browser that comes back from a provider.
pub(super) async fn finish(
    State(console): State<Console>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Response, Fault> {
    let fields = Fields::parse_query(uri.query().unwrap_or_default())?;
    let browser = cookie_of(&headers, COOKIE);
    let session = person::session(&headers);
    let caller = match &session {
        Some(session) => console.service.resume(session).await.ok(),
        None => None,
    };
    let given = |name| Some(fields.raw(name)).filter(|text| !text.is_empty());
    let came = CameBack {
        state: fields.raw("state"),
        browser: browser
            .as_ref()
            .map(|browser: &Zeroizing<String>| browser.as_str()),
        code: given("code"),
        issuer: given("iss"),
        error: given("error"),
        error_description: given("error_description"),
    };
    let arrived = console
        .service
        .finish_provider_sign_in(came, caller.as_ref())
        .await;
    let mut response = match arrived {
        Ok(Arrived::SignedIn { begun, next }) => {
            // A session that the browser had before ends.
            if let Some(caller) = &caller {
                console.service.sign_out(caller).await?;
            }
            with_session(&begun.token, &next)
        }
        Ok(Arrived::Proven { form }) => confirm::onward(&form),
        Ok(Arrived::Linked) => done("/me", "You may sign in this way from now on."),
        Err(SignInFault::Portal(fault)) => return Err(fault),
        Err(fault) => refused(&fault, caller.is_some()),
    };
    if let Some(forgotten) = forget() {
        response.headers_mut().append(header::SET_COOKIE, forgotten);
    }
    Ok(response)
}

fn refused(fault: &SignInFault, is_signed_in: bool) -> Response {
    let status = match fault {
        SignInFault::Away(_) | SignInFault::Wrong(_) => StatusCode::BAD_GATEWAY,
        _ => StatusCode::FORBIDDEN,
    };
    match is_signed_in {
        // The person went back in the browser, or could not link an identity.
        true => guard::plain_to(
            "Nothing was changed",
            format!("{fault} You are signed in as before."),
            "/",
            "To the overview",
        )
        .with_status(status),
        false => not_signed_in(status, fault.to_string()),
    }
}

fn not_signed_in(status: StatusCode, text: String) -> Response {
    let back = "To the page for signing in";
    guard::plain_to("Not signed in", text, "/sign-in", back).with_status(status)
}
