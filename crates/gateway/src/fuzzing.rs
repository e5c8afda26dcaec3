//! The reading of DNS answers without a resolver, for the fuzz targets (feature `fuzzing`). No program calls it.

pub use crate::shell::resolution;
