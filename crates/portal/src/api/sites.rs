use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{DeleteQuery, NamedQuery, PageQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::SiteId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{Gateway, NewSite, Page, Site, SitePatch};

/// List sites
#[utoipa::path(
    get, path = "/sites", tag = "sites", operation_id = "list_sites",
    params(NamedQuery),
    responses((status = 200, description = "A page", body = Page<Site>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<NamedQuery>,
) -> Result<axum::Json<Page<Site>>, Fault> {
    let page = api.service.sites(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make a site
#[utoipa::path(
    post, path = "/sites", tag = "sites", operation_id = "create_site",
    request_body = NewSite,
    responses((status = 201, description = "Made", body = Site), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewSite>,
) -> Result<Made<Site>, Fault> {
    let shown = api.service.create_site(&caller, new).await?;
    let at = format!("/api/v1/sites/{}", shown.id);
    Ok(Made { shown, at })
}

/// Show a site
#[utoipa::path(
    get, path = "/sites/{id}", tag = "sites", operation_id = "show_site",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Site), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<SiteId>,
) -> Result<Shown<Site>, Fault> {
    api.service.site(&caller, id).await.map(Shown)
}

/// Change a site
#[utoipa::path(
    patch, path = "/sites/{id}", tag = "sites", operation_id = "change_site",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = SitePatch,
    responses((status = 200, description = "As it is now", body = Site), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<SiteId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<SitePatch>,
) -> Result<Shown<Site>, Fault> {
    let shown = api.service.change_site(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete a site
///
/// Its resources, gateways and tokens go with it only with `cascade`.
#[utoipa::path(
    delete, path = "/sites/{id}", tag = "sites", operation_id = "delete_site",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is deleted"),
        DeleteQuery,
    ),
    responses((status = 204, description = "Gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<SiteId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Query(query): Query<DeleteQuery>,
) -> Result<StatusCode, Fault> {
    api.service
        .delete_site(&caller, id, version, query.cascade)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the gateways of a site
#[utoipa::path(
    get, path = "/sites/{id}/gateways", tag = "sites", operation_id = "list_gateways_of_site",
    params(("id" = String, Path, description = "Which site"), PageQuery),
    responses((status = 200, description = "A page", body = Page<Gateway>), Problems),
    security(("token" = []))
)]
pub(super) async fn gateways(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<SiteId>,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<Gateway>>, Fault> {
    let page = api.service.gateways_of_site(&caller, id, query.into());
    Ok(axum::Json(page.await?))
}
