//! The portal's metrics, in the text format of Prometheus.

use super::class::Class;
use super::portal_metrics::PortalMetrics;
use culvert_hub::HubStatus;
use culvert_store::StoreError;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The media type of [`Metrics::render`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Bounds of the histograms in seconds: from what a cached read takes to what a client waits for.
const SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];

/// Everything that the portal counts.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Route, Counter>,
    request_seconds: Family<RouteOnly, Histogram>,
    store_seconds: Family<Operation, Histogram>,
    store_errors: Family<Operation, Counter>,
    connections: Family<OfClass, Gauge>,
    connections_evicted: Family<OfClass, Counter>,
    sign_ins_evicted: Family<OfTable, Counter>,
    /// Connections that were refused because their own network has as many as it may.
    pub(crate) connections_refused: Counter,
    /// Requests whose trusted proxy did not say readably where they came from.
    pub proxies_unreadable: Counter,
    /// TLS handshakes that failed or took too long.
    pub handshakes_failed: Counter,
    /// Requests that an address was refused by its rate limit.
    pub rate_limited: Counter,
    /// Tokens that were not accepted.
    pub denied_tokens: Counter,
    /// The state of the sessions.
    pub live: LiveMetrics,
    /// The state of the portals of the database.
    pub portals: PortalMetrics,
}

/// The records of sessions that are not written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnwrittenRecords {
    /// Records that wait for the database, each with one or several lines.
    pub waiting: u64,
    /// Lines and grants that could wait no longer.
    pub lost: u64,
}

/// The state of the sessions, set before it is shown.
#[derive(Debug, Default)]
pub struct LiveMetrics {
    clients: Gauge,
    gateways: Gauge,
    gateways_awaiting_verification: Gauge,
    relays: Gauge,
    grants: Gauge,
    asks: Gauge,
    faults: Gauge,
    feed_seq: Gauge,
    feed_lag: Gauge,
    ready: Gauge,
    records_waiting: Gauge,
    granted: Counter,
    denied: Counter,
    revoked: Counter,
    offers_refused: Counter,
    offers_timed_out: Counter,
    ignored: Counter,
    overflows: Counter,
    untold: Counter,
    records_lost: Counter,
}

