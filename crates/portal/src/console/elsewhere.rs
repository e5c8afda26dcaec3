//! Addresses where there is no page, as browsers come to them.

use crate::fault::Fault;
use axum::extract::Request;
use axum::http::header;
use axum::response::{IntoResponse, Redirect, Response};

/// Whether a browser asks for a page, rather than a program for what the API has.
fn is_for_a_page(request: &Request) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    let is_api = request.uri().path().starts_with(culvert_wire::api::PREFIX);
    !is_api && accepted.any(|accepted| accepted.contains("text/html"))
}

/// The answer where the route knows other methods; `Allow` says which. What answers a form stands at the form's
/// address: who loads it again is led to the page that the form was on.
pub(crate) async fn no_method(request: Request) -> Response {
    let parent = request.uri().path().rsplit_once('/');
    match parent {
        Some((parent, _)) if request.method().is_safe() && is_for_a_page(&request) => {
            let page = if parent.is_empty() { "/" } else { parent };
            Redirect::to(page).into_response()
        }
        _ => Fault::MethodNotAllowed.into_response(),
    }
}
