use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{IdentitiesQuery, NamedQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::{IdentityId, ProviderId};
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{Identity, NewIdentity, NewProvider, Page, Provider, ProviderPatch};

/// List identity providers
#[utoipa::path(
    get, path = "/providers", tag = "sign-in", operation_id = "list_providers",
    params(NamedQuery),
    responses((status = 200, description = "A page", body = Page<Provider>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<NamedQuery>,
) -> Result<axum::Json<Page<Provider>>, Fault> {
    let page = api.service.providers(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make an identity provider
///
/// It is asked nothing yet: the first sign-in does that.
#[utoipa::path(
    post, path = "/providers", tag = "sign-in", operation_id = "create_provider",
    request_body = NewProvider,
    responses((status = 201, description = "Made", body = Provider), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewProvider>,
) -> Result<Made<Provider>, Fault> {
    let shown = api.service.create_provider(&caller, new).await?;
    let at = format!("/api/v1/providers/{}", shown.id);
    Ok(Made { shown, at })
}

/// Show an identity provider
#[utoipa::path(
    get, path = "/providers/{id}", tag = "sign-in", operation_id = "show_provider",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Provider), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ProviderId>,
) -> Result<Shown<Provider>, Fault> {
    api.service.provider(&caller, id).await.map(Shown)
}

/// Change an identity provider
///
/// Its issuer stays: another issuer is another provider. One that owners sign in by is changed by owners.
#[utoipa::path(
    patch, path = "/providers/{id}", tag = "sign-in", operation_id = "change_provider",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = ProviderPatch,
    responses((status = 200, description = "As it is now", body = Provider), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ProviderId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<ProviderPatch>,
) -> Result<Shown<Provider>, Fault> {
    let shown = api.service.change_provider(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete an identity provider
///
/// Its people are known by it no more: the identities go with it, the memberships that it has made,
/// and the sessions of these people.
#[utoipa::path(
    delete, path = "/providers/{id}", tag = "sign-in", operation_id = "delete_provider",
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
    Id(id): Id<ProviderId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_provider(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List whom identity providers know
#[utoipa::path(
    get, path = "/identities", tag = "sign-in", operation_id = "list_identities",
    params(IdentitiesQuery),
    responses((status = 200, description = "A page", body = Page<Identity>), Problems),
    security(("token" = []))
)]
pub(super) async fn list_identities(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<IdentitiesQuery>,
) -> Result<axum::Json<Page<Identity>>, Fault> {
    let page = api.service.identities(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Link an identity with an actor
///
/// From then on, this subject of the provider signs in as the actor.
#[utoipa::path(
    post, path = "/identities", tag = "sign-in", operation_id = "create_identity",
    request_body = NewIdentity,
    responses((status = 201, description = "Made", body = Identity), Problems),
    security(("token" = []))
)]
pub(super) async fn create_identity(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewIdentity>,
) -> Result<(StatusCode, axum::Json<Identity>), Fault> {
    let identity = api.service.create_identity(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(identity)))
}

/// Unlink an identity from its actor
///
/// The memberships that its provider has made go with it, and the actor's sessions end.
#[utoipa::path(
    delete, path = "/identities/{id}", tag = "sign-in", operation_id = "delete_identity",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its version: only that version is deleted"),
    ),
    responses((status = 204, description = "Gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete_identity(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<IdentityId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_identity(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}
