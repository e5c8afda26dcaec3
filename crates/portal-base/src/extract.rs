//! The token and the ids in the path of a request.

use crate::Fault;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use std::str::FromStr;

/// The token of a request with one `Authorization` header.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?;
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The `{id}` of the path.
pub struct Id<T>(pub T);

/// The `{actor}` of the path.
pub struct ActorInPath(pub culvert_ids::ActorId);

impl<S, T> FromRequestParts<S> for Id<T>
where
    S: Send + Sync,
    T: FromStr<Err: std::fmt::Display>,
{
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        param(parts, state, "id").await.map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ActorInPath {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        param(parts, state, "actor").await.map(Self)
    }
}

/// A text that can't be an id names nothing, so the answer is "not found".
async fn param<S, T>(parts: &mut Parts, state: &S, name: &str) -> Result<T, Fault>
where
    S: Send + Sync,
    T: FromStr<Err: std::fmt::Display>,
{
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| Fault::NotFound("the path is not UTF-8".to_owned()))?;
    let text = params.iter().find(|(param, _)| *param == name);
    let Some((_, text)) = text else {
        return Err(Fault::internal(format_args!("the route has no {name}")));
    };
    text.parse()
        .map_err(|error| Fault::NotFound(format!("the path names no such thing: {error}")))
}
