//! An export as the answer to a request.

use crate::{Caller, ExportFilter, ExportFormat, Service};
use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use std::sync::Arc;

/// A file that is written while it is read.
///
/// # Errors
/// The caller may not read the log, there is no such format, or there is no place for the export.
pub fn stream_export(
    service: &Arc<Service>,
    caller: Caller,
    filter: ExportFilter,
    format: &str,
) -> Result<Response, Fault> {
    // A caller who may not read the log learns nothing of its forms.
    caller.may_read()?;
    let format: ExportFormat = format.parse()?;
    let parts = service.export(caller, filter, format)?;
    let name = format!(
        "attachment; filename=\"{}.{}\"",
        filter.file_name(),
        format.extension()
    );
    let headers = [
        (header::CONTENT_TYPE, format.media_type().to_owned()),
        (header::CONTENT_DISPOSITION, name),
    ];
    Ok((headers, Body::from_stream(parts)).into_response())
}
