use super::collection::{Answer, Change, Collection, Create, Version};
use super::identity::Call;
use super::query::{NoQuery, PoliciesQuery};
use culvert_ids::PolicyId;
use culvert_portal_service::ListRequest;
use culvert_wire::api::{NewPolicy, Page, Policy, PolicyPatch};

impl Collection for Policy {
    const PATH: &'static str = "policies";
    const NOUN: &'static str = "policy";
    const ONE: &'static str = "a policy";

    type Id = PolicyId;
    type Query = PoliciesQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.policies(&call.caller, request).await
    }

    async fn show(call: &Call, id: PolicyId) -> Answer<Self> {
        call.service.policy(&call.caller, id).await
    }

    async fn delete(call: &Call, id: PolicyId, version: Version, _: NoQuery) -> Answer<()> {
        call.service.delete_policy(&call.caller, id, version).await
    }
}

impl Create for Policy {
    type New = NewPolicy;

    async fn create(call: &Call, new: NewPolicy) -> Answer<Self> {
        call.service.create_policy(&call.caller, new).await
    }

    fn id(&self) -> PolicyId {
        self.id
    }
}

impl Change for Policy {
    type Patch = PolicyPatch;

    async fn change(
        call: &Call,
        id: PolicyId,
        version: Version,
        patch: PolicyPatch,
    ) -> Answer<Self> {
        call.service
            .change_policy(&call.caller, id, version, patch)
            .await
    }
}
