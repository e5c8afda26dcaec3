//! The directory of a service's log files.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};

use crate::HostError;
use crate::file_check::{Kind, Others, open_checked};
use crate::state_dir::make_directory;

/// A directory in which nobody else can put files: a file opened for writing is ours.
#[derive(Debug)]
pub struct LogDir {
    dir: File,
}

impl LogDir {
    /// Opens the directory; makes it with mode 0700 if it is missing, and its parents with 0755.
    ///
    /// # Errors
    /// [`HostError::FileRefused`] with the fix where others can write
    /// to it, it is a symbolic link or no directory; the system's error where it cannot be made.
    pub fn open(path: &Path) -> Result<Self, HostError> {
        make_directory(path)?;
        let dir = open_checked(CWD, path, Kind::Directory, Others::MayRead, path)?;
        Ok(Self { dir })
    }

    /// Opens the file `name` for adding to it. It is made if it is missing, and closed to all but its
    /// owner: addresses of peers are in logs.
    ///
    /// # Errors
    /// The system's.
    pub fn append(&self, name: &str) -> io::Result<File> {
        // O_NONBLOCK: opening a pipe must not wait for a reader.
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.dir, name, flags, mode)?;
        rustix::fs::fchmod(&file, mode)?;
        Ok(file.into())
    }

    /// The names in it that are UTF-8, in no order.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            if let Ok(name) = entry?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Removes the file `name`.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.dir, name, AtFlags::empty())?)
    }
}
