use super::body::Json;
use super::identity::Call;
use super::problems::Problems;
use super::query::Query;
use culvert_portal_base::Fault;
use culvert_wire::api::{ApplyOptions, ApplyReport, Desired};

/// Make the configuration what the body says
///
/// Everything is done in one transaction or not at all. Done again, it changes nothing. With
/// `dry_run` it only says what would change.
#[utoipa::path(
    post, path = "/apply", tag = "apply", operation_id = "apply",
    params(ApplyOptions),
    request_body = Desired,
    responses((status = 200, description = "What was changed", body = ApplyReport), Problems),
    security(("token" = []))
)]
pub(super) async fn apply(
    Call { service, caller }: Call,
    Query(options): Query<ApplyOptions>,
    Json(desired): Json<Desired>,
) -> Result<axum::Json<ApplyReport>, Fault> {
    let report = service.apply(&caller, &desired, options).await?;
    Ok(axum::Json(report))
}
