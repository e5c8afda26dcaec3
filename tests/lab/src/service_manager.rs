//! A service manager: it hears the state of a program (`sd_notify(3)`), and keeps its descriptors.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use command_fds::{CommandFdExt, FdMapping};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::namespace::Namespace;
use crate::process::Process;
use crate::{reaper, wait_until};

/// Longer than whatever is told.
const MESSAGE_BYTES: usize = 4096;

/// The number of descriptors that it keeps, as in the units (`FileDescriptorStoreMax=`).
const MAX_STORED: usize = 374;

/// More descriptors than a program sends at once.
const MAX_SENT: usize = 16;

/// The first descriptor that a program is handed (`SD_LISTEN_FDS_START`).
const FIRST_HANDED: usize = 3;

/// The service manager waits that long for a sign of life, where a test says nothing else.
const WATCHDOG: Duration = Duration::from_secs(30);

/// Listens where `NOTIFY_SOCKET` points, and keeps descriptors, as systemd does.
#[derive(Debug)]
pub struct ServiceManager {
    path: PathBuf,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Default)]
struct Heard {
    told: Vec<String>,
    fd_store: Vec<(String, OwnedFd)>,
}

impl ServiceManager {
    /// Begins to listen, until the process ends.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn listen() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = reaper::process_dir()?.join(format!("notify-{number}"));
        let socket = UnixDatagram::bind(&path).context("the socket of a service manager")?;
        // Programs that became another user tell it something, too.
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let hears = Arc::clone(&heard);
        thread::spawn(move || {
            while let Ok((text, descriptors)) = receive(&socket) {
                lock(&hears).take(text, descriptors);
            }
        });
        Ok(Self { path, heard })
    }

    /// The prefix of a command that reports its state to this manager, and reports at least every
    /// `watchdog` that it is alive.
    #[must_use]
    pub fn prefix(&self, watchdog: Duration) -> String {
        format!(
            "env NOTIFY_SOCKET={} WATCHDOG_USEC={}",
            self.path.display(),
            watchdog.as_micros()
        )
    }

    /// Starts a service, `before` being what a shell does first, and hands it what is kept for it: as systemd does, the
    /// last descriptor first.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(&self, namespace: &Namespace, before: &str, command: &str) -> Result<Process> {
        let heard = lock(&self.heard);
        let fd_store: Vec<_> = heard.fd_store.iter().rev().collect();
        let copies = fd_store
            .iter()
            .map(|(_, descriptor)| descriptor.try_clone());
        let copies = copies.collect::<std::io::Result<Vec<_>>>()?;
        let names: Vec<_> = fd_store.iter().map(|(name, _)| name.as_str()).collect();
        let listen = match names.is_empty() {
            true => String::new(),
            false => format!(
                // The shell is the process that becomes the program.
                "LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={}",
                names.len(),
                names.join(":")
            ),
        };
        let prefix = self.prefix(WATCHDOG);
        let script = format!("{before}\nexec {prefix} {listen} {command}");
        let mappings = copies.into_iter().enumerate();
        let mappings = mappings.map(|(number, parent_fd)| FdMapping {
            parent_fd,
            child_fd: i32::try_from(FIRST_HANDED + number).unwrap_or(i32::MAX),
        });
        let mappings: Vec<_> = mappings.collect();
        namespace.spawn_script_with(&script, |command| {
            command
                .fd_mappings(mappings)
                .context("two descriptors of one number")?;
            Ok(())
        })
    }

    /// Keeps a descriptor of the test's.
    ///
    /// # Errors
    /// When there are none left.
    pub fn put(&self, name: &str, descriptor: impl AsFd) -> Result<()> {
        let descriptor = descriptor.as_fd().try_clone_to_owned()?;
        lock(&self.heard)
            .fd_store
            .push((name.to_owned(), descriptor));
        Ok(())
    }

    /// The names of what it keeps, sorted.
    #[must_use]
    pub fn fd_store(&self) -> Vec<String> {
        let heard = lock(&self.heard);
        let mut names: Vec<_> = heard
            .fd_store
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names
    }

    /// Closes all that it keeps, as when a service has ended and is not to be started again.
    pub fn release(&self) {
        lock(&self.heard).fd_store.clear();
    }

    /// Everything that it was told so far, a message each.
    #[must_use]
    pub fn told(&self) -> Vec<String> {
        lock(&self.heard).told.clone()
    }

    /// Waits until it is told something that holds `text`, `times` times from the start.
    ///
    /// # Errors
    /// When that does not happen before `deadline`.
    pub fn hears(&self, text: &str, times: usize, deadline: Duration) -> Result<()> {
        let heard = || {
            let told = self.told();
            told.iter().filter(|message| message.contains(text)).count() >= times
        };
        let what = format!("{text:?} {times} times");
        wait_until(&what, deadline, heard).with_context(|| format!("{:#?}", self.told()))
    }
}

impl Heard {
    /// Does what a message asks for.
    fn take(&mut self, text: String, descriptors: Vec<OwnedFd>) {
        let says = |line: &str| text.lines().any(|said| said == line);
        let name = text.lines().find_map(|line| line.strip_prefix("FDNAME="));
        let name = name.unwrap_or("stored").to_owned();
        if says("FDSTOREREMOVE=1") {
            self.fd_store.retain(|(fd_store, _)| *fd_store != name);
        } else if says("FDSTORE=1") {
            for descriptor in descriptors {
                if self.fd_store.len() < MAX_STORED {
                    self.fd_store.push((name.clone(), descriptor));
                }
            }
        }
        self.told.push(text);
    }
}

fn receive(socket: &UnixDatagram) -> Result<(String, Vec<OwnedFd>)> {
    let mut message = [0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SENT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut message)];
    let received = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let text = String::from_utf8_lossy(&message[..received.bytes]).into_owned();
    Ok((text, descriptors))
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
