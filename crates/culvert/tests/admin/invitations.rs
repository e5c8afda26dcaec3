//! `culvert admin actor invite`.

use crate::scene::{Portal, write_secret};
use serde_json::Value;

/// The secret of a link, of which a command printed nothing else.
#[track_caller]
fn secret_of(said: &str) -> String {
    let line = said.strip_suffix('\n').unwrap();
    let (before, secret) = line.split_once("/invitation/").unwrap();
    assert!(before.starts_with("https://"), "{said}");
    assert_eq!(secret.len(), 64, "{said}");
    secret.to_owned()
}

#[test]
fn a_person_is_invited_by_a_link_that_is_printed_alone_and_once() {
    let (_portal, shell) = Portal::with_office();
    let invite = "actor invite grace --role auditor --group build";
    let first = secret_of(&shell.line(invite).ok());
    let shown = shell.line("actor show grace").ok();
    assert!(
        shown.contains("invited:") && shown.contains("until 20"),
        "{shown}"
    );
    let list = shell.line("actor list").ok();
    let row = list.lines().find(|row| row.contains("grace")).unwrap();
    assert!(row.ends_with("invited"), "{row}");
    let members = shell.line("group show build").ok();
    assert!(members.contains("grace"), "{members}");

    // A person who exists gets another link, and keeps role and groups.
    let second = secret_of(&shell.line("actor invite Grace").ok());
    assert_ne!(first, second);
    let json = shell.json(&["actor", "invite", "grace"]);
    assert_eq!(json["actor"]["sign_in"]["role"], "auditor");
    assert!(json["link"].as_str().unwrap().contains("/invitation/"));
    assert!(json["ends"].is_string(), "{json}");
    let said = shell.line(invite).fails(2);
    assert!(said.contains("group add-member"), "{said}");
    shell.line("actor invite grace --role owner").fails(1);
    shell.line("actor invite ci").fails(1);

    shell.line("actor withdraw-invitation grace").ok();
    let shown = shell.json(&["actor", "show", "grace"]);
    assert_eq!(shown["sign_in"]["invitation_ends"], Value::Null);
    shell.line("actor withdraw-invitation nobody").fails(1);
    // No log has a link.
    let log = shell.line("log changes --json").ok();
    assert!(!log.contains(&first) && !log.contains(&second), "{log}");
}

#[test]
fn a_common_password_is_refused_by_the_command_line_as_well() {
    let (portal, shell) = Portal::set_up();
    let path = portal.path("password");
    for (password, reason) in [
        ("passwordpassword", "repeats"),
        ("qwertyuiop12", "common"),
        ("ada", "12 to 256 characters"),
    ] {
        write_secret(&path, password);
        let words = ["password", "ada", "--role", "owner", "--password-file"];
        let words = [&words[..], &[path.to_str().unwrap()]].concat();
        let said = shell.run(&words).fails(1);
        assert!(said.contains(reason), "{said}");
    }
}
