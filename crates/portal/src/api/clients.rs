use super::Api;
use super::body::Json;
use super::etag::{IfMatch, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{OfActorQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::ClientId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{Caller, ClientAction};
use culvert_wire::api::{Client, ClientPatch, Page};

/// List clients
#[utoipa::path(
    get, path = "/clients", tag = "clients", operation_id = "list_clients",
    params(OfActorQuery),
    responses((status = 200, description = "A page", body = Page<Client>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<OfActorQuery>,
) -> Result<axum::Json<Page<Client>>, Fault> {
    let page = api.service.clients(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Show a client
#[utoipa::path(
    get, path = "/clients/{id}", tag = "clients", operation_id = "show_client",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Client), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ClientId>,
) -> Result<Shown<Client>, Fault> {
    api.service.client(&caller, id).await.map(Shown)
}

/// Change a client
#[utoipa::path(
    patch, path = "/clients/{id}", tag = "clients", operation_id = "change_client",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = ClientPatch,
    responses((status = 200, description = "As it is now", body = Client), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ClientId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<ClientPatch>,
) -> Result<Shown<Client>, Fault> {
    let shown = api.service.change_client(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete a client
#[utoipa::path(
    delete, path = "/clients/{id}", tag = "clients", operation_id = "delete_client",
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
    Id(id): Id<ClientId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_client(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Verify a client
///
/// An administrator vouches for it, until it has another key.
#[utoipa::path(
    post, path = "/clients/{id}/verify", tag = "clients", operation_id = "verify_client",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Client), Problems),
    security(("token" = []))
)]
pub(super) async fn verify(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ClientId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Client>, Fault> {
    let judged = api
        .service
        .judge_client(&caller, id, version, ClientAction::Verify);
    judged.await.map(Shown)
}

/// Take back that a client is verified
///
/// Access that requires a verified client ends at once.
#[utoipa::path(
    post, path = "/clients/{id}/unverify", tag = "clients", operation_id = "unverify_client",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Client), Problems),
    security(("token" = []))
)]
pub(super) async fn unverify(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ClientId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Client>, Fault> {
    let judged = api
        .service
        .judge_client(&caller, id, version, ClientAction::Unverify);
    judged.await.map(Shown)
}

/// Revoke a client
///
/// It is cut off at once and for good.
#[utoipa::path(
    post, path = "/clients/{id}/revoke", tag = "clients", operation_id = "revoke_client",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Client), Problems),
    security(("token" = []))
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ClientId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Client>, Fault> {
    let judged = api
        .service
        .judge_client(&caller, id, version, ClientAction::Revoke);
    judged.await.map(Shown)
}
