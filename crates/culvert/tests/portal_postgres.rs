//! `culvert portal` with its database on a PostgreSQL server.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../store-sql/tests/postgres/process.rs"]
mod process;

use process::Process;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A portal as a process of its own, ended with the test.
struct Running(Child);

impl Running {
    fn end(mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn culvert(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_culvert"));
    command.args(words).env_clear();
    command
}

fn run(words: &[&str]) -> Output {
    culvert(words).output().unwrap()
}

/// Starts a portal, and reads its greeting up to the line with this.
fn start(state: &str, database: [&str; 2], until: &str) -> (Running, String) {
    let words = [
        "portal",
        "run",
        "--listen",
        "127.0.0.1:0",
        "--log-level",
        "error",
    ];
    let mut child = culvert(&words)
        .args(["--state-dir", state])
        .args(database)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let running = Running(child);
    let mut said = String::new();
    while !said.contains(until) {
        let read = output.read_line(&mut said).unwrap();
        assert_ne!(read, 0, "{said}");
    }
    (running, said)
}

fn refused(output: &Output, status: i32, says: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    for text in says {
        assert!(error.contains(text), "{text}: {error}");
    }
    assert!(!error.contains("hush-hush"), "{error}");
}

#[test]
fn a_portal_keeps_its_data_on_the_server_and_its_directory_remembers_that() {
    let server = Process::start();
    let socket = server.socket.display();
    let made = Command::new(process::programs().join("createdb"))
        .arg("culvert")
        .arg("--username=culvert")
        .arg(format!("--host={socket}"))
        .status();
    assert!(made.unwrap().success());
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (state, other) = (path("state"), path("other"));
    let url = format!("postgres:///culvert?host={socket}&user=culvert");

    let (portal, said) = start(&state, ["--database", &url], "cv_setup_");
    assert!(said.starts_with("Portal: https://"), "{said}");
    assert!(!Path::new(&state).join("portal.db").exists());
    let on = ["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"];
    let second = [&on[..], &[&*other, "--database", &url]].concat();
    refused(
        &run(&second),
        1,
        &["culvert as culvert at", "another portal runs on it"],
    );
    let token = ["portal", "setup-token", "--state-dir", &state];
    let beside = [&token[..], &["--database", &url]].concat();
    let another = run(&beside);
    assert!(another.status.success(), "{another:?}");
    assert!(String::from_utf8_lossy(&another.stdout).contains("cv_setup_"));
    portal.end();

    // The same portal again, by the file that may hold a password.
    let file = path("database-url");
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&file);
    std::io::Write::write_all(&mut opened.unwrap(), url.as_bytes()).unwrap();
    let (portal, said) = start(&state, ["--database-file", &file], "setup-token");
    assert!(!said.contains("cv_setup_"), "{said}");
    portal.end();

    let without = [&on[..], &[&*state]].concat();
    refused(
        &run(&without),
        1,
        &["culvert as culvert at", "--database-file"],
    );
    let backup = ["portal", "backup", "--state-dir", &state, &path("backup")];
    refused(&run(&backup), 1, &["pg_dump"]);
    let secrets = ["portal", "secrets", "status", "--state-dir", &state];
    refused(&run(&secrets), 1, &["pg_dump"]);
    refused(&run(&token), 1, &["--database-file"]);

    let password = "postgres://culvert:hush-hush@localhost/culvert";
    let words = [&on[..], &[&*other, "--database", password]].concat();
    refused(&run(&words), 2, &["--database-file FILE"]);
    let missing = url.replace("/culvert?", "/nowhere?");
    let words = [&on[..], &[&*other, "--database", &missing]].concat();
    refused(&run(&words), 1, &["nowhere", "createdb"]);
}
