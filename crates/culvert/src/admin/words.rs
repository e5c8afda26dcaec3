//! Texts as people write them, on the command line and in the console.

pub(super) use culvert_portal_base::{
    Ago, Ahead, Lifetime, now, parse_ago, parse_ahead, parse_lifetime,
};
pub(super) use culvert_wire::words::{
    Allowed, CONDITION_FIELDS, ConditionField, ConditionTexts, Input, allowed, applications,
    conditions, filters, parse_allowed, parse_applications, policy_name, target_kind, within,
};
