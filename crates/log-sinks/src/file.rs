//! A sink that is a file.

use crate::error::SinkError;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The destination of lines.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) dir: PathBuf,
    pub(super) name: String,
    /// Another file is begun before this one becomes longer.
    pub(super) max_bytes: u64,
    /// The number of files that are kept beside the current one.
    pub(super) keep: u32,
}

impl Target {
    fn path(&self) -> PathBuf {
        self.dir.join(&self.name)
    }

    /// The file before `number` others.
    fn older(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{}.{number}", self.name))
    }
}

/// Appends lines, and has them on the disk. The file is opened each time, so that whoever renames it
/// gets a new one.
pub(super) fn append(target: &Target, lines: &[u8]) -> Result<(), SinkError> {
    let path = target.path();
    let wrong = |error: io::Error| SinkError::new(format_args!("{}: {error}", path.display()));
    make_dir(&target.dir).map_err(wrong)?;
    let mut file = open(&path).map_err(wrong)?;
    let len = file.metadata().map_err(wrong)?.len();
    if len > 0 && len + lines.len() as u64 > target.max_bytes {
        rotate(target).map_err(wrong)?;
        file = open(&path).map_err(wrong)?;
    }
    write(&mut file, lines).map_err(wrong)
}

/// The same, but no file goes: the current one may become longer than it may be, by these lines.
pub(super) fn append_without_rotation(target: &Target, lines: &[u8]) -> Result<(), SinkError> {
    let path = target.path();
    let wrong = |error: io::Error| SinkError::new(format_args!("{}: {error}", path.display()));
    make_dir(&target.dir).map_err(wrong)?;
    let mut file = open(&path).map_err(wrong)?;
    write(&mut file, lines).map_err(wrong)
}

fn write(file: &mut File, lines: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = end_torn_line(file)
        .and_then(|()| file.write_all(lines))
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // The lines come again. A part that can't be taken back is then there twice.
        let _left = file.set_len(before);
    }
    written
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Links are not followed: they would lead out of the directory.
fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        let text = "it is no regular file: move it away";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}

/// A crash may have left half of a line: what follows is a line of its own.
fn end_torn_line(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    if len == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(len - 1))?;
    file.read_exact(&mut last)?;
    if last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(())
}

/// `name` becomes `name.1`, that `name.2` and so on; the last goes.
fn rotate(target: &Target) -> io::Result<()> {
    for number in (1..target.keep).rev() {
        match fs::rename(target.older(number), target.older(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(target.path(), target.older(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(dir: &Path) -> Target {
        Target {
            dir: dir.join("logs"),
            name: "a.jsonl".to_owned(),
            max_bytes: 10,
            keep: 2,
        }
    }

    fn read(target: &Target, name: &str) -> String {
        fs::read_to_string(target.dir.join(name)).unwrap_or_default()
    }

    #[test]
    fn lines_are_appended_and_another_file_begins_before_one_is_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path());
        for line in [
            "1234\n", "5678\n", "abcd\n", "efgh\n", "ijkl\n", "mnop\n", "last\n",
        ] {
            append(&target, line.as_bytes()).unwrap();
        }
        assert_eq!(read(&target, "a.jsonl"), "last\n");
        assert_eq!(read(&target, "a.jsonl.1"), "ijkl\nmnop\n");
        assert_eq!(read(&target, "a.jsonl.2"), "abcd\nefgh\n");
        assert_eq!(fs::read_dir(&target.dir).unwrap().count(), 3);
        // A line longer than a file may be is not cut.
        append(&target, b"a line that is too long\n").unwrap();
        assert_eq!(read(&target, "a.jsonl"), "a line that is too long\n");
    }

    #[test]
    fn a_line_without_rotation_takes_no_older_file_away() {
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path());
        for line in ["12345678\n", "23456789\n", "34567890\n"] {
            append(&target, line.as_bytes()).unwrap();
        }
        append_without_rotation(&target, b"test line\n").unwrap();
        assert_eq!(read(&target, "a.jsonl"), "34567890\ntest line\n");
        assert_eq!(read(&target, "a.jsonl.1"), "23456789\n");
        assert_eq!(read(&target, "a.jsonl.2"), "12345678\n");
    }

    #[test]
    fn a_file_that_somebody_renamed_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path());
        append(&target, b"1\n").unwrap();
        fs::rename(target.path(), target.dir.join("moved")).unwrap();
        append(&target, b"2\n").unwrap();
        assert_eq!(
            (read(&target, "moved"), read(&target, "a.jsonl")),
            ("1\n".into(), "2\n".into())
        );
    }

    #[test]
    fn half_of_a_line_that_a_crash_left_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path());
        append(&target, b"1\n").unwrap();
        let mut file = open(&target.path()).unwrap();
        file.write_all(b"{\"to").unwrap();
        append(&target, b"2\n").unwrap();
        assert_eq!(read(&target, "a.jsonl"), "1\n{\"to\n2\n");
    }

    #[test]
    fn a_link_is_not_followed_and_others_may_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let target = target(dir.path());
        append(&target, b"1\n").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&target.dir), mode(&target.path())), (0o700, 0o600));
        let outside = dir.path().join("outside");
        fs::write(&outside, "mine\n").unwrap();
        fs::remove_file(target.path()).unwrap();
        std::os::unix::fs::symlink(&outside, target.path()).unwrap();
        assert!(append(&target, b"2\n").is_err());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "mine\n");
    }
}
