//! The system's resolver: names are asked of the client, and as before once it ends.
//!
//! [`ResolverControl`] makes it so by one of several ways ([`ResolverMode`]); which one fits the
//! machine is found out ([`detect`]) or told. Leftovers of a crash are undone by
//! [`ResolverControl::clean_up`], whatever way is taken then.

mod detect;
mod file;
mod resolv_conf;
mod resolvconf;
mod resolved;
mod wanted;

use crate::system_helper::SystemFile;
use crate::system_helper::access::SystemAccess;
use crate::{HostError, InterfaceName, StateDir};
use culvert_policy::DomainName;
use detect::{Facts, Paths};
use file::FileControl;
use resolv_conf::ResolvConf;
use resolvconf::Resolvconf;
use resolved::Resolved;
use std::net::SocketAddr;
use std::path::Path;

pub use wanted::{ResolverChoice, ResolverMode, ResolverWanted, RoutedDomains};

/// Files of the system that a client may have to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Writes {
    /// `/etc/resolv.conf`, and those beside it for an exchange.
    pub(crate) has_file: bool,
    /// Those of the program `resolvconf`, wherever it has them.
    pub(crate) has_resolvconf: bool,
}

impl ResolverChoice {
    /// The paths that may have to be written: by the way that fits the machine now, or to undo the
    /// changes of an earlier client.
    pub(crate) fn writes(self, state_dir: &Path) -> Writes {
        let mode = match self {
            Self::Mode(mode) => mode,
            // A later check finds out if they answer.
            Self::Auto => {
                let access = SystemAccess::of_process();
                Facts::gather(&Paths::default(), &access, resolved::has_bus(), true).decide()
            }
        };
        let is_stored = |name: &str| state_dir.join(name).exists();
        Writes {
            has_file: mode == ResolverMode::File || is_stored(file::BACKUP),
            has_resolvconf: mode == ResolverMode::Resolvconf || is_stored(resolvconf::ENTRY),
        }
    }
}

/// Points the system's resolver at the client. One at a time for each state directory.
#[derive(Debug)]
pub struct ResolverControl {
    choice: ResolverChoice,
    paths: Paths,
    access: SystemAccess,
    state: StateDir,
    backend: Option<Backend>,
}

/// The way that was taken.
#[derive(Debug)]
enum Backend {
    Resolved(Box<Resolved>),
    Resolvconf(Resolvconf),
    File(FileControl),
    Off,
}

impl ResolverControl {
    /// Changes nothing yet. `state` keeps the earlier settings.
    #[must_use]
    pub fn new(choice: ResolverChoice, state: StateDir) -> Self {
        Self {
            choice,
            paths: Paths::default(),
            access: SystemAccess::of_process(),
            state,
            backend: None,
        }
    }

    /// Undoes what a client that did not end in order left behind.
    ///
    /// # Errors
    /// The reason why it can't be undone, and the remedy.
    pub async fn clean_up(&mut self) -> Result<(), HostError> {
        let taken_back = resolvconf::remove(&self.state).await;
        self.file().restore(&self.state)?;
        taken_back
    }

    /// Has systemd-resolved forget what it was told of an interface that outlived a client, where it may have been:
    /// nobody answers there yet, and the portal's name may have to be found. Without it there is nothing to forget.
    pub async fn forget_interface(&self, interface: &InterfaceName) {
        let may_know = matches!(
            self.choice,
            ResolverChoice::Auto | ResolverChoice::Mode(ResolverMode::Resolved)
        );
        let index = interface.index().and_then(|it| i32::try_from(it).ok());
        if let Some(index) = index.filter(|_| may_know)
            && let Ok(resolved) = Resolved::connect().await
            && let Err(error) = resolved.forget(index).await
        {
            tracing::debug!(%error, "systemd-resolved keeps what it was told");
        }
    }

    /// True if the configured way can be taken on this machine, or if the way is still to be found out.
    ///
    /// # Errors
    /// The reason why it can't be taken, and the remedy.
    pub async fn check(&self) -> Result<(), HostError> {
        match self.choice {
            ResolverChoice::Mode(ResolverMode::Resolved) => Resolved::connect().await.map(drop),
            ResolverChoice::Mode(ResolverMode::Resolvconf) => {
                Resolvconf::find(&self.paths.resolv_conf).await.map(drop)
            }
            ResolverChoice::Mode(ResolverMode::File) => self.file().check(),
            ResolverChoice::Auto | ResolverChoice::Mode(ResolverMode::Off) => Ok(()),
        }
    }

