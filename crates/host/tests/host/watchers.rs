//! Watchers at a real socket, of a program that is played here.

use culvert_host::{
    MAX_WATCHERS, MAX_WATCHERS_PER_USER, MIN_INTERVAL_MS, Observed, Request, StatusError, Update,
    Watch, WatchRequest, WatchStream, ask, observe,
};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

/// Far above what anything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Asked {
    Status,
    Watch(Watch),
}

impl Request for Asked {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        false
    }

    fn watch(&self) -> Option<Watch> {
        match self {
            Self::Watch(watch) => Some(*watch),
            Self::Status => None,
        }
    }
}

/// A program whose state is a number, and which pads its messages.
struct Program {
    observed: Observed<u64, Asked>,
    state: u64,
    padding: usize,
    /// Messages that were asked for.
    pulled: u64,
}

impl Program {
    fn start(directory: &tempfile::TempDir) -> (Self, culvert_host::StatusSocket, PathBuf) {
        let path = directory.path().join("client.sock");
        let (_, observed) = observe();
        let socket = observed.bind(&path, 1).unwrap();
        let program = Self {
            observed,
            state: 1,
            padding: 0,
            pulled: 0,
        };
        (program, socket, path)
    }

    fn change(&mut self) {
        self.state += 1;
        self.observed.watchers().publish(self.state);
    }

    async fn turn(&mut self) {
        let asked = self.observed.next().await;
        let Some(WatchRequest { watch, update, .. }) = asked.watcher else {
            let _gone = asked.answer.send(Ok(self.state));
            return;
        };
        self.pulled += 1;
        let message = json!({
            "sequence": self.state, "after": watch.after, "padding": "x".repeat(self.padding),
        });
        let _gone = update.send(Update {
            sequence: self.state,
            write: Box::new(move || serde_json::to_vec(&message)),
        });
    }

    /// Goes on until `test` is done.
    async fn play<T>(&mut self, test: impl Future<Output = T>) -> T {
        let mut test = std::pin::pin!(timeout(DEADLINE, test));
        loop {
            tokio::select! {
                done = &mut test => return done.unwrap(),
                () = self.turn() => {}
            }
        }
    }
}

async fn watch(path: &Path, after: Option<u64>) -> WatchStream {
    let request = Asked::Watch(Watch { after });
    WatchStream::open(path, "client", 1, request).await.unwrap()
}

async fn line(stream: &mut WatchStream) -> Option<Value> {
    let line = stream.next().await.unwrap()?;
    Some(serde_json::from_slice(&line).unwrap())
}

async fn number(stream: &mut WatchStream) -> u64 {
    line(stream).await.unwrap()["sequence"].as_u64().unwrap()
}

/// A watcher of another user.
struct OtherUser(BufReader<UnixStream>);

impl OtherUser {
    /// The kernel notes the user of the thread that connects.
    async fn watch(path: &Path, uid: u32) -> Self {
        let path = path.to_owned();
        let connected = std::thread::spawn(move || {
            let user = Uid::from_raw(uid);
            set_thread_res_uid(user, user, user).unwrap();
            std::os::unix::net::UnixStream::connect(path).unwrap()
        });
        let stream = connected.join().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut stream = UnixStream::from_std(stream).unwrap();
        stream.write_all(WATCH.as_bytes()).await.unwrap();
        Self(BufReader::new(stream))
    }

