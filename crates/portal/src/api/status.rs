use super::identity::Call;
use super::problems::Problems;
use super::query::{PageQuery, Query};
use culvert_ids::{ClientId, ResourceId};
use culvert_portal_base::Fault;
use culvert_wire::api::{
    ClientSession, Explanation, GatewaySession, Page, PortalStatus, RelaySession,
};
use serde::Deserialize;

/// Show how the portal is
#[utoipa::path(
    get, path = "/status", tag = "status", operation_id = "show_status",
    responses((status = 200, description = "As it is now", body = PortalStatus), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    Call { service, caller }: Call,
) -> Result<axum::Json<PortalStatus>, Fault> {
    Ok(axum::Json(service.status(&caller).await?))
}

/// List the connected clients
#[utoipa::path(
    get, path = "/sessions/clients", tag = "status", operation_id = "list_client_sessions",
    params(PageQuery),
    responses((status = 200, description = "A page", body = Page<ClientSession>), Problems),
    security(("token" = []))
)]
pub(super) async fn clients(
    Call { service, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<ClientSession>>, Fault> {
    let page = service.client_sessions(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// List the connected gateways
#[utoipa::path(
    get, path = "/sessions/gateways", tag = "status", operation_id = "list_gateway_sessions",
    params(PageQuery),
    responses((status = 200, description = "A page", body = Page<GatewaySession>), Problems),
    security(("token" = []))
)]
pub(super) async fn gateways(
    Call { service, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<GatewaySession>>, Fault> {
    let page = service.gateway_sessions(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// List the connected relays
#[utoipa::path(
    get, path = "/sessions/relays", tag = "status", operation_id = "list_relay_sessions",
    params(PageQuery),
    responses((status = 200, description = "A page", body = Page<RelaySession>), Problems),
    security(("token" = []))
)]
pub(super) async fn relays(
    Call { service, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<RelaySession>>, Fault> {
    let page = service.relay_sessions(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// The client and the resource to explain.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExplainQuery {
    /// The client that would ask.
    #[param(value_type = String)]
    client: ClientId,
    /// For what.
    #[param(value_type = String)]
    resource: ResourceId,
}

/// Explain why a client may use a resource now, or may not
///
/// It is what would be decided if the client asked at this moment. Nothing is granted.
#[utoipa::path(
    get, path = "/explain", tag = "status", operation_id = "explain",
    params(ExplainQuery),
    responses((status = 200, description = "The decision, and why", body = Explanation), Problems),
    security(("token" = []))
)]
pub(super) async fn explain(
    Call { service, caller }: Call,
    Query(query): Query<ExplainQuery>,
) -> Result<axum::Json<Explanation>, Fault> {
    let explained = service.explain(&caller, query.client, query.resource);
    Ok(axum::Json(explained.await?))
}
