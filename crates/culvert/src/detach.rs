//! Going into the background, without `fork`.
//!
//! The process that was started runs the program again with the same arguments and waits. That
//! child makes the interface in a session of its own, with standard output as the way back: it
//! writes [`READY`] there once everything works, then lets go of standard output and error. A
//! child that fails writes its one line to standard error as always, and its exit status becomes
//! that of the waiting process.

use crate::exit::{Failure, Status};
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Tells a child that its parent waits at the other end of standard output.
const CHILD_VARIABLE: &str = "CULVERT_READY_ON_STDOUT";

const READY: &[u8] = b"ready\n";

/// Runs this program again in the background, and returns when the interface is ready.
pub(crate) fn detach() -> Result<ExitCode, Failure> {
    let failed = |error: io::Error| Failure::io("going into the background", &error);
    let mut arguments = std::env::args_os();
    // By its path, so that `pgrep culvert` finds it; a program that was replaced or deleted since its
    // start has none, and this link still leads to it.
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let program = program.unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let mut child = command
        .args(arguments)
        .env(CHILD_VARIABLE, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut said = Vec::with_capacity(READY.len());
    if let Some(output) = child.stdout.take() {
        let limit = READY.len() as u64;
        output.take(limit).read_to_end(&mut said).map_err(failed)?;
    }
    if said == READY {
        return Ok(ExitCode::SUCCESS);
    }
    let status = child.wait().map_err(failed)?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        // It said why on standard error.
        Some(code) if code != 0 => Ok(ExitCode::from(code)),
        _ => Err(Failure::new(
            Status::Failed,
            format_args!("the background process ended before it was ready: {status}"),
        )),
    }
}

/// The way back to a parent that waits.
pub(crate) struct Waiting(());

impl Waiting {
    /// The parent that waits for this process, if it is the background one. Leaves the parent's
    /// session, so that neither its terminal nor its process group ends the interface.
    pub(crate) fn parent() -> Result<Option<Self>, Failure> {
        if std::env::var_os(CHILD_VARIABLE).is_none() {
            return Ok(None);
        }
        rustix::process::setsid().map_err(|error| Failure::io("a new session", &error.into()))?;
        Ok(Some(Self(())))
    }

    /// Tells the parent that all is well, and lets go of its terminal and its directory.
    pub(crate) fn announce(self) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io("telling the starting process", &error);
        std::env::set_current_dir("/").map_err(failed)?;
        let null = OpenOptions::new()
            .write(true)
            .open("/dev/null")
            .map_err(failed)?;
        let mut output = io::stdout();
        // A parent that was interrupted does not want the interface any more: this fails.
        output.write_all(READY).map_err(failed)?;
        output.flush().map_err(failed)?;
        rustix::stdio::dup2_stdout(&null).map_err(|error| failed(error.into()))?;
        rustix::stdio::dup2_stderr(&null).map_err(|error| failed(error.into()))?;
        Ok(())
    }
}
