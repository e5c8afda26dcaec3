//! `culvert relay` as a shell, a supervisor and a collector see it. Needs root: relays get namespaces of their own.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::TokenId;
use culvert_lab::{Namespace, Process};
use culvert_wire::token::{Bearer, Portal, Secret, Token, TokenKind};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

/// Far more than anything here takes: a condition is waited for, not this time.
const TIMEOUT: Duration = Duration::from_secs(60);

fn culvert(words: &[&str]) -> Output {
    let mut command = Command::new(CULVERT);
    command.args(words).env_remove("CULVERT_TOKEN");
    command.output().unwrap()
}

/// Writes a token of a portal that is not there: nobody listens on port 1.
fn write_token(path: &Path, kind: TokenKind) {
    let token = Token {
        bearer: Bearer {
            kind,
            id: TokenId::from_bytes([7; 16]),
            secret: Secret::new([9; 32]),
        },
        portal: Some(Portal {
            url: "https://127.0.0.1:1".to_owned(),
            pin: None,
        }),
    };
    std::fs::write(path, token.expose().as_bytes()).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Runs a relay to its end, which comes at once.
fn refused(dir: &Path, options: &[&str]) -> (Option<i32>, String) {
    let path = |name: &str| dir.join(name).display().to_string();
    let (token, state) = (path("token"), path("relay"));
    let words = [
        "relay",
        "run",
        "--token-file",
        &token,
        "--state-dir",
        &state,
    ];
    let output = culvert(&[&words, options].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// Waits until `look` sees something, as long as the process runs.
fn until<T>(process: &mut Process, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        let output = process.output();
        assert!(Instant::now() < deadline, "{what}: {output}");
        assert!(process.is_running().unwrap(), "{what}: {output}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The status code and the body of an answer at port 9590 of the namespace.
fn get(namespace: &Namespace, path: &str) -> (String, String) {
    let answer = namespace.inside(|| {
        let mut client = TcpStream::connect("127.0.0.1:9590")?;
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: relay\r\n\r\n").as_bytes())?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        Ok(answer)
    });
    let answer = answer.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap();
    (code.to_owned(), body.to_owned())
}

fn status(dir: &Path) -> Option<serde_json::Value> {
    let socket = dir.join("relay.sock").display().to_string();
    let asked = culvert(&["relay", "status", "--json", "--socket", &socket]);
    let text = asked.status.success().then_some(asked.stdout)?;
    Some(serde_json::from_slice(&text).unwrap())
}

#[test]
fn a_relay_without_its_portal_runs_tells_its_state_drains_and_ends_in_order() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    write_token(&dir.join("token"), TokenKind::Relay);
    let line = format!(
        "{CULVERT} relay run --token-file {0}/token --state-dir {0}/relay --status-socket {0}/relay.sock \
         --gateway-ports 3479-3480 --workers 2 --address 203.0.113.7 --rate 500 \
         --health 127.0.0.1:9590 --metrics 127.0.0.1:9590",
        dir.display()
    );
    let mut process = namespace.spawn(&line).unwrap();
    let told = until(&mut process, "it tells its state", || status(dir));
    assert_eq!(told["schema_version"], 1);
    assert_eq!(told["addresses"][0], "203.0.113.7:3478");
    assert_eq!(
        (&told["gateway_ports"], &told["workers"]),
        (&2.into(), &2.into())
    );
    assert_eq!(told["rate_limit_bytes_per_s"], 62_500_000);
    assert_eq!(told["ready"], false);
    assert_eq!(get(&namespace, "/healthz").0, "200");
    let (code, why) = get(&namespace, "/readyz");
    assert_eq!(code, "503", "{why}");
    assert!(why.contains("the portal has not welcomed it yet"), "{why}");
    let (_, metrics) = get(&namespace, "/metrics");
    assert!(metrics.contains("\nculvert_relay_ready 0"), "{metrics}");
    let sockets = namespace.run("ss -Hulpn").unwrap();
    for port in [3478, 3479, 3480] {
        assert!(sockets.contains(&format!(":{port} ")), "{sockets}");
    }

    let id = told_id(&process);
    rustix::process::kill_process(id, rustix::process::Signal::USR1).unwrap();
    until(&mut process, "it drains", || {
        let told = status(dir)?;
        (told["draining_by_itself"] == true).then_some(())
    });
    let socket = dir.join("relay.sock").display().to_string();
    let table = culvert(&["relay", "status", "--check", "--socket", &socket]);
    assert_eq!(table.status.code(), Some(4));
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("not ready: it drains"), "{table}");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let ended = process.wait(TIMEOUT).unwrap();
    assert_eq!(ended.code(), Some(0), "{}", process.output());
    assert!(!dir.join("relay.sock").exists());
}

/// The process that was started.
fn told_id(process: &Process) -> rustix::process::Pid {
    let id = i32::try_from(process.id()).unwrap();
    rustix::process::Pid::from_raw(id).unwrap()
}

#[test]
fn a_relay_without_a_token_of_its_kind_ends_with_status_3() {
    let directory = tempfile::tempdir().unwrap();
    write_token(&directory.path().join("token"), TokenKind::Gateway);
    let (code, said) = refused(directory.path(), &[]);
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("kind `gateway`") && said.contains("`relay`"),
        "{said}"
    );
}

#[test]
fn ports_that_can_not_be_end_with_status_2() {
    let directory = tempfile::tempdir().unwrap();
    write_token(&directory.path().join("token"), TokenKind::Relay);
    for (options, expected) in [
        (&["--port", "3480"][..], "--gateway-ports"),
        (&["--gateway-ports", "1-2000"], "at most 1024 ports"),
        (&["--gateway-ports", "x"], "FIRST-LAST"),
        (&["--rate", "0"], "--rate"),
    ] {
        let (code, said) = refused(directory.path(), options);
        assert_eq!(code, Some(2), "{options:?}: {said}");
        assert!(said.contains(expected), "{options:?}: {said}");
    }
}
