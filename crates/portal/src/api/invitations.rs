use super::body::Json;
use super::etag::{MaybeIfMatch, Shown};
use super::identity::Call;
use super::problems::Problems;
use axum::http::StatusCode;
use culvert_ids::ActorId;
use culvert_portal_base::{Fault, Id};
use culvert_wire::api::{Actor, IssuedInvitation, NewInvitation, NewPerson};

/// Invite a person
///
/// Creates the person with role and groups. The answer holds a link, which is shown this once: whoever opens it
/// within seven days sets the password, once.
#[utoipa::path(
    post, path = "/invitations", tag = "actors", operation_id = "invite_person",
    request_body = NewPerson,
    responses((status = 201, description = "Made", body = IssuedInvitation), Problems),
    security(("token" = []))
)]
pub(super) async fn invite_person(
    Call { service, caller }: Call,
    Json(new): Json<NewPerson>,
) -> Result<(StatusCode, axum::Json<IssuedInvitation>), Fault> {
    let issued = service.invite_person(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(issued)))
}

/// Make another link for a person
///
/// For a person who does not sign in yet, or has forgotten the password: the password is replaced, and the
/// sessions end, when the link is used. An earlier link is void. A second factor stays.
#[utoipa::path(
    post, path = "/actors/{id}/invitation", tag = "actors", operation_id = "create_invitation",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed"),
    ),
    request_body = NewInvitation,
    responses((status = 201, description = "Made", body = IssuedInvitation), Problems),
    security(("token" = []))
)]
pub(super) async fn invite(
    Call { service, caller }: Call,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Json(new): Json<NewInvitation>,
) -> Result<(StatusCode, axum::Json<IssuedInvitation>), Fault> {
    let issued = service.invite(&caller, id, version, new).await?;
    Ok((StatusCode::CREATED, axum::Json(issued)))
}

/// Withdraw the link of a person
///
/// A password that the person has stays.
#[utoipa::path(
    delete, path = "/actors/{id}/invitation", tag = "actors", operation_id = "withdraw_invitation",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "Its `ETag`: only that version is changed"),
    ),
    responses((status = 200, description = "As it is now", body = Actor), Problems),
    security(("token" = []))
)]
pub(super) async fn withdraw(
    Call { service, caller }: Call,
    Id(id): Id<ActorId>,
    MaybeIfMatch(version): MaybeIfMatch,
) -> Result<Shown<Actor>, Fault> {
    let withdrawn = service.withdraw_invitation(&caller, id, version).await;
    withdrawn.map(Shown)
}
