use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{NamedQuery, PageQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::GroupId;
use culvert_portal_base::{ActorInPath, Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{Group, GroupPatch, Member, NewGroup, NewMember, Page};

/// List groups
#[utoipa::path(
    get, path = "/groups", tag = "groups", operation_id = "list_groups",
    params(NamedQuery),
    responses((status = 200, description = "A page", body = Page<Group>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<NamedQuery>,
) -> Result<axum::Json<Page<Group>>, Fault> {
    let page = api.service.groups(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make a group
#[utoipa::path(
    post, path = "/groups", tag = "groups", operation_id = "create_group",
    request_body = NewGroup,
    responses((status = 201, description = "Made", body = Group), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewGroup>,
) -> Result<Made<Group>, Fault> {
    let shown = api.service.create_group(&caller, new).await?;
    let at = format!("/api/v1/groups/{}", shown.id);
    Ok(Made { shown, at })
}

/// Show a group
#[utoipa::path(
    get, path = "/groups/{id}", tag = "groups", operation_id = "show_group",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Group), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GroupId>,
) -> Result<Shown<Group>, Fault> {
    api.service.group(&caller, id).await.map(Shown)
}

/// Change a group
#[utoipa::path(
    patch, path = "/groups/{id}", tag = "groups", operation_id = "change_group",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = GroupPatch,
    responses((status = 200, description = "As it is now", body = Group), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GroupId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<GroupPatch>,
) -> Result<Shown<Group>, Fault> {
    let shown = api.service.change_group(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete a group
///
/// Its memberships and policies go with it.
#[utoipa::path(
    delete, path = "/groups/{id}", tag = "groups", operation_id = "delete_group",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is deleted"),
    ),
    responses((status = 204, description = "Gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GroupId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.delete_group(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the members of a group
#[utoipa::path(
    get, path = "/groups/{id}/members", tag = "groups", operation_id = "list_members",
    params(("id" = String, Path, description = "Which group"), PageQuery),
    responses((status = 200, description = "A page", body = Page<Member>), Problems),
    security(("token" = []))
)]
pub(super) async fn members(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GroupId>,
    Query(query): Query<PageQuery>,
) -> Result<axum::Json<Page<Member>>, Fault> {
    let page = api.service.members(&caller, id, &query.into()).await?;
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
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GroupId>,
    Json(new): Json<NewMember>,
) -> Result<(StatusCode, axum::Json<Member>), Fault> {
    let member = api.service.add_member(&caller, id, new).await?;
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
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<GroupId>,
    ActorInPath(actor): ActorInPath,
) -> Result<StatusCode, Fault> {
    api.service.remove_member(&caller, id, actor).await?;
    Ok(StatusCode::NO_CONTENT)
}
