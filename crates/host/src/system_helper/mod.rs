//! The helper of a service in a sandbox: a process outside of it that looks up names, users and files of the system
//! (privilege separation).
//!
//! A Landlock rule about a file is about its inode, and one about a directory opens all below it. `resolv.conf`, `hosts`
//! and `passwd` are replaced by rename beside `shadow` and the keys of other services. So the service opens nothing in
//! `/etc`: it asks the helper, which knows a fixed list of [requests](message::Request) and opens the file of that
//! moment. The helper parses no packet, has no secret and, but for changing `resolv.conf`, no right.
//!
//! A process without a helper does the same [operations](operations::Operations) itself.

mod message;
mod operations;
#[cfg(test)]
mod tests;

pub use message::SystemFile;
pub(crate) use operations::Operations;

use crate::privileges::{Capability, confine, with_capabilities};
use crate::{HostError, PeerCredentials, SandboxNeeds, sandbox};
use message::{Answer, Failed, Request};
use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The first argument of the program that makes it the helper.
pub const SYSTEM_HELPER: &str = "system-helper";

/// The second argument: the helper may change `/etc/resolv.conf`.
const MAY_WRITE: &str = "--resolv-conf";

/// The longest time for an answer. The slowest is a name that no server answers for: the C library asks three servers
/// twice, for 5 s each.
const ANSWER_LIMIT: Duration = Duration::from_secs(40);

/// Requests that are worked on at once, each by a thread. The portal's name, public endpoints and the askers at a
/// status socket need a few.
const MAX_AT_ONCE: usize = 32;

/// Variables by which an administrator changes how the C library looks names up (resolv.conf(5)). The helper gets no
/// other: there may be a token among them.
const VARIABLES: [&str; 2] = ["LOCALDOMAIN", "RES_OPTIONS"];

/// The helper of this process, once it has one.
static HELPER: OnceLock<Arc<OwnedFd>> = OnceLock::new();

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
        let socket = HELPER.get_or_init(|| Arc::new(ours));
        Ok(Self(Arc::clone(socket)))
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

/// The way by which a process reaches names, users and files of the system.
#[derive(Clone, Debug)]
pub(crate) enum SystemAccess {
    /// It does so itself.
    Direct(Operations),
    /// It asks its helper.
    Helper(Arc<OwnedFd>),
}

impl SystemAccess {
    /// The way of this process.
    pub(crate) fn of_process() -> Self {
        match HELPER.get() {
            Some(socket) => Self::Helper(Arc::clone(socket)),
            None => Self::Direct(Operations::of_system(true)),
        }
    }

    fn request(&self, request: &Request) -> io::Result<(Answer, Option<OwnedFd>)> {
        let socket = match self {
            Self::Direct(operations) => return operations.perform(request),
            Self::Helper(socket) => socket,
        };
        let (ours, theirs) = message::pair()?;
        set_socket_timeout(&ours, Timeout::Recv, Some(ANSWER_LIMIT))?;
        message::send(socket, request, Some(theirs.as_fd())).map_err(gone)?;
        drop(theirs);
        let received = message::receive(&ours)?;
        let (bytes, descriptor) = received.ok_or_else(|| gone(Errno::PIPE.into()))?;
        let outcome: Result<Answer, Failed> = message::decode(&bytes)?;
        Ok((outcome?, descriptor))
    }

    fn open_by(&self, request: &Request) -> io::Result<File> {
        match self.request(request)? {
            (Answer::Opened, Some(descriptor)) => Ok(descriptor.into()),
            _ => Err(unexpected()),
        }
    }

    fn do_by(&self, request: &Request) -> io::Result<()> {
        match self.request(request)? {
            (Answer::Done, _) => Ok(()),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn open(&self, file: SystemFile) -> io::Result<File> {
        self.open_by(&Request::Open(file))
    }

    /// The text of a file; nothing where it can't be read.
    pub(crate) fn text(&self, file: SystemFile) -> String {
        let read = |mut file: File| {
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text)
        };
        self.open(file).and_then(read).unwrap_or_default()
    }

    pub(crate) fn open_resolv_conf(&self) -> io::Result<File> {
        self.open_by(&Request::OpenResolvConf)
    }

    /// Returns what the file said that gave way.
    pub(crate) fn exchange_resolv_conf(&self, content: &[u8]) -> io::Result<Option<Vec<u8>>> {
        match self.request(&Request::ExchangeResolvConf(content.to_vec()))? {
            (Answer::Exchanged(replaced), _) => Ok(replaced),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn remove_resolv_conf(&self) -> io::Result<()> {
        self.do_by(&Request::RemoveResolvConf)
    }

    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        self.do_by(&Request::RemoveUnfinished)
    }

    pub(crate) fn command_group(&self) -> io::Result<Option<u32>> {
        match self.request(&Request::CommandGroup)? {
            (Answer::Group(group), _) => Ok(group),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn admit(&self, peer: PeerCredentials) -> io::Result<Result<(), String>> {
        match self.request(&Request::Admit(peer))? {
            (Answer::Admitted(judged), _) => Ok(judged),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn start_time(&self, pid: u32) -> io::Result<u64> {
        match self.request(&Request::StartTime(pid))? {
            (Answer::StartTime(ticks), _) => Ok(ticks),
            _ => Err(unexpected()),
        }
    }

    fn look_up(&self, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self.request(&Request::LookUp { host, port })? {
            (Answer::Addresses(addresses), _) => Ok(addresses),
            _ => Err(unexpected()),
        }
    }
}

fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PIPE | Errno::CONNRESET) => io::Error::new(
            io::ErrorKind::BrokenPipe,
            "the helper of this service has ended: restart the service",
        ),
        _ => error,
    }
}

fn unexpected() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the helper answered another question",
    )
}

/// The addresses of a name, as the system finds them (getaddrinfo(3)).
///
/// # Errors
/// The resolver's, or the helper's end.
pub async fn look_up(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let access = SystemAccess::of_process();
    tokio::task::spawn_blocking(move || access.look_up(host, port))
        .await
        .unwrap_or_else(|_| Err(unexpected()))
}

/// Opens a file of the system as it is now, for reading.
///
/// # Errors
/// The system's.
pub fn open_system_file(file: SystemFile) -> io::Result<File> {
    SystemAccess::of_process().open(file)
}
