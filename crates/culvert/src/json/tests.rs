//! Every command has `--json`, and all JSON comes from one place.

use super::*;
use crate::arguments::Arguments;
use clap::{Command, CommandFactory};
use std::path::Path;

/// Commands without `--json`, each with the reason.
const WITHOUT: &[(&str, &str)] = &[
    ("culvert client run", "a service: it prints a log"),
    ("culvert completions", "it prints a script for a shell"),
    ("culvert gateway run", "a service: it prints a log"),
    ("culvert man-pages", "it writes files and prints nothing"),
    (
        "culvert portal openapi",
        "what it prints is JSON, in the form of OpenAPI",
    ),
    ("culvert portal run", "a service: it prints a log"),
    ("culvert relay run", "a service: it prints a log"),
    ("culvert run", "what it prints is another program's"),
];

#[derive(Serialize)]
struct Items<'a> {
    items: &'a [u8],
}

#[test]
fn a_line_has_its_schema_version_first() {
    let line = line(&Items { items: &[1, 2] }).unwrap();
    assert_eq!(line, "{\"schema_version\":1,\"items\":[1,2]}\n");
    assert!(line.starts_with(&start()));
}

#[test]
fn every_command_has_json_or_a_reason_why_not() {
    fn visit(command: &Command, parent: &str, without: &mut Vec<String>) {
        let path = format!("{parent}{}", command.get_name());
        if command.has_subcommands() {
            for below in command.get_subcommands() {
                visit(below, &format!("{path} "), without);
            }
            return;
        }
        let mut arguments = command.get_arguments();
        if !arguments.any(|argument| argument.get_long() == Some("json")) {
            without.push(path);
        }
    }
    let mut root = Arguments::command();
    root.build();
    let mut without = Vec::new();
    visit(&root, "", &mut without);
    without.sort();
    let expected: Vec<_> = WITHOUT.iter().map(|(path, _)| *path).collect();
    assert_eq!(without, expected);
}

/// Each source of the program with its text, without tests.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            let shown = path.display().to_string();
            if !shown.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap().to_owned();
                found.push((shown, text));
            }
        }
    }
    found
}

#[test]
fn json_is_made_in_one_place_so_that_no_line_lacks_its_schema_version() {
    // The answer of a running interface, which `wg show` passes on, has its version itself.
    let places = ["src/json.rs", "src/wg/apply.rs"];
    let sources = sources();
    assert!(sources.len() > 100, "{}", sources.len());
    for (path, text) in sources {
        let makes = ["serde_json::to_string", "serde_json::to_vec", "to_writer"];
        let makes_json = makes.iter().any(|word| text.contains(word));
        assert_eq!(
            makes_json,
            places.iter().any(|place| path.ends_with(place)),
            "{path}: JSON is for `crate::json` to make"
        );
    }
}

#[test]
fn no_text_for_people_is_debug_output() {
    for (path, text) in sources() {
        for form in [":?}", ":#?}"] {
            assert!(!text.contains(form), "{path} has {form}: take `quoted`");
        }
    }
}
