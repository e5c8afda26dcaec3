use super::Api;
use super::problems::Problems;
use super::query::Query;
use axum::extract::State;
use culvert_portal_base::Fault;
use culvert_portal_service::Caller;
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
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<ActivityQuery>,
) -> Result<axum::Json<Activity>, Fault> {
    let span = query.span.unwrap_or_default();
    let shown = api.service.activity(&caller, span).await?;
    Ok(axum::Json(shown))
}
