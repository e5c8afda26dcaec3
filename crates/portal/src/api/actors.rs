use super::body::Json;
use super::collection::{Answer, Change, Collection, Create, Version};
use super::etag::{MaybeIfMatch, Shown};
use super::identity::Call;
use super::problems::Problems;
use super::query::{DeleteQuery, NamedQuery};
use axum::http::StatusCode;
use culvert_ids::ActorId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::ListRequest;
use culvert_wire::api::{Actor, ActorPatch, NewActor, NewSignIn, Page};

impl Collection for Actor {
    const PATH: &'static str = "actors";
    const NOUN: &'static str = "actor";
    const ONE: &'static str = "an actor";
    const DELETION: &'static str =
        "Its memberships go with it; its tokens and clients only with `cascade`.";

    type Id = ActorId;
    type Query = NamedQuery;
    type DeleteQuery = DeleteQuery;

    async fn list(call: &Call, request: &ListRequest) -> Answer<Page<Self>> {
        call.service.actors(&call.caller, request).await
    }

    async fn show(call: &Call, id: ActorId) -> Answer<Self> {
        call.service.actor(&call.caller, id).await
    }

    async fn delete(call: &Call, id: ActorId, version: Version, query: DeleteQuery) -> Answer<()> {
        call.service
            .delete_actor(&call.caller, id, version, query.cascade)
            .await
    }
}

impl Create for Actor {
    type New = NewActor;

    async fn create(call: &Call, new: NewActor) -> Answer<Self> {
        call.service.create_actor(&call.caller, new).await
    }

    fn id(&self) -> ActorId {
        self.id
    }
}

impl Change for Actor {
    type Patch = ActorPatch;

    async fn change(call: &Call, id: ActorId, version: Version, patch: ActorPatch) -> Answer<Self> {
        call.service
            .change_actor(&call.caller, id, version, patch)
            .await
    }
}

/// Let a person sign in
///
/// With a password, the person signs in to the console under the actor's name, and the password from before
/// is void. Without one, the password stays, and the role alone changes. The sessions that there are end.
#[utoipa::path(
    post, path = "/actors/{id}/sign-in", tag = "actors", operation_id = "set_sign_in",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed"),
    ),
    request_body = NewSignIn,
    responses((status = 200, description = "As it is now", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn set_sign_in(
    Call { service, caller }: Call,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Json(new): Json<NewSignIn>,
) -> Result<Shown<Actor>, Fault> {
    service
        .set_sign_in(&caller, id, version, new)
        .await
        .map(Shown)
}

/// End that a person signs in
///
/// The sessions that there are end.
#[utoipa::path(
    delete, path = "/actors/{id}/sign-in", tag = "actors", operation_id = "end_sign_in",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed"),
    ),
    responses((status = 200, description = "As it is now", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn end_sign_in(
    Call { service, caller }: Call,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Actor>, Fault> {
    service.end_sign_in(&caller, id, version).await.map(Shown)
}

/// End the sessions of a person
#[utoipa::path(
    delete, path = "/actors/{id}/sessions", tag = "actors", operation_id = "end_sessions",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "The actor's `ETag`: only at that version"),
    ),
    responses((status = 204, description = "They have ended"), Problems),
    security(("token" = []))
)]
pub(super) async fn end_sessions(
    Call { service, caller }: Call,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    service.end_sessions(&caller, id, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Take a person's second factor away
///
/// For who has lost it: the person signs in by password alone then, and sets up another. The sessions that
/// there are end. An owner's is taken away by owners alone.
#[utoipa::path(
    delete, path = "/actors/{id}/second-factor", tag = "actors", operation_id = "reset_second_factor",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed"),
    ),
    responses((status = 200, description = "As it is now", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn reset_second_factor(
    Call { service, caller }: Call,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Actor>, Fault> {
    service.reset_factor(&caller, id, version).await.map(Shown)
}
