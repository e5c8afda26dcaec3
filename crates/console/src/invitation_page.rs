//! The page that an invitation leads to: the person sets a password, and is signed in.

use super::fields::Fields;
use super::first::{marked, signed_in};
use super::guard::plain_to;
use super::sign_in_page::{end_before, page};
use super::state::Console;
use super::view::{Field, Form, Page};
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, PublicAddress};
use culvert_portal_service::Invited;
use culvert_wire::api::FieldProblem;

const AT: &str = "/invitation";

fn form_page(invited: &Invited, link: &str, problems: &[FieldProblem]) -> Page {
    let title = match invited.has_password {
        true => format!("A new password for {}", invited.name),
        false => format!("Welcome, {}", invited.name),
    };
    let fields = vec![
        Field::password("password", "Password", "new-password").hint("12 to 256 characters."),
        Field::password("again", "Password once more", "new-password"),
    ];
    let mut form = Form::new("Choose a password", AT, "Set and sign in", fields);
    // Password managers save the name with the password.
    form.hide("username", invited.name.clone());
    form.hide("link", link.to_owned());
    if !problems.is_empty() {
        form = form.with_problems(problems);
    }
    page(&title, form, Vec::new())
}

/// The one answer to a link that is not good, whatever the reason.
fn not_good() -> Response {
    let text = "This link is not valid. It was used or withdrawn, has ended, or is not copied whole. Ask your \
                administrator for a new one.";
    let page = plain_to("Invitation", text.to_owned(), "/sign-in", "Sign in");
    page.with_status(StatusCode::NOT_FOUND)
}

/// Shows the form. It changes nothing: programs open links of mails before people do.
pub(super) async fn show(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    Path(link): Path<String>,
) -> Result<Response, Fault> {
    match console.service.invited(from, &link).await {
        Ok(invited) => Ok(form_page(&invited, &link, &[]).into_response()),
        Err(Fault::Unauthenticated) => Ok(not_good()),
        Err(fault) => Err(fault),
    }
}

/// Uses up the link. A session that the browser had before ends.
pub(super) async fn accept(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    headers: HeaderMap,
    fields: Fields,
) -> Result<Response, Fault> {
    let link = fields.text("link");
    let password = fields.raw("password");
    let service = &console.service;
    let accepted = match fields.raw("again") == password {
        true => service.accept_invitation(from, link, password).await,
        false => Err(Fault::invalid("again", "it is not the same as above")),
    };
    let (begun, mark) = match accepted {
        Ok(accepted) => accepted,
        Err(Fault::Unauthenticated) => return Ok(not_good()),
        Err(Fault::Invalid(problems)) => {
            return match service.invited(from, link).await {
                Ok(invited) => {
                    let page = form_page(&invited, link, &problems);
                    Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY))
                }
                Err(Fault::Unauthenticated) => Ok(not_good()),
                Err(fault) => Err(fault),
            };
        }
        Err(fault) => return Err(fault),
    };
    end_before(&console, &headers).await?;
    Ok(marked(signed_in(&console, begun, "/").await?, &mark))
}
