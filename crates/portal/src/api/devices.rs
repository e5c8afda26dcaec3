use super::body::Json;
use super::problems::Problems;
use super::state::Api;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use culvert_portal_base::{Fault, PublicAddress};
use culvert_wire::api::{DeviceAnswer, DeviceAsk, DeviceBegun, NewDevice};

/// Ask that somebody signs in for a machine
///
/// After RFC 8628, for `culvert sign-in`. It needs no token: a person who has signed in to the console
/// compares the code and approves it there, and nowhere else.
#[utoipa::path(
    post, path = "/device-sign-ins", tag = "sign-in", operation_id = "begin_device_sign_in",
    request_body = NewDevice,
    responses((status = 201, description = "Begun", body = DeviceBegun), Problems),
)]
pub(super) async fn begin(
    State(api): State<Api>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    Json(new): Json<NewDevice>,
) -> Result<(StatusCode, axum::Json<DeviceBegun>), Fault> {
    let begun = api.service.begin_device(from, &new).await?;
    Ok((StatusCode::CREATED, axum::Json(begun)))
}

/// Ask whether somebody has signed in for a machine
///
/// Once approved, the answer holds a client's token of one use, this once.
#[utoipa::path(
    post, path = "/device-sign-ins/ask", tag = "sign-in", operation_id = "ask_device_sign_in",
    request_body = DeviceAsk,
    responses((status = 200, description = "How far it is", body = DeviceAnswer), Problems),
)]
pub(super) async fn ask(
    State(api): State<Api>,
    Json(ask): Json<DeviceAsk>,
) -> Result<axum::Json<DeviceAnswer>, Fault> {
    api.service.ask_device(&ask).await.map(axum::Json)
}
