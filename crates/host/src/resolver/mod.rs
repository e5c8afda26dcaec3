//! The system's resolver: names are asked of the client, and as before once it ends.
//!
//! [`ResolverControl`] makes it so by one of several ways ([`ResolverMode`]); which one fits the
//! machine is found out or told. What a crash left behind is undone by
//! [`ResolverControl::clean_up`], whatever way is taken then.

mod file;
mod resolv_conf;

use crate::{HostError, InterfaceName, StateDir};
use file::FileControl;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// How often the file is looked at: whoever renews a DHCP lease may write it, and names of resources
/// should not be asked elsewhere for longer than a resolver waits for an answer.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// By which way the system is told whom to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverMode {
    /// The file `/etc/resolv.conf`: every name is asked of the client.
    File,
    /// Not at all.
    Off,
}

/// What the administrator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolverChoice {
    /// What fits the machine.
    Auto,
    /// This way and no other.
    Mode(ResolverMode),
}

/// How names are to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverWanted {
    /// The tunnel's interface.
    pub interface: InterfaceName,
    /// Who answers, on port 53.
    pub server: IpAddr,
    /// Names that are asked there, where the way can tell them apart.
    pub domains: RoutedDomains,
}

/// Which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoutedDomains {
    /// These and all below them.
    Within(BTreeSet<String>),
    /// Every name.
    All,
}

/// The files that say who resolves names.
#[derive(Debug)]
struct Paths {
    resolv_conf: PathBuf,
}

/// Points the system's resolver at the client. One at a time for each state directory.
#[derive(Debug)]
pub struct ResolverControl {
    choice: ResolverChoice,
    paths: Paths,
    state: StateDir,
    backend: Option<Backend>,
}

/// The way that was taken.
#[derive(Debug)]
enum Backend {
    File(FileControl),
    Off,
}

impl ResolverControl {
    /// Changes nothing yet. `state` keeps what was there before.
    #[must_use]
    pub fn new(choice: ResolverChoice, state: StateDir) -> Self {
        let paths = Paths {
            resolv_conf: "/etc/resolv.conf".into(),
        };
        Self {
            choice,
            paths,
            state,
            backend: None,
        }
    }

    /// Undoes what a client that did not end in order left behind.
    ///
    /// # Errors
    /// Why it can't be undone, and what to do.
    pub fn clean_up(&mut self) -> Result<(), HostError> {
        self.file().restore(&self.state)
    }

    /// Whether the way that was told can be taken on this machine; where it is to be found out,
    /// nothing is wrong.
    ///
    /// # Errors
    /// Why it can't be taken, and what to do.
    pub fn check(&self) -> Result<(), HostError> {
        match self.choice {
            ResolverChoice::Mode(ResolverMode::File) => self.file().check(),
            ResolverChoice::Auto | ResolverChoice::Mode(ResolverMode::Off) => Ok(()),
        }
    }

    /// Makes it so; does nothing where it is so. `tell` hears whom the system asked before, and asks
    /// for all other names, before the first of them comes in.
    ///
    /// # Errors
    /// Why it can't be done, and what to do. The system is as before then.
    pub async fn apply(
        &mut self,
        wanted: &ResolverWanted,
        tell: impl FnOnce(&[SocketAddr]),
    ) -> Result<(), HostError> {
        let backend = match self.backend.take() {
            Some(backend) => backend,
            None => self.choose(),
        };
        match self.backend.insert(backend) {
            Backend::File(file) => file.apply(wanted.server, &self.state, tell),
            Backend::Off => Ok(()),
        }
    }

    /// The way that was taken last.
    #[must_use]
    pub fn mode(&self) -> Option<ResolverMode> {
        self.backend.as_ref().map(|backend| match backend {
            Backend::File(_) => ResolverMode::File,
            Backend::Off => ResolverMode::Off,
        })
    }

    /// Returns once somebody has changed what [`Self::apply`] made.
    pub async fn changed(&self) {
        match &self.backend {
            Some(Backend::File(file)) => {
                while file.is_in_force() {
                    tokio::time::sleep(CHECK_EVERY).await;
                }
            }
            Some(Backend::Off) | None => std::future::pending().await,
        }
    }

    /// Makes the system as it was, and forgets which way was taken: another may fit by now.
    ///
    /// # Errors
    /// Why it can't be done, and what to do.
    pub async fn remove(&mut self) -> Result<(), HostError> {
        match self.backend.take() {
            Some(Backend::File(mut file)) => file.restore(&self.state),
            Some(Backend::Off) | None => Ok(()),
        }
    }

    fn choose(&self) -> Backend {
        let mode = match self.choice {
            ResolverChoice::Mode(mode) => mode,
            ResolverChoice::Auto => ResolverMode::File,
        };
        match mode {
            ResolverMode::File => Backend::File(self.file()),
            ResolverMode::Off => Backend::Off,
        }
    }

    fn file(&self) -> FileControl {
        FileControl::new(self.paths.resolv_conf.clone())
    }
}

impl ResolverMode {
    /// Whether the system asks here for the names of [`ResolverWanted::domains`] alone.
    #[must_use]
    pub const fn is_split(self) -> bool {
        match self {
            Self::File | Self::Off => false,
        }
    }
}

impl fmt::Display for ResolverMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::File => "file",
            Self::Off => "off",
        })
    }
}

/// The kernel's number of an interface.
fn interface_index(name: &str) -> Option<u32> {
    let name: InterfaceName = name.parse().ok()?;
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    );
    rustix::net::netdevice::name_to_index(socket.ok()?, name.as_str()).ok()
}
