//! The form of a request at the socket.

use crate::MAX_TOKEN_FILE_BYTES;
use crate::watching::Watch;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest request, in bytes: a token, and two fields around it.
pub(crate) const MAX_REQUEST_LEN: usize = MAX_TOKEN_FILE_BYTES + 1024;

/// A request to a running program. Each request is answered by the state.
pub trait Request: Serialize + DeserializeOwned + Send + 'static {
    /// The request for the state alone.
    const STATUS: Self;

    /// True if it changes the program's work. Such a request is refused to those who may only look:
    /// see [`PeerCredentials`] and [`COMMAND_GROUP`](crate::COMMAND_GROUP).
    fn is_change(&self) -> bool;

    /// The request to watch, if it is one: its connection stays open.
    fn watch(&self) -> Option<Watch> {
        None
    }

    /// True if it is for the last lines of the log. They are for those who may command, so it is a change too.
    fn is_log(&self) -> bool {
        false
    }
}

/// The only request to a program that takes no commands: its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyStatus {
    /// The state.
    Status,
}

impl Request for OnlyStatus {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        false
    }
}

/// A request as it is written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope<R> {
    pub(crate) schema_version: u32,
    pub(crate) request: R,
}
