//! The caller of a request.

use super::state::Api;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use culvert_portal_base::{Fault, bearer};
use culvert_portal_service::{Caller, Service};
use std::sync::Arc;

/// The token of a request.
pub(super) struct Bearer(pub(super) String);

impl<S: Sync> FromRequestParts<S> for Bearer {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Fault> {
        bearer(&parts.headers)
            .map(|token| Self(token.to_owned()))
            .ok_or(Fault::Unauthenticated)
    }
}

/// A request of a known caller.
pub(super) struct Call {
    pub(super) service: Arc<Service>,
    pub(super) caller: Caller,
}

impl FromRequestParts<Api> for Call {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Fault> {
        let caller = Caller::from_request_parts(parts, api).await?;
        let service = Arc::clone(&api.service);
        Ok(Self { service, caller })
    }
}

impl FromRequestParts<Api> for Caller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Fault> {
        let Bearer(bearer) = Bearer::from_request_parts(parts, api).await?;
        let caller = api.service.authenticate(&bearer).await?;
        caller.note_connection(parts.extensions.get());
        Ok(caller)
    }
}
