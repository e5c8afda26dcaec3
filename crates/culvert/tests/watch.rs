//! `culvert status --watch` as a shell sees it, of clients that are signed out and of one that is older.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_lab::{Namespace, Process, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

/// Far above what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A client without a token and without rights, in a namespace of its own.
fn client(namespace: &Namespace, directory: &Path) -> Process {
    let line = format!(
        "setpriv --bounding-set=-all {CULVERT} client run --state-dir {0}/state --status-socket {0}/socket --dns off",
        directory.display()
    );
    let client = namespace.spawn(&line).unwrap();
    let socket = directory.join("socket");
    wait_until("the client to answer", DEADLINE, || {
        status(&socket).is_some()
    })
    .unwrap_or_else(|error| panic!("{error}: {}", client.output()));
    client
}

/// The line of JSON about the client that answers at `socket`.
fn status(socket: &Path) -> Option<String> {
    let mut command = Command::new(CULVERT);
    command.args(["status", "--json", "--socket"]).arg(socket);
    let output = command.output().unwrap();
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).unwrap())
}

/// A watcher, and the lines that it prints on standard output and standard error.
fn watch(socket: &Path) -> (Running, Receiver<String>, Receiver<String>) {
    let mut command = Command::new(CULVERT);
    command
        .args(["status", "--watch", "--json", "--socket"])
        .arg(socket);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let output = lines(child.stdout.take().unwrap());
    let errors = lines(child.stderr.take().unwrap());
    (Running(child), output, errors)
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (heard, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if heard.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn next(lines: &Receiver<String>) -> String {
    lines.recv_timeout(DEADLINE).unwrap()
}

#[test]
fn a_watcher_says_that_the_client_has_ended_and_goes_on_with_the_next_one() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let namespace = Namespace::new().unwrap();
    let first = client(&namespace, directory.path());
    let (_watcher, output, errors) = watch(&socket);
    let message: serde_json::Value = serde_json::from_str(&next(&output)).unwrap();
    assert_eq!(message["schema_version"], 1);
    assert_eq!(message["status"]["service"]["state"], "signed_out");
    let sequence = message["sequence"].as_u64().unwrap();
    first.stop().unwrap();
    let told = next(&errors);
    assert!(told.contains("the client has ended"), "{told}");
    assert!(told.contains(socket.to_str().unwrap()), "{told}");
    let _second = client(&namespace, directory.path());
    let message: serde_json::Value = serde_json::from_str(&next(&output)).unwrap();
    assert_eq!(message["status"]["service"]["state"], "signed_out");
    assert!(
        message["sequence"].as_u64().unwrap() > sequence,
        "{message}"
    );
}

#[test]
fn without_a_client_the_status_is_1_and_the_error_names_the_socket() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let mut command = Command::new(CULVERT);
    command.args(["status", "--watch", "--socket"]).arg(&socket);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains(socket.to_str().unwrap()), "{error}");
}

/// A program at `path` that answers as `answer` does.
fn play(path: &Path, answer: impl Fn(usize, &str) -> String + Send + 'static) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            BufReader::new(&stream).read_line(&mut request).unwrap();
            let _gone = stream.write_all(format!("{}\n", answer(number, &request)).as_bytes());
        }
    });
}

#[test]
fn a_program_that_does_not_know_watch_is_polled() {
    let directory = tempfile::tempdir().unwrap();
    let namespace = Namespace::new().unwrap();
    let real = client(&namespace, directory.path());
    let told = status(&directory.path().join("socket")).unwrap();
    real.stop().unwrap();
    for (name, refusal) in [
        // Older than codes.
        ("old", r#"{"error":"write a line such as …"}"#),
        (
            "other",
            r#"{"error":"write a line such as …","code":"not_a_request"}"#,
        ),
    ] {
        let path = directory.path().join(name);
        let told = told.clone();
        play(&path, move |number, request| {
            if request.contains("watch") {
                return refusal.to_owned();
            }
            let mut status: serde_json::Value = serde_json::from_str(&told).unwrap();
            status["name"] = if number < 5 { "before" } else { "after" }.into();
            status["running_for_ms"] = number.into();
            format!("{{\"status\":{status}}}")
        });
        let (_watcher, output, _errors) = watch(&path);
        for name in ["before", "after"] {
            let message: serde_json::Value = serde_json::from_str(&next(&output)).unwrap();
            assert_eq!(message["status"]["name"], name);
            assert_eq!(message["sequence"], serde_json::Value::Null);
        }
    }
}

#[test]
fn a_refusal_ends_watching_with_its_own_words() {
    let directory = tempfile::tempdir().unwrap();
    for (code, text) in [
        (
            "schema_version",
            "schema_version 1 is not spoken here, but 2",
        ),
        ("of_a_later_client", "not on Sundays"),
    ] {
        let path = directory.path().join(code);
        play(&path, move |_, _| {
            format!(r#"{{"error":"{text}","code":"{code}"}}"#)
        });
        let mut command = Command::new(CULVERT);
        command.args(["status", "--watch", "--socket"]).arg(&path);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains(&format!("the client answers: {text}")),
            "{error}"
        );
    }
}
