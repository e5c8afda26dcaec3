use super::body::Json;
use super::etag::{IfMatch, Shown};
use super::identity::Call;
use super::problems::Problems;
use culvert_portal_base::Fault;
use culvert_wire::api::{Retention, RetentionPatch};

/// Show how long logs are kept
#[utoipa::path(
    get, path = "/retention", tag = "log", operation_id = "show_retention",
    responses((status = 200, description = "As it is", body = Retention), Problems),
    security(("token" = []))
)]
pub(super) async fn show(Call { service, caller }: Call) -> Result<Shown<Retention>, Fault> {
    service.retention(&caller).await.map(Shown)
}

/// Change how long logs are kept
#[utoipa::path(
    patch, path = "/retention", tag = "log", operation_id = "change_retention",
    params(("if-match" = String, Header, description = "Its `ETag`, or *")),
    request_body = RetentionPatch,
    responses((status = 200, description = "As it is now", body = Retention), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    Call { service, caller }: Call,
    IfMatch(version): IfMatch,
    Json(patch): Json<RetentionPatch>,
) -> Result<Shown<Retention>, Fault> {
    let shown = service.change_retention(&caller, version, patch);
    shown.await.map(Shown)
}
