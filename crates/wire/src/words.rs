//! Addresses, permissions, applications and conditions as people write them: on the command line, in
//! `access.toml`, in forms and in tables.

mod allow;
mod applications;
mod within;

pub use allow::{Allowed, allowed, filters, parse_allowed};
pub use applications::{applications, parse_applications};
pub use culvert_policy::conditions::{
    ConditionTexts, FIELDS as CONDITION_FIELDS, Field as ConditionField, Input,
    in_words as conditions,
};
pub use within::{ANYWHERE, parse_within, within, within_warning};

use crate::model::TargetKind;
use std::net::IpAddr;

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
