//! Addresses, permissions, applications and conditions as people write them: on the command line, in
//! `access.toml`, in forms and in tables.

mod allow;
mod applications;
mod paths;
mod within;

pub use allow::{Allowed, allowed, filters, parse_all_allowed, parse_allowed};
pub use applications::{applications, parse_applications};
pub use culvert_policy::conditions::{
    ConditionTexts, FIELDS as CONDITION_FIELDS, Field as ConditionField, Input,
    in_words as conditions, parse_window,
};
pub use paths::{PathFacts, why_not_direct};
pub use within::{ANYWHERE, parse_within, within, within_warning};

use crate::model::TargetKind;
use std::net::IpAddr;

/// The name of a policy that nobody named.
#[must_use]
pub fn policy_name(group: &str, resource: &str) -> String {
    format!("{group} may use {resource}")
}

/// The names of time zones that people choose from, in order.
#[must_use]
pub fn time_zones() -> Vec<String> {
    culvert_policy::Zone::names()
}

/// The name of a time zone as the database spells it.
///
/// # Errors
/// There is none of that name.
pub fn parse_time_zone(text: &str) -> Result<String, String> {
    let zone = text.trim().parse::<culvert_policy::Zone>();
    let zone = zone.map_err(|error| error.to_string())?;
    Ok(zone.name().to_owned())
}

/// The names of countries that people choose from, in order.
#[must_use]
pub fn countries() -> Vec<String> {
    let names = culvert_policy::conditions::Country::names();
    names.map(|(_, name)| name.to_owned()).collect()
}

/// The kind of an address, by its form.
#[must_use]
pub fn target_kind(address: &str) -> TargetKind {
    if address.contains('/') {
        TargetKind::Cidr
    } else if address.trim().parse::<IpAddr>().is_ok() {
        TargetKind::Address
    } else {
        TargetKind::Dns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_an_address_says_what_it_is() {
        for (address, kind) in [
            ("10.0.0.0/8", TargetKind::Cidr),
            ("fd00::/8", TargetKind::Cidr),
            ("10.1.2.3", TargetKind::Address),
            ("fd00::1", TargetKind::Address),
            ("db.corp.example", TargetKind::Dns),
            ("**.corp.example", TargetKind::Dns),
        ] {
            assert_eq!(target_kind(address), kind, "{address}");
        }
    }
}
