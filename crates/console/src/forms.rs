//! Forms that people send who signed in: of a page of their session. And the answers to them.

use super::fields::Fields;
use super::late_form;
use super::person::{PageRefusal, Person};
use super::state::Console;
use super::view::{Form, Page};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::Response;
use culvert_portal_base::Fault;

/// A form of a page that someone sees who signed in.
pub(super) struct Posted {
    pub(super) person: Person,
    pub(super) fields: Fields,
}

impl FromRequest<Console> for Posted {
    type Rejection = PageRefusal;

    async fn from_request(request: Request, console: &Console) -> Result<Self, PageRefusal> {
        let (mut parts, body) = request.into_parts();
        // Nobody who is not known makes the portal read a form.
        let person = Person::from_request_parts(&mut parts, console).await;
        let request = Request::from_parts(parts, body);
        match person {
            Ok(person) => Self::of(person, request).await,
            Err(refusal) => Err(late_form::refused(refusal, console, request).await),
        }
    }
}

impl Posted {
    /// The form that this person sent.
    pub(super) async fn of(person: Person, request: Request) -> Result<Self, PageRefusal> {
        let fields = Fields::from_request(request, &()).await?;
        if !person.sent(fields.text("form_token")) {
            let text =
                "The page is of another session: open it again and send the form from there.";
            return Err(Fault::Forbidden(text.to_owned()).into());
        }
        Ok(Self { person, fields })
    }
}

/// The form, with the address of the page that asked for it: that page shows the result.
pub(super) fn with_way_back(mut form: Form, fields: &Fields) -> Form {
    if let Some(back) = fields.filled("back") {
        form.hide("back", back.to_owned());
    }
    form
}

/// The answer to a form: onward, or its page again with the fault.
pub(super) async fn taken<T, P: Future<Output = Result<Page, Fault>>>(
    came: Result<T, Fault>,
    form: impl FnOnce() -> Form,
    onward: impl FnOnce(T) -> Response,
    page: impl FnOnce(Form) -> P,
) -> Result<Response, Fault> {
    match came {
        Ok(made) => Ok(onward(made)),
        Err(fault) => {
            let (form, status) = form().refused(fault)?;
            Ok(page(form).await?.with_status(status))
        }
    }
}
