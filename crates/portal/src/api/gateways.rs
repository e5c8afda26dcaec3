use super::Api;
use super::body::Json;
use super::etag::{IfMatch, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{DrainQuery, OfSiteQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::GatewayId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{Caller, GatewayAction};
use culvert_wire::api::{Gateway, GatewayPatch, Page};

/// List gateways
#[utoipa::path(
    get, path = "/gateways", tag = "gateways", operation_id = "list_gateways",
    params(OfSiteQuery),
    responses((status = 200, description = "A page", body = Page<Gateway>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<OfSiteQuery>,
) -> Result<axum::Json<Page<Gateway>>, Fault> {
    let page = api.service.gateways(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Show a gateway
#[utoipa::path(
    get, path = "/gateways/{id}", tag = "gateways", operation_id = "show_gateway",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
) -> Result<Shown<Gateway>, Fault> {
    api.service.gateway(&caller, id).await.map(Shown)
}

/// Change a gateway
#[utoipa::path(
    patch, path = "/gateways/{id}", tag = "gateways", operation_id = "change_gateway",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = GatewayPatch,
    responses((status = 200, description = "As it is now", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<GatewayPatch>,
) -> Result<Shown<Gateway>, Fault> {
    let shown = api.service.change_gateway(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete a gateway
#[utoipa::path(
    delete, path = "/gateways/{id}", tag = "gateways", operation_id = "delete_gateway",
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
    Id(id): Id<GatewayId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_gateway(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Verify a gateway
///
/// Compare its fingerprint with the one that the machine shows (`culvert gateway status`) first. A new key
/// of the gateway ends it.
#[utoipa::path(
    post, path = "/gateways/{id}/verify", tag = "gateways", operation_id = "verify_gateway",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn verify(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Gateway>, Fault> {
    let judged = api
        .service
        .judge_gateway(&caller, id, version, GatewayAction::Verify);
    judged.await.map(Shown)
}

/// Take back that a gateway is verified
///
/// Access through it ends at once if the account requires verified gateways.
#[utoipa::path(
    post, path = "/gateways/{id}/unverify", tag = "gateways", operation_id = "unverify_gateway",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn unverify(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Gateway>, Fault> {
    let judged = api
        .service
        .judge_gateway(&caller, id, version, GatewayAction::Unverify);
    judged.await.map(Shown)
}

/// Drain a gateway
///
/// Existing access stays on the gateway until it ends; new access is given to another gateway. With `now`, its clients
/// are moved to another gateway of its site within seconds.
#[utoipa::path(
    post, path = "/gateways/{id}/drain", tag = "gateways", operation_id = "drain_gateway",
    params(
        DrainQuery,
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn drain(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
    Query(query): Query<DrainQuery>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Gateway>, Fault> {
    let service = &api.service;
    let drained = match (query.now, query.force) {
        (true, force) => service.drain_gateway_now(&caller, id, version, force).await,
        (false, false) => {
            let action = GatewayAction::Drain;
            service.judge_gateway(&caller, id, version, action).await
        }
        (false, true) => return Err(Fault::invalid("force", "goes with `now` alone")),
    };
    drained.map(Shown)
}

/// End the draining of a gateway
///
/// It gets new access again.
#[utoipa::path(
    post, path = "/gateways/{id}/undrain", tag = "gateways", operation_id = "undrain_gateway",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn undrain(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Gateway>, Fault> {
    let judged = api
        .service
        .judge_gateway(&caller, id, version, GatewayAction::Undrain);
    judged.await.map(Shown)
}

/// Revoke a gateway
///
/// It is cut off at once and for good.
#[utoipa::path(
    post, path = "/gateways/{id}/revoke", tag = "gateways", operation_id = "revoke_gateway",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed")
    ),
    responses((status = 200, description = "As it is now", body = Gateway), Problems),
    security(("token" = []))
)]
pub(super) async fn revoke(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GatewayId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Gateway>, Fault> {
    let judged = api
        .service
        .judge_gateway(&caller, id, version, GatewayAction::Revoke);
    judged.await.map(Shown)
}
