//! The program as a shell sees it: output, one-line errors, exit statuses. Nothing here needs a
//! privilege: interfaces are made in the lab.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

#[test]
fn help_teaches_with_examples_and_exit_statuses() {
    let output = culvert(&["wg", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = stdout(&output);
    for part in [
        "wg-quick up wg0",
        "CULVERT_WORKERS",
        "CULVERT_MTU",
        "CULVERT_NO_OFFLOAD",
        "CULVERT_NO_GSO",
        "CULVERT_CIPHER",
        "CULVERT_METRICS",
        "CULVERT_LOG_LEVEL",
        "CULVERT_LOG_FILE",
        "CULVERT_FOREGROUND",
        "culvert wg -- show",
        "Exit status:",
    ] {
        assert!(help.contains(part), "{part:?} is missing:\n{help}");
    }
    assert!(stdout(&culvert(&["wg", "show", "--help"])).contains("--json"));
    assert_eq!(culvert(&["--help"]).status.code(), Some(0));
    for words in [&["--version"][..], &["wg", "--version"]] {
        let output = culvert(words);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains(env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn a_wrong_command_line_ends_with_status_2() {
    for words in [
        &["wg"][..],
        &["wg", "--no-such-flag", "wg0"],
        &["wg", "a-name-that-is-too-long"],
        &["wg", "../wg0"],
        &["wg", "wg%d"],
        &["wg", ""],
        &["wg", "wg0", "wg1"],
        &["wg", "wg0", "--workers", "0"],
        &["wg", "wg0", "--workers", "33"],
        &["wg", "wg0", "--mtu", "500"],
        &["wg", "wg0", "--mtu", "65476"],
        &["wg", "wg0", "--cipher", "rot13"],
        &["wg", "wg0", "--metrics", "9586"],
        &["wg", "wg0", "--log-level", "loud"],
        &["wg", "show", "--watch=0"],
        &["completions", "tcl"],
        &["no-such-command"],
        &[],
    ] {
        let output = culvert(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(!output.stderr.is_empty(), "{words:?} is explained");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn a_wrong_environment_variable_ends_with_status_2() {
    let output = command(&["wg", "-f", "wg0"])
        .env("CULVERT_WORKERS", "many")
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--workers"), "{}", stderr(&output));
}

#[test]
fn an_interface_that_nobody_serves_is_one_line() {
    let output = culvert(&["wg", "show", "cv-nobody"]);
    assert_ne!(output.status.code(), Some(0));
    let line = one_line(&output);
    assert!(line.starts_with("culvert: cv-nobody: "), "{line}");
}

#[test]
fn environment_variables_of_the_interface_do_not_get_in_the_way_of_show() {
    let output = command(&["wg", "show", "cv-nobody"])
        .env("CULVERT_WORKERS", "2")
        .env("CULVERT_FOREGROUND", "1")
        .output();
    let line = one_line(&output.unwrap());
    assert!(line.starts_with("culvert: cv-nobody: "), "{line}");
}

#[test]
fn a_metrics_port_that_is_taken_is_one_line_and_status_4_in_the_foreground() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = culvert(&["wg", "-f", "cv-metrics", "--metrics", &address]);
    assert_eq!(output.status.code(), Some(4));
    let line = one_line(&output);
    assert!(
        line.starts_with(&format!("culvert: serving metrics on {address}: ")),
        "{line}"
    );
    let output = command(&["wg", "cv-metrics", "--metrics", &address])
        .env("WG_PROCESS_FOREGROUND", "1")
        .output();
    assert_eq!(output.unwrap().status.code(), Some(4));
}

#[test]
fn what_fails_in_the_background_is_told_to_whoever_started_it() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = command(&["wg", "cv-metrics"])
        .env("CULVERT_METRICS", &address)
        .output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(4));
    let line = one_line(&output);
    assert!(
        line.starts_with(&format!("culvert: serving metrics on {address}: ")),
        "{line}"
    );
}

#[test]
fn a_link_named_culvert_wg_is_the_wg_command() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("culvert-wg");
    symlink(CULVERT, &link).unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for words in [&["-f", "cv-link"][..], &["cv-link"]] {
        let output = clean(Command::new(&link).args(words))
            .env("CULVERT_METRICS", &address)
            .output();
        assert_eq!(output.unwrap().status.code(), Some(4), "{words:?}");
    }
}

#[test]
fn a_log_file_that_cannot_be_written_is_one_line() {
    let output = culvert(&["wg", "-f", "cv-log", "--log-file", "/nonexistent/log"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(one_line(&output).starts_with("culvert: log file /nonexistent/log: "));
}

#[test]
fn completions_are_made_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = culvert(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("culvert"), "{shell}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = command(&["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), stderr(&output).as_str()),
        (Some(0), "")
    );
}

fn culvert(words: &[&str]) -> Output {
    command(words).output().expect("the program starts")
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(CULVERT);
    command.arg0("culvert").args(words);
    clean(&mut command);
    command
}

/// Without what the environment of the test run would change.
fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CULVERT_") || name.starts_with("WG_") || name == "LOG_LEVEL" {
            command.env_remove(name);
        }
    }
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

fn one_line(output: &Output) -> String {
    let text = stderr(output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
    text
}
