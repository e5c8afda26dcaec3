use crate::Timestamp;
use crate::token::TokenKind;
use culvert_ids::{ActorId, SiteId, TokenId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What the holder of an API token, or who signs in, may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ApiRole {
    /// See and give up the actor's own clients.
    User,
    /// Read everything, change nothing.
    Auditor,
    /// Change everything but owners and their tokens.
    Admin,
    /// Everything.
    Owner,
}

/// A token, without its secret: the portal does not know that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    /// Which one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: TokenId,
    /// What it is for.
    pub kind: TokenKind,
    /// Whose it is: of API and client tokens and of sessions.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// Whose it is: of gateway tokens.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// What an API token allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ApiRole>,
    /// What people call it.
    pub name: String,
    /// When it ends; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// It has one use: the machine that enrols with it keeps it for itself.
    pub one_time: bool,
    /// When a token of one use was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
    /// Since when it is refused for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub updated: Timestamp,
}

/// A token to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// `api`, `client` or `gateway`.
    pub kind: TokenKind,
    /// Whose it is to be: of API and client tokens.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// Whose it is to be: of gateway tokens.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// What an API token allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ApiRole>,
    /// 1 to 100 characters.
    pub name: String,
    /// When it ends; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// It enrols one machine and no second one.
    #[serde(default)]
    pub one_time: bool,
}

/// A new token with its secret, which is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedToken {
    /// What the portal keeps.
    pub token: Token,
    /// The whole text, for the machine or person that is to have it.
    pub secret: String,
}

impl fmt::Debug for IssuedToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("IssuedToken")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
