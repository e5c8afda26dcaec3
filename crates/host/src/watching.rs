//! Watchers of a running program: connections that stay open and get a line for each change of its state
//! (docs/socket.md).
//!
//! A watcher pulls: it names the last sequence number that it has sent, and the program answers with all changes
//! since. So nothing queues up for a slow reader, and the newest state wins.

use crate::{ErrorCode, SocketError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// Watchers at once: the windows and collectors of four users.
pub const MAX_WATCHERS: usize = 16;

/// Watchers of one user, so that no user takes the places of all others.
pub const MAX_WATCHERS_PER_USER: usize = 4;

/// The shortest time between two messages to one watcher, in milliseconds: ten a second, as fast as people see.
pub const MIN_INTERVAL_MS: u64 = 100;

const MIN_INTERVAL: Duration = Duration::from_millis(MIN_INTERVAL_MS);

/// The time limit for one message: a reader that is slower is disconnected. The longest message of 32 MiB needs
/// 3.2 MiB/s, which any reader on the same machine has.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// A request to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The sequence number of the last message that the watcher knows; none if it knows nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// A message to a watcher.
pub struct Update {
    /// The sequence number of the state that it leads to.
    pub sequence: u64,
    /// Writes it as a line without its end. A long one is written by the watcher's own task.
    pub write: Box<dyn FnOnce() -> serde_json::Result<Vec<u8>> + Send>,
}

impl fmt::Debug for Update {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Update")
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// The watchers, as the running program knows them.
#[derive(Debug)]
pub struct Watchers {
    places: Arc<Places>,
    sequence: watch::Sender<u64>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Self {
            places: Arc::default(),
            sequence: watch::channel(0).0,
        }
    }

    /// True if there are any. Without them no change is looked for.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        !self.places.by_user().is_empty()
    }

    /// The state has this sequence number now: watchers that have seen an earlier one ask for what changed.
    pub fn publish(&self, sequence: u64) {
        self.sequence.send_if_modified(|known| {
            let is_new = *known != sequence;
            *known = sequence;
            is_new
        });
    }

    /// The socket's end.
    pub(crate) fn door(&self) -> WatchDoor {
        WatchDoor {
            places: Arc::clone(&self.places),
            sequence: self.sequence.subscribe(),
        }
    }
}

/// The socket's end of [`Watchers`].
#[derive(Clone, Debug)]
pub(crate) struct WatchDoor {
    places: Arc<Places>,
    sequence: watch::Receiver<u64>,
}

/// The number of watchers of each user.
#[derive(Debug, Default)]
struct Places(Mutex<BTreeMap<u32, usize>>);

impl Places {
    fn by_user(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, uid: u32) -> Result<Place, SocketError> {
        let mut by_user = self.by_user();
        let taken: usize = by_user.values().sum();
        let of_user = by_user.get(&uid).copied().unwrap_or_default();
        if of_user >= MAX_WATCHERS_PER_USER {
            return Err(ErrorCode::TooManyWatchers.because(format!(
                "{of_user} programs of this user watch already, which is the limit: end one"
            )));
        }
        if taken >= MAX_WATCHERS {
            return Err(ErrorCode::TooManyWatchers.because(format!(
                "{taken} programs watch already, which is the limit: end one"
            )));
        }
        by_user.insert(uid, of_user + 1);
        Ok(Place {
            places: Arc::clone(self),
            uid,
        })
    }
}

/// The place of one watcher.
struct Place {
    places: Arc<Places>,
    uid: u32,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_user = self.places.by_user();
        if let Some(count) = by_user.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                by_user.remove(&self.uid);
            }
        }
    }
}

/// Serves a watcher of this user until it leaves, is too slow, or the program ends. `pull` asks the program for the
/// changes since a message; it returns nothing if the program ends.
pub(crate) async fn serve_watcher<F: Future<Output = Option<Update>>>(
    stream: UnixStream,
    uid: u32,
    first: Watch,
    mut door: WatchDoor,
    pull: impl Fn(Watch) -> F,
) -> io::Result<()> {
    let (mut reader, mut writer) = stream.into_split();
    let _place = match door.places.take(uid) {
        Ok(place) => place,
        Err(error) => return refuse(&mut writer, &error).await,
    };
    let mut watch = first;
    let mut is_first = true;
    loop {
        door.sequence.borrow_and_update();
        let pulled = tokio::select! {
            () = left(&mut reader) => return Ok(()),
            pulled = pull(watch) => pulled,
        };
        let Some(update) = pulled else {
            return refuse(&mut writer, &ErrorCode::Ending.because("it is ending")).await;
        };
        let begun = Instant::now();
        if is_first || watch.after != Some(update.sequence) {
            watch.after = Some(update.sequence);
            write_line(&mut writer, (update.write)()?).await?;
        }
        is_first = false;
        let next = async {
            // An error means that the program has ended, which the next pull tells.
            let _ended = door.sequence.changed().await;
            sleep_until(begun + MIN_INTERVAL).await;
        };
        tokio::select! {
            () = left(&mut reader) => return Ok(()),
            () = next => {}
        }
    }
}

/// Waits until the watcher closes its connection. It has nothing more to say: input ends it too.
async fn left(reader: &mut OwnedReadHalf) {
    let _closed = reader.read(&mut [0]).await;
}

/// Writes the last line to a watcher.
async fn refuse(writer: &mut OwnedWriteHalf, error: &SocketError) -> io::Result<()> {
    write_line(writer, serde_json::to_vec(error)?).await
}

async fn write_line(writer: &mut OwnedWriteHalf, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    timeout(WRITE_LIMIT, writer.write_all(&line)).await?
}
