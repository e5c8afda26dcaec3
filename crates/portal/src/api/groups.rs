use super::body::Json;
use super::collection::{Answer, Change, Collection, Create, Version};
use super::identity::Call;
use super::problems::Problems;
use super::query::{NamedQuery, NoQuery, PageQuery, Query};
use axum::http::StatusCode;
use culvert_ids::GroupId;
use culvert_portal_base::{ActorInPath, Fault, Id};
use culvert_portal_service::ListRequest;
use culvert_wire::api::{Group, GroupPatch, Member, NewGroup, NewMember, Page};

impl Collection for Group {
    const PATH: &'static str = "groups";
    const NOUN: &'static str = "group";
    const ONE: &'static str = "a group";
    const DELETION: &'static str = "Its memberships and policies go with it.";

    type Id = GroupId;
    type Query = NamedQuery;
    type DeleteQuery = NoQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.groups(&call.caller, request).await
    }

    async fn show(call: &Call, id: GroupId) -> Answer<Self> {
        call.service.group(&call.caller, id).await
    }

    async fn delete(call: &Call, id: GroupId, version: Version, _: NoQuery) -> Answer<()> {
        call.service.delete_group(&call.caller, id, version).await
    }
}

impl Create for Group {
    type New = NewGroup;

    async fn create(call: &Call, new: NewGroup) -> Answer<Self> {
        call.service.create_group(&call.caller, new).await
    }

    fn id(&self) -> GroupId {
        self.id
    }
}

impl Change for Group {
    type Patch = GroupPatch;

    async fn change(call: &Call, id: GroupId, version: Version, patch: GroupPatch) -> Answer<Self> {
        call.service
            .change_group(&call.caller, id, version, patch)
            .await
    }
}

/// List the members of a group
#[utoipa::path(
    get, path = "/groups/{id}/members", tag = "groups", operation_id = "list_members",
    params(("id" = String, Path, description = "Which group"), PageQuery),
    responses((status = 200, description = "A page", body = Page<Member>), Problems),
    security(("token" = []))
)]
pub(super) async fn members(
    Call { service, caller }: Call,
    Id(id): Id<GroupId>,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<Member>>, Fault> {
    let page = service.members(&caller, id, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Add an actor to a group
#[utoipa::path(
    post, path = "/groups/{id}/members", tag = "groups", operation_id = "add_member",
    params(("id" = String, Path, description = "Which group")),
    request_body = NewMember,
    responses((status = 201, description = "Added", body = Member), Problems),
    security(("token" = []))
)]
pub(super) async fn add_member(
    Call { service, caller }: Call,
    Id(id): Id<GroupId>,
    Json(new): Json<NewMember>,
) -> Result<(StatusCode, axum::Json<Member>), Fault> {
    let member = service.add_member(&caller, id, new).await?;
    Ok((StatusCode::CREATED, axum::Json(member)))
}

/// Remove an actor from a group
#[utoipa::path(
    delete, path = "/groups/{id}/members/{actor}", tag = "groups", operation_id = "remove_member",
    params(
        ("id" = String, Path, description = "Which group"),
        ("actor" = String, Path, description = "Whom")
    ),
    responses((status = 204, description = "Removed"), Problems),
    security(("token" = []))
)]
pub(super) async fn remove_member(
    Call { service, caller }: Call,
    Id(id): Id<GroupId>,
    ActorInPath(actor): ActorInPath,
) -> Result<StatusCode, Fault> {
    service.remove_member(&caller, id, actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
