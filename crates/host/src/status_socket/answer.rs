//! The form of an answer at the socket.

use serde::{Deserialize, Serialize};

/// The longest answer, in bytes: a client's 20,000 resources and 32,000 names of half a kilobyte each.
pub(crate) const MAX_ANSWER_LEN: u64 = 32 * 1024 * 1024;

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<S> {
    Status(Box<S>),
    Log(Vec<String>),
    Error(String),
}
