//! The user as whom a service runs, and what it keeps of root's rights.

use crate::exit::{Failure, Status};
use culvert_host::{
    Capability, Confinement, HostError, ResolverChoice, Sandbox, SandboxNeeds, SystemHelper, User,
    confine,
};
use std::path::Path;

/// The most capabilities of a program that a service starts to set up its host (nft).
const OF_CHILDREN: [Capability; 1] = [Capability::NetAdmin];

/// The resources of a service that must stay usable for the user that it becomes.
pub(crate) struct Service<'a> {
    pub(crate) state_dir: &'a Path,
    pub(crate) log_dir: Option<&'a Path>,
    pub(crate) socket: &'a Path,
    /// True if it has an interface, with routes and a firewall.
    pub(crate) has_interface: bool,
    /// True if it opens ports below 1024 while it runs.
    pub(crate) has_low_ports: bool,
    /// True if it makes cgroups for applications.
    pub(crate) has_cgroups: bool,
    /// The way in which it changes the system's resolver, if it does.
    pub(crate) resolver: Option<ResolverChoice>,
}

impl Service<'_> {
    /// Becomes the user, where one is named, and gives up what is not needed. To be called before there
    /// are threads, and after what root alone can read is read.
    pub(crate) fn confine(&self, user: Option<&str>) -> Result<Confinement, Failure> {
        let user = user.map(User::named).transpose().map_err(failure)?;
        if let Some(user) = user
            .as_ref()
            .filter(|_| rustix::process::geteuid().is_root())
        {
            self.make_directories(user).map_err(failure)?;
        }
        // The interface, and the programs that sort its packets into queues and bound those.
        let mut needed = match self.has_interface {
            true => vec![Capability::NetAdmin, Capability::Bpf],
            false => Vec::new(),
        };
        if self.has_low_ports {
            needed.push(Capability::NetBindService);
        }
        // Nobody may write the root of the cgroups by its mode. A user that is not root has this where the
        // administrator gave it.
        if self.has_cgroups && user.is_none() {
            needed.push(Capability::DacOverride);
        }
        let of_children: &[Capability] = match self.has_interface {
            true => &OF_CHILDREN,
            false => &[],
        };
        confine(user.as_ref(), &needed, of_children).map_err(failure)
    }

    /// Closes all that it does not need to this process, unless that is unwanted, and starts the helper that looks
    /// up names and files outside. To be called before there are threads, and once the log is open.
    pub(crate) fn enter_sandbox(&self, is_unwanted: bool) -> (Sandbox, Option<SystemHelper>) {
        if is_unwanted {
            return (Sandbox::unwanted(), None);
        }
        let needs = SandboxNeeds {
            state_dir: self.state_dir,
            log_dir: self.log_dir,
            socket: self.socket,
            resolver: self.resolver,
            has_cgroups: self.has_cgroups,
        };
        match SystemHelper::start(&needs) {
            Ok(helper) => (Sandbox::enter(&needs), Some(helper)),
            Err(error) => (Sandbox::without_helper(&error), None),
        }
    }

    /// Directories that only root can make. Those that are there stay as they are.
    fn make_directories(&self, user: &User) -> Result<(), HostError> {
        user.make_directory(self.state_dir, 0o700)?;
        if let Some(log_dir) = self.log_dir {
            user.make_directory(log_dir, 0o700)?;
        }
        // A path of one part has an empty parent: the current directory, which is there.
        match self.socket.parent() {
            Some(directory) if directory != Path::new("") => user.make_directory(directory, 0o755),
            _ => Ok(()),
        }
    }
}

fn failure(error: HostError) -> Failure {
    let status = match error {
        HostError::NoUser { .. } | HostError::NotRoot { .. } => Status::Usage,
        _ => Status::Failed,
    };
    Failure::new(status, error)
}
