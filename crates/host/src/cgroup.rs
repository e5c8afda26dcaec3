//! The cgroups of applications: one for each, in a tree that belongs to root.
//!
//! The kernel notes with every socket the cgroup of the process that made it, and the packet filter
//! can ask for it ([`crate::ApplicationFirewall`]). Only root and the client's user write here, so no user moves a process
//! into an application or out of one. The tree has the form in which systemd keeps slices, so that a
//! service with `Slice=culvert-NAME.slice` is in the same place as what `culvert run` started.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use culvert_policy::ApplicationName;

use crate::{HostError, PeerProcess};

/// The depth of an application's cgroup below the root: `culvert.slice/culvert-NAME.slice`.
pub(crate) const APPLICATION_LEVEL: u32 = 2;

/// The tree that all of them are in.
const TREE: &str = "culvert.slice";

/// The cgroup of processes of `culvert run`, in the cgroup of their application. It is a leaf: cgroup2 takes
/// no process into a cgroup that hands resources out to others below, as a slice with services does.
const LEAF: &str = "culvert-run.scope";

/// The directory in which `nft` looks for the paths that it is given, whatever is mounted elsewhere.
const NFT_ROOT: &str = "/sys/fs/cgroup";

/// The inode of the first cgroup namespace (`PROC_CGROUP_INIT_INO` of the kernel).
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

/// From this kernel on the packet filter counts levels from the root of the namespace.
const LEVELS_OF_NAMESPACE_SINCE: (u32, u32) = (6, 12);

/// Another client, whose tree is the same, may remove a cgroup between two steps here.
const ATTEMPTS: usize = 8;

/// The place in which cgroups of applications are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplicationCgroups {
    /// The mount point of cgroup2.
    mount: PathBuf,
}

impl ApplicationCgroups {
    /// Finds the place, whether cgroup2 is all there is or stands beside the older hierarchies.
    ///
    /// # Errors
    /// [`HostError::NoApplications`] says why the cgroups here can't tell programs apart.
    pub fn find() -> Result<Self, HostError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| HostError::system("read /proc/self/mountinfo", error))?;
        let namespace = fs::read_link("/proc/self/ns/cgroup")
            .map_err(|error| HostError::system("read /proc/self/ns/cgroup", error))?;
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_err(|error| HostError::system("read the kernel's version", error))?;
        let is_first = namespace == Path::new(FIRST_NAMESPACE);
        if !is_first && kernel_version(&release) < Some(LEVELS_OF_NAMESPACE_SINCE) {
            return Err(HostError::no_applications(
                "this is a container with cgroups of its own, and a kernel older than 6.12 counts \
                 them otherwise: run it with the host's (--cgroupns=host)",
            ));
        }
        let mount = cgroup2_mount(&mounts).ok_or_else(|| {
            HostError::no_applications(
                "cgroup2 is not mounted at or below /sys/fs/cgroup: mount it at \
                 /sys/fs/cgroup/unified",
            )
        })?;
        Ok(Self { mount })
    }

    /// Makes the cgroup of an application, unless it is there.
    ///
    /// # Errors
    /// [`HostError::NoApplications`] where this process may not.
    pub fn ensure(&self, application: &ApplicationName) -> Result<(), HostError> {
        let made = again_while_missing(|| {
            make(&self.mount.join(TREE))?;
            make(&self.path(application))
        });
        made.map_err(|error| self.failed("make", application, &error))
    }

    /// Moves a process into the cgroup of an application. Sockets that it has stay what they are;
    /// those that it makes from here on are the application's, as are its children.
    ///
    /// The kernel takes a number here, not a pidfd. The process is therefore checked immediately
    /// before and after: another one would have to get its number between two system calls, and that
    /// is reported.
    ///
    /// # Errors
    /// [`HostError::NoApplications`] where this process may not, or the other one is gone.
    pub fn join(
        &self,
        application: &ApplicationName,
        process: &PeerProcess,
    ) -> Result<(), HostError> {
        let pid = process.pid().to_string();
        if pid == "0" {
            // It would mean this process itself.
            let why = "the process that asks is of another PID namespace: run it on the host";
            return Err(HostError::no_applications(why));
        }
        let joined = again_while_missing(|| {
            make(&self.mount.join(TREE))?;
            let path = self.path(application);
            make(&path)?;
            let leaf = path.join(LEAF);
            make(&leaf)?;
            if !process.is_running() {
                return Err(io::Error::other(
                    "the process that asked has ended, and its number may be another's",
                ));
            }
            fs::write(leaf.join("cgroup.procs"), &pid)
        });
        joined.map_err(|error| self.failed("move a process into", application, &error))?;
        if process.is_running() {
            return Ok(());
        }
        Err(HostError::no_applications(format!(
            "process {pid} ended while it was moved into {}: if another one has this number now, \
             restart that one",
            self.path(application).display()
        )))
    }

    /// Removes the cgroup of an application if no process is in it, and the tree with the last one.
    pub fn remove(&self, application: &ApplicationName) {
        let path = self.path(application);
        // A cgroup that is in use, or gone, stays as it is.
        for empty in [path.join(LEAF), path, self.mount.join(TREE)] {
            let _in_use = fs::remove_dir(empty);
        }
    }

    /// The line of `/proc/PID/cgroup` that says that a process is in the application, or in a cgroup
    /// below.
    #[must_use]
    pub fn is_in(text: &str, application: &ApplicationName) -> bool {
        let place = format!("/{}", relative(application));
        let mut unified = text.lines().filter_map(|line| line.strip_prefix("0::"));
        unified.any(|path| {
            let rest = path.strip_prefix(&place);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// The directories in which cgroups of applications come and go.
    pub(crate) fn watched(&self) -> [PathBuf; 2] {
        [self.mount.clone(), self.mount.join(TREE)]
    }

    /// The inode by which the kernel knows an application's cgroup, if it is there.
    pub(crate) fn inode(&self, application: &ApplicationName) -> Option<u64> {
        let found = fs::metadata(self.path(application)).ok()?;
        Some(found.ino())
    }

    /// The path of an application's cgroup in the form that `nft` takes, if it is there.
    pub(crate) fn nft_path(&self, application: &ApplicationName) -> Option<String> {
        let path = self.path(application);
        let is_there = path.is_dir();
        let relative = path.strip_prefix(NFT_ROOT).ok()?.to_str()?;
        is_there.then(|| relative.to_owned())
    }

    fn path(&self, application: &ApplicationName) -> PathBuf {
        self.mount.join(relative(application))
    }

    fn failed(&self, what: &str, application: &ApplicationName, error: &io::Error) -> HostError {
        let path = self.path(application);
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                ": the client needs root or CAP_DAC_OVERRIDE, and cgroups that it may write \
                 (ProtectControlGroups=no)"
            }
            _ => "",
        };
        HostError::no_applications(format!("can't {what} {}: {error}{remedy}", path.display()))
    }
}

