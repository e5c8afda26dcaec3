//! Keeps what a restart would need: changes are appended to a log beside the event loop. A disk may take seconds for
//! that, and grants must not wait for it.
//!
//! The log grows with what changes, and not with the grants that there are. It is begun anew at the start, after a
//! fault, and when most of it is out of date. Each write is flushed to the disk before ends that it holds leave the
//! list of [`revocations`]. A grant that is lost costs a client one request after a restart without the portal.

mod log;

use super::latest_writer::LatestWriter;
use super::revocations::{self, Noted, Revocations};
use crate::GatewayError;
use culvert_gateway_core::{GrantChanges, PersistedGrants, log_generation, read_log};
use culvert_host::{SecretBytes, StateDir};
use culvert_ids::GrantId;
use log::{FORMER_FILE, LOG_FILE, Log};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Changes that wait for the disk: twice as many as a gateway has grants. Beyond that, all is written anew.
const MAX_WAITING: usize = 2 * 131_072;

/// Keeps grants in a directory, and which of them have ended since.
pub(super) struct GrantJournal {
    shared: Arc<Shared>,
    writer: LatestWriter<()>,
}

/// The event loop's and the writer's.
struct Shared {
    state: StateDir,
    revocations: Revocations,
    queue: Mutex<Queue>,
}

/// Changes that wait for the writer.
#[derive(Default)]
struct Queue {
    batch: Option<Batch>,
    /// Times that the log was given up. A batch of before is not written.
    faults: u64,
    /// The log was given up, and the state was not told anew since.
    is_lost: bool,
}

/// Changes to be written, the length of the list of revocations that they are without, and the faults until then.
struct Batch {
    changes: GrantChanges,
    mark: u64,
    faults: u64,
}

impl GrantJournal {
    /// Also returns the grants that an earlier run has persisted.
    pub(super) fn start(state: StateDir) -> Result<(Self, Option<PersistedGrants>), GatewayError> {
        let noted = revocations::read(&state);
        let marked = noted.as_ref().and_then(|noted| noted.mark);
        let file = read_file(&state, LOG_FILE);
        let log = file.as_ref().map(SecretBytes::expose);
        let generation = log.and_then(log_generation);
        let last = generation.max(marked.map(|mark| mark.generation));
        let persisted = noted.and_then(|noted| match log {
            Some(log) => read(log, noted),
            None => read_former(&state, noted),
        });
        let shared = Arc::new(Shared {
            revocations: Revocations::open(&state)?,
            state,
            queue: Mutex::default(),
        });
        let log = Mutex::new(Log::after(last.unwrap_or(0)));
        let writer = {
            let shared = Arc::clone(&shared);
            LatestWriter::with(move |()| {
                let batch = shared.queue().batch.take();
                if let Some(batch) = batch {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    shared.write(&mut log, batch);
                }
            })
        };
        Ok((Self { shared, writer }, persisted))
    }

    /// Writes the changes as soon as the present write is done. Does not wait. False if the log is lost, and the whole
    /// state is to be told anew.
    pub(super) fn persist(&self, changes: GrantChanges) -> bool {
        let mark = self.shared.revocations.noted_len();
        let is_taken = self.shared.queue().take(changes, mark);
        match is_taken {
            true => self.writer.write(()),
            false => self.shared.note_failure(),
        }
        is_taken
    }

    /// The log's entries of these grants do not count from here on. Waits for the kernel, not for the disk.
    pub(super) fn void(&self, grants: &[GrantId]) {
        if let Err(error) = self.shared.revocations.add(grants) {
            tracing::warn!(
                %error,
                "revoked grants could not be noted: a restart before the next change waits for the portal"
            );
            self.shared.note_failure();
        }
    }

    /// As [`LatestWriter::finish`].
    pub(super) async fn finish(self) {
        self.writer.finish().await;
    }
}

impl Queue {
    /// False if they are not the whole state although that is needed, or too many wait.
    fn take(&mut self, changes: GrantChanges, mark: u64) -> bool {
        if changes.is_whole {
            self.is_lost = false;
        }
        if self.is_lost {
            return false;
        }
        let batch = self.batch.get_or_insert_with(|| Batch {
            changes: GrantChanges::default(),
            mark,
            faults: self.faults,
        });
        batch.changes.merge(changes);
        batch.mark = mark;
        batch.changes.grants.len() <= MAX_WAITING
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A disk that is full costs the restart its grants, not the clients theirs.
    fn write(&self, log: &mut Log, batch: Batch) {
        if self.queue().faults != batch.faults {
            return;
        }
        let written = log.write(&self.state, batch.changes);
        let is_given_up = self.queue().faults != batch.faults;
        match written {
            // It may have come back after it was removed.
            Ok(_) if is_given_up => remove(&self.state),
            Ok(on_disk) => {
                self.revocations.clear(batch.mark, on_disk);
                if let Err(error) = log.compact(&self.state) {
                    tracing::warn!(error, "the log of grants could not be made shorter");
                    self.note_failure();
                }
            }
            Err(error) => {
                tracing::warn!(error, "grants could not be kept over a restart");
                self.note_failure();
            }
        }
    }

    /// Grants of the log may have been revoked since, without a note: none of them counts.
    fn note_failure(&self) {
        {
            let mut queue = self.queue();
            queue.batch = None;
            queue.faults += 1;
            queue.is_lost = true;
        }
        remove(&self.state);
    }
}

fn remove(state: &StateDir) {
    for file in [LOG_FILE, FORMER_FILE] {
        if let Err(error) = state.remove(file) {
            tracing::error!(%error, file, "grants of before could not be removed either");
        }
    }
}

fn read_file(state: &StateDir, name: &str) -> Option<SecretBytes> {
    state.read(name).unwrap_or_else(|error| {
        tracing::warn!(%error, "the kept grants are of no use");
        None
    })
}

fn read(log: &[u8], noted: Noted) -> Option<PersistedGrants> {
    match read_log(log, noted.mark) {
        Ok(log) => log.into_persisted(noted.ended),
        Err(fault) => {
            tracing::warn!(
                file = LOG_FILE,
                %fault,
                "the kept grants are of no use: clients ask again once the portal is there"
            );
            None
        }
    }
}

fn read_former(state: &StateDir, noted: Noted) -> Option<PersistedGrants> {
    // A log was there, and grants of before it may have ended since.
    if noted.mark.is_some() {
        return None;
    }
    let content = read_file(state, FORMER_FILE)?;
    match serde_json::from_slice(content.expose()) {
        Ok(persisted) => Some(PersistedGrants {
            void: noted.ended,
            ..persisted
        }),
        Err(error) => {
            tracing::warn!(%error, "the kept grants are of no use");
            None
        }
    }
}

#[cfg(test)]
mod tests;