impl LiveMetrics {
    /// Notes how the sessions are.
    pub fn set(&self, ready: bool, hub: &HubStatus, feed_lag: u64, unwritten: UnwrittenRecords) {
        self.ready.set(i64::from(ready));
        for (gauge, value) in [
            (&self.clients, hub.clients as u64),
            (&self.gateways, hub.gateways as u64),
            (
                &self.gateways_awaiting_verification,
                hub.gateways_awaiting_verification as u64,
            ),
            (&self.relays, hub.relays as u64),
            (&self.grants, hub.grants as u64),
            (&self.asks, hub.asks as u64),
            (&self.faults, hub.faults as u64),
            (&self.feed_seq, hub.seq.0),
            (&self.feed_lag, feed_lag),
            (&self.records_waiting, unwritten.waiting),
        ] {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        let counted = hub.counters;
        for (counter, value) in [
            (&self.granted, counted.granted),
            (&self.denied, counted.denied),
            (&self.revoked, counted.revoked),
            (&self.offers_refused, counted.offers_refused),
            (&self.offers_timed_out, counted.offers_timed_out),
            (&self.ignored, counted.ignored),
            (&self.overflows, counted.overflows),
            (&self.untold, counted.untold_resources),
            (&self.records_lost, unwritten.lost),
        ] {
            // Both only count up.
            counter.inner().store(value, Ordering::Relaxed);
        }
    }

    fn register(&self, to: &mut Registry) {
        for (gauge, name, help) in [
            (&self.clients, "clients_connected", "Connected clients"),
            (&self.gateways, "gateways_connected", "Connected gateways"),
            (
                &self.gateways_awaiting_verification,
                "gateways_awaiting_verification",
                "Connected gateways that wait to be verified by an administrator",
            ),
            (&self.relays, "relays_connected", "Connected relays"),
            (&self.grants, "grants", "Grants that are out"),
            (
                &self.asks,
                "requests_for_access",
                "Requests for access under way",
            ),
            (
                &self.faults,
                "configuration_faults",
                "Rows of the configuration that can't be understood and allow nothing",
            ),
            (
                &self.feed_seq,
                "feed_seq",
                "The last change of the configuration that the sessions know",
            ),
            (
                &self.feed_lag,
                "feed_lag",
                "Changes that the sessions do not know yet, counted up to 1000",
            ),
            (
                &self.records_waiting,
                "records_waiting",
                "Records that wait for the database, such as lines of the access log",
            ),
            (
                &self.ready,
                "ready",
                "1 where the portal serves: database, feed and sessions",
            ),
        ] {
            to.register(name, help, gauge.clone());
        }
        for (counter, name, help) in [
            (&self.granted, "granted", "Grants that gateways took"),
            (
                &self.denied,
                "denied",
                "Requests for access that were denied",
            ),
            (&self.revoked, "revoked", "Grants that were taken back"),
            (
                &self.offers_refused,
                "grants_refused",
                "Grants that gateways did not take",
            ),
            (
                &self.offers_timed_out,
                "grants_unanswered",
                "Grants that gateways did not answer in time",
            ),
            (
                &self.ignored,
                "messages_ignored",
                "Messages about what is not the sender's",
            ),
            (
                &self.overflows,
                "sessions_overflowed",
                "Sessions ended because too much waited for them",
            ),
            (
                &self.records_lost,
                "records_lost",
                "Lines of logs and grants that were never written down, since too many waited",
            ),
            (
                &self.untold,
                "resources_untold",
                "Resources that a client was not told of, since it knows as many as it may",
            ),
        ] {
            to.register(name, help, counter.clone());
        }
    }
}

/// A route, never a path: what a stranger asks for makes no new series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: String,
    method: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfClass {
    class: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTable {
    table: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteOnly {
    route: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing is counted yet.
    pub fn new() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let mut metrics = Self {
            registry: Registry::with_prefix("culvert_portal"),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(seconds),
            store_seconds: Family::new_with_constructor(seconds),
            store_errors: Family::default(),
            connections: Family::default(),
            connections_evicted: Family::default(),
            sign_ins_evicted: Family::default(),
            connections_refused: Counter::default(),
            proxies_unreadable: Counter::default(),
            handshakes_failed: Counter::default(),
            rate_limited: Counter::default(),
            denied_tokens: Counter::default(),
            live: LiveMetrics::default(),
            portals: PortalMetrics::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let to = &mut self.registry;
        to.register(
            "requests",
            "Requests by route, method and status",
            self.requests.clone(),
        );
        to.register_with_unit(
            "request_duration",
            "How long requests took",
            Unit::Seconds,
            self.request_seconds.clone(),
        );
        to.register_with_unit(
            "store_duration",
            "How long the database took",
            Unit::Seconds,
            self.store_seconds.clone(),
        );
        to.register(
            "store_errors",
            "Operations that the database failed",
            self.store_errors.clone(),
        );
        to.register(
            "connections",
            "Open connections by class",
            self.connections.clone(),
        );
        to.register(
            "connections_evicted",
            "Connections closed to make room for those of others, by class",
            self.connections_evicted.clone(),
        );
        to.register(
            "sign_ins_evicted",
            "Entries of tables about signing in that made room for others, by table",
            self.sign_ins_evicted.clone(),
        );
        to.register(
            "proxies_unreadable",
            "Requests whose trusted proxy did not say readably where they came from",
            self.proxies_unreadable.clone(),
        );
        to.register(
            "connections_refused",
            "Connections refused because their own network has as many as it may",
            self.connections_refused.clone(),
        );
        to.register(
            "tls_handshakes_failed",
            "TLS handshakes that failed or took too long",
            self.handshakes_failed.clone(),
        );
        to.register(
            "rate_limited",
            "Requests refused because their address asked too often",
            self.rate_limited.clone(),
        );
        to.register(
            "denied_tokens",
            "Requests whose token was not accepted",
            self.denied_tokens.clone(),
        );
        self.live.register(to);
        self.portals.register(to);
    }

    /// Notes a request that was answered. `route` is a pattern of the router.
    pub fn request(&self, route: &str, method: &'static str, status: u16, took: Duration) {
        let route = route.to_owned();
        self.request_seconds
            .get_or_create(&RouteOnly {
                route: route.clone(),
            })
            .observe(took.as_secs_f64());
        self.requests
            .get_or_create(&Route {
                route,
                method,
                status,
            })
            .inc();
    }

    /// Notes how many connections of a class there are.
    pub(crate) fn connections(&self, class: Class, count: usize) {
        let class = class.name();
        let gauge = self.connections.get_or_create(&OfClass { class });
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Notes that a connection was closed to make room for another.
    pub(crate) fn connection_evicted(&self, class: Class) {
        let class = class.name();
        self.connections_evicted
            .get_or_create(&OfClass { class })
            .inc();
    }

    /// Notes how many entries of tables about signing in have made room for others.
    pub fn sign_ins_evicted(&self, tables: impl IntoIterator<Item = (&'static str, u64)>) {
        for (table, count) in tables {
            let counter = self.sign_ins_evicted.get_or_create(&OfTable { table });
            // It only counts up.
            counter.inner().store(count, Ordering::Relaxed);
        }
    }

    /// The database's answer, and notes how long it took.
    ///
    /// # Errors
    /// That of the answer.
    pub async fn timed<T>(
        &self,
        operation: &'static str,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let began = Instant::now();
        let answer = answer.await;
        let failed = answer.as_ref().is_err_and(StoreError::is_local);
        self.store(operation, began.elapsed(), failed);
        answer
    }

    /// Notes a question to the database.
    fn store(&self, operation: &'static str, took: Duration, failed: bool) {
        let operation = Operation { operation };
        self.store_seconds
            .get_or_create(&operation)
            .observe(took.as_secs_f64());
        if failed {
            self.store_errors.get_or_create(&operation).inc();
        }
    }

    /// Everything, as text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown_by_route_and_status() {
        let metrics = Metrics::new();
        metrics.request("/api/v1/groups/{id}", "GET", 404, Duration::from_millis(3));
        metrics.store("write", Duration::from_millis(2), true);
        let text = metrics.render();
        for line in [
            "culvert_portal_requests_total{route=\"/api/v1/groups/{id}\",method=\"GET\",status=\"404\"} 1",
            "culvert_portal_request_duration_seconds_count{route=\"/api/v1/groups/{id}\"} 1",
            "culvert_portal_store_errors_total{operation=\"write\"} 1",
            "culvert_portal_clients_connected 0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
