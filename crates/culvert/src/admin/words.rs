//! Instants as people write them on the command line; the rest is `culvert_wire::words`,
//! which the console has as well.

mod instant;

pub(super) use culvert_wire::words::{
    Allowed, CONDITION_FIELDS, ConditionField, ConditionTexts, Input, allowed, applications,
    conditions, filters, parse_allowed, parse_applications, target_kind, within,
};
pub(super) use instant::{Ago, Ahead, Lifetime, now, parse_ago, parse_ahead, parse_lifetime};
