//! The primitives that threads share. `tests/models` translates the modules that use it with loom's in place of these.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
