use super::identity::Call;
use super::problems::Problems;
use super::query::Query;
use culvert_portal_base::Fault;
use culvert_wire::api::{Activity, ActivitySpan};
use serde::Deserialize;

/// The period to show.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ActivityQuery {
    /// The last `hour`, `day` or `week`; an hour without.
    #[param(inline)]
    span: Option<ActivitySpan>,
}

/// Show what happened over time
///
/// Traffic of gateways, and the numbers of granted and denied requests, in steps of time.
#[utoipa::path(
    get, path = "/activity", tag = "log", operation_id = "show_activity",
    params(ActivityQuery),
    responses((status = 200, description = "By steps", body = Activity), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    Call { service, caller }: Call,
    Query(query): Query<ActivityQuery>,
) -> Result<axum::Json<Activity>, Fault> {
    let span = query.span.unwrap_or_default();
    let shown = service.activity(&caller, span).await?;
    Ok(axum::Json(shown))
}
