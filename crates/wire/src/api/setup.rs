use super::{Account, Actor, IssuedToken};
use serde::{Deserialize, Serialize};

/// The first request to a portal, with the set-up token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetupRequest {
    /// The name of the owner, 1 to 100 characters.
    pub owner: String,
    /// The name of the account; it keeps its own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// What set-up made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetupAnswer {
    /// The account.
    pub account: Account,
    /// Its owner.
    pub owner: Actor,
    /// The owner's token for the API; shown this once.
    pub token: IssuedToken,
}
