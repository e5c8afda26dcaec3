//! The checks of heads and forms without a server.

use super::asked::Asked;
use super::fields::Fields;
use super::host::HostRefusal;
use super::person;
use axum::http::{HeaderMap, Request};

/// A parsed form.
pub struct Form(Asked);

impl Form {
    /// Reads the bytes of a form, or the query of an address.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Fields::of(bytes).ok().map(|fields| Self(Asked(fields)))
    }

    /// The value of a field, not trimmed.
    pub fn raw(&self, name: &str) -> &str {
        self.0.0.raw(name)
    }

    /// The lines of a field, without empty ones.
    pub fn lines(&self, name: &str) -> Vec<String> {
        self.0.0.lines(name)
    }

    /// The address of the same query at another path.
    pub fn same(&self, path: &str) -> String {
        self.0.same(path)
    }

    /// The address of the next page of a list.
    pub fn next(&self, path: &str, cursor: &str) -> Option<String> {
        self.0.next(path, Some(cursor))
    }
}

/// True if a request is for the portal at `url`, and, if it changes something, from a page of its
/// own.
pub fn is_from_here<B>(url: &str, request: &Request<B>) -> bool {
    HostRefusal::of(url, request.method(), request.headers()).is_none()
}

/// The session that the browser presents.
pub fn session(headers: &HeaderMap) -> Option<String> {
    person::session(headers).map(|session| session.to_string())
}
