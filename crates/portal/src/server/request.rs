//! The checks that every request passes, whatever it asks for.

use super::listener::Peer;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use culvert_policy::Prefix;
use culvert_portal_base::{
    Connection, Fault, Metrics, Notice, Origin, ProxysWord, PublicAddress, RateLimit,
    UnnamedClient, check_address, limit_for, render,
};
use culvert_wire::{CLIENT_SESSION_PATH, GATEWAY_SESSION_PATH};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests of one address in the long run and at once: an administrator's script, not a search
/// for tokens.
const ONE_REQUEST_EVERY: Duration = Duration::from_millis(20);
const REQUESTS_AT_ONCE: u32 = 500;

/// The same for sessions: 2,000 clients behind one address may come back together.
const ONE_SESSION_EVERY: Duration = Duration::from_millis(5);
const SESSIONS_AT_ONCE: u32 = 2_000;

/// The wait before another attempt, where others behind the same proxy and address use up the limit of
/// connections.
const CONNECTION_WAIT: Duration = Duration::from_secs(5);

/// The request's name in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The label of metrics for requests that no route takes: requests of strangers make no new series.
const NO_ROUTE: &str = "none";

/// Headers of every answer. Nothing here is to be kept, framed, sniffed, or read by other sites.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    ),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (
        header::REFERRER_POLICY,
        HeaderValue::from_static("no-referrer"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        header::STRICT_TRANSPORT_SECURITY,
        HeaderValue::from_static("max-age=31536000"),
    ),
];

/// Checks that requests pass.
#[derive(Debug)]
pub(crate) struct Gatekeeper {
    metrics: Arc<Metrics>,
    trusted_proxies: Vec<Prefix>,
    requests: RateLimit,
    sessions: RateLimit,
    unreadable: Notice,
}

impl Gatekeeper {
    pub(crate) fn new(metrics: Arc<Metrics>, trusted_proxies: Vec<Prefix>) -> Self {
        Self {
            metrics,
            trusted_proxies,
            requests: RateLimit::new(ONE_REQUEST_EVERY, REQUESTS_AT_ONCE),
            sessions: RateLimit::new(ONE_SESSION_EVERY, SESSIONS_AT_ONCE),
            unreadable: Notice::default(),
        }
    }

    /// The origin of the request, as an extension of it.
    fn locate(&self, request: &mut Request) -> IpAddr {
        let peer = request.extensions().get::<Peer>();
        let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Peer(peer)| peer.ip());
        let Origin { address, word } = Origin::of(peer, request.headers(), &self.trusted_proxies);
        if word == ProxysWord::Unreadable {
            self.metrics.proxies_unreadable.inc();
            if let Some(count) = self.unreadable.due(Instant::now()) {
                tracing::warn!(
                    count,
                    proxy = %address.0,
                    "a trusted proxy says where requests come from, but not as an address: its clients share \
                     its limits, and no policy that asks for an address or a country lets them in. Have it \
                     write `X-Forwarded-For: ADDRESS`"
                );
            }
        }
        let extensions = request.extensions_mut();
        extensions.insert(address);
        if word != ProxysWord::Good {
            extensions.insert(UnnamedClient);
        }
        let PublicAddress(address) = address;
        address
    }

    /// Refuses what need not be looked at, before anything is read or looked up.
    fn admit(&self, request: &Request, from: IpAddr) -> Result<(), Fault> {
        let path = request.uri().path();
        let limit = match path {
            CLIENT_SESSION_PATH | GATEWAY_SESSION_PATH => &self.sessions,
            _ => &self.requests,
        };
        let limited = |wait| {
            self.metrics.rate_limited.inc();
            Fault::TooMany { wait }
        };
        limit.take(from, Instant::now()).map_err(limited)?;
        let connection = request.extensions().get::<Arc<Connection>>();
        if connection.is_some_and(|connection| !connection.asks(from)) {
            return Err(limited(CONNECTION_WAIT));
        }
        if path.starts_with(culvert_wire::api::PREFIX) {
            check_address(request.uri())?;
        }
        let limit = limit_for(path);
        let announced = request.headers().get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        match announced {
            Some(length) if length > limit as u64 => Err(Fault::TooLarge { limit }),
            _ => Ok(()),
        }
    }
}

/// Goes around every handler, and around what answers where there is none.
pub(crate) async fn around(
    State(gatekeeper): State<Arc<Gatekeeper>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let from = gatekeeper.locate(&mut request);
    let method = name_of(request.method());
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or_else(|| NO_ROUTE.to_owned(), |route| route.as_str().to_owned());
    let id = request_id();

    let response = match gatekeeper.admit(&request, from) {
        Ok(()) => next.run(request).await,
        Err(fault) => fault.into_response(),
    };
    let mut response = render(response, &id);
    let status = response.status();
    let took = began.elapsed();
    gatekeeper
        .metrics
        .request(&route, method, status.as_u16(), took);
    tracing::debug!(
        id,
        %from,
        method,
        route,
        status = status.as_u16(),
        took_us = took.as_micros(),
        "request"
    );
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        // The console says more exactly what its pages may.
        headers.entry(name).or_insert(value);
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    response
}

/// Methods by their names, strangers' under one.
fn name_of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// A name for the log, never the asker's: what they send does not get there.
fn request_id() -> String {
    let mut random = [0; 8];
    // It is no secret; without random bytes it is just not told apart.
    let _ = getrandom::fill(&mut random);
    format!("{:016x}", u64::from_be_bytes(random))
}

/// A plain answer for people and load balancers.
pub(crate) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
    (status, headers, text.into()).into_response()
}
