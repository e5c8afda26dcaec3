//! A barrier around a process, as far as it was closed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a barrier around this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub enum Barrier {
    /// It is.
    Closed,
    /// As far as this kernel can; why not all of it.
    Partly(String),
    /// It is not, and why.
    Open(String),
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Partly(why) => write!(f, "closed in part ({why})"),
            Self::Open(why) => write!(f, "open ({why})"),
        }
    }
}
