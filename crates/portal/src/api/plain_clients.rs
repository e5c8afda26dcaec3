use super::body::Json;
use super::etag::MaybeIfMatch;
use super::identity::Call;
use super::problems::Problems;
use super::query::Query;
use axum::http::StatusCode;
use culvert_ids::{ClientId, GatewayId};
use culvert_portal_base::{Fault, Id};
use culvert_wire::api::{NewPlainClient, PlainClientEndpoint, PlainClientFile, PlainClientRekey};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The endpoints of a file.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FileQuery {
    /// Host and port of gateways, each as GATEWAY=HOST:PORT by the gateway's id, with commas between. A gateway that is not
    /// named here has an address that it reports.
    endpoints: Option<String>,
}

impl FileQuery {
    fn endpoints(&self) -> Result<BTreeMap<GatewayId, String>, Fault> {
        let mut endpoints = BTreeMap::new();
        for written in self.endpoints.iter().flat_map(|all| all.split(',')) {
            let pair = written.split_once('=');
            let pair = pair.and_then(|(id, endpoint)| Some((id.parse().ok()?, endpoint)));
            let Some((gateway, endpoint)) = pair else {
                let text =
                    "expected GATEWAY=HOST:PORT with the gateway's id, and commas between several";
                return Err(Fault::invalid("endpoints", text));
            };
            endpoints.insert(gateway, endpoint.to_owned());
        }
        Ok(endpoints)
    }
}

/// Add a plain WireGuard device
///
/// It is listed, renamed, verified, revoked and deleted as a client. The answer has all that its file needs but the
/// private key, and says what can't work.
#[utoipa::path(
    post, path = "/plain-clients", tag = "clients", operation_id = "add_plain_client",
    request_body = NewPlainClient,
    responses((status = 201, description = "Made", body = PlainClientFile), Problems),
    security(("token" = []))
)]
pub(super) async fn add(
    Call { service, caller }: Call,
    Json(new): Json<NewPlainClient>,
) -> Result<(StatusCode, axum::Json<PlainClientFile>), Fault> {
    let file = service.add_plain_client(&caller, new).await?;
    Ok((StatusCode::CREATED, axum::Json(file)))
}

/// Show the file of a plain WireGuard device
///
/// As it would be made now: networks of resources that were added since are in it. The portal keeps no endpoints that it was
/// given for a file: give them again.
#[utoipa::path(
    get, path = "/plain-clients/{id}", tag = "clients", operation_id = "show_plain_client",
    params(("id" = String, Path, description = "Which one"), FileQuery),
    responses((status = 200, description = "As it is now", body = PlainClientFile), Problems),
    security(("token" = []))
)]
pub(super) async fn show(
    Call { service, caller }: Call,
    Id(id): Id<ClientId>,
    Query(query): Query<FileQuery>,
) -> Result<axum::Json<PlainClientFile>, Fault> {
    let endpoints = query.endpoints()?;
    let file = service.plain_client_file_with(&caller, id, endpoints).await;
    file.map(axum::Json)
}

/// Show where a plain WireGuard device is
///
/// The addresses at which its gateways hear it, the newest handshake first. A gateway that has not heard it is not in the
/// list, and neither is one of an earlier version.
#[utoipa::path(
    get, path = "/plain-clients/{id}/endpoints", tag = "clients", operation_id = "show_plain_client_endpoints",
    params(("id" = String, Path, description = "Which one")),
    responses((status = 200, description = "As it is now", body = Vec<PlainClientEndpoint>), Problems),
    security(("token" = []))
)]
pub(super) async fn endpoints(
    Call { service, caller }: Call,
    Id(id): Id<ClientId>,
) -> Result<axum::Json<Vec<PlainClientEndpoint>>, Fault> {
    let endpoints = service.plain_client_endpoints(&caller, id).await;
    endpoints.map(axum::Json)
}

/// Give a plain WireGuard device another key
///
/// Access by the earlier key ends at once. The device may get other gateways as well.
#[utoipa::path(
    post, path = "/plain-clients/{id}/key", tag = "clients", operation_id = "rekey_plain_client",
    params(
        ("id" = String, Path, description = "Which one"),
        ("if-match" = Option<String>, Header, description = "The `ETag` of the client: only that version is changed"),
    ),
    request_body = PlainClientRekey,
    responses((status = 200, description = "As it is now", body = PlainClientFile), Problems),
    security(("token" = []))
)]
pub(super) async fn rekey(
    Call { service, caller }: Call,
    Id(id): Id<ClientId>,
    MaybeIfMatch(version): MaybeIfMatch,
    Json(rekey): Json<PlainClientRekey>,
) -> Result<axum::Json<PlainClientFile>, Fault> {
    let file = service
        .rekey_plain_client(&caller, id, version, rekey)
        .await;
    file.map(axum::Json)
}
