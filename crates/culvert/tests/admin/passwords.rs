//! Passwords of people who sign in to the console: where they come from, and what may not be seen of them.

use crate::scene::{Portal, write_secret};
use crate::terminal::asked;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

const PASSWORD: &str = " correct horse battery ";

#[test]
fn a_password_comes_from_a_file_that_nobody_else_reads() {
    let (portal, shell) = Portal::set_up();
    shell.line("actor create eve --kind admin").ok();
    let file = portal.path("eve.password");
    write_secret(&file, &format!("{PASSWORD}\n"));
    let path = file.to_str().unwrap();
    let said = shell.run(&["password", "eve", "--password-file", path]);
    assert!(said.fails(2).contains("--role"));
    let words = [
        "password",
        "eve",
        "--role",
        "admin",
        "--password-file",
        path,
    ];
    let said = shell.run(&words).ok();
    assert!(
        said.contains("signs in") && !said.contains("horse"),
        "{said}"
    );
    let shown = shell.line("actor show eve").ok();
    assert!(shown.contains("by password alone"), "{shown}");
    let json = shell.json(&["actor", "show", "eve"]).to_string();
    assert!(json.contains("\"role\":\"admin\"") && !json.contains("horse"));

    // The role stays without one given.
    write_secret(&file, "another horse battery");
    shell
        .line(&format!("password eve --password-file {path}"))
        .ok();
    let json = shell.json(&["actor", "show", "eve"]).to_string();
    assert!(json.contains("\"role\":\"admin\""), "{json}");

    std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let refused = shell.run(&words).fails(2);
    assert!(refused.contains("eve.password"), "{refused}");
    for bad in ["", "\n", "two\nlines that are long enough", "short"] {
        write_secret(&file, bad);
        let refused = shell.run(&words);
        assert!(!refused.0.status.success(), "{bad:?}");
        let error = String::from_utf8_lossy(&refused.0.stderr).into_owned();
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(!error.contains("lines that"), "{error}");
    }
}

#[test]
fn the_role_of_a_person_changes_without_another_password() {
    let (portal, shell) = Portal::set_up();
    shell.line("actor create eve --kind user").ok();
    let refused = shell.line("actor set eve --role admin").fails(2);
    assert!(refused.contains("culvert admin password"), "{refused}");
    let file = portal.path("eve.password");
    write_secret(&file, PASSWORD);
    let path = file.to_str().unwrap();
    shell
        .run(&["password", "eve", "--password-file", path])
        .ok();
    for role in ["admin", "owner", "auditor", "user"] {
        let said = shell.line(&format!("actor set eve --role {role}")).ok();
        assert!(said.contains(&format!("signs in as {role} now")), "{said}");
        let json = shell.json(&["actor", "show", "eve"]);
        let json = json.to_string();
        assert!(json.contains(&format!("\"role\":\"{role}\"")), "{json}");
        assert!(json.contains("\"kind\":\"user\""), "{json}");
    }
    let stale = shell.line("actor set eve --role admin --if-version 1");
    assert!(!stale.0.status.success());
    let both = shell.line("actor set eve --role admin --disable");
    assert_eq!(both.0.status.code(), Some(2));
}

#[test]
fn a_password_is_typed_twice_and_never_shown() {
    let (_portal, shell) = Portal::set_up();
    let words = ["password", "ada", "--role", "owner"];
    let said = shell.run(&words).fails(2);
    assert!(said.contains("--password-file"), "{said}");
    for (again, status) in [("something else here", 2), (PASSWORD, 0)] {
        let reply = format!("{PASSWORD}\n{again}\n");
        let (shown, ended) = asked(shell.command(&words), "then Enter:", || {}, &reply);
        assert_eq!(ended, Some(status), "{shown}");
        assert!(
            !shown.contains("horse") && !shown.contains("something"),
            "{shown}"
        );
    }
    let words = ["password", "ada", "--password-file", "-"];
    shell.given(&words, PASSWORD).ok();
    let mut words = words.to_vec();
    words.extend(["--token-file", "-"]);
    shell.given(&words, PASSWORD).fails(2);
}

#[test]
fn an_owner_may_begin_with_a_password() {
    let portal = Portal::start();
    let shell = portal.shell("owner");
    let file = portal.path("ada.password");
    write_secret(&file, "short");
    let path = file.to_str().unwrap();
    let words = [
        "setup",
        "--token-file",
        "-",
        "--owner",
        "ada",
        "--password-file",
        path,
    ];
    let refused = shell.given(&words, &portal.setup_token);
    assert!(!refused.0.status.success(), "{refused:?}");
    write_secret(&file, PASSWORD);
    shell.given(&words, &portal.setup_token).ok();
    let shown = shell.line("actor show ada").ok();
    assert!(shown.contains("by password alone"), "{shown}");
}

#[test]
fn a_second_factor_is_required_and_taken_away_from_the_command_line() {
    let (_portal, shell) = Portal::set_up();
    let shown = shell.line("account show").ok();
    assert!(shown.contains("second factor"), "{shown}");
    let set = "account set --second-factor administrators";
    shell.line(set).ok();
    let json = shell.json(&["account", "show"]).to_string();
    assert!(
        json.contains("\"second_factor\":\"administrators\""),
        "{json}"
    );
    let refused = shell.line("account set --second-factor sometimes");
    assert_eq!(refused.0.status.code(), Some(2));
    let said = shell.line("actor reset-second-factor ada").ok();
    assert!(said.contains("password alone"), "{said}");
    shell.line("actor reset-second-factor nobody").fails(1);
}
