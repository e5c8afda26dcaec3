//! The datagrams of a client's gate that come in parts.

use crate::gate::early::Early;
use crate::gate::fragments::Fragments;
use crate::gate::seed::Seed;

/// Datagrams that come in parts.
#[derive(Debug)]
pub(super) struct Fragmented {
    /// The flows of those whose first fragment has passed.
    pub(super) admitted: Fragments,
    /// Later fragments that came before the first one.
    pub(super) early: Early,
}

impl Fragmented {
    pub(super) fn new(seed: Seed) -> Self {
        Self {
            admitted: Fragments::new(seed),
            early: Early::default(),
        }
    }
}
