//! Writes what a restart would need beside the event loop: a disk may take seconds for it, and grants
//! must not wait for that.

use super::latest_writer::LatestWriter;
use super::revocations::{self, Revocations};
use crate::GatewayError;
use culvert_gateway_core::PersistedGrants;
use culvert_host::StateDir;
use culvert_ids::GrantId;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The file with the grants, so that a restart does not need the portal.
const GRANTS_FILE: &str = "grants.json";

/// Keeps grants in a directory, and which of them have ended since.
pub(super) struct GrantJournal {
    state: Arc<StateDir>,
    revocations: Arc<Revocations>,
    writer: LatestWriter<Snapshot>,
}

/// Grants, and how far the revocations were written that they are without.
struct Snapshot {
    persisted: PersistedGrants,
    mark: u64,
}

impl GrantJournal {
    pub(super) fn start(state: StateDir) -> Result<Self, GatewayError> {
        let state = Arc::new(state);
        let revocations = Arc::new(Revocations::open(&state)?);
        let writer = {
            let (state, revocations) = (Arc::clone(&state), Arc::clone(&revocations));
            LatestWriter::with(move |snapshot: &Snapshot| {
                write(&state, &snapshot.persisted);
                revocations.clear(snapshot.mark);
            })
        };
        Ok(Self {
            state,
            revocations,
            writer,
        })
    }

    /// As [`LatestWriter::write`].
    pub(super) fn persist(&self, persisted: PersistedGrants) {
        let mark = self.revocations.mark();
        self.writer.write(Snapshot { persisted, mark });
    }

    /// The file's entries of these grants do not count from here on. Waits for the kernel, not for the disk.
    pub(super) fn void(&self, grants: &[GrantId]) {
        if let Err(error) = self.revocations.add(grants) {
            tracing::warn!(
                %error,
                "revoked grants could not be noted: a restart before the next change waits for the portal"
            );
            remove(&self.state);
        }
    }

    /// As [`LatestWriter::finish`].
    pub(super) async fn finish(self) {
        self.writer.finish().await;
    }
}

/// The grants that an earlier run has persisted.
pub(super) fn read(state: &StateDir) -> Option<PersistedGrants> {
    let content = state.read(GRANTS_FILE).ok().flatten()?;
    let void = revocations::read(state)?;
    match serde_json::from_slice(content.expose()) {
        Ok(persisted) => Some(PersistedGrants { void, ..persisted }),
        Err(error) => {
            tracing::warn!(%error, "the kept grants are of no use");
            None
        }
    }
}

/// A disk that is full costs the restart its grants, not the clients theirs.
fn write(state: &StateDir, persisted: &PersistedGrants) {
    let written = serde_json::to_vec(persisted)
        .map(Zeroizing::new)
        .map_err(|error| error.to_string())
        .and_then(|text| {
            let written = state.write(GRANTS_FILE, &text);
            written.map_err(|error| error.to_string())
        });
    if let Err(error) = written {
        tracing::warn!(error, "grants could not be kept over a restart");
        remove(state);
    }
}

/// Grants that were kept before may have been revoked since.
fn remove(state: &StateDir) {
    if let Err(error) = state.remove(GRANTS_FILE) {
        tracing::error!(%error, "grants of before could not be removed either");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::GatewayId;
    use culvert_wire::messages::{Interface, Ranges};
    use std::collections::BTreeSet;
    use std::os::unix::fs::DirBuilderExt;

    fn persisted() -> PersistedGrants {
        PersistedGrants {
            gateway: GatewayId::from_bytes([1; 16]),
            interface: Interface {
                ipv4: [100, 64, 0, 1].into(),
                ipv6: "fd00:2021:1111::1".parse().unwrap(),
            },
            ranges: Ranges {
                machines_ipv4: "100.64.0.0/11".to_owned(),
                machines_ipv6: "fd00:2021:1111::/112".to_owned(),
                names_ipv4: "100.96.0.0/11".to_owned(),
                names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
            },
            grant_keys: Vec::new(),
            grants: Vec::new(),
            void: BTreeSet::new(),
        }
    }

    #[tokio::test]
    async fn a_grant_that_ended_is_void_in_what_was_kept_before_until_more_is_kept() {
        let name = format!("culvert-writer-void-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let state = || StateDir::open(&path).unwrap();
        let writer = GrantJournal::start(state()).unwrap();
        writer.persist(persisted());
        writer.finish().await;
        let writer = GrantJournal::start(state()).unwrap();
        let grant = GrantId::from_bytes([7; 16]);
        writer.void(&[grant]);
        // As if the process were killed here: nothing is finished.
        assert_eq!(read(&state()).unwrap().void, [grant].into());
        writer.persist(persisted());
        writer.finish().await;
        assert!(read(&state()).unwrap().void.is_empty());
        std::fs::remove_dir_all(path).unwrap();
    }

    #[tokio::test]
    async fn what_was_kept_before_is_removed_where_a_write_fails() {
        let name = format!("culvert-writer-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let state = StateDir::open(&path).unwrap();
        let writer = || GrantJournal::start(StateDir::open(&path).unwrap()).unwrap();
        let first = writer();
        first.persist(persisted());
        first.finish().await;
        assert_eq!(read(&state).unwrap().gateway, persisted().gateway);
        // A directory where the unfinished file is to be: the write fails, whoever runs the test.
        let unfinished = path.join("grants.json.unfinished");
        let directory = std::fs::DirBuilder::new().mode(0o700).create(unfinished);
        directory.unwrap();
        let second = writer();
        second.persist(persisted());
        second.finish().await;
        assert!(read(&state).is_none());
        std::fs::remove_dir_all(path).unwrap();
    }
}
