use super::body::Json;
use super::collection::{Answer, Change, Collection, Create, Version};
use super::etag::MaybeIfMatch;
use super::identity::Call;
use super::problems::Problems;
use super::query::{IdentitiesQuery, NamedQuery, NoQuery, Query};
use axum::http::StatusCode;
use culvert_ids::{IdentityId, ProviderId};
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::ListRequest;
use culvert_wire::api::{Identity, NewIdentity, NewProvider, Page, Provider, ProviderPatch};

impl Collection for Provider {
    const PATH: &'static str = "providers";
    const NOUN: &'static str = "provider";
    const ONE: &'static str = "an identity provider";
    const MANY: &'static str = "identity providers";
    const TAG: &'static str = "sign-in";
    const DELETION: &'static str = "Its people are known by it no more: the identities go with it, \
         the memberships that it has made,\nand the sessions of these people.";

    type Id = ProviderId;
    type Query = NamedQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.providers(&call.caller, request).await
    }

    async fn show(call: &Call, id: ProviderId) -> Answer<Self> {
        call.service.provider(&call.caller, id).await
    }

    async fn delete(call: &Call, id: ProviderId, version: Version, _: NoQuery) -> Answer<()> {
        call.service
            .delete_provider(&call.caller, id, version)
            .await
    }
}

impl Create for Provider {
    const CREATION: &'static str = "It is asked nothing yet: the first sign-in does that.";

    type New = NewProvider;

    async fn create(call: &Call, new: NewProvider) -> Answer<Self> {
        call.service.create_provider(&call.caller, new).await
    }

    fn id(&self) -> ProviderId {
        self.id
    }
}

impl Change for Provider {
    const CHANGE: &'static str = "Its issuer stays: another issuer is another provider. \
         One that owners sign in by is changed by owners.";

    type Patch = ProviderPatch;

    async fn change(
        call: &Call,
        id: ProviderId,
        version: Version,
        patch: ProviderPatch,
    ) -> Answer<Self> {
        call.service
            .change_provider(&call.caller, id, version, patch)
            .await
    }
}

/// List whom identity providers know
#[utoipa::path(
    get, path = "/identities", tag = "sign-in", operation_id = "list_identities",
    params(IdentitiesQuery),
    responses((status = 200, description = "A page", body = Page<Identity>), Problems),
    security(("token" = []))
)]
pub(super) async fn list_identities(
    Call { service, caller }: Call,
    Query(query): Query<IdentitiesQuery>,
) -> Result<axum::Json<Page<Identity>>, Fault> {
    let page = service.identities(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Link an identity with an actor
///
/// From then on, this subject of the provider signs in as the actor.
#[utoipa::path(
    post, path = "/identities", tag = "sign-in", operation_id = "create_identity",
    request_body = NewIdentity,
    responses((status = 201, description = "Made", body = Identity), Problems),
    security(("token" = []))
)]
pub(super) async fn create_identity(
    Call { service, caller }: Call,
    Json(new): Json<NewIdentity>,
) -> Result<(StatusCode, axum::Json<Identity>), Fault> {
    let identity = service.create_identity(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(identity)))
}

/// Unlink an identity from its actor
///
/// The memberships that its provider has made go with it, and the actor's sessions end.
#[utoipa::path(
    delete, path = "/identities/{id}", tag = "sign-in", operation_id = "delete_identity",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its version: only that version is deleted"),
    ),
    responses((status = 204, description = "Gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete_identity(
    Call { service, caller }: Call,
    Id(id): Id<IdentityId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    service.delete_identity(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}
