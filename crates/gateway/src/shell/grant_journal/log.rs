//! The file of the log: begun anew, appended to, and made shorter.

use culvert_gateway_core::{
    GrantChanges, GrantLens, LogMark, append_to_log, begin_log, compact_log,
};
use culvert_host::StateDir;
use culvert_ids::GrantId;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use zeroize::Zeroizing;

/// The log of the grants, so that a restart does not need the portal.
pub(super) const LOG_FILE: &str = "grants.log";

/// The file in which earlier versions kept all grants.
pub(super) const FORMER_FILE: &str = "grants.json";

/// Below this a log is not made shorter, in bytes: reading and writing it takes a few milliseconds.
const COMPACTED_FROM_LEN: u64 = 1 << 20;

/// The log, once this run has begun one.
pub(super) struct Log {
    generation: u64,
    open: Option<OpenLog>,
}

struct OpenLog {
    file: File,
    len: u64,
    /// The bytes of each grant that counts, and all of them.
    lens: BTreeMap<GrantId, usize>,
    live_len: u64,
}

impl Log {
    /// No log yet; the last one had this number.
    pub(super) const fn after(generation: u64) -> Self {
        Self {
            generation,
            open: None,
        }
    }

    /// Writes the changes to the disk. Returns how far the log is there then.
    pub(super) fn write(
        &mut self,
        state: &StateDir,
        changes: GrantChanges,
    ) -> Result<LogMark, String> {
        let written = match (self.open.take(), changes.is_whole) {
            (Some(open), false) => open.append(changes),
            (_, true) => {
                let (log, lens) = begin_log(self.generation + 1, &changes);
                self.begin(state, &Zeroizing::new(log), lens)
            }
            (None, false) => Err("there is no log to append to".to_owned()),
        };
        let open = self.open.insert(written?);
        Ok(LogMark {
            generation: self.generation,
            len: open.len,
        })
    }

    /// Leaves out what does not count any more, if that is half of the log.
    pub(super) fn compact(&mut self, state: &StateDir) -> Result<(), String> {
        let Some(open) = &self.open else {
            return Ok(());
        };
        if open.len < COMPACTED_FROM_LEN || open.len < 2 * open.live_len {
            return Ok(());
        }
        let log = state.read(LOG_FILE).map_err(|error| error.to_string())?;
        let log = log.ok_or("somebody removed it")?;
        let compacted = compact_log(log.expose()).map_err(|fault| fault.to_string());
        let (compacted, lens) = compacted?;
        self.open = Some(self.begin(state, &Zeroizing::new(compacted), lens)?);
        Ok(())
    }

    /// Puts a log of the next generation in the place of the one of before, whole or not at all.
    fn begin(&mut self, state: &StateDir, log: &[u8], lens: GrantLens) -> Result<OpenLog, String> {
        let text = |error: culvert_host::HostError| error.to_string();
        state.write(LOG_FILE, log).map_err(text)?;
        self.generation += 1;
        state.remove(FORMER_FILE).map_err(text)?;
        let mut open = OpenLog {
            file: state.open_to_append(LOG_FILE).map_err(text)?,
            len: log.len() as u64,
            lens: BTreeMap::new(),
            live_len: 0,
        };
        open.note(lens);
        Ok(open)
    }
}

impl OpenLog {
    /// Appends the changes, and waits until they are on the disk.
    fn append(mut self, mut changes: GrantChanges) -> Result<Self, String> {
        // Grants that came and went meanwhile are not in the log.
        changes
            .grants
            .retain(|id, grant| grant.is_some() || self.lens.contains_key(id));
        let mut records = Zeroizing::new(Vec::new());
        let lens = append_to_log(&mut records, &changes);
        if records.is_empty() {
            return Ok(self);
        }
        self.file
            .write_all(&records)
            .and_then(|()| self.file.sync_data())
            .map_err(|error| error.to_string())?;
        self.len += records.len() as u64;
        self.note(lens);
        Ok(self)
    }

    fn note(&mut self, lens: GrantLens) {
        for (id, len) in lens {
            let before = match len {
                0 => self.lens.remove(&id),
                len => self.lens.insert(id, len),
            };
            self.live_len += len as u64;
            self.live_len -= before.unwrap_or(0) as u64;
        }
    }
}
