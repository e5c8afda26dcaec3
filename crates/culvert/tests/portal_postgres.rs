//! `culvert portal` with its database on a PostgreSQL server.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[path = "../../store-sql/tests/postgres/process.rs"]
mod process;

use process::Process;
use std::io::{BufRead, BufReader, Write};
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
fn start(state: &str, database: &[&str], until: &str) -> (Running, String) {
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

/// Starts a portal that sets the account up, or leaves that to another one, and says which.
fn set_up(directory: &Path, name: &str, url: &str) -> (Running, bool) {
    let home = directory.join(name);
    std::fs::create_dir(&home).unwrap();
    let file = home.join("access.toml");
    std::fs::write(&file, "[[site]]\nname = 'office'\n").unwrap();
    let mut child = culvert(&["portal", "run", "--listen", "127.0.0.1:0"])
        .args(["--log-level", "error", "--database", url, "--state-dir"])
        .arg(home.join("state"))
        .arg("--set-up")
        .arg(&file)
        .env("HOME", &home)
        .current_dir(&home)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let running = Running(child);
    for line in output.lines() {
        let line = line.unwrap();
        if line.starts_with("Each token is good") {
            return (running, true);
        }
        if line.starts_with("Another portal") || line.starts_with("It has an owner") {
            return (running, false);
        }
    }
    panic!("{name} ended");
}

#[test]
fn of_two_portals_that_set_an_account_up_at_once_one_does_and_both_run() {
    let server = Process::start();
    create_database(&server);
    let socket = server.socket.display();
    let url = format!("postgres:///culvert?host={socket}&user=culvert");
    let directory = tempfile::tempdir().unwrap();
    let (directory, url) = (directory.path(), &url);
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(move || set_up(directory, "one", url));
        let two = scope.spawn(move || set_up(directory, "two", url));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_ne!(one.1, two.1, "one of them sets it up");
    one.0.end();
    two.0.end();
}

fn refused(output: &Output, status: i32, says: &[&str]) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    for text in says {
        assert!(error.contains(text), "{text}: {error}");
    }
    assert!(!error.contains("hush-hush"), "{error}");
}

fn create_database(server: &Process) {
    let made = Command::new(process::programs().join("createdb"))
        .arg("culvert")
        .arg("--username=culvert")
        .arg(format!("--host={}", server.socket.display()))
        .status();
    assert!(made.unwrap().success());
}

#[test]
fn a_portal_keeps_its_data_on_the_server_and_its_directory_remembers_that() {
    let server = Process::start();
    let socket = server.socket.display();
    create_database(&server);
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (state, other) = (path("state"), path("other"));
    let url = format!("postgres:///culvert?host={socket}&user=culvert");

    let (portal, said) = start(&state, &["--database", &url], "cv_setup_");
    assert!(said.starts_with("Portal: https://"), "{said}");
    assert!(!Path::new(&state).join("portal.db").exists());
    let on = ["portal", "run", "--listen", "127.0.0.1:0", "--state-dir"];
    let certificate = |said: &str| {
        let line = said.lines().find(|line| line.starts_with("Certificate"));
        line.map(str::to_owned).unwrap()
    };
    // Another one beside it is known by the same certificate.
    let (second, beside) = start(&path("beside"), &["--database", &url], "setup-token");
    assert_eq!(certificate(&beside), certificate(&said));
    second.end();
    let token = ["portal", "setup-token", "--state-dir", &state];
    let beside = [&token[..], &["--database", &url]].concat();
    let another = run(&beside);
    assert!(another.status.success(), "{another:?}");
    assert!(String::from_utf8_lossy(&another.stdout).contains("cv_setup_"));
    portal.end();

    // A lost directory is no loss: tokens know the portal by its certificate.
    for name in ["certificate.pem", "browsers.key"] {
        assert!(!Path::new(&state).join(name).exists(), "{name}");
    }
    let (portal, again) = start(&path("new"), &["--database", &url], "setup-token");
    assert_eq!(certificate(&again), certificate(&said));
    portal.end();

    // The same portal again, by the file that may hold a password.
    let file = path("database-url");
    let mut options = std::fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(&file);
    opened.unwrap().write_all(url.as_bytes()).unwrap();
    let (portal, said) = start(&state, &["--database-file", &file], "setup-token");
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

/// The shell of the owner of a portal, which has another address after each start.
struct Owner<'a> {
    home: &'a Path,
}

