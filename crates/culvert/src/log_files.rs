//! A log in files of a directory: a new one each day (UTC), the last ones kept.

use culvert_host::{HostError, LogDir};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Files that are kept, the current one included: two weeks, where none of them is full.
const MAX_FILES: usize = 14;

/// The size of a full file, in bytes: at `info` a busy gateway writes some MiB a day, at `trace` a few
/// minutes fill it. All files together take less than a gibibyte.
const MAX_FILE_LEN: u64 = 64 * 1024 * 1024;

/// Each line goes into the file of its day.
pub(crate) struct LogFiles {
    dir: LogDir,
    /// The prefix of the names.
    role: &'static str,
    max_file_len: u64,
    current: Current,
}

struct Current {
    name: Name,
    file: File,
    len: u64,
}

/// `ROLE.2026-11-22.log`, and `ROLE.2026-11-22.1.log` once that is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    day: Date,
    number: u32,
}

impl Name {
    fn parse(name: &str, role: &str) -> Option<Self> {
        let name = name.strip_prefix(role)?.strip_prefix('.')?;
        let name = name.strip_suffix(".log")?;
        let (day, number) = match name.split_once('.') {
            Some((day, number)) => (day, number.parse().ok()?),
            None => (name, 0),
        };
        let day = day.parse().ok()?;
        Some(Self { day, number })
    }

    fn text(self, role: &str) -> String {
        match self.number {
            0 => format!("{role}.{}.log", self.day),
            number => format!("{role}.{}.{number}.log", self.day),
        }
    }
}

impl LogFiles {
    /// Begins to log for `role` into the directory, which is made if it is missing.
    pub(crate) fn open(path: &Path, role: &'static str) -> Result<Self, HostError> {
        Self::with_limit(LogDir::open(path)?, role, today(), MAX_FILE_LEN).map_err(|source| {
            HostError::System {
                action: format!("write a log into {}", path.display()),
                source,
            }
        })
    }

    fn with_limit(
        dir: LogDir,
        role: &'static str,
        day: Date,
        max_file_len: u64,
    ) -> io::Result<Self> {
        let current = open(&dir, role, day, max_file_len)?;
        Ok(Self {
            dir,
            role,
            max_file_len,
            current,
        })
    }

    fn write_on(&mut self, day: Date, line: &[u8]) -> io::Result<usize> {
        let is_over = self.current.name.day != day || self.current.len >= self.max_file_len;
        // If no other file can be had, this one goes on.
        if is_over && let Ok(next) = open(&self.dir, self.role, day, self.max_file_len) {
            self.current = next;
        }
        let written = self.current.file.write(line)?;
        self.current.len += written as u64;
        Ok(written)
    }
}

impl Write for LogFiles {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_on(today(), line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.file.flush()
    }
}

fn today() -> Date {
    jiff::Timestamp::now().to_zoned(TimeZone::UTC).date()
}

/// Opens the file for a day, and removes those that are no longer kept.
fn open(dir: &LogDir, role: &str, day: Date, max_file_len: u64) -> io::Result<Current> {
    let mut names: Vec<Name> = dir
        .names()?
        .iter()
        .filter_map(|name| Name::parse(name, role))
        .collect();
    names.sort_unstable();
    let of_day = |name: &&Name| name.day == day;
    let last = names.iter().rfind(of_day).map_or(0, |name| name.number);
    let mut current = open_file(dir, role, Name { day, number: last })?;
    if current.len >= max_file_len {
        let number = last.saturating_add(1);
        current = open_file(dir, role, Name { day, number })?;
    }
    names.retain(|name| *name != current.name);
    let retained = MAX_FILES - 1;
    for name in &names[..names.len().saturating_sub(retained)] {
        // One that can't be removed is tried again with the next file.
        let _retained = dir.remove(&name.text(role));
    }
    Ok(current)
}

fn open_file(dir: &LogDir, role: &str, name: Name) -> io::Result<Current> {
    let file = dir.append(&name.text(role))?;
    let len = file.metadata()?.len();
    Ok(Current { name, file, len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;
    use std::os::unix::fs::PermissionsExt;

    const FIRST: Date = Date::constant(2026, 2, 27);

    fn names(path: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn begin(path: &Path, max_file_len: u64) -> LogFiles {
        let dir = LogDir::open(path).unwrap();
        LogFiles::with_limit(dir, "client", FIRST, max_file_len).unwrap()
    }

    #[test]
    fn a_day_has_a_file_that_a_restart_goes_on_with_and_only_the_owner_reads() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        for line in [b"one\n", b"two\n"] {
            begin(&path, 100).write_on(FIRST, line).unwrap();
        }
        let mut log = begin(&path, 100);
        log.write_on(FIRST.tomorrow().unwrap(), b"three\n").unwrap();
        let expected = ["client.2026-02-27.log", "client.2026-02-28.log"];
        assert_eq!(names(&path), expected);
        let first = path.join(expected[0]);
        assert_eq!(std::fs::read_to_string(&first).unwrap(), "one\ntwo\n");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&first), mode(&path)), (0o600, 0o700));
    }

    #[test]
    fn a_file_that_is_full_is_followed_by_another_of_the_same_day() {
        let directory = tempfile::tempdir().unwrap();
        let mut log = begin(directory.path(), 8);
        for _ in 0..5 {
            log.write_on(FIRST, b"four\n").unwrap();
        }
        drop(log);
        begin(directory.path(), 8)
            .write_on(FIRST, b"last\n")
            .unwrap();
        let last = directory.path().join("client.2026-02-27.2.log");
        assert_eq!(std::fs::read_to_string(last).unwrap(), "four\nlast\n");
        assert_eq!(names(directory.path()).len(), 3);
    }

    #[test]
    fn the_last_files_are_kept_and_those_of_others_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let others = [
            "client.log",
            "client.2026-02-01.log.gz",
            "gateway.2026-01-01.log",
        ];
        for name in others {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let mut log = begin(directory.path(), 100);
        for days in 0..30 {
            let day = FIRST.checked_add(days.days()).unwrap();
            log.write_on(day, b"line\n").unwrap();
        }
        let left = names(directory.path());
        assert_eq!(left.len(), MAX_FILES + others.len());
        for name in others.into_iter().chain(["client.2026-03-15.log"]) {
            assert!(left.iter().any(|it| it == name), "{name}: {left:?}");
        }
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused_with_the_fix() {
        let directory = tempfile::tempdir().unwrap();
        let open_to_all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open_to_all).unwrap();
        let error = LogFiles::open(directory.path(), "client").err().unwrap();
        assert!(error.to_string().contains("`chmod go-w "), "{error}");
    }
}
