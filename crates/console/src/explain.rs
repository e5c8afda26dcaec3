//! Explains why a client may use a resource, or may not.

use super::asked::Asked;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_wire::api::Verdict;

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    const AT: &str = "/explain";
    let service = &console.service;
    let form = Form::new(
        "May this client use this resource now?",
        AT,
        "Explain",
        vec![
            Field::line("client", "Client")
                .hint("By its name.")
                .value(fields.text("client")),
            Field::line("resource", "Resource")
                .hint("By its name.")
                .value(fields.text("resource")),
        ],
    )
    .question();
    let mut page = person.page("Explain", AT);
    let (Some(client), Some(resource)) = (fields.filled("client"), fields.filled("resource"))
    else {
        // People who may not read the answer see no form either.
        person.caller.may_read()?;
        page.sections.push(Section::Form(form));
        return Ok(page.into_response());
    };
    let explained = async {
        let client = service.client_named(&person.caller, client).await;
        let client = client.map_err(|fault| fault.at_field("client"))?;
        let resource = service.resource_named(&person.caller, resource).await;
        let resource = resource.map_err(|fault| fault.at_field("resource"))?;
        service
            .explain(&person.caller, client.id, resource.id)
            .await
    };
    match explained.await {
        Ok(explanation) => {
            let verdict = match explanation.verdict {
                Verdict::Allow => Cell::good("yes"),
                Verdict::Deny => Cell::bad("no"),
            };
            page.sections.push(Section::Facts {
                title: "Now".to_owned(),
                facts: vec![
                    ("Would it be let in?", verdict),
                    ("Until", Cell::time(explanation.until)),
                ],
            });
            page.sections.push(Section::Lines {
                title: "Why".to_owned(),
                text: explanation.text,
            });
            page.sections.push(Section::Form(form));
            Ok(page.into_response())
        }
        Err(fault) => {
            let (form, status) = form.refused(fault)?;
            page.sections.push(Section::Form(form));
            Ok(page.with_status(status))
        }
    }
}
