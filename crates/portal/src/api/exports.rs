use super::Api;
use super::logs::{AccessQuery, ChangesQuery, FlowsQuery};
use super::problem::Problems;
use super::query::Query;
use crate::fault::Fault;
use crate::service::{Caller, ExportFilter, ExportFormat, Service};
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Export the access log
///
/// The newest first, all that the filter leaves, as `csv` or `jsonl`. `cursor` and `limit` do not count.
#[utoipa::path(
    get, path = "/log/access/export/{format}", tag = "log", operation_id = "export_access",
    params(("format" = String, Path, description = "`csv` or `jsonl`"), AccessQuery),
    responses((status = 200, description = "The entries", body = String), Problems),
    security(("token" = []))
)]
pub(super) async fn access(
    State(api): State<Api>,
    caller: Caller,
    Path(format): Path<String>,
    Query(query): Query<AccessQuery>,
) -> Result<Response, Fault> {
    let filter = ExportFilter::Access(query.filter()?);
    stream(&api.service, caller, filter, &format)
}

/// Export the change log
///
/// The newest first, all that the filter leaves, as `csv` or `jsonl`. `cursor` and `limit` do not count.
#[utoipa::path(
    get, path = "/log/changes/export/{format}", tag = "log", operation_id = "export_changes",
    params(("format" = String, Path, description = "`csv` or `jsonl`"), ChangesQuery),
    responses((status = 200, description = "The entries", body = String), Problems),
    security(("token" = []))
)]
pub(super) async fn changes(
    State(api): State<Api>,
    caller: Caller,
    Path(format): Path<String>,
    Query(query): Query<ChangesQuery>,
) -> Result<Response, Fault> {
    let filter = ExportFilter::Changes(query.filter()?);
    stream(&api.service, caller, filter, &format)
}

/// Export the flow log
///
/// The newest first, all that the filter leaves, as `csv` or `jsonl`. `cursor` and `limit` do not count.
#[utoipa::path(
    get, path = "/log/flows/export/{format}", tag = "log", operation_id = "export_flows",
    params(("format" = String, Path, description = "`csv` or `jsonl`"), FlowsQuery),
    responses((status = 200, description = "The entries", body = String), Problems),
    security(("token" = []))
)]
pub(super) async fn flows(
    State(api): State<Api>,
    caller: Caller,
    Path(format): Path<String>,
    Query(query): Query<FlowsQuery>,
) -> Result<Response, Fault> {
    let filter = ExportFilter::Flows(query.filter()?);
    stream(&api.service, caller, filter, &format)
}

/// A file that is written while it is read.
pub(crate) fn stream(
    service: &Arc<Service>,
    caller: Caller,
    filter: ExportFilter,
    format: &str,
) -> Result<Response, Fault> {
    // Who may not read it learns nothing of its forms.
    caller.may_read()?;
    let format: ExportFormat = format.parse()?;
    let parts = service.export(caller, filter, format)?;
    let name = format!(
        "attachment; filename=\"{}.{}\"",
        filter.file_name(),
        format.extension()
    );
    let headers = [
        (header::CONTENT_TYPE, format.media_type().to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}
