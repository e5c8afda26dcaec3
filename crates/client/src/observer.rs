//! Between a running client and whoever asks how it is.

use crate::status::{SCHEMA_VERSION, Status};
use culvert_host::StatusError;
use culvert_ids::ResourceId;
use std::path::Path;

/// Asks a client of this process.
pub type Observer = culvert_host::Observer<Status, ResourceId>;

/// What [`run`](crate::run) needs to answer.
pub type Observed = culvert_host::Observed<Status, ResourceId>;

/// Asks for the state, and maybe for access to a resource first.
pub(crate) type StatusRequest = culvert_host::StatusRequest<Status, ResourceId>;

/// Asks the client that answers at `path`.
///
/// # Errors
/// What is wrong, for people.
pub async fn ask_status(path: &Path) -> Result<Status, StatusError> {
    culvert_host::ask_status(path, "client", SCHEMA_VERSION).await
}

/// Has the client that answers at `path` ask for access to a resource, unless it has it or knows that it
/// is denied. What comes of it is in later states.
///
/// # Errors
/// What is wrong, for people.
pub async fn ask_access(path: &Path, resource: ResourceId) -> Result<Status, StatusError> {
    culvert_host::ask_access(path, "client", SCHEMA_VERSION, resource).await
}
