//! The program `culvert`, which does what the socket does not offer: `culvert netcheck` and `culvert debug bundle`.

use crate::mailbox::{Event, Mailbox};
use culvert_desktop_core::netcheck::{self, Finding, MAX_REPORT_BYTES};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The most that is kept of what a program says on standard error, in bytes: some lines.
const MAX_STDERR_BYTES: u64 = 4096;

/// The time limit of a network check. Its own limits sum up to less.
const NETCHECK_LIMIT: Duration = Duration::from_secs(120);

/// The time limit of a debug bundle: eight commands of ten seconds each, and as much again for the files.
const BUNDLE_LIMIT: Duration = Duration::from_secs(180);

/// The program, and the socket of the service that it is to use.
#[derive(Clone, Debug)]
pub struct Program {
    /// The path or name of the program.
    pub path: PathBuf,
    /// The socket of the service.
    pub socket: PathBuf,
}

/// The reason why a program has no result.
#[derive(Debug)]
pub enum ProgramError {
    /// It could not be started, or its output not be read.
    Io(PathBuf, io::Error),
    /// It ended without a result, with its last words.
    Failed(String),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(path, error) => write!(formatter, "{}: {error}", path.display()),
            Self::Failed(text) => formatter.write_str(text),
        }
    }
}

impl Program {
    /// Runs `culvert netcheck` in a thread of its own. The findings go into `mailbox`.
    pub fn check_network(&self, mailbox: &Arc<Mailbox>) {
        let (program, sender) = (self.clone(), Arc::clone(mailbox));
        let spawned = thread::Builder::new()
            .name("netcheck".to_owned())
            .spawn(move || {
                let findings = program.netcheck().map_err(|error| error.to_string());
                sender.put(Event::Netcheck(findings));
            });
        if let Err(error) = spawned {
            mailbox.put(Event::Netcheck(Err(error.to_string())));
        }
    }

    fn netcheck(&self) -> Result<Vec<Finding>, ProgramError> {
        let mut command = self.command("netcheck");
        command.arg("--json").arg("--socket").arg(&self.socket);
        self.output(command, NETCHECK_LIMIT, |output| {
            netcheck::parse(output).ok()
        })
    }

    /// Runs `culvert debug bundle` in a thread of its own. It makes `directory`, which must be new.
    pub fn make_bundle(&self, directory: PathBuf, mailbox: &Arc<Mailbox>) {
        let (program, sender) = (self.clone(), Arc::clone(mailbox));
        let spawned = thread::Builder::new()
            .name("bundle".to_owned())
            .spawn(move || {
                let made = program.bundle(&directory);
                let made = made.map(|()| directory).map_err(|error| error.to_string());
                sender.put(Event::Bundle(made));
            });
        if let Err(error) = spawned {
            mailbox.put(Event::Bundle(Err(error.to_string())));
        }
    }

    fn bundle(&self, directory: &Path) -> Result<(), ProgramError> {
        let mut command = self.command("debug");
        command.args(["bundle", "--json", "--out"]).arg(directory);
        command.arg("--client-socket").arg(&self.socket);
        self.output(command, BUNDLE_LIMIT, |output| {
            (!output.is_empty()).then_some(())
        })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(name);
        command
    }

    /// Runs a command and reads its output by `parse`.
    fn output<T>(
        &self,
        mut command: Command,
        limit: Duration,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, ProgramError> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| ProgramError::Io(self.path.clone(), error))?;
        let stdout = child.stdout.take();
        let stderr = stderr_of(&mut child);
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut output = Vec::new();
            let read = stdout.map(|stdout| stdout.take(MAX_REPORT_BYTES).read_to_end(&mut output));
            // The receiver is gone when the time is over.
            let _late = sender.send(read.transpose().map(|_| output));
        });
        let output = output.recv_timeout(limit);
        if output.is_err() {
            // It may have ended in this moment.
            let _ended = child.kill();
        }
        let _status = child.wait();
        match output {
            Ok(Ok(output)) => parse(&output).ok_or_else(|| {
                let said = stderr.join().unwrap_or_default();
                ProgramError::Failed(last_line(&said))
            }),
            Ok(Err(error)) => Err(ProgramError::Io(self.path.clone(), error)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(
                ProgramError::Failed(format!("no result within {} s", limit.as_secs())),
            ),
        }
    }
}

/// Reads standard error of `child` in a thread, up to [`MAX_STDERR_BYTES`].
fn stderr_of(child: &mut Child) -> thread::JoinHandle<String> {
    let stderr = child.stderr.take();
    thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut stderr) = stderr {
            let _partial = stderr
                .by_ref()
                .take(MAX_STDERR_BYTES)
                .read_to_end(&mut said);
            // The rest is thrown away, so that the program does not wait for a reader.
            let _rest = io::copy(&mut stderr, &mut io::sink());
        }
        String::from_utf8_lossy(&said).into_owned()
    })
}

/// The last line with something in it, without the name of the program.
fn last_line(said: &str) -> String {
    let line = said
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or("it said nothing");
    line.trim().trim_start_matches("culvert: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_or_fails_says_why() {
        let program = |path: &str| Program {
            path: path.into(),
            socket: "/nonexistent".into(),
        };
        let missing = program("/nonexistent/culvert")
            .netcheck()
            .unwrap_err()
            .to_string();
        assert!(missing.starts_with("/nonexistent/culvert: "), "{missing}");
        let failed = program("/bin/false").netcheck().unwrap_err().to_string();
        assert_eq!(failed, "it said nothing");
        let directory = Path::new("/nonexistent/bundle");
        let failed = program("/bin/false").bundle(directory).unwrap_err();
        assert_eq!(failed.to_string(), "it said nothing");
        assert!(program("/bin/echo").bundle(directory).is_ok());
        assert_eq!(last_line("a\nculvert: no such thing\n\n"), "no such thing");
    }
}
