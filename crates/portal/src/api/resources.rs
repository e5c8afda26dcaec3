use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{OfSiteQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::ResourceId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{NewResource, Page, Resource, ResourcePatch};

/// List resources
#[utoipa::path(
    get, path = "/resources", tag = "resources", operation_id = "list_resources",
    params(OfSiteQuery),
    responses((status = 200, description = "A page", body = Page<Resource>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<OfSiteQuery>,
) -> Result<axum::Json<Page<Resource>>, Fault> {
    let page = api.service.resources(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make a resource
#[utoipa::path(
    post, path = "/resources", tag = "resources", operation_id = "create_resource",
    request_body = NewResource,
    responses((status = 201, description = "Made", body = Resource), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewResource>,
) -> Result<Made<Resource>, Fault> {
    let shown = api.service.create_resource(&caller, new).await?;
    let at = format!("/api/v1/resources/{}", shown.id);
    Ok(Made { shown, at })
}

/// Show a resource
#[utoipa::path(
    get, path = "/resources/{id}", tag = "resources", operation_id = "show_resource",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Resource), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ResourceId>,
) -> Result<Shown<Resource>, Fault> {
    api.service.resource(&caller, id).await.map(Shown)
}

/// Change a resource
#[utoipa::path(
    patch, path = "/resources/{id}", tag = "resources", operation_id = "change_resource",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = ResourcePatch,
    responses((status = 200, description = "As it is now", body = Resource), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ResourceId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<ResourcePatch>,
) -> Result<Shown<Resource>, Fault> {
    let shown = api.service.change_resource(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete a resource
///
/// Its policies go with it.
#[utoipa::path(
    delete, path = "/resources/{id}", tag = "resources", operation_id = "delete_resource",
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
    Id(id): Id<ResourceId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_resource(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}
