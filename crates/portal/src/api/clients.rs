use super::collection::{Act, Action, Answer, Change, Collection, Version};
use super::identity::Call;
use super::query::{NoQuery, OfActorQuery};
use culvert_ids::ClientId;
use culvert_portal_service::{ClientAction, ListRequest};
use culvert_wire::api::{Client, ClientPatch, Page};

impl Collection for Client {
    const PATH: &'static str = "clients";
    const NOUN: &'static str = "client";
    const ONE: &'static str = "a client";

    type Id = ClientId;
    type Query = OfActorQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.clients(&call.caller, request).await
    }

    async fn show(call: &Call, id: ClientId) -> Answer<Self> {
        call.service.client(&call.caller, id).await
    }

    async fn delete(call: &Call, id: ClientId, version: Version, _: NoQuery) -> Answer<()> {
        call.service.delete_client(&call.caller, id, version).await
    }
}

impl Change for Client {
    type Patch = ClientPatch;

    async fn change(
        call: &Call,
        id: ClientId,
        version: Version,
        patch: ClientPatch,
    ) -> Answer<Self> {
        call.service
            .change_client(&call.caller, id, version, patch)
            .await
    }
}

impl Act for Client {
    type Action = ClientAction;

    const ACTIONS: &'static [Action<ClientAction>] = &[
        Action {
            action: ClientAction::Verify,
            verb: "verify",
            summary: "Verify a client",
            description: "An administrator vouches for it, until it has another key.",
        },
        Action {
            action: ClientAction::Unverify,
            verb: "unverify",
            summary: "Take back that a client is verified",
            description: "Access that requires a verified client ends at once.",
        },
        Action {
            action: ClientAction::Revoke,
            verb: "revoke",
            summary: "Revoke a client",
            description: "It is cut off at once and for good.",
        },
    ];

    async fn act(
        call: &Call,
        id: ClientId,
        version: Version,
        action: ClientAction,
    ) -> Answer<Self> {
        call.service
            .judge_client(&call.caller, id, version, action)
            .await
    }
}
