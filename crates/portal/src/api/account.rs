use super::Api;
use super::body::Json;
use super::etag::{IfMatch, Shown};
use super::problems::Problems;
use axum::extract::State;
use culvert_portal_base::Fault;
use culvert_portal_service::Caller;
use culvert_wire::api::{Account, AccountPatch};

/// Show the account
#[utoipa::path(
    get, path = "/account", tag = "account", operation_id = "show_account",
    responses((status = 200, description = "As it is", body = Account), Problems),
    security(("token" = []))
)]
pub(super) async fn show(State(api): State<Api>, caller: Caller) -> Result<Shown<Account>, Fault> {
    api.service.account(&caller).await.map(Shown)
}

/// Change the account
#[utoipa::path(
    patch, path = "/account", tag = "account", operation_id = "change_account",
    params(("if-match" = String, Header, description = "Its `ETag`, or *")),
    request_body = AccountPatch,
    responses((status = 200, description = "As it is now", body = Account), Problems),
    security(("token" = []))
)]
pub(super) async fn change(
    State(api): State<Api>,
    caller: Caller,
    IfMatch(version): IfMatch,
    Json(patch): Json<AccountPatch>,
) -> Result<Shown<Account>, Fault> {
    let shown = api.service.change_account(&caller, version, patch);
    shown.await.map(Shown)
}
