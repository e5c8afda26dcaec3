//! Atomics that threads share. `tests/models` translates the module that uses it with loom's in place of these.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
