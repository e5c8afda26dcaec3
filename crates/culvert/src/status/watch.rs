//! `culvert status --watch`: the state at each change, until it is interrupted.

use super::table;
use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::visible::visible;
use culvert_base::BootTime;
use culvert_client::status::Status;
use culvert_client::{
    Differences, ErrorCode, Mirror, StatusError, WatchError, WatchMessage, Watcher, ask_status,
};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Interval between two attempts to reach a client that has ended.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Interval between two looks at a program that does not know `watch`, such as an older client.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Moves a terminal's cursor to the top, and clears from there.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Shows the state of the client that answers at `socket` at each change. Goes on until this process is interrupted, or
/// until the client refuses.
pub(super) async fn run(socket: &Path, json: bool) -> Result<(), Failure> {
    let mut watch = Watch {
        json,
        is_terminal: std::io::stdout().is_terminal(),
        is_first: true,
        began: Instant::now(),
        mirror: Mirror::default(),
        differences: Differences::default(),
        known: None,
    };
    loop {
        let ended = watch.follow(socket).await?;
        // The first attempt fails as `culvert status` does.
        if watch.is_first {
            return Err(Failure::new(Exit::Failed, ended));
        }
        say(&format!(
            "{ended}; watching goes on when a client answers at {}",
            socket.display()
        ));
        watch.await_client(socket).await;
    }
}

/// Tells the person. The caller may have closed standard error.
fn say(text: &str) {
    let _unseen = writeln!(std::io::stderr(), "{}", visible(text));
}

struct Watch {
    json: bool,
    is_terminal: bool,
    /// Nothing was shown yet.
    is_first: bool,
    began: Instant,
    mirror: Mirror,
    /// Compares states of a client that is polled.
    differences: Differences,
    /// The number of the last message.
    known: Option<u64>,
}

impl Watch {
    /// Shows changes until the client ends, and says how it ended.
    async fn follow(&mut self, socket: &Path) -> Result<String, Failure> {
        let mut watcher = match Watcher::open(socket, self.known).await {
            Ok(watcher) => watcher,
            Err(error) => return Ok(error.to_string()),
        };
        loop {
            match watcher.next().await {
                Ok(message) => self.take(message)?,
                Err(WatchError::Unsupported) => return self.poll(socket).await,
                Err(error) if is_final(&error) => return Err(Failure::new(Exit::Failed, error)),
                Err(error) => return Ok(error.to_string()),
            }
        }
    }

    /// Follows a program that does not know `watch`.
    async fn poll(&mut self, socket: &Path) -> Result<String, Failure> {
        self.known = None;
        loop {
            match ask_status(socket).await {
                Ok(status) => {
                    let now = BootTime::ZERO.saturating_add(self.began.elapsed());
                    let is_other = self.differences.is_other(&status, now);
                    if is_other.map_err(|error| unreadable(&error))? {
                        self.take(WatchMessage::whole(None, Box::new(status)))?;
                    }
                }
                // It is busy with going up or down.
                Err(error) if error.is_timeout() => {}
                Err(error) => return Ok(error.to_string()),
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until a client answers again.
    async fn await_client(&self, socket: &Path) {
        while let Err(error) = ask_status(socket).await {
            let refuses = matches!(error, StatusError::Refused { .. });
            let is_transient = error.code().is_some_and(ErrorCode::is_transient);
            if error.is_timeout() || (refuses && !is_transient) {
                return;
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    fn take(&mut self, message: WatchMessage) -> Result<(), Failure> {
        self.known = message.sequence;
        self.is_first = false;
        if self.json {
            return print(json::line_of(&message)?.as_bytes());
        }
        let applied = self.mirror.apply(message);
        let status = applied.and_then(|()| self.mirror.status());
        let status = status.map_err(|error| unreadable(&error))?;
        self.show(&status)
    }

    fn show(&self, status: &Status) -> Result<(), Failure> {
        let table = table::render(status);
        let text = match self.is_terminal {
            true => format!("{CLEAR}{table}"),
            false => format!("{table}\n"),
        };
        print(text.as_bytes())
    }
}

/// True if the client would answer the same to the next attempt.
fn is_final(error: &WatchError) -> bool {
    match error {
        WatchError::Refused(error) => !error.known_code().is_some_and(ErrorCode::is_transient),
        WatchError::Unreadable(_) => true,
        _ => false,
    }
}

fn unreadable(error: &serde_json::Error) -> Failure {
    let text =
        format!("the client's state can't be read: {error}; run the same version of culvert");
    Failure::new(Exit::Failed, text)
}