impl Owner<'_> {
    fn says(&self, greeting: &str, line: &str, input: &str) -> String {
        let url = greeting
            .lines()
            .find_map(|line| line.strip_prefix("Portal: "));
        let words = ["admin"].into_iter().chain(line.split(' '));
        let mut child = culvert(&words.collect::<Vec<_>>())
            .env("HOME", self.home)
            .env("CULVERT_ADMIN_PORTAL", url.unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read it closes it.
        let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The portal has all that the owner has made, and takes their token.
    fn finds_all(&self, greeting: &str) {
        let found = self.says(greeting, "resource list --json", "");
        assert!(found.contains("10.1.2.3"), "{found}");
        let found = self.says(greeting, "log changes --output json", "");
        assert!(found.contains("office"), "{found}");
    }
}

/// `culvert portal migrate` beside a portal that runs, once it has asked for its end.
fn migrating(state: &str, options: &[&str]) -> Child {
    let mut child = culvert(&["portal", "migrate", "--state-dir", state])
        .args(options)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut error = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("Stop the portal") {
        assert_ne!(error.read_line(&mut said).unwrap(), 0, "{said}");
    }
    assert!(said.contains("rows of its logs are copied"), "{said}");
    // The rest goes nowhere; a closed pipe is no failure.
    child
}

fn told(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{output:?}");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["schema_version"], 1, "{told}");
    assert!(told["rows"]["change_log"].as_u64() >= Some(3), "{told}");
    told
}

#[test]
fn a_portal_moves_to_a_server_while_it_runs_and_back_and_its_owner_goes_on() {
    let server = Process::start();
    create_database(&server);
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state").display().to_string();
    let file = |name: &str| Path::new(&state).join(name);
    let url = format!(
        "postgres:///culvert?host={}&user=culvert",
        server.socket.display()
    );
    let owner = Owner {
        home: directory.path(),
    };
    let (portal, said) = start(&state, &[], "culvert admin --help");
    let token = &said[said.find("cv_setup_").unwrap()..];
    let token = token.split('\'').next().unwrap();
    owner.says(&said, "setup --token-file - --owner ada", token);
    owner.says(&said, "site create office", "");
    let resource = "resource create db --site office --address 10.1.2.3 --allow tcp:5432";
    owner.says(&said, resource, "");

    // Ended before the portal, it changes nothing, neither here nor there.
    let to_postgres = ["--to", &*url];
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let mut ended = migrating(&state, &to_postgres);
        let id = rustix::process::Pid::from_child(&ended);
        rustix::process::kill_process(id, signal).unwrap();
        assert!(!ended.wait().unwrap().success());
        owner.finds_all(&said);
    }
    let migrating = migrating(&state, &[&to_postgres[..], &["--json"]].concat());
    owner.says(&said, "site create late", "");
    portal.end();
    let moved = told(&migrating.wait_with_output().unwrap());
    let old = moved["old_database"].as_str().unwrap();
    assert!(
        old.contains("portal.db.migrated-20") && Path::new(old).exists(),
        "{old}"
    );
    assert!(!file("portal.db").exists() && !file("portal.db-wal").exists());
    let command = moved["command"].as_str().unwrap();
    assert_eq!(
        command,
        format!("culvert portal run --state-dir {state} --database '{url}'")
    );

    let on = [
        "portal",
        "run",
        "--listen",
        "127.0.0.1:0",
        "--state-dir",
        &state,
    ];
    refused(&run(&on), 1, &["culvert as culvert at", "--database-file"]);
    let (portal, said) = start(&state, &["--database", &url], "Certificate");
    owner.finds_all(&said);
    assert!(!file("certificate.pem").exists() && !file("browsers.key").exists());
    let sites = owner.says(&said, "site list --json", "");
    assert!(sites.contains("late"), "{sites}");
    owner.says(&said, "site create there", "");
    portal.end();

    let migrate = ["portal", "migrate", "--state-dir", &state];
    let again = [&migrate[..], &to_postgres].concat();
    refused(&run(&again), 1, &["is on PostgreSQL already"]);
    let back = [&migrate[..], &["--to", "sqlite", "--database", &url]].concat();
    let other = back.join(" ").replace("user=culvert", "user=postgres");
    let other: Vec<&str> = other.split(' ').collect();
    refused(&run(&other), 1, &["name the right one"]);
    let output = run(&back);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let start_it = format!("Start the portal:\n  culvert portal run --state-dir {state}\n");
    assert!(text.ends_with(&start_it), "{text}");
    assert!(!file("portal.db.migrating").exists());
    refused(&run(&back), 1, &["in a file already"]);
    let (portal, said) = start(&state, &[], "Certificate");
    owner.finds_all(&said);
    let sites = owner.says(&said, "site list --json", "");
    assert!(sites.contains("there"), "{sites}");
    portal.end();

    // The database there is in use, so the way is closed until it is made anew.
    refused(&run(&again), 1, &["has an account already", "createdb"]);
    let unnamed = [
        "portal",
        "migrate",
        "--to",
        "postgres",
        "--state-dir",
        &state,
    ];
    refused(&run(&unnamed), 2, &["--database-file FILE"]);
    refused(&run(&migrate), 2, &["--to"]);
    let twice = [&again[..], &["--database", &url]].concat();
    refused(&run(&twice), 2, &["two databases are named"]);
    let nowhere = [&migrate[..], &["--to", "mysql://db/culvert"]].concat();
    refused(&run(&nowhere), 2, &["postgres://culvert@"]);
    assert!(file("portal.db").exists());
}
