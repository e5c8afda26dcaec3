//! A disk of a few megabytes, which a test may fill.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::soon::SOON;
use crate::namespace::Namespace;
use crate::process::Process;
use crate::wait_until;

/// The file that takes up the room.
const FILLER: &str = "filler";

/// A file system in memory, at a directory that only who enters its mounts finds there. It goes away
/// with the process that keeps it, however this one ends.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Process,
    dir: PathBuf,
}

impl SmallDisk {
    /// Mounts one at `dir`, for nobody but its owner to enter.
    ///
    /// # Errors
    /// When `mount` refuses.
    pub fn mount(namespace: &Namespace, dir: &Path, bytes: u64) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let mut holder = namespace.spawn_script(&format!(
            "mount -t tmpfs -o size={bytes},mode=700 tmpfs {} && echo mounted && exec sleep infinity",
            dir.display()
        ))?;
        holder.wait_for_output("mounted", SOON)?;
        let dir = dir.to_owned();
        Ok(Self { holder, dir })
    }

    /// The shell prefix of a command that sees the disk.
    #[must_use]
    pub fn entrance(&self) -> String {
        format!("nsenter --mount=/proc/{}/ns/mnt --", self.holder.id())
    }

    /// Its directory, for this process.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let root = format!("/proc/{}/root{}", self.holder.id(), self.dir.display());
        PathBuf::from(root)
    }

    /// Takes up all the room but `left_bytes`, in whole pages of 4 KiB.
    ///
    /// # Errors
    /// When there is less.
    pub fn fill(&self, left_bytes: u64) -> Result<()> {
        let path = self.path().join(FILLER);
        let mut filled = Ok(0);
        // The kernel gives room back a moment after what took it has gone.
        wait_until("room on the disk", SOON, || {
            filled = take_all(&path);
            !matches!(filled, Ok(bytes) if bytes < left_bytes)
        })?;
        let file = File::options().write(true).open(&path)?;
        Ok(file.set_len(filled? - left_bytes)?)
    }

    /// Gives the room back, and returns when it is there.
    ///
    /// # Errors
    /// When it was not taken.
    pub fn make_room(&self) -> Result<()> {
        let filler = self.path().join(FILLER);
        let bytes = fs::metadata(&filler)?.len();
        fs::remove_file(filler)?;
        // The kernel takes a moment; whoever waited for room may have taken some of it by then.
        wait_until("the room that was made", SOON, || {
            rustix::fs::statvfs(self.path())
                .is_ok_and(|disk| disk.f_bavail * disk.f_frsize >= bytes / 2)
        })
    }
}

/// Writes a file until there is no room left, and says how long it is.
fn take_all(path: &Path) -> Result<u64> {
    let mut file = File::create(path)?;
    let page = [0x2a; 4096];
    let mut bytes = 0;
    loop {
        match file.write(&page) {
            Ok(written) => bytes += written as u64,
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(bytes),
            Err(error) => return Err(error.into()),
        }
    }
}
