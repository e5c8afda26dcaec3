use crate::Timestamp;
use crate::token::TokenKind;
use culvert_ids::{ActorId, SiteId, TokenId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Permissions of an API token, or of a person who signs in.
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
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: TokenId,
    /// The purpose of the token.
    pub kind: TokenKind,
    /// The owner, for API and client tokens and for sessions.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// The site, for gateway tokens.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// The role of an API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ApiRole>,
    /// The token's name, for people.
    pub name: String,
    /// The time of expiry; if absent, it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// It has one use: the machine that enrols with it keeps it for itself.
    pub one_time: bool,
    /// The time at which a token of one use was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Timestamp>,
    /// The time since which it is refused for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// The time of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A token to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// `api`, `client`, `gateway` or `relay`.
    pub kind: TokenKind,
    /// The owner, for API and client tokens.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<ActorId>,
    /// The site, for gateway tokens.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// The role of an API token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ApiRole>,
    /// 1 to 100 characters.
    pub name: String,
    /// The time of expiry; if absent, it never expires.
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
    /// The token without its secret, as the portal stores it.
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
