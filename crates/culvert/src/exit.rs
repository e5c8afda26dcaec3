//! How the program ends: one line that says what, why and how to mend it, and an exit status.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The exit statuses that `--help` documents, beside 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Something failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A permission is missing.
    Permission = 3,
    /// The interface name or the port is in use.
    InUse = 4,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Why the program ends, for whoever started it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    message: String,
}

impl Failure {
    /// A failure with a one-line `message`: "what: why; fix".
    pub(crate) fn new(status: Status, message: impl fmt::Display) -> Self {
        // One line is promised, and a message may hold text of the operating system.
        let message = message.to_string().replace('\n', " ");
        Self { status, message }
    }

    /// `what` failed with `error`.
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let (status, fix) = match error.kind() {
            io::ErrorKind::PermissionDenied => (Status::Permission, "; run as root"),
            io::ErrorKind::AddrInUse => (Status::InUse, "; choose another port"),
            _ => (Status::Failed, ""),
        };
        Self::new(status, format_args!("{what}: {error}{fix}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Writes `bytes` to standard output. A reader that has seen enough (`culvert … | head`) is no
/// failure: the process ends there.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(|error| Failure::io("standard output", &error)),
    }
}
