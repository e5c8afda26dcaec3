//! `culvert client run` and `culvert status` as a shell and a service manager see them. Needs root:
//! the client gets a namespace of its own.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::TokenId;
use culvert_lab::{Namespace, Process, wait_until};
use culvert_wire::token::{Bearer, Portal, Secret, Token, TokenKind};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

fn culvert(words: &[&str]) -> Output {
    let mut command = Command::new(CULVERT);
    command.args(words).env_remove("CULVERT_TOKEN");
    command.output().unwrap()
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A token of a portal that is not there: nobody listens on port 1.
fn token(kind: TokenKind) -> String {
    token_for(kind, "https://127.0.0.1:1")
}

fn token_for(kind: TokenKind, url: &str) -> String {
    let token = Token {
        bearer: Bearer {
            kind,
            id: TokenId::from_bytes([7; 16]),
            secret: Secret::new([9; 32]),
        },
        portal: Some(Portal {
            url: url.to_owned(),
            pin: None,
        }),
    };
    token.expose().to_string()
}

fn write(path: &Path, content: &str, mode: u32) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_token_whose_url_can_not_be_used_ends_with_status_3_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    for url in [
        "https://portal.example:port",
        "https://a:b:c",
        "https://-",
        "https://[::1",
    ] {
        write(&path, &token_for(TokenKind::Client, url), 0o600);
        let output = culvert(&["client", "run", "--token-file", path.to_str().unwrap()]);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(3), "{url}: {error}");
        assert!(
            error.contains("a portal's URL is https://HOST"),
            "{url}: {error}"
        );
    }
}

#[test]
fn without_a_good_token_the_status_is_3_and_the_error_names_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let run = || culvert(&["client", "run", "--token-file", path.to_str().unwrap()]);
    let good = token(TokenKind::Client);
    for (content, mode, expected) in [
        (None, 0o600, "--token-file"),
        (Some(good.as_str()), 0o644, "chmod 600"),
        (Some("cv_client_nonsense"), 0o600, "copy"),
        (Some(token(TokenKind::Gateway).as_str()), 0o600, "`client`"),
    ] {
        if let Some(content) = content {
            write(&path, content, mode);
        }
        let output = run();
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
        assert!(!error.contains(&good), "the token is in the error");
    }
}

