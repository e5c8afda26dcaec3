//! Logs on the command line: searched, filtered, exported, followed.

use crate::scene::{Portal, Shell};
use culvert_ids::{ClientId, ResourceId};
use culvert_store::{AccessEntry, Decision, PageLimit, Store};
use culvert_store_sql::{SecretsAccess, SqlStore, SqliteOptions};
use culvert_wire::Timestamp;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A command that runs until it is told to end.
struct Following {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Following {
    fn start(shell: &Shell, line: &str) -> Self {
        let mut command = shell.command(&line.split(' ').collect::<Vec<_>>());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, output }
    }

    /// The next line; the test's time limit is the runner's.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Its status after a signal.
    fn ends_by(mut self, signal: &str) -> Option<i32> {
        let id = self.process.id().to_string();
        let kill = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(kill.unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _status = self.process.wait();
    }
}

#[test]
fn a_log_is_searched_and_narrowed_by_days() {
    let (_portal, shell) = Portal::with_office();
    let found = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        let found = shell.json(&words)["items"].as_array().unwrap().clone();
        found.len()
    };
    assert_eq!(found("log changes --search 10.1.2.3"), 1);
    assert_eq!(found("log changes --search 10.1.2.3 --until yesterday"), 0);
    assert_eq!(found("log changes --search 10.1.2.3 --since yesterday"), 1);
    assert_eq!(found("log changes --search 10%1 --since 4h"), 0);
    assert_eq!(found("log access --search laptop --actor ci"), 0);
    assert_eq!(found("log flows --search 5432 --end closed"), 0);
    let long = "x".repeat(201);
    let error = shell.run(&["log", "access", "--search", &long]).fails(1);
    assert!(error.contains("a part of it is enough"), "{error}");
    let error = shell.line("log access --since soon").0;
    assert_eq!(error.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&error.stderr).contains("yesterday"));
}

#[test]
fn a_log_is_exported_whole_or_its_newest_entries() {
    let (portal, shell) = Portal::with_office();
    // More than a page of the API, with a line break and quotes in what was changed.
    let sites = (0..300).map(|number| format!("[[site]]\nname = 'say \"{number}\"'\n"));
    let file = portal.path("access.toml");
    std::fs::write(&file, sites.collect::<String>()).unwrap();
    let file = file.to_str().unwrap().to_owned();
    shell.run(&["apply", "-f", &file, "--yes"]).ok();
    let whole = shell.line("log changes --entity site --json").ok();
    let entries: Vec<Value> = whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), 301);
    assert!(entries.iter().all(|entry| entry["entity"] == "site"));
    assert!(entries.iter().all(|entry| entry["schema_version"] == 1));
    let newest = shell
        .line("log changes --entity site --json --limit 3")
        .ok();
    assert!(whole.starts_with(&newest) && newest.lines().count() == 3);
    let csv = shell.line("log changes --entity site --csv").ok();
    assert!(csv.starts_with("seq,at,actor,operation"), "{csv}");
    assert_eq!(csv.lines().count(), 302);
    let newest = shell.line("log changes --entity site --csv --limit 3").ok();
    assert!(csv.starts_with(&newest) && newest.lines().count() == 4);
    assert_eq!(shell.line("log access --json").ok(), "");
    for line in [
        "log access --csv --json",
        "log access --csv --follow",
        "log access --follow --until 1h",
    ] {
        assert_eq!(shell.line(line).0.status.code(), Some(2), "{line}");
    }
}

#[test]
fn a_log_is_followed_until_ctrl_c_which_is_no_failure() {
    let (portal, shell) = Portal::with_office();
    let mut json = Following::start(
        &shell,
        "log changes --follow --json --entity site --limit 1",
    );
    let mut text = Following::start(&shell, "log changes --follow --search branch");
    let site = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_eq!(entry["schema_version"], 1, "{line}");
        entry["after"]["name"].clone()
    };
    assert_eq!(site(&json.line()), "office");
    // The other one has nothing to show yet: its filter leaves nothing of what there is.
    for name in ["branch-1", "other", "branch-2"] {
        shell.run(&["site", "create", name]).ok();
        shell.run(&["group", "create", name]).ok();
    }
    for name in ["branch-1", "other", "branch-2"] {
        assert_eq!(site(&json.line()), name);
    }
    for what in ["site", "group"] {
        let line = text.line();
        assert!(
            line.contains(&format!("create {what} \"branch-1\"")),
            "{line}"
        );
    }
    assert!(text.line().contains("create site \"branch-2\""));
    assert_eq!(json.ends_by("INT"), Some(0));
    assert_eq!(text.ends_by("TERM"), Some(0));
    drop(portal);
}

/// Writes entries of the access log into the database of a portal that runs, each so many seconds before now.
fn log_access(portal: &Portal, seconds_ago: &[u64]) {
    let path = portal.state_dir().join("portal.db");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let entry = |seconds: &u64| AccessEntry {
        at: Timestamp::from_unix_ms(now.as_millis() as u64 - seconds * 1_000),
        client: ClientId::from_bytes([1; 16]),
        actor: None,
        resource: ResourceId::from_bytes([2; 16]),
        gateway: None,
        policy: None,
        grant: None,
        decision: Decision::Denied,
        reason: "a test".to_owned(),
    };
    let entries = seconds_ago.iter().map(entry).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = SqliteOptions::file(path).secrets(SecretsAccess::Nothing);
        let store = SqlStore::open(&options).await.unwrap();
        let accounts = store.accounts(None, PageLimit::new(1)).await.unwrap();
        let account = accounts.items[0].id;
        store.append_access_log(account, entries).await.unwrap();
        store.close().await;
    });
}

#[test]
fn an_entry_that_comes_late_is_followed_once() {
    let (portal, shell) = Portal::with_office();
    log_access(&portal, &[20, 60]);
    let mut followed = Following::start(&shell, "log access --follow --json");
    let number = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["seq"].as_u64().unwrap()
    };
    // Those that are there come in the order of their times, those that come in the order of their numbers.
    assert_eq!([(); 2].map(|()| number(&followed.line())), [2, 1]);
    log_access(&portal, &[40]);
    assert_eq!(number(&followed.line()), 3);
    log_access(&portal, &[50, 10]);
    assert_eq!([(); 2].map(|()| number(&followed.line())), [4, 5]);
    assert_eq!(followed.ends_by("INT"), Some(0));
}

#[test]
fn who_may_not_read_a_log_does_not_follow_it() {
    let (mut portal, shell) = Portal::set_up();
    portal.kill();
    let error = shell.line("log access --follow").fails(4);
    assert!(
        error.contains("culvert") || error.contains("127.0.0.1"),
        "{error}"
    );
}
