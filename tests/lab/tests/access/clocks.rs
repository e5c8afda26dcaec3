//! Machines whose clocks are wrong, and are put right.

use crate::common::{Bed, WEB_PORT};
use culvert_lab::product::PRIVATE_V4;
use std::path::Path;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/access/clock.c");

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 60 * MINUTE_S;
const DAY_S: i64 = 24 * HOUR_S;
const YEAR_S: i64 = 365 * DAY_S;

/// Makes the library that shifts the clock of a program, at this path.
pub(crate) fn build_library(path: &Path) {
    let line = format!("cc -shared -fPIC -O1 -o {} {SOURCE} -ldl", path.display());
    culvert_lab::run(&line).unwrap();
}

/// The problem of a clock that is off by so much, if that is worth one.
fn problem(shift_s: i64) -> Option<&'static str> {
    match shift_s {
        61.. => Some("ahead of the portal's"),
        ..=-61 => Some("behind the portal's"),
        _ => None,
    }
}

#[test]
fn a_client_that_restarts_is_let_in_whatever_its_clock_showed_before() {
    let mut bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let library = bed.product.dir().join("clock.so");
    build_library(&library);
    // A clock that is ahead and is put right, one that starts in the past, and what lies between.
    for shift_s in [
        2 * HOUR_S,
        0,
        -20 * YEAR_S,
        0,
        10 * YEAR_S,
        3 * DAY_S,
        -HOUR_S,
        4,
        0,
        -4,
        2 * MINUTE_S,
        -2 * MINUTE_S,
        0,
    ] {
        let client = &mut bed.product.client;
        client.kill().unwrap();
        client.machine = format!(
            "export LD_PRELOAD={} CLOCK_SHIFT_S={shift_s}",
            library.display()
        );
        client.start().unwrap();
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT)
            .unwrap_or_else(|error| panic!("{shift_s} s: {error}"));
        let problems = bed.product.client.status().unwrap()["problems"].to_string();
        match problem(shift_s) {
            Some(problem) => assert!(problems.contains(problem), "{shift_s} s: {problems}"),
            None => assert!(!problems.contains("clock"), "{shift_s} s: {problems}"),
        }
    }
}
