//! A portal as a process of its own, in a directory of its own, and the shell of its administrator.

use culvert_link::{Connection, Destination, connect};
use culvert_policy::conditions::OperatingSystem;
use culvert_wire::messages::{FromClient, FromGateway, FromRelay};
use culvert_wire::token::Token;
use culvert_wire::{
    CLIENT_SESSION_PATH, GATEWAY_SESSION_PATH, PROTOCOL, PublicKey, RELAY_SESSION_PATH, encode,
};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub(crate) const CULVERT: &str = env!("CARGO_BIN_EXE_culvert");

/// Variables that the environment of the test run may hold.
const VARIABLES: [&str; 6] = [
    "CULVERT_ADMIN_OUTPUT",
    "CULVERT_ADMIN_PORTAL",
    "CULVERT_ADMIN_TOKEN",
    "CULVERT_ADMIN_TOKEN_FILE",
    "NO_COLOR",
    "XDG_CONFIG_HOME",
];

/// A portal that runs.
pub(crate) struct Portal {
    process: Child,
    pub(crate) url: String,
    pub(crate) setup_token: String,
    dir: TempDir,
}

impl Portal {
    /// A new portal that has no owner yet.
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (process, greeting) = run(&dir.path().join("portal"), "culvert admin --help");
        let at = greeting.find("cv_setup_").unwrap();
        let setup_token = greeting[at..].split('\'').next().unwrap().to_owned();
        Self {
            process,
            url: url(&greeting),
            setup_token,
            dir,
        }
    }

    /// Starts it anew after [`Self::kill`], with all that it knows, at another address.
    pub(crate) fn restart(&mut self) {
        self.restart_with(None);
    }

    /// The same with the file of a key of secrets.
    pub(crate) fn restart_with(&mut self, key: Option<&Path>) {
        self.restart_in(key.map(|key| ("CULVERT_PORTAL_SECRETS_KEY", key)));
    }

    /// The same with a variable of the environment that is a path.
    pub(crate) fn restart_in(&mut self, variable: Option<(&str, &Path)>) {
        let (process, greeting) = run_with(&self.state_dir(), "Certificate", variable);
        self.process = process;
        self.url = url(&greeting);
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("portal")
    }

    /// A portal with an owner, and the owner's shell.
    pub(crate) fn set_up() -> (Self, Shell) {
        let portal = Self::start();
        let shell = portal.shell("owner");
        let setup = &["setup", "--token-file", "-", "--owner", "ada"];
        shell.given(setup, &portal.setup_token).ok();
        (portal, shell)
    }

    /// The same with a site `office`, in it a resource `db`, and an actor `ci` in a group `build`.
    /// Nobody may use anything yet.
    pub(crate) fn with_office() -> (Self, Shell) {
        let (portal, shell) = Self::set_up();
        for line in [
            "site create office",
            "resource create db --site office --address 10.1.2.3 --allow tcp:5432",
            "actor create ci --kind service-account",
            "group create build --member ci",
        ] {
            shell.line(line).ok();
        }
        (portal, shell)
    }

    /// The shell of somebody with a home of their own.
    pub(crate) fn shell(&self, name: &str) -> Shell {
        let home = self.dir.path().join(name);
        std::fs::create_dir_all(&home).unwrap();
        Shell { home }
    }

    /// A path at which tests may put files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// A program that runs until the test ends.
pub(crate) struct Background(Child);

impl Background {
    /// Starts it, and reads what it prints up to the line that holds `last`.
    ///
    /// # Panics
    /// If it ends without that line.
    pub(crate) fn start(mut command: Command, last: &str) -> (Self, String) {
        let mut running = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut text = String::new();
        for line in BufReader::new(running.0.stdout.as_mut().unwrap()).lines() {
            text += &format!("{}\n", line.unwrap());
            if text.contains(last) {
                return (running, text);
            }
        }
        panic!("{last:?} was never printed:\n{text}");
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Runs a portal, and reads what it prints up to the line that holds `last`.
fn run(state_dir: &Path, last: &str) -> (Child, String) {
    run_with(state_dir, last, None)
}

fn run_with(state_dir: &Path, last: &str, variable: Option<(&str, &Path)>) -> (Child, String) {
    let mut command = Command::new(CULVERT);
    command
        .env_remove("CULVERT_PORTAL_SECRETS_KEY")
        .env_remove("CREDENTIALS_DIRECTORY")
        .envs(variable);
    let mut process = command
        .args(["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"])
        .arg(state_dir)
        .env("CULVERT_PORTAL_LOG_LEVEL", "error")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.as_mut().unwrap());
    let mut greeting = String::new();
    for line in output.lines() {
        let line = line.unwrap();
        greeting += &format!("{line}\n");
        if line.contains(last) {
            break;
        }
    }
    (process, greeting)
}

fn url(greeting: &str) -> String {
    let mut lines = greeting.lines();
    let url = lines.find_map(|line| line.strip_prefix("Portal: "));
    url.unwrap().to_owned()
}

impl Drop for Portal {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Somebody's shell.
pub(crate) struct Shell {
    pub(crate) home: PathBuf,
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct Said(pub(crate) Output);

impl Shell {
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        // Tests that run in the background of a shell have SIGINT ignored, and what they start inherits that.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT", CULVERT]);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        command.arg("admin").args(words).env("HOME", &self.home);
        command.stdin(Stdio::null());
        command
    }

