//! The channel between a running client and processes that ask for its state, or command it.

use crate::request::Request;
use crate::status::{SCHEMA_VERSION, Status};
use culvert_host::StatusError;
use std::path::Path;

/// Asks a client of this process.
pub type Observer = culvert_host::Observer<Status, Request>;

/// The side that [`run`](crate::run) needs to answer.
pub type Observed = culvert_host::Observed<Status, Request>;

/// A request, and where its answer goes.
pub(crate) type StatusRequest = culvert_host::StatusRequest<Status, Request>;

/// True if this process is in an application.
///
/// # Errors
/// The system's, or that this is no name of an application.
pub fn is_in_application(application: &str) -> std::io::Result<bool> {
    let application = application.parse().map_err(std::io::Error::other)?;
    let text = std::fs::read_to_string("/proc/self/cgroup")?;
    Ok(culvert_host::ApplicationCgroups::is_in(&text, &application))
}

/// Asks the client that answers at `path` for something; the answer is its state.
///
/// # Errors
/// The problem, for people.
pub async fn ask(path: &Path, request: Request) -> Result<Status, StatusError> {
    culvert_host::ask(path, "client", SCHEMA_VERSION, request).await
}

/// Asks the client that answers at `path` for its state.
///
/// # Errors
/// The problem, for people.
pub async fn ask_status(path: &Path) -> Result<Status, StatusError> {
    ask(path, Request::Status).await
}

/// Asks the client that answers at `path` for the last lines of its log.
///
/// # Errors
/// The problem, for people.
pub async fn ask_log(path: &Path) -> Result<Vec<String>, StatusError> {
    culvert_host::ask_log(path, "client", SCHEMA_VERSION, Request::Log).await
}
