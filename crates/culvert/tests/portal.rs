//! `culvert portal` from the view of its caller: its output, its end, and its exit status.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// Far more than a portal takes to start: a condition is waited for, not this time.
const TIMEOUT: Duration = Duration::from_secs(60);

fn culvert(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_culvert"));
    command.args(words).env_clear();
    command
}

fn run(words: &[&str]) -> Output {
    culvert(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A portal as a process of its own, ended with the test.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    manager: UnixDatagram,
    state: PathBuf,
}

impl Running {
    fn start(dir: &Path) -> Self {
        let socket = dir.join("notify");
        let _ = std::fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(TIMEOUT)).unwrap();
        let state = dir.join("state");
        let mut child = culvert(&["portal", "run", "--listen", "127.0.0.1:0"])
            .env("NOTIFY_SOCKET", &socket)
            .env("CULVERT_PORTAL_STATE_DIR", &state)
            .env("CULVERT_PORTAL_LOG_LEVEL", "off")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut running = Self {
            child,
            output,
            manager,
            state,
        };
        running.wait_for("READY=1");
        running
    }

    fn wait_for(&mut self, state: &str) {
        let mut message = [0; 4096];
        loop {
            let len = self.manager.recv(&mut message).unwrap();
            if text(&message[..len]).lines().any(|line| line == state) {
                return;
            }
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Everything it printed, and its status.
    fn end(mut self) -> (String, Option<i32>) {
        self.signal(rustix::process::Signal::TERM);
        let mut printed = String::new();
        self.output.read_to_string(&mut printed).unwrap();
        let status = self.child.wait().unwrap();
        (printed, status.code())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn setup_tokens(printed: &str) -> Vec<String> {
    let words = printed.split(|c: char| c.is_whitespace() || c == '\'');
    let tokens = words.filter(|word| word.starts_with("cv_setup_"));
    tokens.map(str::to_owned).collect()
}

#[test]
fn the_first_start_prints_one_token_and_a_later_one_how_to_get_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path());
    let mut first_line = String::new();
    running.output.read_line(&mut first_line).unwrap();
    assert!(
        first_line.starts_with("Portal: https://127.0.0.1:"),
        "{first_line}"
    );
    let state = running.state.display().to_string();

    let another = run(&["portal", "setup-token", "--state-dir", &state]);
    assert_eq!(another.status.code(), Some(0), "{another:?}");
    let another = setup_tokens(&text(&another.stdout));
    running.signal(rustix::process::Signal::HUP);
    let (printed, status) = running.end_after_status();
    assert_eq!(status, Some(0));
    let first = setup_tokens(&printed);
    assert_eq!((first.len(), another.len()), (1, 1), "{printed}");
    assert_ne!(first, another);

    let running = Running::start(dir.path());
    let (printed, _) = running.end();
    assert_eq!(setup_tokens(&printed), [""; 0]);
    assert!(
        printed.contains("culvert portal setup-token --state-dir"),
        "{printed}"
    );
}

impl Running {
    /// As [`Self::end`], once it has answered a SIGHUP: that does not end it.
    fn end_after_status(self) -> (String, Option<i32>) {
        let mut message = [0; 4096];
        let len = self.manager.recv(&mut message).unwrap();
        assert!(text(&message[..len]).starts_with("STATUS="));
        self.end()
    }
}

#[test]
fn what_is_in_the_way_is_said_in_one_line_with_its_status() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path());
    let state = running.state.display().to_string();
    let open = dir.path().join("open");
    std::fs::DirBuilder::new()
        .mode(0o755)
        .create(&open)
        .unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    let open = open.display().to_string();
    let missing = dir.path().join("missing").display().to_string();
    let fresh = dir.path().join("fresh").display().to_string();
    let on = ["--listen", "127.0.0.1:0", "--state-dir"];
    let portal_run = |rest: &[&str]| {
        let mut words = vec!["portal", "run"];
        words.extend_from_slice(&on);
        words.extend_from_slice(rest);
        run(&words)
    };
    for (output, status, says) in [
        (portal_run(&[&state]), 1, "in use"),
        (portal_run(&[&open]), 1, "chmod 700"),
        (
            portal_run(&[&fresh, "--url", "http://portal"]),
            2,
            "https://",
        ),
        (portal_run(&[&fresh, "--cert", "a"]), 2, "--key"),
        (
            portal_run(&[&fresh, "--cert", "/nowhere/c", "--key", "/nowhere/k"]),
            1,
            "/nowhere/c",
        ),
        (
            portal_run(&[&fresh, "--geoip", "/nowhere/g"]),
            1,
            "/nowhere/g",
        ),
        (
            portal_run(&[&fresh, "--trusted-proxy", "x"]),
            2,
            "10.0.0.0/8",
        ),
        (
            run(&["portal", "setup-token", "--state-dir", &missing]),
            1,
            "culvert portal run",
        ),
    ] {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains(says), "{says}: {error}");
        if status == 1 {
            let line = error.lines().last().unwrap();
            assert!(line.starts_with("culvert: "), "{error}");
        }
    }
}

#[test]
fn help_names_the_environment_variable_of_every_option() {
    let help = text(&run(&["portal", "run", "--help"]).stdout);
    for option in help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("--"))
    {
        let option = option.split_whitespace().next().unwrap();
        if option == "help" || option == "version" {
            continue;
        }
        let variable = option.replace('-', "_").to_uppercase();
        assert!(
            help.contains(&format!("CULVERT_PORTAL_{variable}")),
            "{option}"
        );
    }
    assert!(help.contains("Examples:") && help.contains("Exit status:"));
}
