//! The reasons why a program at a socket tells no state.

use super::socket_error::{AnsweredError, ErrorCode};
use std::io;
use std::path::{Path, PathBuf};

/// The reason why there is no status.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// Nobody answers.
    #[error("no {program} answers at {}: start one with `culvert {program} run`, or name its socket by --socket", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// The program that was to answer.
        program: &'static str,
    },
    /// This user may not ask.
    #[error("{} may not be used by this user: root may, and members of its group (`usermod -aG culvert USER`)", path.display())]
    Forbidden {
        /// The socket's path.
        path: PathBuf,
    },
    /// It does not know the request, or will not do it.
    #[error("the {program} answers: {}", error.text)]
    Refused {
        /// The program that was to answer.
        program: &'static str,
        /// The answer.
        error: AnsweredError,
    },
    /// Anything else.
    #[error("no status from {}: {source}", path.display())]
    Io {
        /// The socket's path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl StatusError {
    pub(crate) fn of_socket(path: &Path, program: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Self::NotRunning { path, program }
            }
            io::ErrorKind::PermissionDenied => Self::Forbidden { path },
            _ => Self::Io { path, source },
        }
    }

    /// The kind of the program's refusal, if it refuses and this version knows the kind.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { error, .. } => error.known_code(),
            _ => None,
        }
    }

    /// True if the program took too long to answer.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::TimedOut)
    }
}
