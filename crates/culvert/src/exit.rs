//! The end of the program: one line with the failure, the reason and the fix, and an exit status.

use crate::visible::visible;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The reason of the program's end, as the exit statuses that `--help` documents, beside 0.
/// `culvert wg` and the commands that speak with a portal give 3 and 4 to different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Something failed.
    Failed,
    /// The command line is wrong.
    Usage,
    /// `culvert wg`: a permission is missing.
    Permission,
    /// `culvert wg`: the interface name or the port is in use.
    InUse,
    /// There is no token, or the portal will not have it.
    NotEnrolled,
    /// The portal can't be reached.
    PortalUnreachable,
    /// The portal denies the request.
    Denied,
    /// `culvert run`: the client does not take the program into the application.
    NotJoined,
    /// `culvert run`: the program can't be run.
    ProgramNotRun,
    /// `culvert run`: there is no such program.
    ProgramNotFound,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Failed => 1,
            Status::Usage => 2,
            Status::Permission | Status::NotEnrolled => 3,
            Status::InUse | Status::PortalUnreachable => 4,
            Status::Denied => 5,
            // As env(1) has them: the program's own are seldom among them.
            Status::NotJoined => 125,
            Status::ProgramNotRun => 126,
            Status::ProgramNotFound => 127,
        })
    }
}

/// The reason of the program's end, for the caller.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    message: String,
}

impl Failure {
    /// A failure with a one-line `message`: "what: why; fix".
    pub(crate) fn new(status: Status, message: impl fmt::Display) -> Self {
        // One line is promised, and a message may hold text of the operating system or of others.
        let message = visible(&message.to_string().replace('\n', " "));
        Self { status, message }
    }

    /// The same, of the file or variable `source`.
    pub(crate) fn about(self, source: &str) -> Self {
        let message = visible(&format!("{source}: {}", self.message));
        Self { message, ..self }
    }

    /// The failure of the action `what` with `error`.
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let (status, fix) = match error.kind() {
            io::ErrorKind::PermissionDenied => (Status::Permission, "; run as root"),
            io::ErrorKind::AddrInUse => (
                Status::InUse,
                "; another program listens there (`ss -lnp` shows which): end it, or choose another port",
            ),
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

/// Writes `bytes` to standard output before something is done that does not depend on who reads them:
/// a reader that has seen enough does not keep it from being done.
pub(crate) fn print_ahead(bytes: &[u8]) -> Result<(), Failure> {
    written(bytes).or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(unwritten(&error)),
    })
}

/// Writes what is shown this once to standard output: that nobody reads it is a failure.
pub(crate) fn print_once(bytes: &[u8]) -> Result<(), Failure> {
    written(bytes).map_err(|error| unwritten(&error))
}

/// Writes `bytes` to standard output. A reader that has seen enough (`culvert … | head`) is no
/// failure: the process ends there.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    match written(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        written => written.map_err(|error| unwritten(&error)),
    }
}

fn written(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes).and_then(|()| output.flush())
}

fn unwritten(error: &io::Error) -> Failure {
    Failure::new(Status::Failed, format_args!("standard output: {error}"))
}
