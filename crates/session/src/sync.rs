//! Types that threads share. `tests/models` translates the modules that use it with loom's in place of
//! these.

pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard};
