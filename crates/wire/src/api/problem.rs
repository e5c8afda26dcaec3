use serde::{Deserialize, Serialize};
use std::fmt;

/// The media type of [`Problem`] (RFC 9457 §3).
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The reason why a request was refused, in the form of RFC 9457.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// The kind of the problem, for programs: `urn:culvert:problem:` and a [`ProblemKind`].
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The cause of this problem, and the fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Problems with single fields of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// The version that the thing has now, where `If-Match` named another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_version: Option<u64>,
    /// The request in the portal's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A problem with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    /// The field, such as `filters[0].ports[1]`.
    pub field: String,
    /// The problem, the value, and a right value.
    pub detail: String,
}

/// Kinds of [`Problem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemKind {
    /// Not HTTP as the API speaks it, or not JSON.
    Malformed,
    /// JSON, but a field is not what it must be.
    Invalid,
    /// No token, or none that is good.
    Unauthenticated,
    /// The token is good, but not for this.
    Forbidden,
    /// There is no such thing, or not for this account.
    NotFound,
    /// The path exists, but not with this method.
    MethodNotAllowed,
    /// The name is taken, or something still uses the thing.
    Conflict,
    /// It was changed since it was read.
    VersionConflict,
    /// A change must say which version it changes.
    VersionRequired,
    /// The body is longer than the path takes.
    TooLarge,
    /// The address that is asked for is longer than the portal reads.
    AddressTooLong,
    /// The body is of another media type than JSON.
    UnsupportedMediaType,
    /// More requests than the portal serves one address or actor.
    TooMany,
    /// A fault of the portal; its log has the reason.
    Internal,
    /// The portal can't answer now; it can later.
    Unavailable,
}

impl ProblemKind {
    /// All kinds.
    pub const ALL: [Self; 15] = [
        Self::Malformed,
        Self::Invalid,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Conflict,
        Self::VersionConflict,
        Self::VersionRequired,
        Self::TooLarge,
        Self::AddressTooLong,
        Self::UnsupportedMediaType,
        Self::TooMany,
        Self::Internal,
        Self::Unavailable,
    ];

    /// The HTTP status that goes with it.
    pub const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::Unauthenticated => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict => 409,
            Self::VersionConflict => 412,
            Self::TooLarge => 413,
            Self::AddressTooLong => 414,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::VersionRequired => 428,
            Self::TooMany => 429,
            Self::Internal => 500,
            Self::Unavailable => 503,
        }
    }

    /// The word at the end of [`Problem::kind`].
    pub const fn word(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::MethodNotAllowed => "method-not-allowed",
            Self::Conflict => "conflict",
            Self::VersionConflict => "version-conflict",
            Self::TooLarge => "too-large",
            Self::AddressTooLong => "address-too-long",
            Self::UnsupportedMediaType => "unsupported-media-type",
            Self::Invalid => "invalid",
            Self::VersionRequired => "version-required",
            Self::TooMany => "too-many-requests",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
        }
    }

    /// [`Problem::title`].
    pub const fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed",
            Self::Unauthenticated => "A valid token is needed",
            Self::Forbidden => "The token does not allow this",
            Self::NotFound => "There is no such thing",
            Self::MethodNotAllowed => "The method is not allowed here",
            Self::Conflict => "It conflicts with what is there",
            Self::VersionConflict => "It was changed in the meantime",
            Self::TooLarge => "The body is too large",
            Self::AddressTooLong => "The address is too long",
            Self::UnsupportedMediaType => "The body must be JSON",
            Self::Invalid => "A field is invalid",
            Self::VersionRequired => "If-Match is missing",
            Self::TooMany => "Too many requests",
            Self::Internal => "The portal failed",
            Self::Unavailable => "The portal can't answer now",
        }
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "urn:culvert:problem:{}", self.word())
    }
}

impl Problem {
    /// A problem of a kind, without details.
    pub fn new(kind: ProblemKind) -> Self {
        Self {
            kind: kind.to_string(),
            title: kind.title().to_owned(),
            status: kind.status(),
            detail: None,
            errors: Vec::new(),
            current_version: None,
            request_id: None,
        }
    }
}
