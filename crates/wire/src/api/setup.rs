use super::{Account, Actor, IssuedToken};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The first request to a portal, with the set-up token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetupRequest {
    /// The name of the owner, 1 to 100 characters.
    pub owner: String,
    /// The name of the account; it keeps its own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// A password with which the owner signs in to the console, 12 to 256 characters; without, by
    /// token alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

impl fmt::Debug for SetupRequest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SetupRequest")
            .field("owner", &self.owner)
            .field("account", &self.account)
            .finish_non_exhaustive()
    }
}

/// Things that set-up created.
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
