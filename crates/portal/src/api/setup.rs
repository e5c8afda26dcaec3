use super::body::Json;
use super::identity::Bearer;
use super::problems::Problems;
use super::state::Api;
use axum::extract::State;
use axum::http::StatusCode;
use culvert_portal_base::Fault;
use culvert_wire::api::{SetupAnswer, SetupRequest};

/// Make the first owner
///
/// The token is the set-up token, which is good for this once. The answer holds the owner's token,
/// which is shown this once.
#[utoipa::path(
    post, path = "/setup", tag = "setup", operation_id = "set_up",
    request_body = SetupRequest,
    responses((status = 201, description = "Set up", body = SetupAnswer), Problems),
    security(("token" = []))
)]
pub(super) async fn set_up(
    State(api): State<Api>,
    Bearer(bearer): Bearer,
    Json(request): Json<SetupRequest>,
) -> Result<(StatusCode, axum::Json<SetupAnswer>), Fault> {
    let answer = api.service.set_up(&bearer, request).await?;
    Ok((StatusCode::CREATED, axum::Json(answer)))
}
