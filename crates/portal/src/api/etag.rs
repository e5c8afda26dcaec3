//! Versions: what is shown has an `ETag`, and a change says which it changes (RFC 9110 §13).

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_wire::api::{
    Account, Actor, Client, Gateway, Group, Policy, Provider, Relay, Resource, Retention, SinkView,
    Site, Token,
};
use serde::Serialize;

/// A resource with a version.
pub(super) trait Versioned: Serialize {
    fn version(&self) -> u64;
}

macro_rules! versioned {
    ($($shown:ty),*) => {$(
        impl Versioned for $shown {
            fn version(&self) -> u64 {
                self.version
            }
        }
    )*};
}

versioned!(
    Account, Actor, Client, Gateway, Group, Policy, Provider, Relay, Resource, Retention, SinkView,
    Site, Token
);

/// A thing with its `ETag`.
pub(super) struct Shown<T>(pub(super) T);

/// A thing that was made, with its `ETag` and where it is.
pub(super) struct Made<T> {
    pub(super) shown: T,
    /// Its path.
    pub(super) at: String,
}

fn etag(version: u64) -> HeaderValue {
    // Digits and quotes are allowed in every header.
    HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("\"0\""))
}

impl<T: Versioned> IntoResponse for Shown<T> {
    fn into_response(self) -> Response {
        let headers = [(header::ETAG, etag(self.0.version()))];
        (headers, Json(self.0)).into_response()
    }
}

impl<T: Versioned> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        let location = HeaderValue::from_str(&self.at).ok();
        let mut response = (StatusCode::CREATED, Shown(self.shown)).into_response();
        if let Some(location) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// The version that a change is about; none for `If-Match: *`, which takes any version.
pub(super) struct IfMatch(pub(super) Option<u64>);

/// The same, where it may be left out.
pub(super) struct MaybeIfMatch(pub(super) Option<u64>);

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Fault> {
        match header_of(parts)? {
            Some(version) => Ok(Self(version)),
            None => Err(Fault::VersionRequired),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for MaybeIfMatch {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Fault> {
        Ok(Self(header_of(parts)?.flatten()))
    }
}

/// The header, if it is there; inside, the version, if it names one.
fn header_of(parts: &Parts) -> Result<Option<Option<u64>>, Fault> {
    let mut values = parts.headers.get_all(header::IF_MATCH).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let one = values.next().is_none();
    let text = value.to_str().ok().filter(|_| one).map(str::trim);
    match text {
        Some("*") => Ok(Some(None)),
        Some(text) => match version(text) {
            Some(version) => Ok(Some(Some(version))),
            None => Err(wrong()),
        },
        None => Err(wrong()),
    }
}

/// Strong and alone: a weak tag never matches, and of several only one can.
fn version(text: &str) -> Option<u64> {
    let digits = text.strip_prefix('"')?.strip_suffix('"')?;
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

fn wrong() -> Fault {
    Fault::Malformed(
        "`If-Match` is one `ETag` as the portal sent it, such as \"3\", or *".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn of(values: &[&str]) -> Result<Option<Option<u64>>, Fault> {
        let mut request = Request::builder();
        for value in values {
            request = request.header(header::IF_MATCH, *value);
        }
        header_of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn if_match_is_one_strong_tag_or_a_star() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["*"]), Ok(Some(None)));
        assert_eq!(of(&["\"3\""]), Ok(Some(Some(3))));
        for wrong in [
            "3",
            "W/\"3\"",
            "\"3\", \"4\"",
            "\"\"",
            "\"+3\"",
            "\"x\"",
            "",
        ] {
            assert!(of(&[wrong]).is_err(), "{wrong}");
        }
        assert!(of(&["\"3\"", "\"4\""]).is_err());
    }
}
