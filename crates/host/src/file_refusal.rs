//! Reasons why a file or directory with secrets is not used.

use std::fmt;
use std::path::PathBuf;

/// A file or directory that is not used, and why. Its text is one line that names the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRefused {
    /// The path as given.
    pub path: PathBuf,
    /// The reason.
    pub refusal: FileRefusal,
}

/// The reason why a file or directory is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileRefusal {
    /// It does not exist.
    Missing,
    /// This process may not open it.
    Forbidden,
    /// It is a symbolic link: a user who may change the link chooses the file.
    SymbolicLink,
    /// It is neither a regular file nor a link: a directory, a device, a pipe, a socket.
    NotAFile,
    /// It is not a directory.
    NotADirectory,
    /// Neither root nor the user who runs this owns it, so its owner may have chosen the content.
    ForeignOwner {
        /// The owner's user id.
        owner: u32,
    },
    /// Others than the owner may read, write, run or enter it.
    OpenToOthers {
        /// The permission bits.
        mode: u32,
    },
    /// Others than the owner may change it.
    WritableByOthers {
        /// The permission bits.
        mode: u32,
    },
    /// It has further names, under which others may reach it.
    SeveralLinks {
        /// The number of its hard links.
        links: u64,
    },
    /// It is longer than such a file can be.
    TooLong {
        /// The most bytes it may have.
        max_bytes: usize,
    },
    /// There is nothing in it.
    Empty,
    /// It holds something else than one line of printable ASCII.
    NotOneLine,
    /// It is not UTF-8.
    NotText,
    /// Another process uses this directory.
    InUse,
}

impl fmt::Display for FileRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.refusal {
            FileRefusal::Missing => write!(f, "{path} does not exist"),
            FileRefusal::Forbidden => write!(
                f,
                "{path} may not be opened by user {}: run as its owner, or `chown {0} {path}`",
                own_user_id()
            ),
            FileRefusal::SymbolicLink => write!(
                f,
                "{path} is a symbolic link: give the path of the file itself (`readlink -f {path}`)"
            ),
            FileRefusal::NotAFile => {
                write!(f, "{path} is not a regular file: give the path of one")
            }
            FileRefusal::NotADirectory => {
                write!(f, "{path} is not a directory: remove it or choose another")
            }
            FileRefusal::ForeignOwner { owner } => write!(
                f,
                "{path} belongs to user {owner}, who could have changed it: `chown {} {path}`",
                own_user_id()
            ),
            FileRefusal::OpenToOthers { mode } => write!(
                f,
                "{path} has mode {mode:04o}, others than its owner can use it: `chmod {} {path}`",
                if mode & 0o100 == 0 { "600" } else { "700" }
            ),
            FileRefusal::WritableByOthers { mode } => write!(
                f,
                "{path} has mode {mode:04o}, others than its owner can change it: \
                 `chmod go-w {path}`"
            ),
            FileRefusal::SeveralLinks { links } => write!(
                f,
                "{path} has {links} names, others may read it by another: `cp {path} {path}.new && \
                 chmod 600 {path}.new && mv {path}.new {path}`"
            ),
            FileRefusal::TooLong { max_bytes } => write!(
                f,
                "{path} is longer than {max_bytes} bytes: is it the right file?"
            ),
            FileRefusal::Empty => write!(f, "{path} is empty: write the secret into it"),
            FileRefusal::NotOneLine => write!(
                f,
                "{path} is not one line of printable ASCII: write the token alone into it"
            ),
            FileRefusal::NotText => {
                write!(f, "{path} is not text in UTF-8: is it the right file?")
            }
            FileRefusal::InUse => write!(
                f,
                "{path} is in use by another process: end that one, or give this one a directory \
                 of its own"
            ),
        }
    }
}

impl std::error::Error for FileRefused {}

/// The user whose rights this process has.
pub(crate) fn own_user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}
