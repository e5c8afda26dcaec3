//! The refusal of a request before it becomes a session.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use std::time::Duration;

/// A problem, and when to come back.
pub(super) struct Refused {
    pub(super) fault: Fault,
    pub(super) wait: Option<Duration>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self { fault, wait: None }
    }
}

impl Refused {
    pub(super) fn later(wait: Duration, text: &str) -> Self {
        Self {
            fault: Fault::Unavailable(text.to_owned()),
            wait: Some(wait),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut response = self.fault.into_response();
        if let Some(wait) = self.wait {
            let wait_s = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait_s.max(1)));
        }
        response
    }
}
