//! Recovery of an account: the command that the portal's machine prints works.

use crate::scene::{CULVERT, Portal, Said, Shell};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// `culvert portal setup-token` with these words.
fn setup_token(portal: &Portal, words: &[&str]) -> String {
    let mut command = Command::new(CULVERT);
    command
        .args(["portal", "setup-token", "--state-dir"])
        .arg(portal.path("portal"))
        .args(words);
    Said(command.output().unwrap()).ok()
}

/// Runs a line as somebody would who copies it into a shell.
fn run_literally(shell: &Shell, line: &str) -> Said {
    let programs = Path::new(CULVERT).parent().unwrap().display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path);
    command.env("HOME", &shell.home).env("USER", "ada");
    for variable in ["XDG_CONFIG_HOME", "CULVERT_ADMIN_TOKEN"] {
        command.env_remove(variable);
    }
    Said(command.output().unwrap())
}

#[test]
fn the_command_that_setup_token_prints_works_as_it_stands_whoever_there_is_already() {
    let (portal, shell) = Portal::set_up();
    for taken in ["Owner", "owner-2"] {
        shell
            .run(&["actor", "create", taken, "--kind", "user"])
            .ok();
    }
    // The owner's own home, where a token is saved; and the home of somebody who has none.
    for home in [&shell, &portal.shell("somebody")] {
        let printed = setup_token(&portal, &[]);
        let line = printed.lines().find(|line| line.contains("echo"));
        run_literally(home, line.unwrap().trim()).ok();
        home.line("account show").ok();
        assert!(!printed.contains("Then connect a gateway"), "{printed}");
    }
    let actors = shell.line("actor list").ok();
    assert!(
        actors.contains("owner-3") && actors.contains("owner-4"),
        "{actors}"
    );
}

#[test]
fn a_setup_token_for_programs_is_one_line_of_json() {
    let (portal, shell) = Portal::set_up();
    let printed = setup_token(&portal, &["--json"]);
    assert_eq!(printed.lines().count(), 1, "{printed}");
    let json: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["has_owner"], true);
    let owner = json["owner"].as_str().unwrap();
    let token = json["token"].as_str().unwrap();
    let setup = ["setup", "--token-file", "-", "--replace", "--owner", owner];
    shell.given(&setup, token).ok();
}

#[test]
fn an_owner_with_a_name_that_is_taken_is_told_of_owner_and_keeps_the_token() {
    let (portal, shell) = Portal::set_up();
    let json: Value = serde_json::from_str(&setup_token(&portal, &["--json"])).unwrap();
    let token = json["token"].as_str().unwrap();
    let setup = |owner| ["setup", "--token-file", "-", "--replace", "--owner", owner];
    let error = shell.given(&setup("ADA"), token).fails(1);
    assert!(error.contains("already an actor named"), "{error}");
    assert!(error.contains("--owner NAME"), "{error}");
    shell.given(&setup("grace"), token).ok();
}

#[test]
fn a_first_start_where_a_token_is_saved_already_names_a_command_that_exists() {
    let (portal, shell) = Portal::set_up();
    let file = portal.path("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'a'\n").unwrap();
    let mut command = Command::new(CULVERT);
    command
        .args(["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(portal.path("second"))
        .arg("--set-up")
        .arg(&file)
        .env("HOME", &shell.home)
        .env("CULVERT_PORTAL_LOG_LEVEL", "error")
        .env_remove("XDG_CONFIG_HOME")
        .current_dir(portal.path(""));
    let error = Said(command.output().unwrap()).fails(1);
    assert!(!error.contains("--replace"), "{error}");
    assert!(error.contains("culvert admin logout"), "{error}");
}
