//! `culvert gateway` as a shell, a service manager and a collector see it. Needs root: gateways get
//! namespaces of their own.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::TokenId;
use culvert_lab::{Namespace, Process, ServiceManager};
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

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A token of a portal that is not there: nobody listens on port 1.
fn token() -> String {
    token_for("https://127.0.0.1:1")
}

fn token_for(url: &str) -> String {
    let token = Token {
        bearer: Bearer {
            kind: TokenKind::Gateway,
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

fn write(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
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

/// The status code and the body of an answer at port 9588 of the namespace.
fn get(namespace: &Namespace, path: &str) -> (String, String) {
    let answer = namespace.inside(|| {
        let mut client = TcpStream::connect("127.0.0.1:9588")?;
        client.write_all(format!("GET {path} HTTP/1.1\r\nHost: gateway\r\n\r\n").as_bytes())?;
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
    let socket = dir.join("gateway.sock");
    let words = ["gateway", "status", "--json", "--socket"];
    let asked = culvert(&[&words[..], &[socket.to_str().unwrap()]].concat());
    let text = asked.status.success().then_some(asked.stdout)?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn run(namespace: &Namespace, dir: &Path) -> Process {
    run_after("", namespace, dir)
}

fn run_after(prefix: &str, namespace: &Namespace, dir: &Path) -> Process {
    let line = format!(
        "{prefix} {CULVERT} gateway run --enable-forwarding --token-file {0}/token --state-dir {0}/gateway \
         --status-socket {0}/gateway.sock --health 127.0.0.1:9588 --metrics 127.0.0.1:9588",
        dir.display()
    );
    namespace.spawn(&line).unwrap()
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
        write(&path, &token_for(url));
        let output = culvert(&["gateway", "run", "--token-file", path.to_str().unwrap()]);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(3), "{url}: {error}");
        assert!(
            error.contains("a portal's URL is https://HOST"),
            "{url}: {error}"
        );
    }
}

#[test]
fn options_that_cannot_be_end_with_status_2() {
    for words in [
        &["gateway"][..],
        &["gateway", "run", "--health", "localhost"],
        &["gateway", "run", "--metrics", "9588"],
        &["gateway", "status", "--no-such-flag"],
    ] {
        let output = culvert(words);
        let error = error_of(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
    }
}

#[test]
fn status_says_when_no_gateway_runs() {
    let output = culvert(&["gateway", "status", "--socket", "/nonexistent/gateway.sock"]);
    assert_eq!(output.status.code(), Some(1));
    let error = error_of(&output);
    assert!(error.contains("culvert gateway run"), "{error}");
}

#[test]
fn an_address_for_health_that_is_taken_ends_the_gateway_with_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("token");
    write(&token_file, &token());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = culvert(&[
        "gateway",
        "run",
        "--token-file",
        token_file.to_str().unwrap(),
        "--health",
        &address,
    ]);
    let error = error_of(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains(&address) && error.contains("--health"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_gateway_without_its_portal_is_alive_and_not_ready_and_tells_why() {
    let namespace = Namespace::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(&dir.join("token"), &token());
    let mut process = run(&namespace, dir);
    let status = until(&mut process, "an attempt has failed", || {
        status(dir).filter(|status| status["portal"]["last_error"].is_string())
    });
    assert_eq!(status["schema_version"], 1);
    assert_eq!(status["firewall"]["state"], "absent");
    assert_eq!(status["clients"].as_array().unwrap().len(), 0);
    assert_eq!(
        get(&namespace, "/healthz"),
        ("200".into(), "alive\n".into())
    );
    let (code, why) = get(&namespace, "/readyz");
    assert_eq!(code, "503");
    assert!(why.contains("the portal has not welcomed it"), "{why}");
    let (code, metrics) = get(&namespace, "/metrics");
    assert_eq!(code, "200");
    assert!(
        metrics.contains("\nculvert_gateway_portal_connected 0\n"),
        "{metrics}"
    );
    let socket = dir.join("gateway.sock");
    let check = culvert(&[
        "gateway",
        "status",
        "--check",
        "--socket",
        socket.to_str().unwrap(),
    ]);
    assert_eq!(check.status.code(), Some(4), "{check:?}");
    let text = String::from_utf8(check.stdout).unwrap();
    assert!(
        text.contains("not connected") || text.contains("connecting"),
        "{text}"
    );
    assert!(!text.contains(&token()));
    process.terminate().unwrap();
    let ended = process.wait(TIMEOUT).unwrap();
    assert!(ended.success(), "{}", process.output());
    assert!(!socket.exists());
}

#[test]
fn the_service_manager_hears_that_a_gateway_goes_on_and_why_it_is_not_connected() {
    let namespace = Namespace::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(&dir.join("token"), &token());
    let manager = ServiceManager::listen().unwrap();
    let process = run_after(&manager.prefix(Duration::from_secs(1)), &namespace, dir);
    let hears = |text, times| {
        let heard = manager.hears(text, times, TIMEOUT);
        heard.unwrap_or_else(|error| panic!("{error:#}\n{}", process.output()));
    };
    // It has started although nobody answers: a process that waits for the start does not wait for the portal.
    hears("READY=1\nSTATUS=not connected to the portal: ", 1);
    hears("WATCHDOG=1", 5);
    process.terminate().unwrap();
    hears("STOPPING=1", 1);
}

#[test]
fn a_gateway_that_is_to_end_without_its_portal_has_not_started_before_it_is_connected() {
    let namespace = Namespace::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write(&dir.join("token"), &token());
    let manager = ServiceManager::listen().unwrap();
    let told = format!(
        "{} CULVERT_GATEWAY_EXIT_WHEN_UNREACHABLE=1",
        manager.prefix(Duration::from_secs(1))
    );
    let mut process = run_after(&told, &namespace, dir);
    assert_eq!(process.wait(TIMEOUT).unwrap().code(), Some(4));
    assert!(!manager.told().iter().any(|told| told.contains("READY=1")));
}

/// A portal in the namespace, and a token of its own for a gateway of site `office`.
fn portal(namespace: &Namespace, dir: &Path) -> Process {
    let (home, at) = (dir.display(), "127.0.0.1:8443");
    let line =
        format!("{CULVERT} portal run --listen {at} --url https://{at} --state-dir {home}/portal");
    let mut portal = namespace.spawn(&line).unwrap();
    portal
        .wait_for_output("culvert admin --help", TIMEOUT)
        .unwrap();
    let greeting = portal.output();
    let begin = greeting.find("cv_setup_").unwrap();
    let setup = greeting[begin..]
        .split(|c: char| c == '\'' || c.is_whitespace())
        .next()
        .unwrap();
    write(&dir.join("setup"), setup);
    let script = format!(
        "export HOME={home}
         {CULVERT} admin setup --token-file {home}/setup --owner ada
         {CULVERT} admin site create office
         {CULVERT} admin token create --kind gateway --site office --out {home}/token"
    );
    namespace.shell(&script).unwrap();
    portal
}

#[test]
fn a_gateway_is_ready_once_welcomed_and_not_while_it_drains() {
    let namespace = Namespace::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let _portal = portal(&namespace, dir);
    let mut process = run(&namespace, dir);
    let ready = |code: &str| (get(&namespace, "/readyz").0 == code).then_some(());
    until(&mut process, "it can be asked", || status(dir));
    until(&mut process, "it is ready", || ready("200"));
    let connected = status(dir).unwrap();
    assert_eq!(connected["portal"]["state"], "connected");
    assert_eq!(connected["ready"], true);
    assert_eq!(connected["firewall"]["state"], "intact");
    assert!(connected["site"].is_string(), "{connected}");
    let (_, metrics) = get(&namespace, "/metrics");
    for line in [
        "portal_connected 1",
        "ready 1",
        "firewall_intact 1",
        "clients 0",
    ] {
        let line = format!("\nculvert_gateway_{line}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let id = rustix::process::Pid::from_raw(gateway_id(&process)).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::USR1).unwrap();
    until(&mut process, "it drains", || ready("503"));
    assert_eq!(status(dir).unwrap()["draining_by_itself"], true);
    assert_eq!(get(&namespace, "/healthz").0, "200");
    rustix::process::kill_process(id, rustix::process::Signal::USR1).unwrap();
    until(&mut process, "it drains no longer", || ready("200"));
    namespace
        .shell("nft delete table inet culvert_culvert-gw0")
        .unwrap();
    until(&mut process, "the table is put back", || {
        let status = status(dir)?;
        (status["firewall"]["restored"] == 1).then_some(())
    });
}

/// The process of the gateway: the started one may be another that runs it.
fn gateway_id(process: &Process) -> i32 {
    fn below(id: u32) -> Vec<u32> {
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        let found = ids.flat_map(below).collect::<Vec<u32>>();
        [vec![id], found].concat()
    }
    let ids = below(process.id());
    let is_gateway = |id: &&u32| {
        let program = std::fs::read_link(format!("/proc/{id}/exe"));
        program.is_ok_and(|program| program == Path::new(CULVERT))
    };
    let id = ids.iter().find(is_gateway).unwrap();
    i32::try_from(*id).unwrap()
}
