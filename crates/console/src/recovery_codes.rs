//! Recovery codes, as pages show them.

use super::person::Person;
use super::view::{Cell, Link, Page, Section};
use culvert_portal_service::{OwnFactors, RecoveryCodes};

/// The number of codes left, where there may be no second factor, and so none that stands in for it.
pub(super) fn codes_left_if(factors: &OwnFactors) -> Cell {
    match factors.has_any() {
        true => codes_left(factors.recovery_codes),
        false => Cell::text("–"),
    }
}

pub(super) fn codes_left(count: u32) -> Cell {
    match count {
        0 => Cell::bad("none: create new ones"),
        1..=2 => Cell::warn(count),
        _ => Cell::text(count),
    }
}

pub(super) fn codes_page(person: &Person, codes: &RecoveryCodes) -> Page {
    let mut page = person.page("Recovery codes", "/me");
    let lines: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    page.sections = vec![
        Section::Alert(
            "The codes are shown this once. Keep them where you would not lose them together with your \
             phone: each lets you sign in once without it."
                .to_owned(),
        ),
        Section::Copy {
            title: "Recovery codes".to_owned(),
            note: "A line is a code.".to_owned(),
            text: lines.join("\n"),
        },
        Section::Links(vec![Link {
            path: "/me",
            name: "I have kept them",
        }]),
    ];
    page
}
