//! Every interleaving of what threads of the data plane share, looked at by [loom].
//!
//! The modules are those that the product is made of, translated with loom's atomics and locks in place of
//! the standard library's. Loom runs a model once for each order in which its threads may see each
//! other's writes, as the memory model of C11 allows them.
//!
//! [loom]: https://docs.rs/loom

#![forbid(unsafe_code)]
#![cfg(test)]

mod client_flows;
mod counters;
mod published;
mod turns;
mod wake;
mod window;

/// The modules that the product's modules find in place of their own crate.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}
mod constants {
    pub(crate) use culvert_session::{REJECT_AFTER_MESSAGES, REKEY_AFTER_MESSAGES};
}
mod replay {
    pub(crate) use culvert_session::{ReplayVerdict, ReplayWindow};
}

/// The most times that a thread is interrupted where it need not be. Two show every fault that is known of
/// code like this (Musuvathi and Qadeer, "Iterative Context Bounding", 2007).
const MAX_PREEMPTIONS: usize = 3;

/// Looks at every interleaving of `model`.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(MAX_PREEMPTIONS);
    builder.check(model);
}
