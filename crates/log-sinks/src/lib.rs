//! Log sinks: entries of the logs, as JSON lines, in a file or at an endpoint (docs/logs.md).
//!
//! The database is the queue. A sink's place in each log is kept there, and moves on once the sink
//! took all entries before it. So nothing is lost over a restart or while a sink is away, as long
//! as the log itself is kept. After a crash the last lines may come a second time. A sink delays no
//! other one: each has a task, and reads while the log goes on.

#![forbid(unsafe_code)]

mod backoff;
pub mod entries;
mod file;
mod http;
mod line;
mod worker;

pub use http::{check_url, is_safe_for_tokens};

use culvert_ids::AccountId;
use culvert_store::{Account, SecretBytes, Store, StoreError, StoreExt};
use culvert_wire::Timestamp;
use culvert_wire::model::{Sink, SinkTarget};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The interval at which the list of sinks is read, besides after changes.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The reason for which a sink did not take something; it holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SinkError(String);

impl SinkError {
    fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// The progress of a sink since the portal's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Lines that it took.
    pub delivered: u64,
    /// Lines that were gone before it took them.
    pub missed: u64,
    /// The time at which it last took lines.
    pub delivered_at: Option<Timestamp>,
    /// The reason for which it takes none now.
    pub error: Option<String>,
}

/// The sinks of an account.
pub struct Sinks {
    store: Arc<dyn Store>,
    account: AccountId,
    /// The directory of their files.
    dir: PathBuf,
    progress: Mutex<BTreeMap<String, Progress>>,
}

impl Sinks {
    /// The sinks of this account, with their files in `dir`.
    pub fn new(store: Arc<dyn Store>, account: AccountId, dir: PathBuf) -> Self {
        Self {
            store,
            account,
            dir,
            progress: Mutex::default(),
        }
    }

    /// The progress of this sink.
    pub fn progress(&self, sink: &str) -> Progress {
        let all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(sink).cloned().unwrap_or_default()
    }

    fn note(&self, sink: &str, change: impl FnOnce(&mut Progress)) {
        let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(sink.to_owned()).or_default());
    }

    /// Sends one line to a sink, as its task would.
    pub async fn try_out(&self, sink: &Sink) -> Result<(), SinkError> {
        self.deliver(sink, line::test()).await
    }

    /// Has the sink take lines; each ends as a line does.
    async fn deliver(&self, sink: &Sink, lines: String) -> Result<(), SinkError> {
        match &sink.target {
            SinkTarget::File {
                file,
                max_mib,
                keep,
            } => {
                let target = file::Target {
                    dir: self.dir.clone(),
                    name: file.clone(),
                    max_bytes: u64::from(*max_mib) << 20,
                    keep: *keep,
                };
                tokio::task::spawn_blocking(move || file::append(&target, lines.as_bytes()))
                    .await
                    .map_err(|_| SinkError::new("the portal is stopping"))?
            }
            SinkTarget::Http { url } => {
                let token = self.token(&sink.name).await.map_err(SinkError::new)?;
                http::post(url, token.as_ref(), lines).await
            }
        }
    }

    async fn token(&self, sink: &str) -> Result<Option<SecretBytes>, StoreError> {
        self.store.sink_secret(self.account, sink).await
    }

    async fn configured(&self) -> Result<Vec<Sink>, StoreError> {
        let account = self.store.get_as::<Account>(self.account, self.account);
        Ok(account.await?.settings.logs.sinks)
    }

    /// Keeps a task for each sink until the portal stops.
    pub async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut commits = self.store.watch();
        let mut tasks: BTreeMap<String, (Sink, JoinHandle<()>)> = BTreeMap::new();
        while !*stop.borrow() {
            match self.configured().await {
                Ok(sinks) => self.reconcile(sinks, &mut tasks).await,
                Err(error) => tracing::warn!(%error, "which log sinks there are is not known"),
            }
            tokio::select! {
                // A store that is gone has no more commits; the tick goes on.
                _ = timeout(LOOK_EVERY, commits.changed()) => {}
                _ = stop.changed() => {}
            }
        }
        for (_, (_, task)) in tasks {
            end(task).await;
        }
    }

    async fn reconcile(
        self: &Arc<Self>,
        sinks: Vec<Sink>,
        tasks: &mut BTreeMap<String, (Sink, JoinHandle<()>)>,
    ) {
        let gone = |name: &String| !sinks.iter().any(|sink| sink.name == *name);
        let gone: Vec<_> = tasks.keys().filter(|name| gone(name)).cloned().collect();
        for name in gone {
            if let Some((_, task)) = tasks.remove(&name) {
                end(task).await;
            }
            let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            all.remove(&name);
        }
        for sink in sinks {
            if tasks
                .get(&sink.name)
                .is_some_and(|(known, _)| *known == sink)
            {
                continue;
            }
            if let Some((_, task)) = tasks.remove(&sink.name) {
                end(task).await;
            }
            let task = tokio::spawn(worker::work(Arc::clone(self), sink.clone()));
            tasks.insert(sink.name.clone(), (sink, task));
        }
    }
}

/// Its place is what the database has: at worst it sends the last lines again.
async fn end(task: JoinHandle<()>) {
    task.abort();
    let _aborted = task.await;
}

impl fmt::Debug for Sinks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sinks").finish_non_exhaustive()
    }
}
