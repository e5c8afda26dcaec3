use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{PoliciesQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::PolicyId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{NewPolicy, Page, Policy, PolicyPatch};

/// List policies
#[utoipa::path(
    get, path = "/policies", tag = "policies", operation_id = "list_policies",
    params(PoliciesQuery),
    responses((status = 200, description = "A page", body = Page<Policy>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<PoliciesQuery>,
) -> Result<axum::Json<Page<Policy>>, Fault> {
    let page = api.service.policies(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make a policy
#[utoipa::path(
    post, path = "/policies", tag = "policies", operation_id = "create_policy",
    request_body = NewPolicy,
    responses((status = 201, description = "Made", body = Policy), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewPolicy>,
) -> Result<Made<Policy>, Fault> {
    let shown = api.service.create_policy(&caller, new).await?;
    let at = format!("/api/v1/policies/{}", shown.id);
    Ok(Made { shown, at })
}

/// Show a policy
#[utoipa::path(
    get, path = "/policies/{id}", tag = "policies", operation_id = "show_policy",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Policy), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<PolicyId>,
) -> Result<Shown<Policy>, Fault> {
    api.service.policy(&caller, id).await.map(Shown)
}

/// Change a policy
#[utoipa::path(
    patch, path = "/policies/{id}", tag = "policies", operation_id = "change_policy",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = PolicyPatch,
    responses((status = 200, description = "As it is now", body = Policy), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<PolicyId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<PolicyPatch>,
) -> Result<Shown<Policy>, Fault> {
    let shown = api.service.change_policy(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete a policy
#[utoipa::path(
    delete, path = "/policies/{id}", tag = "policies", operation_id = "delete_policy",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is deleted"),
    ),
    responses((status = 204, description = "Gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<PolicyId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_policy(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}
