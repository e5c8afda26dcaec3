use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Made, MaybeIfMatch, Shown};
use super::problems::Problems;
use super::query::{DeleteQuery, NamedQuery, Query};
use axum::extract::State;
use axum::http::StatusCode;
use culvert_ids::ActorId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::Caller;
use culvert_wire::api::{Actor, ActorPatch, NewActor, NewSignIn, Page};

/// List actors
#[utoipa::path(
    get, path = "/actors", tag = "actors", operation_id = "list_actors",
    params(NamedQuery),
    responses((status = 200, description = "A page", body = Page<Actor>), Problems),
    security(("token" = []))
)]
pub(super) async fn list(
    State(api): State<Api>,
    caller: Caller,
    Query(query): Query<NamedQuery>,
) -> Result<axum::Json<Page<Actor>>, Fault> {
    let page = api.service.actors(&caller, &query.into()).await?;
    Ok(axum::Json(page))
}

/// Make an actor
#[utoipa::path(
    post, path = "/actors", tag = "actors", operation_id = "create_actor",
    request_body = NewActor,
    responses((status = 201, description = "Made", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn create(
    State(api): State<Api>,
    caller: Caller,
    Json(new): Json<NewActor>,
) -> Result<Made<Actor>, Fault> {
    let shown = api.service.create_actor(&caller, new).await?;
    let at = format!("/api/v1/actors/{}", shown.id);
    Ok(Made { shown, at })
}

/// Show an actor
#[utoipa::path(
    get, path = "/actors/{id}", tag = "actors", operation_id = "show_actor",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
) -> Result<Shown<Actor>, Fault> {
    api.service.actor(&caller, id).await.map(Shown)
}

/// Change an actor
#[utoipa::path(
    patch, path = "/actors/{id}", tag = "actors", operation_id = "change_actor",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = String, Header, description = "Its `ETag`, or *")
    ),
    request_body = ActorPatch,
    responses((status = 200, description = "As it is now", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
    IfMatch(version): IfMatch,
    Json(patch): Json<ActorPatch>,
) -> Result<Shown<Actor>, Fault> {
    let shown = api.service.change_actor(&caller, id, version, patch);
    shown.await.map(Shown)
}

/// Delete an actor
///
/// Its memberships go with it; its tokens and clients only with `cascade`.
#[utoipa::path(
    delete, path = "/actors/{id}", tag = "actors", operation_id = "delete_actor",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is deleted"),
        DeleteQuery,
    ),
    responses((status = 204, description = "Gone"), Problems),
    security(("token" = []))
)]
pub(super) async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Query(query): Query<DeleteQuery>,
) -> Result<StatusCode, Fault> {
    api.service
        .delete_actor(&caller, id, version, query.cascade)
        .await?;
    Ok(StatusCode::NO_CONTENT)
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
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Json(new): Json<NewSignIn>,
) -> Result<Shown<Actor>, Fault> {
    api.service
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
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Actor>, Fault> {
    api.service
        .end_sign_in(&caller, id, version)
        .await
        .map(Shown)
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
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<StatusCode, Fault> {
    api.service.end_sessions(&caller, id, version).await?;
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
    State(api): State<Api>,
    caller: Caller,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Actor>, Fault> {
    api.service
        .reset_factor(&caller, id, version)
        .await
        .map(Shown)
}
