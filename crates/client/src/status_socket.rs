//! The socket at which `culvert status` asks.

use crate::status::{SCHEMA_VERSION, Status};
use culvert_host::StatusError;
use std::path::Path;

/// Asks the client for its state; the answer goes into the channel.
pub(crate) type StatusRequest = culvert_host::StatusRequest<Status>;

/// Asks the client that answers at `path`.
///
/// # Errors
/// What is wrong, for people.
pub async fn ask_status(path: &Path) -> Result<Status, StatusError> {
    culvert_host::ask_status(path, "client", SCHEMA_VERSION).await
}
