//! Addresses where there is no page, as browsers come to them.

use super::{Console, guard};
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, any};
use culvert_portal_base::{Fault, no_route};
use std::convert::Infallible;

/// Answers requests without a route.
pub fn nowhere(console: Console) -> MethodRouter<(), Infallible> {
    any(nothing).layer(from_fn_with_state(console, around))
}

/// Answers requests whose route knows other methods; `Allow` lists them.
pub fn other_method(console: Console) -> MethodRouter<(), Infallible> {
    any(wrong_method).layer(from_fn_with_state(console, around))
}

/// True if a browser asks for a page, and not a program for an answer of the API.
fn is_for_a_page(request: &Request) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT).iter();
    let mut accepted = accepted.filter_map(|value| value.to_str().ok());
    let is_api = request.uri().path().starts_with(culvert_wire::api::PREFIX);
    !is_api && accepted.any(|accepted| accepted.contains("text/html"))
}

/// Browsers get what goes around pages; programs what the API answers.
async fn around(console: State<Console>, request: Request, next: Next) -> Response {
    match is_for_a_page(&request) {
        true => guard::around(console, request, next).await,
        false => next.run(request).await,
    }
}

async fn nothing(request: Request) -> Fault {
    match is_for_a_page(&request) {
        true => Fault::NotFound("No page of this portal has this address.".to_owned()),
        false => no_route(),
    }
}

/// The answer to a form is at the form's address. Someone who loads it again is led to the page
/// that the form was on.
async fn wrong_method(request: Request) -> Response {
    let parent = request.uri().path().rsplit_once('/');
    match parent {
        Some((parent, _)) if request.method().is_safe() && is_for_a_page(&request) => {
            let page = if parent.is_empty() { "/" } else { parent };
            Redirect::to(page).into_response()
        }
        _ => Fault::MethodNotAllowed.into_response(),
    }
}
