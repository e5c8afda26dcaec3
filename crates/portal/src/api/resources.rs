use super::collection::{Answer, Change, Collection, Create, Version};
use super::identity::Call;
use super::query::{NoQuery, OfSiteQuery};
use culvert_ids::ResourceId;
use culvert_portal_service::ListRequest;
use culvert_wire::api::{NewResource, Page, Resource, ResourcePatch};

impl Collection for Resource {
    const PATH: &'static str = "resources";
    const NOUN: &'static str = "resource";
    const ONE: &'static str = "a resource";
    const DELETION: &'static str = "Its policies go with it.";

    type Id = ResourceId;
    type Query = OfSiteQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.resources(&call.caller, request).await
    }

    async fn show(call: &Call, id: ResourceId) -> Answer<Self> {
        call.service.resource(&call.caller, id).await
    }

    async fn delete(call: &Call, id: ResourceId, version: Version, _: NoQuery) -> Answer<()> {
        call.service
            .delete_resource(&call.caller, id, version)
            .await
    }
}

impl Create for Resource {
    type New = NewResource;

    async fn create(call: &Call, new: NewResource) -> Answer<Self> {
        call.service.create_resource(&call.caller, new).await
    }

    fn id(&self) -> ResourceId {
        self.id
    }
}

impl Change for Resource {
    type Patch = ResourcePatch;

    async fn change(
        call: &Call,
        id: ResourceId,
        version: Version,
        patch: ResourcePatch,
    ) -> Answer<Self> {
        call.service
            .change_resource(&call.caller, id, version, patch)
            .await
    }
}
