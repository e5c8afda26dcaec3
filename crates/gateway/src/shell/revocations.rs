//! Grants that must not come back with a restart, written before they end.
//!
//! The log of the grants is written beside the event loop, a while after a change. A gateway that is
//! killed in between would go on with grants that it had already ended. So their ids are added to a
//! short file first, in one write, which a process that dies does not undo. That they survive a
//! loss of power as well follows at once, beside the event loop: a disk may take seconds for it.
//!
//! Once the log says the same and is on the disk, the ids leave the file. The length that the log had on the disk
//! then stays: a log that is damaged before that place lacks ends which are noted nowhere else.

use super::latest_writer::LatestWriter;
use crate::GatewayError;
use culvert_gateway_core::LogMark;
use culvert_host::StateDir;
use culvert_ids::GrantId;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The file with the mark of the log, and the ids, one in a line.
const FILE: &str = "revoked-grants";

/// The longest that the file gets, in bytes: a line for each of 131,072 grants, the most that a gateway has,
/// twice over. The ids leave it ten times a second, unless new ones come all the time.
const MAX_BYTES: u64 = 2 * 131_072 * LINE_BYTES;
const LINE_BYTES: u64 = 31;

/// The file, and how far it is written.
pub(super) struct Revocations {
    file: Arc<File>,
    len: Mutex<Len>,
    sync: LatestWriter<()>,
}

/// The length of the file.
#[derive(Clone, Copy, Debug)]
struct Len {
    all: u64,
    /// Of the mark at its beginning.
    mark: u64,
}

/// The content of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// The length that the log had on the disk when ids last left the file.
    pub(super) mark: Option<LogMark>,
    /// Grants that have ended, and that the log may still have.
    pub(super) ended: BTreeSet<GrantId>,
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
        let all = whole.map_or(0, |end| end as u64 + 1);
        if all < written.len() as u64 {
            file.set_len(all)
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
            // Until the next mark is made, the one of before counts as an id.
            len: Mutex::new(Len { all, mark: 0 }),
            sync,
        })
    }

    /// The grants do not come back from here on, whatever ends this process.
    pub(super) fn add(&self, grants: &[GrantId]) -> io::Result<()> {
        let text: String = grants.iter().map(|grant| format!("{grant}\n")).collect();
        let mut len = self.len();
        let end = len.all + text.len() as u64;
        if end > MAX_BYTES {
            return Err(io::Error::other("the list of revoked grants is full"));
        }
        if let Err(error) = (&*self.file).write_all(text.as_bytes()) {
            // Half a line must not run into the next one.
            self.file.set_len(len.all)?;
            return Err(error);
        }
        len.all = end;
        self.sync.write(());
        Ok(())
    }

    /// The length of the file as it is written so far.
    pub(super) fn noted_len(&self) -> u64 {
        self.len().all
    }

    /// The log is without all grants up to this length of the file, and on the disk as far as `log` says: no id is of use
    /// any more, unless more came since.
    pub(super) fn clear(&self, mark: u64, log: LogMark) {
        let mut len = self.len();
        if len.all != mark || len.all == len.mark {
            return;
        }
        if let Err(error) = self.file.set_len(0) {
            // Too many are left out then, never too few.
            tracing::warn!(%error, "the list of revoked grants was not cleared");
            return;
        }
        (len.all, len.mark) = (0, 0);
        let line = format!("{log}\n");
        match (&*self.file).write_all(line.as_bytes()) {
            Ok(()) => {
                len.all = line.len() as u64;
                len.mark = len.all;
            }
            Err(error) => {
                let _left = self.file.set_len(0);
                tracing::warn!(%error, "how far the log of grants is on the disk was not noted");
            }
        }
    }

    fn len(&self) -> MutexGuard<'_, Len> {
        self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notes of an earlier run. None where it can't be read: nobody knows then which grants have ended.
pub(super) fn read(state: &StateDir) -> Option<Noted> {
    let content = match state.read(FILE) {
        Ok(None) => return Some(Noted::default()),
        Ok(Some(content)) => content,
        Err(error) => {
            tracing::warn!(%error, "kept grants are of no use: the list of revoked ones can't be read");
            return None;
        }
    };
    let text = std::str::from_utf8(content.expose()).ok();
    let whole = text.map(|text| text.rsplit_once('\n').map_or("", |(whole, _)| whole));
    let noted = whole.and_then(noted);
    if noted.is_none() {
        tracing::warn!("kept grants are of no use: the list of revoked ones is damaged");
    }
    noted
}

fn noted(text: &str) -> Option<Noted> {
    let mut noted = Noted::default();
    for line in text.lines() {
        match line.parse() {
            Ok(mark) => noted.mark = Some(mark),
            Err(()) => {
                noted.ended.insert(line.parse().ok()?);
            }
        }
    }
    Some(noted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn grant(number: u8) -> GrantId {
        GrantId::from_bytes([number; 16])
    }

    fn ended(state: &StateDir) -> Option<BTreeSet<GrantId>> {
        read(state).map(|noted| noted.ended)
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
        assert_eq!(ended(&state), Some(BTreeSet::new()));
        let revocations = Revocations::open(&state).unwrap();
        revocations.add(&[grant(1), grant(2)]).unwrap();
        // Nothing is closed or waited for, as where the process is killed.
        assert_eq!(ended(&state), Some([grant(1), grant(2)].into()));
        let next = Revocations::open(&state).unwrap();
        next.add(&[grant(3)]).unwrap();
        assert_eq!(ended(&state), Some([grant(1), grant(2), grant(3)].into()));
        assert_eq!(next.noted_len(), 3 * LINE_BYTES);
    }

    #[tokio::test]
    async fn it_is_cleared_where_nothing_came_since() {
        let (_directory, state) = Directory::new("cleared");
        let revocations = Revocations::open(&state).unwrap();
        revocations.add(&[grant(1)]).unwrap();
        let mark = revocations.noted_len();
        revocations.add(&[grant(2)]).unwrap();
        let log = |len| LogMark { generation: 3, len };
        revocations.clear(mark, log(100));
        assert_eq!(ended(&state), Some([grant(1), grant(2)].into()));
        revocations.clear(revocations.noted_len(), log(200));
        assert_eq!(ended(&state), Some(BTreeSet::new()));
        revocations.add(&[grant(3)]).unwrap();
        let noted = Noted {
            mark: Some(log(200)),
            ended: [grant(3)].into(),
        };
        assert_eq!(read(&state), Some(noted));
    }

    #[tokio::test]
    async fn a_line_that_was_cut_short_harms_no_other() {
        let (directory, state) = Directory::new("cut");
        drop(Revocations::open(&state).unwrap());
        let path = directory.0.join(FILE);
        std::fs::write(&path, format!("{}\n{}", grant(1), "grt_0102")).unwrap();
        assert_eq!(ended(&state), Some([grant(1)].into()));
        let revocations = Revocations::open(&state).unwrap();
        revocations.add(&[grant(2)]).unwrap();
        assert_eq!(ended(&state), Some([grant(1), grant(2)].into()));
    }

    #[tokio::test]
    async fn of_a_damaged_list_nothing_is_believed() {
        let (directory, state) = Directory::new("damaged");
        drop(Revocations::open(&state).unwrap());
        for damage in ["no grant\n", "\u{fffd}\n", "log 1\n", "log 1 x\n"] {
            std::fs::write(directory.0.join(FILE), damage).unwrap();
            assert_eq!(read(&state), None, "{damage:?}");
        }
        std::fs::write(directory.0.join(FILE), [0xff, b'\n']).unwrap();
        assert_eq!(read(&state), None);
    }
}
