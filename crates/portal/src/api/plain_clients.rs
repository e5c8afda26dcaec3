use super::body::Json;
use super::etag::MaybeIfMatch;
use super::identity::Call;
use super::problems::Problems;
use axum::http::StatusCode;
use culvert_ids::ClientId;
use culvert_portal_base::{Fault, Id};
use culvert_wire::api::{NewPlainClient, PlainClientFile, PlainClientRekey};

/// Add a plain WireGuard device
///
/// It is listed, renamed, verified, revoked and deleted as a client. The answer has all that its file needs but the
/// private key, and says what can't work.
#[utoipa::path(
    post, path = "/plain-clients", tag = "clients", operation_id = "add_plain_client",
    request_body = NewPlainClient,
    responses((status = 201, description = "Made", body = PlainClientFile), Problems),
    security(("token" = []))
)]
pub(super) async fn add(
    Call { service, caller }: Call,
    Json(new): Json<NewPlainClient>,
) -> Result<(StatusCode, axum::Json<PlainClientFile>), Fault> {
    let file = service.add_plain_client(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(file)))
}

/// Show the file of a plain WireGuard device
///
/// As it would be made now: networks of resources that were added since are in it.
#[utoipa::path(
    get, path = "/plain-clients/{id}", tag = "clients", operation_id = "show_plain_client",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is now", body = PlainClientFile), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    Call { service, caller }: Call,
    Id(id): Id<ClientId>,
) -> Result<axum::Json<PlainClientFile>, Fault> {
    let file = service.plain_client_file(&caller, id).await;
    file.map(axum::Json)
}

/// Give a plain WireGuard device another key
///
/// Access by the earlier key ends at once. The device may get other gateways as well.
#[utoipa::path(
    post, path = "/plain-clients/{id}/key", tag = "clients", operation_id = "rekey_plain_client",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "The `ETag` of the client: only that version is changed"),
    ),
    request_body = PlainClientRekey,
    responses((status = 200, description = "As it is now", body = PlainClientFile), Problems),
    security(("token" = []))
)]
pub(super) async fn rekey(
    Call { service, caller }: Call,
    Id(id): Id<ClientId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Json(rekey): Json<PlainClientRekey>,
) -> Result<axum::Json<PlainClientFile>, Fault> {
    let file = service
        .rekey_plain_client(&caller, id, version, rekey)
        .await;
    file.map(axum::Json)
}
