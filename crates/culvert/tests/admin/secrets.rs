//! Secrets that are encrypted, by the program as people start it.

use crate::scene::{CULVERT, Portal, Said, mode};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `culvert portal secrets` with the options of a state directory and keys.
fn secrets(portal: &Portal, command: &str, options: &[(&str, &Path)]) -> Command {
    let mut program = Command::new(CULVERT);
    program
        .env_remove("CULVERT_PORTAL_SECRETS_KEY")
        .env_remove("CREDENTIALS_DIRECTORY");
    program.args(["portal", "secrets", command, "--state-dir"]);
    program.arg(portal.path("portal")).stdin(Stdio::null());
    for (option, path) in options {
        program.arg(option).arg(path);
    }
    program
}

fn say(portal: &Portal, command: &str, options: &[(&str, &Path)]) -> Said {
    Said(secrets(portal, command, options).output().unwrap())
}

fn new_key(portal: &Portal, name: &str) -> PathBuf {
    let path = portal.path(name);
    let mut program = Command::new(CULVERT);
    let program = program.args(["portal", "secrets", "new-key"]).arg(&path);
    let said = Said(program.output().unwrap()).ok();
    assert!(said.contains("holds key"), "{said}");
    assert_eq!(mode(&path), 0o600);
    path
}

fn start(portal: &Portal, options: &[(&str, &Path)]) -> Said {
    let mut program = Command::new(CULVERT);
    program.args(["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"]);
    program
        .arg(portal.path("portal"))
        .env("CULVERT_PORTAL_LOG_LEVEL", "off");
    program
        .env_remove("CULVERT_PORTAL_SECRETS_KEY")
        .env_remove("CREDENTIALS_DIRECTORY");
    for (option, path) in options {
        program.arg(option).arg(path);
    }
    Said(program.output().unwrap())
}

#[test]
fn secrets_are_encrypted_rotated_and_decrypted_and_the_portal_goes_on() {
    let (mut portal, shell) = Portal::set_up();
    let (first, second) = (
        new_key(&portal, "first.key"),
        new_key(&portal, "second.key"),
    );
    let (first, second) = (first.as_path(), second.as_path());
    let error = say(&portal, "encrypt", &[("--secrets-key", first)]).fails(1);
    assert!(error.contains("in use"), "while the portal runs: {error}");
    let error = say(&portal, "encrypt", &[]).fails(2);
    assert!(error.contains("--secrets-key FILE"), "{error}");
    assert!(say(&portal, "status", &[]).ok().contains("not encrypted"));
    portal.kill();

    let error = start(&portal, &[("--secrets-key", first)]).fails(1);
    assert!(error.contains("culvert portal secrets encrypt"), "{error}");
    let said = say(&portal, "encrypt", &[("--secrets-key", first)]).ok();
    assert!(said.contains("are encrypted with key"), "{said}");
    let state = portal.path("portal");
    assert!(!state.join("certificate.pem").exists());

    for (options, part) in [
        (
            vec![],
            "no key was given: name the file of that key (--secrets-key FILE)",
        ),
        (
            vec![("--secrets-key", second)],
            "was given: give the file of key",
        ),
    ] {
        let error = start(&portal, &options).fails(1);
        assert!(
            error.contains(part) && error.contains("portal.db"),
            "{error}"
        );
    }
    portal.restart_with(Some(first));
    shell.at(&portal, "site create office").ok();
    let tested = say(&portal, "status", &[("--secrets-key", first)]).ok();
    assert!(tested.contains("all can be decrypted"), "{tested}");
    let error = say(&portal, "status", &[("--secrets-key", second)]).fails(1);
    assert!(error.contains("give the file of key"), "{error}");
    // Neither needs the key.
    let mut setup = Command::new(CULVERT);
    setup
        .args(["portal", "setup-token", "--state-dir"])
        .arg(&state);
    assert!(Said(setup.output().unwrap()).ok().contains("cv_setup_"));
    let backup = portal.path("backup");
    let mut program = Command::new(CULVERT);
    program
        .args(["portal", "backup", "--state-dir"])
        .arg(&state)
        .arg(&backup);
    let said = Said(program.output().unwrap()).ok();
    assert!(
        said.contains("is not in it: keep a copy elsewhere"),
        "{said}"
    );
    portal.kill();

    let rotate = [("--secrets-key", first), ("--new-key", second)];
    say(&portal, "rotate", &rotate).ok();
    portal.restart_with(Some(second));
    shell.at(&portal, "site create branch").ok();
    portal.kill();
    let error = say(&portal, "decrypt", &[("--secrets-key", first)]).fails(1);
    assert!(error.contains("give the file of key"), "{error}");
    say(&portal, "decrypt", &[("--secrets-key", second)]).ok();
    assert_eq!(mode(&state.join("certificate.pem")), 0o600);
    portal.restart_with(None);
    shell.at(&portal, "site create home").ok();
    portal.kill();

    // The backup of before needs the first key.
    std::fs::rename(&state, portal.path("lost")).unwrap();
    let mut program = Command::new(CULVERT);
    program
        .args(["portal", "restore", "--state-dir"])
        .arg(&state)
        .arg(&backup);
    let said = Said(program.output().unwrap()).ok();
    assert!(
        said.contains("start the portal with --secrets-key"),
        "{said}"
    );
    start(&portal, &[("--secrets-key", second)]).fails(1);
    portal.restart_with(Some(first));
    shell.at(&portal, "site create elsewhere").ok();
}

/// The number of times that a command is killed at some instant.
const KILLED: u32 = 8;

#[test]
fn a_command_that_is_killed_leaves_secrets_as_they_were_or_as_they_are_to_be() {
    let (mut portal, shell) = Portal::set_up();
    let key = new_key(&portal, "key");
    portal.kill();
    let with_key = [("--secrets-key", key.as_path())];
    for round in 0..KILLED {
        for command in ["encrypt", "decrypt"] {
            // Later each time, by work that takes longer than a part of the command: where it is ended does not matter.
            let mut program = secrets(&portal, command, &with_key);
            let mut killed = program
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            for _ in 0..round {
                say(&portal, "status", &[]).ok();
            }
            killed.kill().unwrap();
            killed.wait().unwrap();
            let is_encrypted = !say(&portal, "status", &[]).ok().contains("not encrypted");
            if is_encrypted {
                say(&portal, "status", &with_key).ok();
            }
            // It can be repeated, or was done.
            match (command, is_encrypted) {
                ("encrypt", _) | ("decrypt", true) => {
                    say(&portal, command, &with_key).ok();
                }
                _ => {}
            }
        }
    }
    portal.restart_with(None);
    shell.at(&portal, "site create office").ok();
}
