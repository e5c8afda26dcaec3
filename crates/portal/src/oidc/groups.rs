//! The groups that a provider says somebody is in, or the reason why they are not known.

use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// Values of the groups' claim that are looked at: the largest directories put some hundreds into a token.
const MAX_GROUPS: usize = 1_000;

/// The groups of somebody at the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// The values of the claim.
    Listed(BTreeSet<String>),
    /// The provider could not be asked, and why.
    Unknown(String),
}

/// What one answer of a provider says of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    Listed(BTreeSet<String>),
    Absent,
}

/// Reads the claim of that name.
pub(super) fn read(all: &Map<String, Value>, name: &str) -> Reading {
    let claim = all.get(name).cloned();
    claim.map_or(Reading::Absent, |claim| Reading::Listed(values(claim)))
}

/// One value, or several; whatever is no text names no group.
fn values(claim: Value) -> BTreeSet<String> {
    match claim {
        Value::String(one) => [one].into(),
        Value::Array(all) => {
            let texts = all.into_iter().take(MAX_GROUPS);
            let texts = texts.filter_map(|value| value.as_str().map(str::to_owned));
            texts.collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => BTreeSet::new(),
    }
}
