//! Running `nft`: rulesets go in as text, in one transaction.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::thread::CapabilitySet;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::oneshot;

use crate::HostError;
use crate::probe::require_nft;

/// The time limit for `nft`. A ruleset of ours loads in 20 ms; on a host with 100,000 rules of
/// others a load or a listing takes seconds, because the kernel handles one at a time.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The most that is read of what `nft` prints. The longest output asked for is a client's table about
/// applications: 32,768 ranges make at most twice as many pieces, each listed with 200 bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The most of an error text that is passed on: enough for the first errors with their places.
const MAX_ERROR_BYTES: usize = 1000;

/// The result of a run of `nft`.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Outcome {
    /// The standard output of a run that had to succeed; `action` names the attempt.
    pub(super) fn success(self, action: &str) -> Result<String, HostError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        if self.stderr.contains("Operation not permitted") {
            return Err(HostError::NeedsNetAdmin);
        }
        Err(HostError::Nft {
            action: action.to_owned(),
            message: first_line(&self.stderr),
        })
    }

    /// True if it failed because the object that was asked for is not there.
    pub(super) fn is_missing(&self) -> bool {
        !self.status.success() && self.stderr.contains("No such file or directory")
    }
}

/// Runs `nft` with `arguments` and `input` as its standard input.
///
/// It runs in the network namespace of the calling thread, without the caller's environment: its
/// error texts are English, and nothing of the environment can change what it does.
pub(super) async fn run(
    arguments: &'static [&'static str],
    table: Option<String>,
    input: String,
) -> Result<Outcome, HostError> {
    let program = require_nft()?;
    let (sender, receiver) = oneshot::channel();
    let failed = |error: io::Error| HostError::system("run nft", error);
    std::thread::Builder::new()
        .name("culvert-nft".to_owned())
        .spawn(move || {
            lend_net_admin();
            let result = run_here(program, arguments, table, input);
            // The caller may have given up.
            let _unheard = sender.send(result);
        })
        .map_err(failed)?;
    match receiver.await {
        Ok(result) => result.map_err(failed),
        Err(_) => Err(failed(io::Error::other("its thread has died"))),
    }
}

/// Lets programs that this thread starts have CAP_NET_ADMIN if this thread has it.
///
/// Root passes it on anyway. A program that got the capability by `setcap` does not, unless it says
/// so; capabilities belong to a thread, and this one does nothing else. If it cannot be lent,
/// `nft` says that it may not.
fn lend_net_admin() {
    let lend = || -> rustix::io::Result<()> {
        let mut sets = rustix::thread::capabilities(None)?;
        if sets.permitted.contains(CapabilitySet::NET_ADMIN) {
            sets.inheritable |= CapabilitySet::NET_ADMIN;
            rustix::thread::set_capabilities(None, sets)?;
            let capability = CapabilitySet::NET_ADMIN;
            rustix::thread::configure_capability_in_ambient_set(capability, true)?;
        }
        Ok(())
    };
    if let Err(error) = lend() {
        tracing::debug!(%error, "CAP_NET_ADMIN cannot be lent to nft");
    }
}

/// Runs `nft` from this thread, to its end.
fn run_here(
    program: PathBuf,
    arguments: &[&str],
    table: Option<String>,
    input: String,
) -> io::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async move {
        let mut child = Command::new(program)
            .args(arguments)
            .args(table)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        let work = async {
            let write = async {
                if let Some(mut stdin) = stdin {
                    // An `nft` that ends early says why on its standard error.
                    let _ended = stdin.write_all(input.as_bytes()).await;
                }
            };
            let (_, stdout, stderr) = tokio::join!(write, read(stdout), read(stderr));
            let status = child.wait().await?;
            Ok(Outcome {
                status,
                stdout: stdout?,
                stderr: stderr?,
            })
        };
        match tokio::time::timeout(TIMEOUT, work).await {
            Ok(outcome) => outcome,
            Err(_) => {
                child.kill().await?;
                Err(io::Error::from(io::ErrorKind::TimedOut))
            }
        }
    })
}

/// Reads `pipe` to its end; more than [`MAX_OUTPUT_BYTES`] is an error.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(pipe) = pipe else {
        return Ok(String::new());
    };
    let mut bytes = Vec::new();
    let mut bounded = pipe.take(MAX_OUTPUT_BYTES as u64 + 1);
    bounded.read_to_end(&mut bytes).await?;
    if bytes.len() > MAX_OUTPUT_BYTES {
        return Err(io::Error::other("it prints without end"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The line of `nft`'s error text that says what is wrong; the rest shows where.
fn first_line(stderr: &str) -> String {
    let line = stderr.lines().next().unwrap_or("it failed without a word");
    line.chars().take(MAX_ERROR_BYTES).collect()
}