    async fn line(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

const WATCH: &str = "{\"schema_version\":1,\"request\":{\"watch\":{}}}\n";

fn assert_has_no_place(line: &Value, reason: &str) {
    assert_eq!(line["code"], "too_many_watchers", "{line}");
    assert!(line["error"].as_str().unwrap().contains(reason), "{line}");
}

#[tokio::test]
async fn a_watcher_hears_each_state_and_nothing_while_nothing_changes() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    assert!(!program.observed.watchers().is_watched());
    let mut stream = program.play(watch(&path, None)).await;
    assert_eq!(program.play(number(&mut stream)).await, 1);
    assert!(program.observed.watchers().is_watched());
    program.change();
    assert_eq!(program.play(number(&mut stream)).await, 2);
    // Nothing happens now: the program is asked nothing.
    let pulled = program.pulled;
    program
        .play(sleep(Duration::from_millis(5 * MIN_INTERVAL_MS)))
        .await;
    assert_eq!(program.pulled, pulled);
    // One that comes back names the last number, and hears at once that it is the newest.
    drop(stream);
    let mut stream = program.play(watch(&path, Some(2))).await;
    let message = program.play(line(&mut stream)).await.unwrap();
    assert_eq!(
        (&message["sequence"], &message["after"]),
        (&json!(2), &json!(2))
    );
    drop(stream);
    program
        .play(async { sleep(Duration::from_millis(MIN_INTERVAL_MS)).await })
        .await;
    while program.observed.watchers().is_watched() {
        program.play(sleep(Duration::from_millis(10))).await;
    }
}

#[tokio::test]
async fn many_changes_are_few_messages_and_the_newest_state_wins() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    let mut stream = program.play(watch(&path, None)).await;
    program.play(number(&mut stream)).await;
    let begun = Instant::now();
    for _ in 0..200 {
        program.change();
        program.play(sleep(Duration::from_millis(5))).await;
    }
    let last = program.state;
    let mut messages = 0;
    let mut heard = 0;
    while heard < last {
        heard = program.play(number(&mut stream)).await;
        messages += 1;
    }
    let most = begun.elapsed().as_millis() / u128::from(MIN_INTERVAL_MS) + 1;
    assert!(messages <= most, "{messages} messages, not {most}");
    assert_eq!(heard, last);
}

#[tokio::test]
async fn a_reader_that_does_not_read_costs_one_message_and_holds_nobody_up() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    // More than a socket holds.
    program.padding = 4 * 1024 * 1024;
    let mut slow = program.play(watch(&path, None)).await;
    while program.pulled < 1 {
        program.play(sleep(Duration::from_millis(10))).await;
    }
    program.padding = 0;
    let mut other = program.play(watch(&path, None)).await;
    for _ in 0..20 {
        program.change();
        let heard = program.play(number(&mut other)).await;
        assert!(heard >= program.state - 1, "{heard}");
        let answered = program.play(ask::<u64, Asked>(&path, "client", 1, Asked::Status));
        assert_eq!(answered.await.unwrap(), program.state);
    }
    // All that it missed is one message.
    assert_eq!(program.play(number(&mut slow)).await, 1);
    assert_eq!(program.play(number(&mut slow)).await, program.state);
}

#[tokio::test]
async fn a_reader_that_never_reads_is_disconnected() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    program.padding = 4 * 1024 * 1024;
    let _stream = program.play(watch(&path, None)).await;
    while !program.observed.watchers().is_watched() {
        program.play(sleep(Duration::from_millis(10))).await;
    }
    let begun = Instant::now();
    while program.observed.watchers().is_watched() {
        assert!(begun.elapsed() < DEADLINE);
        program.play(sleep(Duration::from_millis(100))).await;
    }
    assert_eq!(program.pulled, 1);
}

#[tokio::test]
async fn a_thousand_changes_cost_readers_that_do_not_read_one_message_each() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    // More than a socket holds.
    program.padding = 4 * 1024 * 1024;
    let mut slow = Vec::new();
    for _ in 0..MAX_WATCHERS_PER_USER {
        slow.push(program.play(watch(&path, None)).await);
    }
    let readers = slow.len() as u64;
    while program.pulled < readers {
        program.play(sleep(Duration::from_millis(10))).await;
    }
    for _ in 0..10 {
        for _ in 0..100 {
            program.change();
        }
        // A watcher that could take a message would ask for one within this.
        program
            .play(sleep(Duration::from_millis(2 * MIN_INTERVAL_MS)))
            .await;
    }
    assert_eq!(program.pulled, readers);
}

