//! The directory in which a role keeps what must outlive it: its id, its private key.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FlockOperation, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use crate::HostError;
use crate::file_check::{Kind, SecretBytes, open_private, read_bounded, refuse};
use crate::file_refusal::FileRefusal;
use crate::retry::retry_until_released;

/// The most bytes of a file in a [`StateDir`]. Ids and keys take less than a hundred; the largest is the
/// log of a gateway's grants: at most 131072 of them with 1200 bytes each, and 65536 names with 350. It is made shorter
/// at twice that.
pub const MAX_STATE_FILE_BYTES: usize = 1 << 29;

/// The permissions of directories made on the way to a [`StateDir`]: anyone may pass through them.
const PARENT_MODE: u32 = 0o755;

/// The file whose lock says that the directory is in use.
const LOCK_FILE: &str = ".lock";

/// The suffix of a file's name while it is being written.
const UNFINISHED_SUFFIX: &str = ".unfinished";

/// A directory that nobody but its owner can enter.
///
/// Everything happens relative to the open directory: exchanging a part of its path later changes
/// nothing.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    dir: File,
}

/// Keeps a [`StateDir`] for this process while it lives.
#[derive(Debug)]
#[must_use = "the directory is given free when this is dropped"]
pub struct StateLock {
    _file: OwnedFd,
}

/// Makes a directory with mode 0700 if it is missing, and its parents with 0755.
pub(crate) fn make_directory(path: &Path) -> Result<(), HostError> {
    make_directory_of(path, Mode::RWXU.bits(), None)
}

/// Makes a directory of `owner` if it is missing, and its parents with 0755.
pub(crate) fn make_directory_of(
    path: &Path,
    mode: u32,
    owner: Option<(Uid, Gid)>,
) -> Result<(), HostError> {
    if let Some(parent) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(PARENT_MODE)
            .create(parent)
            .map_err(|error| HostError::file("make", parent, error))?;
    }
    let made = rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(mode));
    let given = made.and_then(|()| match owner {
        // Nobody else could have put another in its place: the directory around it is root's.
        Some((uid, gid)) => {
            rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
        }
        None => Ok(()),
    });
    match given {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(HostError::file("make", path, error)),
    }
}

