//! The bound of a request's path and query, and the answer where there is no route.

use crate::Fault;
use axum::http::Uri;

/// Most bytes of a path and query. A form that asks has seven fields at most, of 200 characters
/// (`form.html` of the console) that take nine bytes each at worst.
pub const MAX_ADDRESS_BYTES: usize = 16 * 1024;

/// Refuses an address that no form and no program of ours makes.
///
/// # Errors
/// [`Fault::AddressTooLong`].
pub fn check_address(uri: &Uri) -> Result<(), Fault> {
    let len = uri.path_and_query().map_or(0, |asked| asked.as_str().len());
    match len > MAX_ADDRESS_BYTES {
        true => Err(Fault::AddressTooLong {
            limit: MAX_ADDRESS_BYTES,
        }),
        false => Ok(()),
    }
}

/// The answer where no route is.
#[must_use]
pub fn no_route() -> Fault {
    Fault::NotFound("there is no such path; /api/v1/openapi.json lists those there are".to_owned())
}
