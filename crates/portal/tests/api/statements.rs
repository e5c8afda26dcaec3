//! The SQL statements behind calls of a store. sqlx tells each at its level of debugging, in the span of the call that
//! asked for it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Span, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// The target of sqlx's own events.
const OF_SQLX: &str = "sqlx::query";
/// The target of the spans of counted calls.
const OF_CALLS: &str = "counted_calls";

/// A statement, and the method of the store that ran it.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) method: &'static str,
    pub(crate) sql: String,
}

/// The statements of one store, from the moment at which they are counted.
#[derive(Debug)]
pub(crate) struct Statements {
    store: u64,
}

/// Calls of counted stores, and their statements. The process has one, as it has one subscriber.
#[derive(Default)]
struct Told {
    calls: HashMap<u64, Call>,
    statements: HashMap<u64, Vec<Statement>>,
}

#[derive(Clone, Copy)]
struct Call {
    store: u64,
    method: &'static str,
}

static TOLD: LazyLock<Mutex<Told>> = LazyLock::new(Mutex::default);

impl Statements {
    /// Begins to count. Stores of other tests are left alone: only calls of counted ones have a span.
    pub(crate) fn begin() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(1);
        // Every test that counts asks for it; the first one gets it for all.
        let _ = tracing::subscriber::set_global_default(Registry::default().with(Listener));
        Self {
            store: STORES.fetch_add(1, Relaxed),
        }
    }

    /// The span of a call.
    pub(crate) fn span(&self, method: &'static str) -> Span {
        let span = tracing::debug_span!(target: OF_CALLS, "call");
        if let Some(id) = span.id() {
            let call = Call {
                store: self.store,
                method,
            };
            TOLD.lock().unwrap().calls.insert(id.into_u64(), call);
        }
        span
    }

    /// Those since the last time.
    pub(crate) fn take(&self) -> Vec<Statement> {
        let mut told = TOLD.lock().unwrap();
        told.statements.remove(&self.store).unwrap_or_default()
    }
}

struct Listener;

impl<S> Layer<S> for Listener
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.target() {
            OF_CALLS => Interest::always(),
            OF_SQLX => Interest::sometimes(),
            _ => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        match metadata.target() {
            OF_CALLS => true,
            OF_SQLX => context.lookup_current().is_some(),
            _ => false,
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.lookup_current() else {
            return;
        };
        let mut text = Text::default();
        event.record(&mut text);
        let mut told = TOLD.lock().unwrap();
        let Some(call) = told.calls.get(&span.id().into_u64()).copied() else {
            return;
        };
        let statement = Statement {
            method: call.method,
            sql: text.sql(),
        };
        told.statements
            .entry(call.store)
            .or_default()
            .push(statement);
    }
}

/// The text of a statement: a short one is its own summary.
#[derive(Default)]
struct Text {
    summary: String,
    whole: String,
}

impl Text {
    fn sql(&self) -> String {
        let whole = match self.whole.trim() {
            "" => &self.summary,
            whole => whole,
        };
        whole.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "summary" => value.clone_into(&mut self.summary),
            "db.statement" => value.clone_into(&mut self.whole),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}