#[tokio::test]
async fn a_thousand_watchers_leave_room_for_commands_and_are_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    let attempts = async {
        let (mut accepted, mut refused) = (Vec::new(), Vec::new());
        for _ in 0..1_000 {
            let mut stream = watch(&path, None).await;
            let line = line(&mut stream).await.unwrap();
            match line.get("code") {
                None => accepted.push(stream),
                Some(_) => {
                    assert_has_no_place(&line, "4 programs of this user watch already");
                    refused.push(stream);
                }
            }
        }
        let status = ask::<u64, Asked>(&path, "client", 1, Asked::Status).await;
        assert_eq!(status.unwrap(), 1);
        (accepted, refused)
    };
    let (mut accepted, mut refused) = program.play(attempts).await;
    assert_eq!(accepted.len(), MAX_WATCHERS_PER_USER);
    assert_eq!(refused.len(), 1_000 - MAX_WATCHERS_PER_USER);
    // No state was made for those who were refused, and nothing of them is left.
    assert_eq!(program.pulled, accepted.len() as u64);
    for stream in &mut refused {
        assert_eq!(program.play(line(stream)).await, None);
    }
    program.change();
    for stream in &mut accepted {
        assert_eq!(program.play(number(stream)).await, 2);
    }
    // Their places are free again.
    drop(accepted);
    while program.observed.watchers().is_watched() {
        program.play(sleep(Duration::from_millis(10))).await;
    }
    let mut stream = program.play(watch(&path, None)).await;
    assert_eq!(program.play(number(&mut stream)).await, 2);
}

#[tokio::test]
async fn watchers_of_all_users_have_a_limit_that_holds_for_root_too() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let users = MAX_WATCHERS / MAX_WATCHERS_PER_USER;
    let mut accepted = Vec::new();
    for uid in (60_001..).take(users) {
        for _ in 0..MAX_WATCHERS_PER_USER {
            let mut stream = program.play(OtherUser::watch(&path, uid)).await;
            assert_eq!(program.play(stream.line()).await["sequence"], 1);
            accepted.push(stream);
        }
        let mut stream = program.play(OtherUser::watch(&path, uid)).await;
        let line = program.play(stream.line()).await;
        assert_has_no_place(&line, "4 programs of this user watch already");
    }
    assert_eq!(accepted.len(), MAX_WATCHERS);
    for uid in [0, 60_099] {
        let mut stream = program.play(OtherUser::watch(&path, uid)).await;
        let line = program.play(stream.line()).await;
        assert_has_no_place(&line, "16 programs watch already");
    }
    assert_eq!(program.pulled, MAX_WATCHERS as u64);
    program.change();
    for stream in &mut accepted {
        assert_eq!(program.play(stream.line()).await["sequence"], 2);
    }
    let status = program.play(ask::<u64, Asked>(&path, "client", 1, Asked::Status));
    assert_eq!(status.await.unwrap(), 2);
    // The place of one that leaves is for anybody.
    drop(accepted.pop());
    let come = async {
        loop {
            let mut stream = OtherUser::watch(&path, 60_099).await;
            let line = stream.line().await;
            if line["sequence"] == 2 {
                return;
            }
            assert_has_no_place(&line, "16 programs watch already");
            sleep(Duration::from_millis(10)).await;
        }
    };
    program.play(come).await;
}

#[tokio::test]
async fn the_end_of_the_program_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, socket, path) = Program::start(&directory);
    let mut stream = program.play(watch(&path, None)).await;
    assert_eq!(program.play(number(&mut stream)).await, 1);
    drop((program, socket));
    let last = timeout(DEADLINE, line(&mut stream)).await.unwrap().unwrap();
    assert_eq!(last["code"], "ending");
    assert_eq!(timeout(DEADLINE, line(&mut stream)).await.unwrap(), None);
    let gone = WatchStream::open(&path, "client", 1, Asked::Watch(Watch::default())).await;
    assert!(
        matches!(gone, Err(StatusError::NotRunning { .. })),
        "{gone:?}"
    );
}

#[tokio::test]
async fn a_watcher_that_writes_more_is_let_go() {
    let directory = tempfile::tempdir().unwrap();
    let (mut program, _socket, path) = Program::start(&directory);
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(WATCH.as_bytes()).await.unwrap();
    while !program.observed.watchers().is_watched() {
        program.play(sleep(Duration::from_millis(10))).await;
    }
    stream.write_all(b"more\n").await.unwrap();
    while program.observed.watchers().is_watched() {
        program.play(sleep(Duration::from_millis(10))).await;
    }
}
