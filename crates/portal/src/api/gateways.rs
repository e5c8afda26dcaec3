use super::collection::{Act, Action, Answer, Change, Collection, Version};
use super::etag::{MaybeIfMatch, Shown};
use super::identity::Call;
use super::problems::Problems;
use super::query::{DrainQuery, NoQuery, OfSiteQuery, Query};
use culvert_ids::GatewayId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{GatewayAction, ListRequest};
use culvert_wire::api::{Gateway, GatewayPatch, Page};

impl Collection for Gateway {
    const PATH: &'static str = "gateways";
    const NOUN: &'static str = "gateway";
    const ONE: &'static str = "a gateway";

    type Id = GatewayId;
    type Query = OfSiteQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.gateways(&call.caller, request).await
    }

    async fn show(call: &Call, id: GatewayId) -> Answer<Self> {
        call.service.gateway(&call.caller, id).await
    }

    async fn delete(call: &Call, id: GatewayId, version: Version, _: NoQuery) -> Answer<()> {
        call.service.delete_gateway(&call.caller, id, version).await
    }
}

impl Change for Gateway {
    type Patch = GatewayPatch;

    async fn change(
        call: &Call,
        id: GatewayId,
        version: Version,
        patch: GatewayPatch,
    ) -> Answer<Self> {
        call.service
            .change_gateway(&call.caller, id, version, patch)
            .await
    }
}

impl Act for Gateway {
    type Action = GatewayAction;

    const ACTIONS: &'static [Action<GatewayAction>] = &[
        Action {
            action: GatewayAction::Verify,
            verb: "verify",
            summary: "Verify a gateway",
            description: "Compare its fingerprint with the one that the machine shows (`culvert gateway status`) \
                 first. A new key\nof the gateway ends it.",
        },
        Action {
            action: GatewayAction::Unverify,
            verb: "unverify",
            summary: "Take back that a gateway is verified",
            description: "Access through it ends at once if the account requires verified gateways.",
        },
        Action {
            action: GatewayAction::Undrain,
            verb: "undrain",
            summary: "End the draining of a gateway",
            description: "It gets new access again.",
        },
        Action {
            action: GatewayAction::Revoke,
            verb: "revoke",
            summary: "Revoke a gateway",
            description: "It is cut off at once and for good.",
        },
    ];

    async fn act(
        call: &Call,
        id: GatewayId,
        version: Version,
        action: GatewayAction,
    ) -> Answer<Self> {
        call.service
            .judge_gateway(&call.caller, id, version, action)
            .await
    }
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
    Call { service, caller }: Call,
    Id(id): Id<GatewayId>,
    Query(query): Query<DrainQuery>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Gateway>, Fault> {
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
