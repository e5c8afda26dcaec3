//! The helper of a service in a sandbox: a process outside of it that looks up names, users and files of the system
//! (privilege separation).
//!
//! A Landlock rule about a file is about its inode, and one about a directory opens all below it. `resolv.conf`, `hosts`
//! and `passwd` are replaced by rename beside `shadow` and the keys of other services. So the service opens nothing in
//! `/etc`: it asks the helper, which knows a fixed list of [requests](message::Request) and opens the file of that
//! moment. The helper parses no packet, has no secret and, but for changing `resolv.conf`, no right.
//!
//! A process without a helper does the same [operations](operations::Operations) itself.

pub(crate) mod access;
mod message;
mod operations;
#[cfg(test)]
mod tests;

pub use access::{look_up, open_system_file};
pub use message::SystemFile;
pub(crate) use operations::Operations;

use crate::privileges::{Capability, confine, with_capabilities};
use crate::{HostError, SandboxNeeds, sandbox};
use message::{Answer, Failed, Request};
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The first argument of the program that makes it the helper.
pub const SYSTEM_HELPER: &str = "system-helper";

/// The second argument: the helper may change `/etc/resolv.conf`.
const MAY_WRITE: &str = "--resolv-conf";

/// Requests that are worked on at once, each by a thread. The portal's name, public endpoints and the askers at a
/// status socket need a few.
const MAX_AT_ONCE: usize = 32;

/// Variables by which an administrator changes how the C library looks names up (resolv.conf(5)). The helper gets no
/// other: there may be a token among them.
const VARIABLES: [&str; 2] = ["LOCALDOMAIN", "RES_OPTIONS"];

/// A helper that runs. It ends with the process that started it.
#[derive(Debug)]
pub struct SystemHelper(Arc<OwnedFd>);

impl SystemHelper {
    /// Starts the helper of this process. Must be called after [`confine`], which bounds the helper too, and before
    /// [`Sandbox::enter`](crate::Sandbox::enter), which bounds only what comes later.
    ///
    /// # Errors
    /// The system's, where there is no second process.
    pub fn start(needs: &SandboxNeeds<'_>) -> Result<Self, HostError> {
        let failed = |error: io::Error| HostError::system("start the helper for names", error);
        let (ours, theirs) = message::pair().map_err(|error| failed(error.into()))?;
        // This link leads to the program that runs, also after an upgrade.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("culvert").arg(SYSTEM_HELPER).env_clear();
        if needs.writes_resolv_conf() {
            command.arg(MAY_WRITE);
        }
        for variable in VARIABLES {
            if let Some(value) = std::env::var_os(variable) {
                command.env(variable, value);
            }
        }
        // A group of its own: Ctrl-C at a terminal is for the service.
        command.process_group(0).current_dir("/");
        command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // It ends at the end of the socket, and this process does not outlive it: nobody waits for it.
        let passed = capabilities_for(needs.writes_resolv_conf());
        let _child = with_capabilities(passed, || command.spawn()).map_err(failed)?;
        Ok(Self(access::set_helper(ours)))
    }

    /// Returns once the helper has ended: nothing can be looked up any more.
    ///
    /// # Errors
    /// The system's, where that can't be watched.
    pub async fn ended(&self) -> io::Result<()> {
        let socket = self.0.try_clone()?;
        let (tell, ended) = tokio::sync::oneshot::channel();
        let watch = move || {
            // The helper never sends here: readable means closed.
            let mut polled = [PollFd::new(&socket, PollFlags::IN)];
            let outcome = loop {
                match rustix::event::poll(&mut polled, None) {
                    Err(Errno::INTR) => {}
                    other => break other.map(drop).map_err(io::Error::from),
                }
            };
            // Nobody listens where the service has ended first.
            let _unheard = tell.send(outcome);
        };
        // Not one of the runtime's threads, whose end it waits for: this one may wait for ever.
        let thread = std::thread::Builder::new().name("helper watch".to_owned());
        thread.spawn(watch)?;
        ended.await.unwrap_or(Ok(()))
    }
}

/// Is the helper, until the service ends that has the other end of standard input. `arguments` are those after
/// [`SYSTEM_HELPER`].
///
/// # Errors
/// If standard input is no such socket, or rights can't be given up.
pub fn run_system_helper(arguments: &[String]) -> Result<(), HostError> {
    let may_write = arguments == [MAY_WRITE];
    // A service manager tells all processes of a unit to end. The service asks until it has ended itself.
    SigSet::all()
        .thread_block()
        .map_err(|error| HostError::system("block signals", io::Error::from(error)))?;
    confine(None, capabilities_for(may_write), &[])?;
    sandbox::enter_helper(may_write);
    let operations = Arc::new(Operations::of_system(may_write));
    serve(rustix::stdio::stdin(), &operations)
        .map_err(|error| HostError::system("take requests of culvert at standard input", error))
}

/// `resolv.conf` is root's, or another user's in a container.
fn capabilities_for(may_write: bool) -> &'static [Capability] {
    match may_write {
        true => &[Capability::DacOverride],
        false => &[],
    }
}

/// Answers until the other end is closed.
fn serve(socket: impl AsFd, operations: &Arc<Operations>) -> io::Result<()> {
    let under_way = Arc::new(AtomicUsize::new(0));
    while let Some((bytes, reply)) = message::receive(&socket)? {
        let Some(reply) = reply else { continue };
        let request = message::decode::<Request>(&bytes);
        if under_way.load(Ordering::Relaxed) >= MAX_AT_ONCE {
            answer(&reply, Err(Errno::AGAIN.into()));
            continue;
        }
        under_way.fetch_add(1, Ordering::Relaxed);
        let (operations, under_way) = (Arc::clone(operations), Arc::clone(&under_way));
        std::thread::spawn(move || {
            answer(&reply, request.and_then(|it| operations.perform(&it)));
            under_way.fetch_sub(1, Ordering::Relaxed);
        });
    }
    Ok(())
}

fn answer(reply: &OwnedFd, outcome: io::Result<(Answer, Option<OwnedFd>)>) {
    // The asker may have stopped waiting.
    let _unheard = match outcome {
        Ok((answer, descriptor)) => {
            let descriptor = descriptor.as_ref().map(AsFd::as_fd);
            message::send(reply, &Ok::<_, Failed>(answer), descriptor)
        }
        Err(error) => message::send(reply, &Err::<Answer, _>(Failed::from(error)), None),
    };
}