    /// Makes it so; does nothing where it is so. `tell` hears whom the system asked before, and asks
    /// for all other names, before the first of them comes in.
    ///
    /// # Errors
    /// The reason why it can't be done, and the remedy. The system is as before then.
    pub async fn apply(
        &mut self,
        wanted: &ResolverWanted,
        tell: impl FnOnce(&[SocketAddr]),
    ) -> Result<(), HostError> {
        let backend = match self.backend.take() {
            Some(backend) => backend,
            None => self.choose().await?,
        };
        match self.backend.insert(backend) {
            Backend::Resolved(resolved) => resolved.apply(wanted, tell).await,
            Backend::Resolvconf(program) => program.apply(wanted, &self.state, tell).await,
            Backend::File(file) => file.apply(wanted, &self.state, tell),
            Backend::Off => Ok(()),
        }
    }

    /// The way that was taken, or that was asked for.
    #[must_use]
    pub fn mode(&self) -> Option<ResolverMode> {
        let taken = self.backend.as_ref().map(|backend| match backend {
            Backend::Resolved(_) => ResolverMode::Resolved,
            Backend::Resolvconf(_) => ResolverMode::Resolvconf,
            Backend::File(_) => ResolverMode::File,
            Backend::Off => ResolverMode::Off,
        });
        taken.or(match self.choice {
            ResolverChoice::Mode(mode) => Some(mode),
            ResolverChoice::Auto => None,
        })
    }

    /// The present search domains, as they are in the file that the C library reads, whoever wrote it. None if
    /// names without those domains are asked in a way that the client can't take.
    #[must_use]
    pub fn search(&self) -> Vec<DomainName> {
        if matches!(&self.backend, Some(Backend::Resolved(resolved)) if resolved.encrypts()) {
            return Vec::new();
        }
        let text = self.access.text(SystemFile::ResolvConf);
        let known = ResolvConf::parse(&text);
        let domains = known.search().into_iter();
        domains
            .filter_map(|domain| domain.trim_end_matches('.').parse().ok())
            .collect()
    }

    /// Returns once somebody has changed what [`Self::apply`] made.
    pub async fn changed(&mut self) {
        match &mut self.backend {
            Some(Backend::Resolved(resolved)) => resolved.changed().await,
            Some(Backend::Resolvconf(program)) => program.changed().await,
            Some(Backend::File(file)) => file.changed().await,
            Some(Backend::Off) | None => std::future::pending().await,
        }
    }

    /// Makes the system as it was, and forgets which way was taken: another may fit by now.
    ///
    /// # Errors
    /// The reason why it can't be done, and the remedy.
    pub async fn remove(&mut self) -> Result<(), HostError> {
        match self.backend.take() {
            Some(Backend::Resolved(mut resolved)) => resolved.remove().await,
            Some(Backend::Resolvconf(_)) => resolvconf::remove(&self.state).await,
            Some(Backend::File(mut file)) => file.restore(&self.state),
            Some(Backend::Off) | None => Ok(()),
        }
    }

    async fn choose(&self) -> Result<Backend, HostError> {
        let mode = match self.choice {
            ResolverChoice::Mode(mode) => mode,
            ResolverChoice::Auto => {
                let resolved = Resolved::connect().await;
                let resolvconf = Resolvconf::find(&self.paths.resolv_conf).await;
                let (resolved, resolvconf) = (resolved.is_ok(), resolvconf.is_ok());
                Facts::gather(&self.paths, &self.access, resolved, resolvconf).decide()
            }
        };
        Ok(match mode {
            ResolverMode::Resolved => Backend::Resolved(Box::new(Resolved::connect().await?)),
            ResolverMode::Resolvconf => {
                Backend::Resolvconf(Resolvconf::find(&self.paths.resolv_conf).await?)
            }
            ResolverMode::File => Backend::File(self.file()),
            ResolverMode::Off => Backend::Off,
        })
    }

    fn file(&self) -> FileControl {
        FileControl::new(self.paths.resolv_conf.clone(), self.access.clone())
    }
}
