//! Liveness, readiness and metrics of the portal.

use super::request::text;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use culvert_portal_base::{Fault, MEDIA_TYPE, Metrics};
use culvert_portal_service::{Caller, Service};
use std::sync::Arc;

/// The state that these routes share.
#[derive(Clone)]
pub(crate) struct Health {
    pub(crate) service: Arc<Service>,
    pub(crate) metrics: Arc<Metrics>,
}

/// For load balancers and supervisors; nothing in the answers is anybody's secret.
pub(crate) fn health_routes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(health)
}

/// Metrics for who may read everything.
pub(crate) fn guarded_metrics(api: crate::api::Api, health: Health) -> Router {
    Router::new()
        .route(
            "/metrics",
            get(async move |caller: Caller| {
                caller.may_read()?;
                collect(State(health.clone())).await
            }),
        )
        .with_state(api)
}

/// Metrics for everyone who reaches the listener, which the administrator chose for it.
pub(crate) fn open_metrics(health: Health) -> Router {
    Router::new()
        .route("/metrics", get(collect))
        .with_state(health)
}

/// The process runs and answers; it says nothing of what it depends on.
async fn alive() -> Response {
    text(StatusCode::OK, "alive\n")
}

async fn ready(State(health): State<Health>) -> Response {
    match health.service.readiness().await {
        Ok(()) => text(StatusCode::OK, ready_text(&health.service)),
        Err(reasons) => {
            let lines: Vec<_> = reasons.iter().map(|reason| format!("{reason}\n")).collect();
            text(StatusCode::SERVICE_UNAVAILABLE, lines.concat())
        }
    }
}

/// That the portal is ready. It is so without its relay, whose problems are told besides.
fn ready_text(service: &Service) -> String {
    let problems = service
        .own_relay_status()
        .map_or_else(Vec::new, |relay| relay.problems);
    let problems = problems.iter().map(|problem| format!("relay: {problem}\n"));
    format!("ready\n{}", problems.collect::<String>())
}

async fn collect(State(health): State<Health>) -> Result<Response, Fault> {
    health.service.count_live().await;
    let headers = [(header::CONTENT_TYPE, MEDIA_TYPE)];
    Ok((headers, health.metrics.render()).into_response())
}
