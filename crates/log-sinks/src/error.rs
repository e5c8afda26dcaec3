//! The fault of a sink.

use std::fmt;

/// The reason why a sink did not take something. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(String);

impl SinkError {
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}
