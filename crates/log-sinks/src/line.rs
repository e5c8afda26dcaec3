//! Entries as lines: what the API shows of them, and which log they are of.

use crate::entries;
use crate::error::SinkError;
use culvert_portal_base::now;
use culvert_store::LogEntries;
use culvert_wire::model::Log;
use serde::Serialize;

#[derive(Serialize)]
struct Line<T> {
    log: Log,
    #[serde(flatten)]
    entry: T,
}

/// Entries that are to be sent together.
pub(super) struct Lines {
    pub(super) text: String,
    pub(super) count: u64,
    /// The numbers of the first entry and the last.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// None where there is no entry.
pub(super) fn of(entries: LogEntries) -> Result<Option<Lines>, SinkError> {
    let mut lines = Lines {
        text: String::new(),
        count: 0,
        first: 0,
        last: 0,
    };
    match entries {
        LogEntries::Access(rows) => {
            for row in rows {
                lines.add(Log::Access, row.seq.0, &entries::access(row))?;
            }
        }
        LogEntries::Changes(rows) => {
            for row in rows {
                lines.add(Log::Changes, row.seq.0, &entries::change(row))?;
            }
        }
        LogEntries::Flows(rows) => {
            for row in rows {
                lines.add(Log::Flows, row.seq.0, &entries::flow(row))?;
            }
        }
    }
    Ok(Some(lines).filter(|lines| lines.count > 0))
}

/// The line that is sent to try a sink out.
pub(super) fn test() -> String {
    let at = now();
    format!("{{\"log\":\"test\",\"at\":\"{at}\",\"text\":\"a test of this log sink\"}}\n")
}

impl Lines {
    fn add(&mut self, log: Log, seq: u64, entry: &impl Serialize) -> Result<(), SinkError> {
        let line = Line { log, entry };
        self.text
            .push_str(&serde_json::to_string(&line).map_err(SinkError::new)?);
        self.text.push('\n');
        if self.count == 0 {
            self.first = seq;
        }
        self.last = seq;
        self.count += 1;
        Ok(())
    }
}
