//! JSON for programs. Everything that the program prints as JSON is made here, so that none of it
//! lacks its `schema_version`.

use crate::exit::{Failure, Status};
use serde::Serialize;

/// Counts changes of the JSON that programs must know of: within one, fields are added alone.
const SCHEMA_VERSION: u32 = 1;

#[derive(Serialize)]
struct Versioned<'a, T> {
    schema_version: u32,
    #[serde(flatten)]
    content: &'a T,
}

/// Content with a `schema_version` of its own, which is its first field.
pub(crate) trait HasVersion: Serialize {}

impl HasVersion for culvert_client::status::Status {}
impl HasVersion for culvert_client::WatchMessage {}
impl HasVersion for culvert_gateway::status::Status {}
impl HasVersion for culvert_relay::status::Status {}

/// A line of JSON: the content behind its `schema_version`.
pub(crate) fn line(content: &impl Serialize) -> Result<String, Failure> {
    text(&Versioned {
        schema_version: SCHEMA_VERSION,
        content,
    })
}

/// A line of JSON that says its version itself.
pub(crate) fn line_of(content: &impl HasVersion) -> Result<String, Failure> {
    text(content)
}

/// The start of an object before the fields that another program wrote, without its brace.
pub(crate) fn start() -> String {
    format!("{{\"schema_version\":{SCHEMA_VERSION},")
}

fn text(content: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(content);
    let text =
        text.map_err(|error| Failure::new(Status::Failed, format_args!("writing JSON: {error}")))?;
    Ok(text + "\n")
}

/// A body that is sent to a portal.
pub(crate) fn body(content: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(content)
        .map_err(|error| Failure::new(Status::Failed, format_args!("writing JSON: {error}")))
}

#[cfg(test)]
mod tests;
