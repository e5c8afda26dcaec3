//! The SQL statements behind calls of a store. sqlx tells each at its level of debugging, in the span of the call that
//! asked for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Current, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Span, Subscriber};

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
    metadata: &'static Metadata<'static>,
}

static TOLD: LazyLock<Mutex<Told>> = LazyLock::new(Mutex::default);

thread_local! {
    /// The calls that this thread is in.
    static CALLS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Statements {
    /// Begins to count. Stores of other tests are left alone: only calls of counted ones have a span.
    pub(crate) fn begin() -> Self {
        static STORES: AtomicU64 = AtomicU64::new(1);
        // Every test that counts asks for it; the first one gets it for all.
        let _ = tracing::subscriber::set_global_default(Listener);
        Self {
            store: STORES.fetch_add(1, Relaxed),
        }
    }

    /// The span of a call.
    pub(crate) fn span(&self, method: &'static str) -> Span {
        let span = tracing::debug_span!(target: OF_CALLS, "call");
        if let (Some(id), Some(metadata)) = (span.id(), span.metadata()) {
            let call = Call {
                store: self.store,
                method,
                metadata,
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

impl Listener {
    fn call() -> Option<Call> {
        let id = CALLS.with_borrow(|calls| calls.last().copied())?;
        TOLD.lock().unwrap().calls.get(&id).copied()
    }
}

impl Subscriber for Listener {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.target() {
            OF_CALLS => Interest::always(),
            OF_SQLX => Interest::sometimes(),
            _ => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        match metadata.target() {
            OF_CALLS => true,
            OF_SQLX => CALLS.with_borrow(|calls| !calls.is_empty()),
            _ => false,
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        static SPANS: AtomicU64 = AtomicU64::new(1);
        Id::from_u64(SPANS.fetch_add(1, Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let Some(call) = Self::call() else {
            return;
        };
        let mut text = Text::default();
        event.record(&mut text);
        let statement = Statement {
            method: call.method,
            sql: text.sql(),
        };
        let mut told = TOLD.lock().unwrap();
        told.statements
            .entry(call.store)
            .or_default()
            .push(statement);
    }

    fn enter(&self, span: &Id) {
        CALLS.with_borrow_mut(|calls| calls.push(span.into_u64()));
    }

    fn exit(&self, _: &Id) {
        CALLS.with_borrow_mut(Vec::pop);
    }

    fn current_span(&self) -> Current {
        let id = CALLS.with_borrow(|calls| calls.last().copied());
        match (id, Self::call()) {
            (Some(id), Some(call)) => Current::new(Id::from_u64(id), call.metadata),
            _ => Current::none(),
        }
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
