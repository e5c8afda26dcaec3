//! Resources, conditions and evaluation, held against models that search everything.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod access;
mod names;
mod resources;
mod texts;
mod time;