impl StateDir {
    /// Opens the directory; makes it with mode 0700 if it is missing, and its parents with 0755.
    ///
    /// # Errors
    /// [`HostError::FileRefused`] with the fix where it is open to others, somebody else's, a
    /// symbolic link or no directory; the system's error where it cannot be made.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        make_directory(path)?;
        Ok(Self {
            path: path.to_owned(),
            dir: open_private(CWD, path, Kind::Directory, path)?,
        })
    }

    /// The path as given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the directory for this process alone, until the lock is dropped or the process ends.
    /// Two clients with one id and one key would take each other's place without end.
    ///
    /// # Errors
    /// [`FileRefusal::InUse`] where another process has it, and has it still 2 s later.
    pub fn lock(&self) -> Result<StateLock, HostError> {
        let path = self.path.join(LOCK_FILE);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, LOCK_FILE, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| HostError::file("open", &path, error))?;
        let locked = retry_until_released(|| {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(())),
                Err(Errno::WOULDBLOCK) => Ok(None),
                Err(error) => Err(HostError::file("lock", &path, error)),
            }
        })?;
        match locked {
            Some(()) => Ok(StateLock { _file: file }),
            None => Err(refuse(&self.path, FileRefusal::InUse)),
        }
    }

    /// The content of the file `name`; `None` if there is none.
    ///
    /// # Errors
    /// [`HostError::FileRefused`] with the fix where the file is laxer than [`write`](Self::write)
    /// makes it, or longer than [`MAX_STATE_FILE_BYTES`].
    pub fn read(&self, name: &str) -> Result<Option<SecretBytes>, HostError> {
        self.read_at_most(MAX_STATE_FILE_BYTES, name)
    }

    /// As [`read`](Self::read), for a file that is known to be short.
    ///
    /// # Errors
    /// As [`read`](Self::read), with `max_bytes` as the limit.
    pub fn read_at_most(
        &self,
        max_bytes: usize,
        name: &str,
    ) -> Result<Option<SecretBytes>, HostError> {
        let path = self.file_path(name)?;
        match open_private(&self.dir, Path::new(name), Kind::File, &path) {
            Ok(file) => read_bounded(file, max_bytes, &path).map(Some),
            Err(HostError::FileRefused(refused)) if refused.refusal == FileRefusal::Missing => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes the file `name` with mode 0600, whole or not at all: whatever happens, a reader finds
    /// the old content or the new. When this returns, the new content survives a loss of power.
    ///
    /// One writer at a time: see [`lock`](Self::lock).
    ///
    /// # Errors
    /// The system's, such as a full disk; the old content is still there then.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), HostError> {
        let path = self.file_path(name)?;
        if content.len() > MAX_STATE_FILE_BYTES {
            let max_bytes = MAX_STATE_FILE_BYTES;
            return Err(refuse(&path, FileRefusal::TooLong { max_bytes }));
        }
        let unfinished = format!("{name}{UNFINISHED_SUFFIX}");
        let written = self
            .write_unfinished(&unfinished, content)
            .and_then(|()| {
                Ok(rustix::fs::renameat(
                    &self.dir,
                    &unfinished,
                    &self.dir,
                    name,
                )?)
            })
            .and_then(|()| Ok(rustix::fs::fsync(&self.dir)?));
        written.map_err(|error| {
            // A file that cannot be removed now is removed by the next write of this file.
            let _left = rustix::fs::unlinkat(&self.dir, &unfinished, AtFlags::empty());
            HostError::file("write", &path, error)
        })
    }

    /// Opens the file `name` to add to it; makes it with mode 0600 if it is missing. Added data
    /// outlives the process at once, and a loss of power once the file is synced.
    ///
    /// # Errors
    /// [`HostError::FileRefused`] as [`read`](Self::read), or the system's.
    pub fn open_to_append(&self, name: &str) -> Result<File, HostError> {
        let path = self.file_path(name)?;
        match open_private(&self.dir, Path::new(name), Kind::File, &path) {
            Ok(_) => {}
            Err(HostError::FileRefused(refused)) if refused.refusal == FileRefusal::Missing => {
                self.write(name, &[])?;
            }
            Err(error) => return Err(error),
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, name, flags, Mode::empty())
            .map(File::from)
            .map_err(|error| HostError::file("open", &path, error))
    }

    /// Removes the file `name`; nothing happens if there is none.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &str) -> Result<(), HostError> {
        let path = self.file_path(name)?;
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(HostError::file("remove", &path, error)),
        }
        rustix::fs::fsync(&self.dir).map_err(|error| HostError::file("remove", &path, error))
    }

    fn write_unfinished(&self, unfinished: &str, content: &[u8]) -> io::Result<()> {
        // A crash may have left one behind.
        match rustix::fs::unlinkat(&self.dir, unfinished, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.dir, unfinished, flags, mode)?;
        // The mode given above has lost what the umask forbids.
        rustix::fs::fchmod(&file, mode)?;
        let mut file = File::from(file);
        file.write_all(content)?;
        file.sync_all()
    }

    /// The path of the file `name`; a name that leads elsewhere or collides with our own is
    /// refused.
    fn file_path(&self, name: &str) -> Result<PathBuf, HostError> {
        let plain = !name.is_empty()
            && !name.starts_with('.')
            && !name.ends_with(UNFINISHED_SUFFIX)
            && name
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'/');
        if plain {
            Ok(self.path.join(name))
        } else {
            Err(HostError::InvalidFileName {
                name: name.to_owned(),
            })
        }
    }
}
