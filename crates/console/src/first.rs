//! Pages before anyone has signed in: set-up, and signing in.

use super::asked::Asked;
use super::cookies::cookie_of;
use super::fields::Fields;
use super::first_steps;
use super::late_form;
use super::paths::next_page;
use super::second_step::second_step;
use super::sign_in_page::{
    end_before, page, password_form, sentence, sign_in_again, sign_in_page, with_session,
};
use super::state::Console;
use super::view::{Field, Form, Page};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, PublicAddress};
use culvert_portal_service::{Mark, SignedIn};
use culvert_wire::api::{FieldProblem, SetupRequest};
use culvert_wire::token::pasted;
use zeroize::Zeroizing;

/// The cookie of a known browser: guesses under its person's name use up no attempts there. It signs nobody in.
const BROWSER: &str = "__Host-culvert-browser";

/// The lifetime of the cookie: 400 days, the longest that browsers keep one.
const BROWSER_KNOWN_S: u32 = 400 * 24 * 60 * 60;

pub(super) async fn ask_sign_in(
    State(console): State<Console>,
    Asked(fields): Asked,
) -> Result<Page, Fault> {
    let next = next_page(fields.text("next"));
    let mut page = sign_in_page(&console, password_form("", &next), &next).await?;
    page.sections.splice(0..0, late_form::notice(&fields));
    Ok(page)
}

/// Begins a session. A session that the browser had before ends.
pub(super) async fn sign_in(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Fault> {
    let next = next_page(fields.text("next"));
    let name = fields.text("name");
    let mark = cookie_of(&headers, BROWSER);
    let mark = mark.as_ref().map(|mark: &Zeroizing<String>| mark.as_str());
    let begun = console
        .service
        .sign_in(from, mark, name, fields.raw("password"))
        .await;
    let (begun, mark) = match begun {
        Ok(begun) => begun,
        Err(Fault::Unauthenticated) => {
            let mut form = password_form(name, &next);
            form.problem = Some("Name and password do not belong together.".to_owned());
            let page = sign_in_page(&console, form, &next).await?;
            return Ok(page.with_status(StatusCode::UNAUTHORIZED));
        }
        Err(fault) => return Err(fault),
    };
    end_before(&console, &headers).await?;
    Ok(marked(signed_in(&console, begun, &next).await?, &mark))
}

/// Signing in without a password.
pub(super) async fn sign_in_by_passkey(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Fault> {
    let next = next_page(fields.text("next"));
    let credential = fields.raw("credential");
    match console.service.sign_in_by_passkey(from, credential).await {
        Ok(begun) => {
            end_before(&console, &headers).await?;
            Ok(with_session(&begun.token, &next))
        }
        Err(Fault::Invalid(problems)) => {
            let why = problems.into_iter().map(|problem| problem.detail);
            sign_in_again(&console, &next, &sentence(why)).await
        }
        Err(fault) => Err(fault),
    }
}

/// The session, or the question for what is lacking.
pub(super) async fn signed_in(
    console: &Console,
    signed_in: SignedIn,
    next: &str,
) -> Result<Response, Fault> {
    match signed_in {
        SignedIn::Begun(begun) => Ok(with_session(&begun.token, next)),
        SignedIn::CodeWanted(ticket) => {
            let page = second_step(console, &ticket, next).await?;
            Ok(page.into_response())
        }
    }
}

/// Has the browser show at the next sign-in that the password of this name was right in it.
pub(super) fn marked(mut response: Response, Mark(mark): &Mark) -> Response {
    let text = format!(
        "{BROWSER}={}; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age={BROWSER_KNOWN_S}",
        **mark
    );
    if let Ok(mut cookie) = HeaderValue::from_str(&text) {
        cookie.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The fields that keep their text after a fault of another field. Passwords never do.
#[derive(Clone, Copy, Default)]
struct Typed<'a> {
    token: &'a str,
    owner: &'a str,
    account: &'a str,
}

fn set_up_page(typed: Typed<'_>, problems: &[FieldProblem]) -> Page {
    let Typed {
        token,
        owner,
        account,
    } = typed;
    let fields = vec![
        Field::password("token", "Set-up token", "off")
            .hint(
                "“culvert portal run” prints it at the first start; “culvert portal setup-token”, on the \
                 portal's machine, makes another.",
            )
            .value(token),
        Field::line("owner", "Your name")
            .hint("You sign in under it; it may be an e-mail address.")
            .value(owner),
        Field::password("password", "Password", "new-password").hint("12 to 256 characters."),
        Field::password("again", "Password once more", "new-password"),
        Field::line("account", "Name of the organisation")
            .optional()
            .value(account),
    ];
    let mut form = Form::new("Become the owner", "/set-up", "Set up", fields);
    if !problems.is_empty() {
        form = form.with_problems(problems);
    }
    page("Set up the portal", form, Vec::new())
}

pub(super) async fn ask_set_up() -> Page {
    set_up_page(Typed::default(), &[])
}

/// Makes the owner, who is signed in then.
pub(super) async fn set_up(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    fields: Fields,
) -> Result<Response, Fault> {
    let (owner, password) = (fields.text("owner"), fields.raw("password"));
    let account = fields.text("account");
    let token = pasted(fields.text("token"));
    let typed = Typed {
        token,
        owner,
        account,
    };
    let again = |field: &str, detail: &str| {
        let problem = FieldProblem {
            field: field.to_owned(),
            detail: detail.to_owned(),
        };
        // One that is not accepted is copied again.
        let token = if field == "token" { "" } else { token };
        let page = set_up_page(Typed { token, ..typed }, &[problem]);
        page.with_status(StatusCode::UNPROCESSABLE_ENTITY)
    };
    if fields.raw("again") != password {
        return Ok(again("again", "it is not the same as above"));
    }
    let request = SetupRequest {
        owner: owner.to_owned(),
        account: fields.filled("account").map(str::to_owned),
        password: Some(password.to_owned()),
    };
    match console.service.set_up_by_password(token, request).await {
        Ok(_) => {}
        Err(Fault::Unauthenticated) => {
            let detail = "it is not accepted: it was used, has expired, or is not copied whole";
            return Ok(again("token", detail));
        }
        Err(Fault::Invalid(problems)) => {
            let page = set_up_page(typed, &problems);
            return Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY));
        }
        Err(Fault::Conflict(detail)) => return Ok(again("owner", &detail)),
        Err(fault) => return Err(fault),
    }
    let signed = console.service.sign_in(from, None, owner, password);
    let (begun, mark) = signed.await?;
    let response = signed_in(&console, begun, first_steps::AT).await?;
    Ok(marked(response, &mark))
}
