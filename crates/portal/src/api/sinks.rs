//! Log sinks are no [`Collection`](super::collection::Collection): their paths have names in the place of ids, and
//! their list has no pages.

use super::body::Json;
use super::etag::{IfMatch, MaybeIfMatch, Shown};
use super::identity::Call;
use super::problems::Problems;
use axum::extract::Path;
use axum::http::StatusCode;
use culvert_portal_base::Fault;
use culvert_wire::api::{NewSink, SinkList, SinkPatch, SinkTest, SinkView};

/// List log sinks
///
/// The destinations that also get entries of the logs, and how far each has come. There are at most
/// 8.
#[utoipa::path(
    get, path = "/sinks", tag = "log", operation_id = "list_sinks",
    responses((status = 200, description = "All of them", body = SinkList), Problems),
    security(("token" = []))
)]
pub(super) async fn list(Call { service, caller }: Call) -> Result<axum::Json<SinkList>, Fault> {
    service.sinks(&caller).await.map(axum::Json)
}

/// Make a log sink
///
/// It begins with the next entry of each of its logs.
#[utoipa::path(
    post, path = "/sinks", tag = "log", operation_id = "create_sink",
    request_body = NewSink,
    responses((status = 201, description = "It is made", body = SinkView), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    Call { service, caller }: Call,
    Json(new): Json<NewSink>,
) -> Result<(StatusCode, axum::Json<SinkView>), Fault> {
    let made = service.create_sink(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(made)))
}

/// Show a log sink
#[utoipa::path(
    get, path = "/sinks/{name}", tag = "log", operation_id = "show_sink",
    params(("name" = String, Path, description = "What it is called")),
    responses((status = 200, description = "As it is", body = SinkView), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    Call { service, caller }: Call,
    Path(name): Path<String>,
) -> Result<Shown<SinkView>, Fault> {
    service.sink(&caller, &name).await.map(Shown)
}

/// Change a log sink
#[utoipa::path(
    patch, path = "/sinks/{name}", tag = "log", operation_id = "change_sink",
    params(
        ("name" = String, Path, description = "What it is called"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = SinkPatch,
    responses((status = 200, description = "As it is now", body = SinkView), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    Call { service, caller }: Call,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
    Json(patch): Json<SinkPatch>,
) -> Result<Shown<SinkView>, Fault> {
    let changed = service.change_sink(&caller, &name, version, patch);
    changed.await.map(Shown)
}

/// Delete a log sink
///
/// Entries that the sink already received stay where they are.
#[utoipa::path(
    delete, path = "/sinks/{name}", tag = "log", operation_id = "delete_sink",
    params(
        ("name" = String, Path, description = "What it is called"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`, or *")
    ),
    responses((status = 204, description = "It is gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete(
    Call { service, caller }: Call,
    Path(name): Path<String>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    service.delete_sink(&caller, &name, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Try a log sink
///
/// Has it take one line that is of no log.
#[utoipa::path(
    post, path = "/sinks/{name}/test", tag = "log", operation_id = "test_sink",
    params(("name" = String, Path, description = "What it is called")),
    responses((status = 200, description = "What came of it", body = SinkTest), Problems),
    security(("token" = []))
)]
pub(super) async fn test(
    Call { service, caller }: Call,
    Path(name): Path<String>,
) -> Result<axum::Json<SinkTest>, Fault> {
    service.test_sink(&caller, &name).await.map(axum::Json)
}
