//! Logs as files, with the filter of the page.

use super::asked::Asked;
use super::person::Person;
use super::{Console, change_log, flows, logs};
use axum::extract::{Path, State};
use axum::response::Response;
use culvert_portal_base::Fault;
use culvert_portal_service::{ExportFilter, stream_export};

pub(super) async fn access(
    State(console): State<Console>,
    person: Person,
    Path(format): Path<String>,
    asked: Asked,
) -> Result<Response, Fault> {
    let filter = logs::access_filter(&console, &person, &asked).await?;
    let filter = ExportFilter::Access(filter);
    stream_export(&console.service, person.caller, filter, &format)
}

pub(super) async fn changes(
    State(console): State<Console>,
    person: Person,
    Path(format): Path<String>,
    asked: Asked,
) -> Result<Response, Fault> {
    let filter = change_log::filter(&console, &person, &asked).await?;
    let filter = ExportFilter::Changes(filter);
    stream_export(&console.service, person.caller, filter, &format)
}

pub(super) async fn flows(
    State(console): State<Console>,
    person: Person,
    Path(format): Path<String>,
    asked: Asked,
) -> Result<Response, Fault> {
    let filter = flows::filter(&console, &person, &asked).await?;
    let filter = ExportFilter::Flows(filter);
    stream_export(&console.service, person.caller, filter, &format)
}
