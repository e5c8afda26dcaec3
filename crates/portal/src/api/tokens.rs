use super::body::Json;
use super::collection::{Act, Action, Answer, Collection, Version};
use super::identity::Call;
use super::problems::Problems;
use super::query::{NoQuery, TokensQuery};
use axum::http::StatusCode;
use culvert_ids::TokenId;
use culvert_portal_base::Fault;
use culvert_portal_service::ListRequest;
use culvert_wire::api::{IssuedToken, NewToken, Page, Token};

impl Collection for Token {
    const PATH: &'static str = "tokens";
    const NOUN: &'static str = "token";
    const ONE: &'static str = "a token";

    type Id = TokenId;
    type Query = TokensQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.tokens(&call.caller, request).await
    }

    async fn show(call: &Call, id: TokenId) -> Answer<Self> {
        call.service.token(&call.caller, id).await
    }

    async fn delete(call: &Call, id: TokenId, version: Version, _: NoQuery) -> Answer<()> {
        call.service.delete_token(&call.caller, id, version).await
    }
}

impl Act for Token {
    type Action = ();

    const ACTIONS: &'static [Action<()>] = &[Action {
        action: (),
        verb: "revoke",
        summary: "Revoke a token",
        description: "It is refused from now on, for good; clients, gateways and relays that \
                 connected with it are cut off.",
    }];

    async fn act(call: &Call, id: TokenId, version: Version, (): ()) -> Answer<Self> {
        call.service.revoke_token(&call.caller, id, version).await
    }
}

/// Make a token
///
/// The answer holds its secret, which is shown this once.
#[utoipa::path(
    post, path = "/tokens", tag = "tokens", operation_id = "create_token",
    request_body = NewToken,
    responses((status = 201, description = "Made", body = IssuedToken), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    Call { service, caller }: Call,
    Json(new): Json<NewToken>,
) -> Result<(StatusCode, axum::Json<IssuedToken>), Fault> {
    let issued = service.create_token(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(issued)))
}
