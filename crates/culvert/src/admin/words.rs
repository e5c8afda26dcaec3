//! Instants and kinds of conditions as people write them on the command line; the rest is `culvert_wire::words`,
//! which the console has as well.

mod instant;

pub(super) use culvert_wire::words::{
    Allowed, Wanted, allowed, applications, conditions, filters, parse_allowed, parse_applications,
    target_kind, within,
};
pub(super) use instant::{Ago, Ahead, Lifetime, now, parse_ago, parse_ahead, parse_lifetime};

use clap::ValueEnum;
use culvert_wire::model::Condition;

/// Kinds of conditions, by the options that set them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ConditionKind {
    Expires,
    Time,
    FromAddress,
    Country,
    Verified,
}

impl ConditionKind {
    pub(super) const fn of(condition: &Condition) -> Self {
        match condition {
            Condition::Time { .. } => Self::Time,
            Condition::PublicAddress { .. } => Self::FromAddress,
            Condition::Country { .. } => Self::Country,
            Condition::Verified => Self::Verified,
            Condition::Expires { .. } => Self::Expires,
        }
    }
}
