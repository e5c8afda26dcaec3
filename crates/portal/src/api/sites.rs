use super::collection::{Answer, Change, Collection, Create, Version};
use super::identity::Call;
use super::problems::Problems;
use super::query::{DeleteQuery, NamedQuery, PageQuery, Query};
use culvert_ids::SiteId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::ListRequest;
use culvert_wire::api::{Gateway, NewSite, Page, Site, SitePatch};

impl Collection for Site {
    const PATH: &'static str = "sites";
    const NOUN: &'static str = "site";
    const ONE: &'static str = "a site";
    const DELETION: &'static str =
        "Its resources, gateways and tokens go with it only with `cascade`.";

    type Id = SiteId;
    type Query = NamedQuery;
    type DeleteQuery = DeleteQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.sites(&call.caller, request).await
    }

    async fn show(call: &Call, id: SiteId) -> Answer<Self> {
        call.service.site(&call.caller, id).await
    }

    async fn delete(call: &Call, id: SiteId, version: Version, query: DeleteQuery) -> Answer<()> {
        call.service
            .delete_site(&call.caller, id, version, query.cascade)
            .await
    }
}

impl Create for Site {
    type New = NewSite;

    async fn create(call: &Call, new: NewSite) -> Answer<Self> {
        call.service.create_site(&call.caller, new).await
    }

    fn id(&self) -> SiteId {
        self.id
    }
}

impl Change for Site {
    type Patch = SitePatch;

    async fn change(call: &Call, id: SiteId, version: Version, patch: SitePatch) -> Answer<Self> {
        call.service
            .change_site(&call.caller, id, version, patch)
            .await
    }
}

/// List the gateways of a site
#[utoipa::path(
    get, path = "/sites/{id}/gateways", tag = "sites", operation_id = "list_gateways_of_site",
    params(("id" = String, Path, description = "Which site"), PageQuery),
    responses((status = 200, description = "A page", body = Page<Gateway>), Problems),
    security(("token" = []))
)]
pub(super) async fn gateways(
    Call { service, caller }: Call,
    Id(id): Id<SiteId>,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<Gateway>>, Fault> {
    let page = service.gateways_of_site(&caller, id, query.into());
    Ok(axum::Json(page.await?))
}