    /// Runs `culvert admin` with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Said {
        Said(self.command(words).output().unwrap())
    }

    /// The same at the address that a portal has after it was started anew.
    pub(crate) fn at(&self, portal: &Portal, line: &str) -> Said {
        let mut command = self.command(&line.split(' ').collect::<Vec<_>>());
        Said(
            command
                .env("CULVERT_ADMIN_PORTAL", &portal.url)
                .output()
                .unwrap(),
        )
    }

    /// The words of a line; none of them holds a space.
    pub(crate) fn line(&self, line: &str) -> Said {
        self.run(&line.split(' ').collect::<Vec<_>>())
    }

    /// Runs it with a line on standard input.
    pub(crate) fn given(&self, words: &[&str], input: &str) -> Said {
        let mut command = self.command(words);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that does not read it closes it.
        let _unread = stdin.write_all(format!("{input}\n").as_bytes());
        drop(stdin);
        Said(child.wait_with_output().unwrap())
    }

    /// The JSON of a command that succeeds.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let mut words = words.to_vec();
        // Of a log, --json is an entry a line.
        match words[0] {
            "log" => words.extend(["--output", "json"]),
            _ => words.push("--json"),
        }
        let said = self.run(&words).ok();
        let json: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(json["schema_version"], 1, "{json}");
        assert_eq!(said.lines().count(), 1, "{said}");
        json
    }

    pub(crate) fn saved_token(&self) -> PathBuf {
        self.home.join(".config/culvert/admin.token")
    }
}

impl Said {
    /// Standard output of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.0.status.code(), Some(0), "{self:?}");
        String::from_utf8(self.0.stdout).unwrap()
    }

    /// The one line of a command that failed with the status.
    #[track_caller]
    pub(crate) fn fails(self, status: i32) -> String {
        assert_eq!(self.0.status.code(), Some(status), "{self:?}");
        let error = String::from_utf8(self.0.stderr).unwrap();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    }
}

/// The permissions of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Writes a file that nobody else may read.
pub(crate) fn write_secret(path: &Path, content: &str) {
    std::fs::write(path, content).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Enrols a client by its token, as a client does, and leaves again.
pub(crate) fn enrol_client(token: &str, name: &str) {
    enrol_client_with(token, name, None);
}

/// The same of a client that says its operating system.
pub(crate) fn enrol_client_with(token: &str, name: &str, os: Option<OperatingSystem>) {
    let hello = encode(&FromClient::Hello {
        protocols: vec![PROTOCOL],
        version: "0.1.0".to_owned(),
        machine: format!("machine of {name}"),
        name: name.to_owned(),
        public_key: key(name),
        ciphers: Vec::new(),
        features: Vec::new(),
        os,
    });
    enrol(token, CLIENT_SESSION_PATH, hello);
}

/// Enrols a gateway by its token, as a gateway does, and leaves again.
pub(crate) fn enrol_gateway(token: &str, name: &str) {
    enrol(token, GATEWAY_SESSION_PATH, gateway_hello(name));
}

/// The same, and stays connected until what it returns is dropped.
pub(crate) fn stay_gateway(token: &str, name: &str) -> Session {
    begin(token, GATEWAY_SESSION_PATH, gateway_hello(name))
}

fn gateway_hello(name: &str) -> String {
    encode(&FromGateway::Hello {
        protocols: vec![PROTOCOL],
        version: "0.1.0".to_owned(),
        machine: format!("machine of {name}"),
        name: name.to_owned(),
        public_key: key(name),
        ciphers: Vec::new(),
        candidates: vec!["192.0.2.1:51820".parse().unwrap()],
        draining: false,
        grants: Vec::new(),
        more_grants: false,
        features: Vec::new(),
    })
}

/// Enrols a relay by its token, as a relay does, and leaves again.
pub(crate) fn enrol_relay(token: &str, name: &str) {
    let hello = encode(&FromRelay::Hello {
        protocols: vec![PROTOCOL],
        version: "0.1.0".to_owned(),
        machine: format!("machine of {name}"),
        name: name.to_owned(),
        addresses: vec!["192.0.2.9:3478".parse().unwrap()],
        first_port: 3_479,
        ports: 64,
        tls: None,
        draining: false,
        assigned: Vec::new(),
    });
    enrol(token, RELAY_SESSION_PATH, hello);
}

/// A key that nobody else has.
fn key(name: &str) -> PublicKey {
    let mut key = [7; 32];
    key[..name.len()].copy_from_slice(name.as_bytes());
    PublicKey::from_bytes(key)
}

fn enrol(token: &str, path: &'static str, hello: String) {
    let Session {
        runtime,
        connection,
    } = begin(token, path, hello);
    runtime.block_on(connection.close());
}

/// A machine that is connected.
pub(crate) struct Session {
    runtime: Runtime,
    connection: Connection,
}

fn begin(token: &str, path: &'static str, hello: String) -> Session {
    let token: Token = token.parse().unwrap();
    let destination = Destination {
        portal: token.portal.unwrap(),
        path,
        credential: (&token.bearer).into(),
        mark: None,
        look_up: culvert_link::system_look_up,
        proxy: None,
        addresses: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let connection = runtime.block_on(async {
        let mut connection = connect(&destination).await.unwrap().connection;
        connection.sender().send(hello).await.unwrap();
        let welcome = connection.receive().await.unwrap();
        assert!(welcome.contains("\"welcome\""), "{welcome}");
        connection
    });
    Session {
        runtime,
        connection,
    }
}
