//! The channel between a running relay and processes that ask for its state.

use crate::status::{SCHEMA_VERSION, Status};
use culvert_host::{OnlyStatus, StatusError};
use std::path::Path;

/// Asks a relay of this process.
pub type Observer = culvert_host::Observer<Status>;

/// The side that [`run`](crate::run) needs to answer.
pub type Observed = culvert_host::Observed<Status>;

/// Asks for the state; the answer goes into the channel.
pub(crate) type StatusRequest = culvert_host::StatusRequest<Status>;

/// Asks the relay that answers at `path`.
///
/// # Errors
/// The problem, for people.
pub async fn ask_status(path: &Path) -> Result<Status, StatusError> {
    culvert_host::ask(path, "relay", SCHEMA_VERSION, OnlyStatus::Status).await
}
