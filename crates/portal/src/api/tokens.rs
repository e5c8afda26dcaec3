use super::Api;
use super::body::Json;
use super::etag::{MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{Query, TokensQuery};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::TokenId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{IssuedToken, NewToken, Page, Token};

/// List tokens
#[utoipa::path(
    get, path = "/tokens", tag = "tokens", operation_id = "list_tokens",
    params(TokensQuery),
    responses((status = 200, description = "A page", body = Page<Token>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<TokensQuery>,
) -> Result<axum::Json<Page<Token>>, Fault> {
    let page = api.service.tokens(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make a token
///
/// The answer holds its secret, which is shown this once.
#[utoipa::path(
    post, path = "/tokens", tag = "tokens", operation_id = "create_token",
    request_body = NewToken,
    responses((status = 201, description = "Made", body = IssuedToken), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewToken>,
) -> Result<(StatusCode, axum::Json<IssuedToken>), Fault> {
    let issued = api.service.create_token(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(issued)))
}

/// Show a token
#[utoipa::path(
    get, path = "/tokens/{id}", tag = "tokens", operation_id = "show_token",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Token), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<TokenId>,
) -> Result<Shown<Token>, Fault> {
    api.service.token(&caller, id).await.map(Shown)
}

/// Delete a token
#[utoipa::path(
    delete, path = "/tokens/{id}", tag = "tokens", operation_id = "delete_token",
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
    Id(id): Id<TokenId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_token(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Revoke a token
///
/// It is refused from now on, for good; clients and gateways that connected with it are cut off.
#[utoipa::path(
    post, path = "/tokens/{id}/revoke", tag = "tokens", operation_id = "revoke_token",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Token), Problems),
    security(("token" = []))
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<TokenId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Token>, Fault> {
    api.service
        .revoke_token(&caller, id, version)
        .await
        .map(Shown)
}
