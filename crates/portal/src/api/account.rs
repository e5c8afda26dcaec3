use super::body::Json;
use super::etag::{IfMatch, Shown};
use super::identity::Call;
use super::problems::Problems;
use culvert_portal_base::Fault;
use culvert_wire::api::{Account, AccountPatch};

/// Show the account
#[utoipa::path(
    get, path = "/account", tag = "account", operation_id = "show_account",
    responses((status = 200, description = "As it is", body = Account), Problems),
    security(("token" = []))
)]
pub(super) async fn show(Call { service, caller }: Call) -> Result<Shown<Account>, Fault> {
    service.account(&caller).await.map(Shown)
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
    Call { service, caller }: Call,
    IfMatch(version): IfMatch,
    Json(patch): Json<AccountPatch>,
) -> Result<Shown<Account>, Fault> {
    let shown = service.change_account(&caller, version, patch);
    shown.await.map(Shown)
}
