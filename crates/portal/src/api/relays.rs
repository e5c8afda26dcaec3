use super::collection::{Act, Action, Answer, Change, Collection, Version};
use super::identity::Call;
use super::query::{NamedQuery, NoQuery};
use culvert_ids::RelayId;
use culvert_portal_service::{ListRequest, RelayAction};
use culvert_wire::api::{Page, Relay, RelayPatch};

impl Collection for Relay {
    const PATH: &'static str = "relays";
    const NOUN: &'static str = "relay";
    const ONE: &'static str = "a relay";

    type Id = RelayId;
    type Query = NamedQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.relays(&call.caller, request).await
    }

    async fn show(call: &Call, id: RelayId) -> Answer<Self> {
        call.service.relay(&call.caller, id).await
    }

    async fn delete(call: &Call, id: RelayId, version: Version, _: NoQuery) -> Answer<()> {
        call.service.delete_relay(&call.caller, id, version).await
    }
}

impl Change for Relay {
    type Patch = RelayPatch;

    async fn change(call: &Call, id: RelayId, version: Version, patch: RelayPatch) -> Answer<Self> {
        call.service
            .change_relay(&call.caller, id, version, patch)
            .await
    }
}

impl Act for Relay {
    type Action = RelayAction;

    const ACTIONS: &'static [Action<RelayAction>] = &[
        Action {
            action: RelayAction::Drain,
            verb: "drain",
            summary: "Drain a relay",
            description: "It gets no new ends. Gateways and clients move to another relay, if there is one.",
        },
        Action {
            action: RelayAction::Undrain,
            verb: "undrain",
            summary: "End the draining of a relay",
            description: "It gets new ends again.",
        },
        Action {
            action: RelayAction::Revoke,
            verb: "revoke",
            summary: "Revoke a relay",
            description: "It is cut off at once and for good.",
        },
    ];

    async fn act(call: &Call, id: RelayId, version: Version, action: RelayAction) -> Answer<Self> {
        call.service
            .judge_relay(&call.caller, id, version, action)
            .await
    }
}
