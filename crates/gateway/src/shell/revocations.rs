//! Grants that must not come back with a restart, written before they end.
//!
//! The file with the grants is large and is written a while after a change. A gateway that is
//! killed in between would go on with grants that it had already ended. So their ids are added to a
//! short file first, in one write, which a process that dies does not undo. That they survive a
//! loss of power as well follows at once, beside the event loop: a disk may take seconds for it.

use super::latest_writer::LatestWriter;
use crate::GatewayError;
use culvert_host::StateDir;
use culvert_ids::GrantId;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file with the ids, one in a line.
const FILE: &str = "revoked-grants";

/// The longest that the file gets, in bytes: a line for each of 32,768 grants, the most that a gateway has,
/// eight times over.
const MAX_BYTES: u64 = 8 * 32_768 * LINE_BYTES;
const LINE_BYTES: u64 = 31;

/// The file, and how far it is written.
pub(super) struct Revocations {
    file: Arc<File>,
    len: Mutex<u64>,
    sync: LatestWriter<()>,
}

impl Revocations {
    /// Goes on with what an earlier run has written.
    pub(super) fn open(state: &StateDir) -> Result<Self, GatewayError> {
        let file = Arc::new(state.open_to_append(FILE)?);
        let written = match state.read(FILE)? {
            Some(content) => content.expose().to_vec(),
            None => Vec::new(),
        };
        // A line that a loss of power cut short is not in force, and must not run into the next one.
        let whole = written.iter().rposition(|byte| *byte == b'\n');
        let len = whole.map_or(0, |end| end as u64 + 1);
        if len < written.len() as u64 {
            file.set_len(len)
                .map_err(GatewayError::system("shorten the list of revoked grants"))?;
        }
        let synced = Arc::clone(&file);
        let sync = LatestWriter::with(move |()| {
            if let Err(error) = synced.sync_data() {
                tracing::warn!(%error, "revoked grants may come back after a loss of power");
            }
        });
        Ok(Self {
            file,
            len: Mutex::new(len),
            sync,
        })
    }

    /// The grants do not come back from here on, whatever ends this process.
    pub(super) fn add(&self, grants: &[GrantId]) -> io::Result<()> {
        let text: String = grants.iter().map(|grant| format!("{grant}\n")).collect();
        let mut len = self.len();
        let end = *len + text.len() as u64;
        if end > MAX_BYTES {
            return Err(io::Error::other("the list of revoked grants is full"));
        }
        if let Err(error) = (&*self.file).write_all(text.as_bytes()) {
            // Half a line must not run into the next one.
            self.file.set_len(*len)?;
            return Err(error);
        }
        *len = end;
        self.sync.write(());
        Ok(())
    }

    /// The length of the file as it is written so far.
    pub(super) fn mark(&self) -> u64 {
        *self.len()
    }

    /// The grants that are kept are without all up to this mark: nothing of it is of use any more, unless
    /// more came since.
    pub(super) fn clear(&self, mark: u64) {
        let mut len = self.len();
        if *len == mark && mark > 0 {
            match self.file.set_len(0) {
                Ok(()) => *len = 0,
                // Too many are left out then, never too few.
                Err(error) => tracing::warn!(%error, "the list of revoked grants was not cleared"),
            }
        }
    }

    fn len(&self) -> MutexGuard<'_, u64> {
        self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ids that an earlier run has written. None where it can't be read: nobody knows then which
/// grants have ended.
pub(super) fn read(state: &StateDir) -> Option<BTreeSet<GrantId>> {
    let content = match state.read(FILE) {
        Ok(None) => return Some(BTreeSet::new()),
        Ok(Some(content)) => content,
        Err(error) => {
            tracing::warn!(%error, "kept grants are of no use: the list of revoked ones can't be read");
            return None;
        }
    };
    let text = std::str::from_utf8(content.expose()).ok();
    let whole = text.map(|text| text.rsplit_once('\n').map_or("", |(whole, _)| whole));
    let grants = whole.and_then(|whole| whole.lines().map(|line| line.parse().ok()).collect());
    if grants.is_none() {
        tracing::warn!("kept grants are of no use: the list of revoked ones is damaged");
    }
    grants
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn grant(number: u8) -> GrantId {
        GrantId::from_bytes([number; 16])
    }

    /// A directory of the test's own, removed with it.
    struct Directory(PathBuf);

    impl Directory {
        fn new(test: &str) -> (Self, StateDir) {
            let name = format!("culvert-revocations-{}-{test}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let state = StateDir::open(&path).unwrap();
            (Self(path), state)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _left = std::fs::remove_dir_all(&self.0);
        }
    }

    #[tokio::test]
    async fn what_is_added_is_there_for_the_next_run_whatever_ends_this_one() {
        let (_directory, state) = Directory::new("added");
        assert_eq!(read(&state), Some(BTreeSet::new()));
        let revocations = Revocations::open(&state).unwrap();
        revocations.add(&[grant(1), grant(2)]).unwrap();
        // Nothing is closed or waited for, as where the process is killed.
        assert_eq!(read(&state), Some([grant(1), grant(2)].into()));
        let next = Revocations::open(&state).unwrap();
        next.add(&[grant(3)]).unwrap();
        assert_eq!(read(&state), Some([grant(1), grant(2), grant(3)].into()));
        assert_eq!(next.mark(), 3 * LINE_BYTES);
    }

    #[tokio::test]
    async fn it_is_cleared_where_nothing_came_since() {
        let (_directory, state) = Directory::new("cleared");
        let revocations = Revocations::open(&state).unwrap();
        revocations.add(&[grant(1)]).unwrap();
        let mark = revocations.mark();
        revocations.add(&[grant(2)]).unwrap();
        revocations.clear(mark);
        assert_eq!(read(&state), Some([grant(1), grant(2)].into()));
        revocations.clear(revocations.mark());
        assert_eq!(read(&state), Some(BTreeSet::new()));
        revocations.add(&[grant(3)]).unwrap();
        assert_eq!(read(&state), Some([grant(3)].into()));
    }

    #[tokio::test]
    async fn a_line_that_was_cut_short_harms_no_other() {
        let (directory, state) = Directory::new("cut");
        drop(Revocations::open(&state).unwrap());
        let path = directory.0.join(FILE);
        std::fs::write(&path, format!("{}\n{}", grant(1), "grt_0102")).unwrap();
        assert_eq!(read(&state), Some([grant(1)].into()));
        let revocations = Revocations::open(&state).unwrap();
        revocations.add(&[grant(2)]).unwrap();
        assert_eq!(read(&state), Some([grant(1), grant(2)].into()));
    }

    #[tokio::test]
    async fn of_a_damaged_list_nothing_is_believed() {
        let (directory, state) = Directory::new("damaged");
        drop(Revocations::open(&state).unwrap());
        for damage in ["no grant\n", "\u{fffd}\n"] {
            std::fs::write(directory.0.join(FILE), damage).unwrap();
            assert_eq!(read(&state), None, "{damage:?}");
        }
        std::fs::write(directory.0.join(FILE), [0xff, b'\n']).unwrap();
        assert_eq!(read(&state), None);
    }
}
