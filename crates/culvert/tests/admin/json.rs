//! JSON of every command that lists or shows something.

use crate::scene::{Portal, Shell, enrol_client, enrol_gateway, stay_gateway};
use serde_json::Value;

/// The words of commands that a command of the command line has.
fn commands_of(shell: &Shell, of: &str) -> Vec<String> {
    let line = format!("{of} --help");
    let help = shell.line(line.trim_start()).ok();
    let Some((_, commands)) = help.split_once("Commands:\n") else {
        return Vec::new();
    };
    let lines = commands.lines().take_while(|line| line.starts_with("  "));
    // The text of a command goes on in lines that are indented further.
    let lines = lines.filter(|line| !line.starts_with("   "));
    let words = lines.filter_map(|line| line.split_whitespace().next());
    words.map(str::to_owned).collect()
}

/// The example of a command that shows one thing. A new one needs one here.
fn example(kind: &str) -> &'static str {
    match kind {
        "actor" => "ci",
        "client" => "laptop",
        "gateway" => "gate",
        "group" => "build",
        "policy" => "build-db",
        "provider" => "Example",
        "resource" => "db",
        "sink" => "archive",
        "site" => "office",
        "token" => "clients",
        "account" | "dns" | "retention" => "",
        other => panic!("`{other} show` has no example: add one"),
    }
}

#[test]
fn every_command_that_lists_or_shows_prints_one_line_of_json_with_its_schema_version() {
    let (_portal, shell) = Portal::with_office();
    for line in [
        "policy create build-db --group build --resource db",
        "provider create Example --issuer https://id.example --client-id culvert",
        "sink create archive --file archive.jsonl",
    ] {
        shell.line(line).ok();
    }
    let token = shell
        .line("token create --kind client --actor ci --name clients")
        .ok();
    enrol_client(&token, "laptop");
    let token = shell.line("token create --kind gateway --site office").ok();
    enrol_gateway(&token, "gate");

    let mut tried = Vec::new();
    for kind in commands_of(&shell, "") {
        for word in commands_of(&shell, &kind) {
            let line = match &*word {
                "list" => format!("{kind} list"),
                "show" => format!("{kind} show {}", example(&kind)),
                _ => continue,
            };
            let line = line.trim_end();
            let said = shell.line(&format!("{line} --json")).ok();
            assert!(
                said.starts_with(r#"{"schema_version":1,"#),
                "{line}: {said}"
            );
            assert_eq!(said.lines().count(), 1, "{line}: {said}");
            let json: Value = serde_json::from_str(&said).unwrap();
            assert_eq!(json["items"].is_array(), word == "list", "{line}: {said}");
            tried.push(line.to_owned());
        }
    }
    assert!(tried.len() >= 19, "{tried:?}");
    for line in ["status", "explain --client laptop --resource db"] {
        let said = shell.line(&format!("{line} --json")).0;
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(
            said.starts_with(r#"{"schema_version":1,"#),
            "{line}: {said}"
        );
    }
    for log in ["changes", "access", "flows"] {
        let said = shell.line(&format!("log {log} --json")).ok();
        for line in said.lines() {
            assert!(line.starts_with(r#"{"schema_version":1,"#), "{log}: {line}");
        }
    }
}

#[test]
fn lists_of_machines_say_which_are_connected_since_when_and_their_version() {
    let (_portal, shell) = Portal::with_office();
    let token = shell.line("token create --kind gateway --site office").ok();
    enrol_gateway(&token, "away");
    let _session = stay_gateway(&token, "here");
    let json = shell.json(&["gateway", "list"]);
    for item in json["items"].as_array().unwrap() {
        let is_here = item["name"] == "here";
        assert_eq!(item["connected"], is_here, "{item}");
        assert_eq!(item["connected_since"].is_string(), is_here, "{item}");
        assert!(item["software"].is_string(), "{item}");
    }
    let table = shell.line("gateway list").ok();
    let head = table.lines().next().unwrap();
    for column in ["CONNECTED", "SINCE", "VERSION"] {
        assert!(head.contains(column), "{head}");
    }
    let table = shell.line("client list").ok();
    for column in ["CONNECTED", "SINCE", "VERSION"] {
        assert!(table.contains(column), "{table}");
    }
}