fn relative(application: &ApplicationName) -> String {
    format!("{TREE}/culvert-{application}.slice")
}

fn make(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn again_while_missing(mut step: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..ATTEMPTS {
        match step() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => return done,
        }
    }
    step()
}

/// The place of the whole of cgroup2, if `nft` knows it, by the text of `mountinfo`
/// (proc_pid_mountinfo(5)).
fn cgroup2_mount(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let is_whole = root == "/" && kind.split(' ').next() == Some("cgroup2");
        let point = Path::new(point);
        (is_whole && point.starts_with(NFT_ROOT)).then(|| point.to_owned())
    })
}

/// The first two numbers of a kernel's release.
fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release
        .trim()
        .split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_process::tests::{ended, this_and_its_predecessor};

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";
    const PURE: &str = "\
30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

    fn name(text: &str) -> ApplicationName {
        text.parse().unwrap()
    }

    #[test]
    fn cgroup2_is_found_beside_the_older_hierarchies_and_alone() {
        let found = |text| cgroup2_mount(text).map(|path| path.display().to_string());
        assert_eq!(found(HYBRID).as_deref(), Some("/sys/fs/cgroup/unified"));
        assert_eq!(found(PURE).as_deref(), Some("/sys/fs/cgroup"));
        let moved_mount = HYBRID.replace("/sys/fs/cgroup/unified", "/mnt/cgroup2");
        assert_eq!(found(&moved_mount), None, "nft would not find it");
        let part = PURE.replace(" / /sys", " /docker/1234 /sys");
        assert_eq!(found(&part), None, "levels would be others");
        assert_eq!(found("what is this\n - cgroup2"), None);
    }

    #[test]
    fn nft_is_given_the_path_below_its_root() {
        let cgroups = ApplicationCgroups {
            mount: cgroup2_mount(HYBRID).unwrap(),
        };
        let path = cgroups.path(&name("backup"));
        let expected = "/sys/fs/cgroup/unified/culvert.slice/culvert-backup.slice";
        assert_eq!(path, Path::new(expected));
        let levels = relative(&name("backup")).split('/').count();
        assert_eq!(levels, APPLICATION_LEVEL as usize);
    }

    #[test]
    fn a_process_that_ended_moves_nobody_who_got_its_number() {
        let mount = tempfile::tempdir().unwrap();
        let cgroups = ApplicationCgroups {
            mount: mount.path().to_owned(),
        };
        let backup = name("backup");
        let procs = cgroups.path(&backup).join(LEAF).join("cgroup.procs");
        let [this, predecessor] = this_and_its_predecessor();
        for gone in ended().iter().chain([&predecessor]) {
            let refused = cgroups.join(&backup, gone).unwrap_err().to_string();
            assert!(refused.contains("has ended"), "{refused}");
            assert!(!procs.exists(), "a number was written");
        }
        cgroups.join(&backup, &this).unwrap();
        let written = fs::read_to_string(procs).unwrap();
        assert_eq!(written, std::process::id().to_string());
    }

    #[test]
    fn a_process_is_in_an_application_by_its_place_in_cgroup2() {
        let text = "9:pids:/\n0::/culvert.slice/culvert-backup.slice/run-7.scope\n";
        assert!(ApplicationCgroups::is_in(text, &name("backup")));
        assert!(!ApplicationCgroups::is_in(text, &name("back")));
        assert!(!ApplicationCgroups::is_in(text, &name("sync")));
        let v1 = "0::/\n9:pids:/culvert.slice/culvert-backup.slice\n";
        assert!(!ApplicationCgroups::is_in(v1, &name("backup")));
    }

    #[test]
    fn kernels_are_told_apart() {
        assert_eq!(kernel_version("6.18.0-rc1\n"), Some((6, 18)));
        assert_eq!(kernel_version("5.13-generic"), Some((5, 13)));
        assert!(kernel_version("none") < Some(LEVELS_OF_NAMESPACE_SINCE));
    }
}
