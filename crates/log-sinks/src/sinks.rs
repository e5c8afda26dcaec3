//! The sinks of an account: the state of each, and the way of lines to one.

use crate::error::SinkError;
use crate::{file, http, line};
use culvert_ids::AccountId;
use culvert_store::{Account, SecretBytes, Store, StoreError, StoreExt};
use culvert_wire::Timestamp;
use culvert_wire::model::{Sink, SinkTarget};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The state of a sink since this portal began to deliver its lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Lines that it took.
    pub delivered: u64,
    /// Lines that were gone before it took them.
    pub missed: u64,
    /// The time at which it last took lines.
    pub delivered_at: Option<Timestamp>,
    /// The reason why it takes none now.
    pub error: Option<String>,
}

/// The sinks of an account.
pub struct Sinks {
    pub(super) store: Arc<dyn Store>,
    pub(super) account: AccountId,
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

    /// The state of this sink.
    pub fn progress(&self, sink: &str) -> Progress {
        let all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(sink).cloned().unwrap_or_default()
    }

    pub(super) fn note(&self, sink: &str, change: impl FnOnce(&mut Progress)) {
        let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(sink.to_owned()).or_default());
    }

    /// Sends one line to a sink, as its task would.
    pub async fn try_out(&self, sink: &Sink) -> Result<(), SinkError> {
        self.deliver(sink, line::test()).await
    }

    /// Sends one line to a sink that is not kept yet, with this token. No older file goes for it.
    pub async fn try_out_new(
        &self,
        sink: &Sink,
        token: Option<&SecretBytes>,
    ) -> Result<(), SinkError> {
        self.deliver_with(sink, token, line::test(), file::append_without_rotation)
            .await
    }

    /// Has the sink take lines; each ends as a line does. Nothing goes to a sink that another portal has replaced: the
    /// token is found by the name, and may be the new sink's.
    pub(super) async fn deliver(&self, sink: &Sink, lines: String) -> Result<(), SinkError> {
        let token = match &sink.target {
            SinkTarget::File { .. } => None,
            SinkTarget::Http { .. } => self.token(&sink.name).await.map_err(SinkError::new)?,
        };
        self.check_current(sink).await?;
        self.deliver_with(sink, token.as_ref(), lines, file::append)
            .await
    }

    async fn deliver_with(
        &self,
        sink: &Sink,
        token: Option<&SecretBytes>,
        lines: String,
        append: fn(&file::Target, &[u8]) -> Result<(), SinkError>,
    ) -> Result<(), SinkError> {
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
                tokio::task::spawn_blocking(move || append(&target, lines.as_bytes()))
                    .await
                    .map_err(|_| SinkError::new("the portal is stopping"))?
            }
            SinkTarget::Http { url } => http::post(url, token, lines).await,
        }
    }

    async fn token(&self, sink: &str) -> Result<Option<SecretBytes>, StoreError> {
        self.store.sink_secret(self.account, sink).await
    }

    /// Refuses a sink whose name was deleted, or is another sink's by now: its token and places are found by the name.
    pub(super) async fn check_current(&self, sink: &Sink) -> Result<(), SinkError> {
        let sinks = self.configured().await.map_err(SinkError::new)?;
        match sinks.iter().find(|other| other.name == sink.name) {
            Some(other) if other.target == sink.target => Ok(()),
            Some(_) => Err(SinkError::new(
                "another sink has the name: it takes over within seconds",
            )),
            None => Err(SinkError::new("the sink was deleted")),
        }
    }

    pub(super) async fn configured(&self) -> Result<Vec<Sink>, StoreError> {
        let account = self.store.get_as::<Account>(self.account, self.account);
        Ok(account.await?.settings.logs.sinks)
    }

    /// Drops the state of a sink that was removed.
    pub(super) fn forget(&self, sink: &str) {
        let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(sink);
    }

    /// Drops the state of all sinks: another portal delivers their lines from now on.
    pub(super) fn forget_all(&self) {
        let mut all = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        all.clear();
    }
}

impl fmt::Debug for Sinks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Sinks").finish_non_exhaustive()
    }
}
