use super::identity::Call;
use super::logs::{AccessQuery, ChangesQuery, FlowsQuery};
use super::problems::Problems;
use super::query::Query;
use axum::extract::Path;
use axum::response::Response;
use culvert_portal_base::Fault;
use culvert_portal_service::{ExportFilter, stream_export};

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
    Call { service, caller }: Call,
    Path(format): Path<String>,
    Query(query): Query<AccessQuery>,
) -> Result<Response, Fault> {
    let filter = ExportFilter::Access(query.filter()?);
    stream_export(&service, caller, filter, &format)
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
    Call { service, caller }: Call,
    Path(format): Path<String>,
    Query(query): Query<ChangesQuery>,
) -> Result<Response, Fault> {
    let filter = ExportFilter::Changes(query.filter()?);
    stream_export(&service, caller, filter, &format)
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
    Call { service, caller }: Call,
    Path(format): Path<String>,
    Query(query): Query<FlowsQuery>,
) -> Result<Response, Fault> {
    let filter = ExportFilter::Flows(query.filter()?);
    stream_export(&service, caller, filter, &format)
}