#[test]
fn a_token_of_the_service_manager_is_read_and_named_in_errors() {
    let directory = tempfile::tempdir().unwrap();
    let credential = directory.path().join("token");
    let run = || {
        let mut command = Command::new(CULVERT);
        command.args(["client", "run"]).env_remove("CULVERT_TOKEN");
        command.env("CREDENTIALS_DIRECTORY", directory.path());
        command.output().unwrap()
    };
    let wrong_kind = token(TokenKind::Gateway);
    for (content, mode, expected) in [
        (wrong_kind.as_str(), 0o400, "`client`"),
        (wrong_kind.as_str(), 0o444, "LoadCredential=token:"),
    ] {
        write(&credential, content, mode);
        let output = run();
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(credential.to_str().unwrap()), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn options_that_cannot_be_end_with_status_2() {
    for words in [
        &["client"][..],
        &["client", "run", "--mtu", "500"],
        &["client", "run", "--interface", "a/b"],
        &["client", "run", "--mark", "many"],
        &["client", "run", "--dns", "networkmanager"],
        &["client", "run", "--dns-upstream", "dns.example"],
        &["client", "run", "--dns-upstream", "9.9.9.9#"],
        &[
            "client",
            "run",
            "--dns-upstream",
            "9.9.9.9#a.example,8.8.8.8",
        ],
        &["client", "run", "--token"],
        &["status", "--no-such-flag"],
    ] {
        let output = culvert(words);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            error_of(&output)
        );
    }
}

#[test]
fn a_user_that_it_can_not_become_ends_with_status_2_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(&path.join("token"), &token(TokenKind::Client), 0o600);
    let [token, state] = ["token", "state"].map(|name| path.join(name).display().to_string());
    for user in ["no-such-user", "root"] {
        let words = [
            "client",
            "run",
            "--token-file",
            &token,
            "--state-dir",
            &state,
            "--user",
            user,
        ];
        let output = culvert(&words);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains("useradd --system"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert!(!path.join("state").exists());
}

#[test]
fn a_flag_goes_before_a_variable_before_the_file_before_the_default() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path();
    let file = dir.join("client.toml");
    let [of_flag, of_variable, of_file] = ["flag", "variable", "file"].map(|name| dir.join(name));
    write(&file, &format!("token_file = {of_file:?}\n"), 0o644);
    // Nobody has a token: the error says where it was looked for.
    let looked_for = |flag: Option<&Path>, variable: Option<&Path>| {
        let mut command = Command::new(CULVERT);
        command.args(["client", "run", "--config"]).arg(&file);
        command.env_remove("CULVERT_TOKEN");
        if let Some(path) = flag {
            command.arg("--token-file").arg(path);
        }
        if let Some(path) = variable {
            command.env("CULVERT_CLIENT_TOKEN_FILE", path);
        }
        error_of(&command.output().unwrap())
    };
    for (flag, variable, expected) in [
        (Some(&of_flag), Some(&of_variable), &of_flag),
        (None, Some(&of_variable), &of_variable),
        (None, None, &of_file),
    ] {
        let error = looked_for(flag.map(|path| &**path), variable.map(|path| &**path));
        assert!(error.contains(expected.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_configuration_file_that_is_wrong_or_others_can_change_ends_with_status_2_and_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("service.toml");
    for role in ["client", "gateway"] {
        let run = || culvert(&[role, "run", "--config", path.to_str().unwrap()]);
        for (content, mode, expected) in [
            (None, 0, "does not exist"),
            (
                Some("\n\nmtu = 'wide'\n"),
                0o644,
                ":3: mtu: expected a number",
            ),
            (
                Some("mtu = 1380\nspeed = 9\n"),
                0o640,
                ":2: there is no key `speed`",
            ),
            (Some("mtu = 1380\n"), 0o664, "`chmod go-w "),
            (Some("mtu = 1380\n"), 0o646, "`chmod go-w "),
        ] {
            if let Some(content) = content {
                write(&path, content, mode);
            }
            let output = run();
            let error = error_of(&output);
            assert_eq!(output.status.code(), Some(2), "{error}");
            assert!(error.contains(expected), "{error}");
            assert!(error.contains(path.to_str().unwrap()), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn help_names_every_variable_and_status() {
    let output = culvert(&["client", "run", "--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    for part in [
        "CULVERT_CLIENT_TOKEN_FILE",
        "CULVERT_TOKEN",
        "CULVERT_CLIENT_CONFIG",
        "CULVERT_CLIENT_ID",
        "CULVERT_CLIENT_DNS",
        "CULVERT_CLIENT_DNS_UPSTREAM",
        "CULVERT_CLIENT_STATUS_SOCKET",
        "3  not enrolled",
        "culvert status",
    ] {
        assert!(help.contains(part), "{part} is missing:\n{help}");
    }
}

#[test]
fn status_says_when_no_client_runs() {
    let output = culvert(&["status", "--socket", "/nonexistent/client.sock"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error_of(&output).contains("culvert client run"),
        "{output:?}"
    );
}

#[test]
fn a_portal_that_is_not_there_gives_status_4_if_asked() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(&path.join("token"), &token(TokenKind::Client), 0o600);
    let line = format!(
        "{CULVERT} client run --token-file {0}/token --state-dir {0}/state --status-socket {0}/sock \
         --dns off --exit-when-unreachable",
        path.display()
    );
    let output = namespace.outcome(&line).unwrap();
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn with_a_log_directory_the_log_is_in_a_file_of_the_day_and_only_failure_is_on_standard_error() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(&path.join("token"), &token(TokenKind::Client), 0o600);
    let line = format!(
        "env CULVERT_CLIENT_LOG_DIR={0}/log {CULVERT} client run --token-file {0}/token --state-dir {0}/state \
         --status-socket {0}/sock --exit-when-unreachable",
        path.display()
    );
    let output = namespace.outcome(&line).unwrap();
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    let mut files = std::fs::read_dir(path.join("log")).unwrap();
    let file = files.next().unwrap().unwrap();
    let name = file.file_name().into_string().unwrap();
    assert!(
        name.starts_with("client.") && name.ends_with(".log"),
        "{name}"
    );
    let log = std::fs::read_to_string(file.path()).unwrap();
    assert!(log.contains("the portal can't be reached"), "{log}");
    assert!(!log.contains('\u{1b}'), "{log}");
    assert!(files.next().is_none());
}

/// A client without a token and without rights, and its socket.
fn without_rights(namespace: &Namespace, directory: &Path) -> (Process, PathBuf) {
    let socket = directory.join("sock");
    let line = format!(
        "setpriv --bounding-set=-all {CULVERT} client run --state-dir {}/state --status-socket {} --dns off",
        directory.display(),
        socket.display()
    );
    (namespace.spawn(&line).unwrap(), socket)
}

#[test]
fn without_a_token_and_without_rights_a_client_waits_and_has_nothing_to_complain_of() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (process, socket) = without_rights(&namespace, directory.path());
    let ask = ["status", "--json", "--socket", socket.to_str().unwrap()];
    wait_until("the client to answer", Duration::from_secs(20), || {
        culvert(&ask).status.success()
    })
    .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
    let status: serde_json::Value = serde_json::from_slice(&culvert(&ask).stdout).unwrap();
    assert_eq!(status["service"]["state"], "signed_out");
    assert_eq!(status["problems"], serde_json::json!([]));
    let log = process.output();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
}

#[test]
fn errors_at_the_socket_have_a_text_and_a_code() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (process, socket) = without_rights(&namespace, directory.path());
    let answer_to = |line: &str| {
        let mut stream = UnixStream::connect(&socket).ok()?;
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        serde_json::from_str::<serde_json::Value>(&answer).ok()
    };
    wait_until("the client to answer", Duration::from_secs(20), || {
        answer_to("").is_some()
    })
    .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
    let gateway = format!(
        r#"{{"sign_in":{{"token":"{}"}}}}"#,
        token(TokenKind::Gateway)
    );
    let portal = r#"{"sign_in":{"portal":"http://portal.example"}}"#;
    let long = format!(r#"{{"join":"{}"}}"#, "x".repeat(6_000));
    for (request, code, text) in [
        (r#""later""#, "not_a_request", "write a line"),
        (long.as_str(), "request_too_long", "5120 bytes"),
        (r#""up""#, "signed_out", "culvert sign-in"),
        (gateway.as_str(), "invalid_token", "`client`"),
        (portal, "invalid_portal", "a portal's URL"),
        (r#"{"settings":{"dns":true}}"#, "dns_off", "`--dns off`"),
        (r#"{"join":"backup"}"#, "down", "culvert up"),
    ] {
        let line = format!(r#"{{"schema_version":1,"request":{request}}}"#);
        let answer = answer_to(&line).unwrap();
        assert_eq!(answer["code"], code, "{answer}");
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(text), "{answer}");
    }
    let answer = answer_to(r#"{"schema_version":2,"request":"later"}"#).unwrap();
    assert_eq!(answer["code"], "schema_version", "{answer}");
}

#[test]
fn a_token_in_the_environment_is_not_there_once_the_client_runs() {
    let namespace = Namespace::new().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("sock");
    let line = format!(
        "{CULVERT} client run --state-dir {}/state --status-socket {} --dns off",
        directory.path().display(),
        socket.display()
    );
    let secret = token(TokenKind::Client);
    let mut process = namespace
        .spawn_with(&line, |command| {
            command.env("CULVERT_TOKEN", &secret);
        })
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        let asked = culvert(&["status", "--json", "--socket", socket.to_str().unwrap()]);
        if asked.status.success() {
            break String::from_utf8(asked.stdout).unwrap();
        }
        assert!(Instant::now() < deadline, "{}", process.output());
        assert!(process.is_running().unwrap(), "{}", process.output());
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.starts_with("{\"schema_version\":1,"), "{status}");
    assert!(!status.contains(&secret));
    // The process that was started took its own place, with the same number.
    let environment = descendants(process.id())
        .iter()
        .map(|id| std::fs::read(format!("/proc/{id}/environ")).unwrap())
        .collect::<Vec<_>>()
        .concat();
    let environment = String::from_utf8_lossy(&environment);
    assert!(
        environment.contains("CULVERT_TOKEN_ON_INPUT"),
        "the client was not found"
    );
    assert!(!environment.contains(&secret));
    // Its first attempt has yet to fail.
    loop {
        let check = culvert(&["status", "--check", "--socket", socket.to_str().unwrap()]);
        assert_eq!(check.status.code(), Some(4));
        let text = String::from_utf8(check.stdout).unwrap();
        if text.contains("not connected") {
            break;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
    process.terminate().unwrap();
    let ended = process.wait(Duration::from_secs(10)).unwrap();
    assert!(ended.success(), "{}", process.output());
    assert!(!socket.exists());
}

/// A process and those that it started, as far as they are there.
fn descendants(id: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.unwrap_or_default();
    let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
    let below = ids.flat_map(descendants).collect::<Vec<u32>>();
    [vec![id], below].concat()
}
