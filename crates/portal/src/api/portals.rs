use super::identity::Call;
use super::problems::Problems;
use culvert_portal_base::Fault;
use culvert_wire::api::{Page, PortalOfDatabase};

/// List the portals of the database
///
/// A portal that has its database for itself is the only one. Those that ended within the last day are listed too.
#[utoipa::path(
    get, path = "/portals", tag = "status", operation_id = "list_portals",
    responses((status = 200, description = "All of them", body = Page<PortalOfDatabase>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    Call { service, caller }: Call,
) -> Result<axum::Json<Page<PortalOfDatabase>>, Fault> {
    let items = service.portals(&caller).await?;
    Ok(axum::Json(Page {
        items,
        next_cursor: None,
        total: None,
    }))
}
