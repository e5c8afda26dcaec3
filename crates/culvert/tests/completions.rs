//! Completions as the shells that are at hand take them.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;
use std::process::{Command, Output};

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

fn script(shell: &str) -> (tempfile::TempDir, PathBuf) {
    let output = Command::new(CULVERT).args(["completions", shell]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("_culvert");
    std::fs::write(&path, output.stdout).unwrap();
    (dir, path)
}

/// The words that bash offers for the last word of a line.
fn offered(line: &str) -> Vec<String> {
    let (_dir, path) = script("bash");
    let program = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
                   _culvert culvert \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; \
                   printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", program, "bash"]).arg(&path);
    let output = command.args(line.split(' ')).output().unwrap();
    assert!(output.stderr.is_empty(), "{output:?}");
    let words = String::from_utf8(output.stdout).unwrap();
    words.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_their_values() {
    for (line, holds, holds_not) in [
        (
            "culvert ",
            &["admin", "client", "gateway", "portal", "status", "wg"][..],
            "apply",
        ),
        ("culvert ad", &["admin"], "portal"),
        (
            "culvert admin ",
            &["apply", "explain", "portal", "site", "token"],
            "run",
        ),
        (
            "culvert admin site ",
            &["create", "delete", "list", "set", "show"],
            "revoke",
        ),
        ("culvert admin token create --k", &["--kind"], "--site"),
        (
            "culvert admin token create --kind ",
            &["api", "client", "gateway", "relay"],
            "admin",
        ),
        (
            "culvert admin policy set p --without ",
            &["country", "expires", "time"],
            "name",
        ),
        (
            "culvert admin actor create x --kind ",
            &["admin", "service-account", "user"],
            "owner",
        ),
        ("culvert admin site list --js", &["--json"], "--output"),
        (
            "culvert client run --log-level ",
            &["debug", "info", "trace"],
            "loud",
        ),
        ("culvert completions ", &["bash", "fish", "zsh"], "tcl"),
    ] {
        let offered = offered(line);
        for word in holds {
            assert!(
                offered.iter().any(|offer| offer == word),
                "{line:?}: {offered:?}"
            );
        }
        assert!(
            !offered.iter().any(|offer| offer == holds_not),
            "{line:?}: {offered:?}"
        );
    }
}

/// The outcome, or nothing where this machine lacks the shell.
fn read_by(shell: &str, words: &[&str]) -> Option<Output> {
    let (_dir, path) = script(shell);
    let output = Command::new(shell).args(words).arg(path).output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        output => Some(output.unwrap()),
    }
}

#[test]
fn every_shell_that_is_there_reads_its_script_without_a_word() {
    for (shell, words) in [
        ("bash", &["--norc", "-n"][..]),
        ("zsh", &["-f", "-n"]),
        ("fish", &["--no-execute"]),
    ] {
        if let Some(output) = read_by(shell, words) {
            assert!(output.status.success(), "{shell}: {output:?}");
            assert!(output.stderr.is_empty(), "{shell}: {output:?}");
        }
    }
}
