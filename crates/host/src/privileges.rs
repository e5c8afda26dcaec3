//! The rights of this process: what it needs of root's is kept, everything else is given up, and can't be
//! had back.
//!
//! Users and capabilities are a thread's own to the kernel, and threads inherit them: all of this comes
//! before there is a second thread.

use crate::HostError;
use crate::state_dir::make_directory_of;
use nix::unistd::{Gid as NixGid, Group, User as NixUser, getgrouplist};
use rustix::process::{Gid, Uid, getegid, geteuid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    clear_ambient_capability_set, configure_capability_in_ambient_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use std::ffi::CString;
use std::fmt;
use std::io;
use std::path::Path;

/// The rights of root that a process may need (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Interfaces, routes, rules, packet marks, large socket buffers.
    NetAdmin,
    /// Ports below 1024, as that of DNS.
    NetBindService,
    /// The programs that sort packets into the tunnel's queues and bound those.
    Bpf,
    /// Files that its user may not write: the cgroups of applications.
    DacOverride,
}

impl Capability {
    const ALL: [Self; 4] = [
        Self::NetAdmin,
        Self::NetBindService,
        Self::Bpf,
        Self::DacOverride,
    ];

    const fn set(self) -> CapabilitySet {
        match self {
            Self::NetAdmin => CapabilitySet::NET_ADMIN,
            Self::NetBindService => CapabilitySet::NET_BIND_SERVICE,
            Self::Bpf => CapabilitySet::BPF,
            Self::DacOverride => CapabilitySet::DAC_OVERRIDE,
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetBindService => "CAP_NET_BIND_SERVICE",
            Self::Bpf => "CAP_BPF",
            Self::DacOverride => "CAP_DAC_OVERRIDE",
        })
    }
}

/// A user whom a service becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: String,
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl User {
    /// Looks the user up as the system knows it (`nsswitch.conf`).
    ///
    /// # Errors
    /// [`HostError::NoUser`] where there is none, or it is root.
    pub fn named(name: &str) -> Result<Self, HostError> {
        let unknown = || HostError::NoUser {
            name: name.to_owned(),
        };
        let user = NixUser::from_name(name)
            .map_err(|error| HostError::system("look a user up", error))?
            .filter(|user| !user.uid.is_root())
            .ok_or_else(unknown)?;
        let c_name = CString::new(name).map_err(|_| unknown())?;
        let groups = getgrouplist(&c_name, user.gid)
            .map_err(|error| HostError::system("look a user's groups up", error))?;
        Ok(Self {
            name: name.to_owned(),
            uid: Uid::from_raw(user.uid.as_raw()),
            gid: gid(user.gid),
            groups: groups.into_iter().map(gid).collect(),
        })
    }

    /// Makes a directory of the user's where there is none, and those on the way to it root's.
    ///
    /// # Errors
    /// The system's.
    pub fn make_directory(&self, path: &Path, mode: u32) -> Result<(), HostError> {
        make_directory_of(path, mode, Some((self.uid, self.gid)))
    }
}

fn gid(gid: NixGid) -> Gid {
    Gid::from_raw(gid.as_raw())
}

/// The limits to which a process is confined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confinement {
    /// The number of its user.
    pub uid: u32,
    /// The rights of root that it keeps.
    pub capabilities: Vec<Capability>,
}

impl Confinement {
    /// Logs the rights that are kept, with the reason if they are more than needed.
    pub fn log(&self) {
        match self.uid {
            0 => tracing::info!(
                "runs as {self}: every other right of root is given up but what its files allow, such as \
                 /etc/resolv.conf; --user takes that too"
            ),
            _ => tracing::info!("runs as {self}"),
        }
    }
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user {}, ", self.uid)?;
        if self.capabilities.is_empty() {
            return f.write_str("no capabilities");
        }
        let names: Vec<String> = self.capabilities.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(" "))
    }
}

/// Becomes `user`, where one is named, and gives up every capability but `needed`; programs that it
/// starts have those of `children` at most. From here on no program that is started can have more than
/// this process has (`PR_SET_NO_NEW_PRIVS`).
///
/// A process that began without rights keeps what it has of `needed`. Its bounding set stays as it is,
/// since changing it takes `CAP_SETPCAP`; nothing can be had by it any more.
///
/// # Errors
/// [`HostError::HasThreads`], [`HostError::NotRoot`], [`HostError::StillRoot`], and the system's.
pub fn confine(
    user: Option<&User>,
    needed: &[Capability],
    children: &[Capability],
) -> Result<Confinement, HostError> {
    require_one_thread()?;
    let had = capabilities(None).map_err(cannot("read the capabilities of this process"))?;
    let keep = set_of(needed).intersection(had.permitted);
    let inherited = set_of(children).intersection(keep);
    if had.effective.contains(CapabilitySet::SETPCAP) {
        // Children get their capabilities by the ambient set, which the bounding set does not limit, but
        // root's get them by the bounding set.
        shrink_bounding_set(keep)?;
    }
    match user {
        Some(user) if user.uid != geteuid() || getuid() != geteuid() => become_user(user)?,
        Some(_) => {}
        None => join_command_group(had.effective),
    }
    let sets = CapabilitySets {
        effective: keep,
        permitted: keep,
        inheritable: inherited,
    };
    // Ambient capabilities are always inheritable: the ambient set shrinks with the inheritable
    // one.
    set_capabilities(None, sets).map_err(cannot("give capabilities up"))?;
    clear_ambient_capability_set().map_err(cannot("give capabilities up"))?;
    for capability in singles(inherited) {
        configure_capability_in_ambient_set(capability, true).map_err(cannot(
            "leave a capability to programs that this one starts",
        ))?;
    }
    set_no_new_privs(true).map_err(cannot("give up to gain rights"))?;
    verify(user, keep)?;
    let own = Capability::ALL.into_iter();
    Ok(Confinement {
        uid: geteuid().as_raw(),
        capabilities: own.filter(|it| keep.contains(it.set())).collect(),
    })
}

/// Starts a program that has those of `passed` which this process has. Programs of others than root have none
/// otherwise. This process passes on afterwards what it did before.
///
/// # Errors
/// That of `start`, and the system's.
pub(crate) fn with_capabilities<T>(
    passed: &[Capability],
    start: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let had = capabilities(None)?;
    let passed = set_of(passed).intersection(had.permitted);
    let sets = |inheritable| CapabilitySets {
        effective: had.effective,
        permitted: had.permitted,
        inheritable,
    };
    set_capabilities(None, sets(had.inheritable.union(passed)))?;
    let raised = singles(passed)
        .try_for_each(|capability| configure_capability_in_ambient_set(capability, true));
    let started = raised.map_err(io::Error::from).and_then(|()| start());
    // A capability that is no longer inheritable leaves the ambient set too (capabilities(7)).
    set_capabilities(None, sets(had.inheritable))?;
    started
}

fn require_one_thread() -> Result<(), HostError> {
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|error| HostError::system("count the threads of this process", error))?;
    match threads.count() {
        0 | 1 => Ok(()),
        _ => Err(HostError::HasThreads),
    }
}

fn become_user(user: &User) -> Result<(), HostError> {
    if !geteuid().is_root() {
        return Err(HostError::NotRoot {
            name: user.name.clone(),
        });
    }
    let denied = cannot("become another user");
    let become_it = || {
        // Otherwise the change of the user takes all capabilities.
        set_keep_capabilities(true)?;
        set_thread_groups(&user.groups)?;
        set_thread_res_gid(user.gid, user.gid, user.gid)?;
        set_thread_res_uid(user.uid, user.uid, user.uid)?;
        set_keep_capabilities(false)
    };
    become_it().map_err(denied)
}

/// Root without `CAP_CHOWN` may still give a file to a group that it is in: the socket to those who may
/// command.
fn join_command_group(effective: CapabilitySet) {
    if !geteuid().is_root() || !effective.contains(CapabilitySet::SETGID) {
        return;
    }
    let group = Group::from_name(crate::COMMAND_GROUP).ok().flatten();
    let groups: Vec<Gid> = group.into_iter().map(|group| gid(group.gid)).collect();
    if let Err(error) = set_thread_groups(&groups) {
        tracing::debug!(%error, "this process keeps its groups");
    }
}

fn shrink_bounding_set(keep: CapabilitySet) -> Result<(), HostError> {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if !keep.contains(capability) => {
                remove_capability_from_bounding_set(capability)
                    .map_err(cannot("give capabilities up"))?;
            }
            Ok(_) => {}
            // Beyond the last one that this kernel knows.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Looks whether it is so, and whether there is a way back.
fn verify(user: Option<&User>, keep: CapabilitySet) -> Result<(), HostError> {
    let has = capabilities(None).map_err(cannot("read the capabilities of this process"))?;
    let is_narrow = has.permitted == keep && has.effective == keep;
    let has_nnp = no_new_privs().map_err(cannot("read the rights of this process"))?;
    let is_other = match user {
        None => true,
        Some(user) => {
            let is_it = geteuid() == user.uid && getuid() == user.uid && getegid() == user.gid;
            is_it && set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_err()
        }
    };
    match is_narrow && has_nnp && is_other {
        true => Ok(()),
        false => Err(HostError::StillRoot),
    }
}

fn set_of(capabilities: &[Capability]) -> CapabilitySet {
    capabilities.iter().map(|it| it.set()).collect()
}

fn singles(set: CapabilitySet) -> impl Iterator<Item = CapabilitySet> {
    let all = Capability::ALL.into_iter().map(Capability::set);
    all.filter(move |capability| set.contains(*capability))
}

fn cannot(what: &'static str) -> impl Fn(rustix::io::Errno) -> HostError {
    move |error| HostError::system(what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_unknown_names_are_no_user_to_become() {
        for name in ["root", "no-such-user", "nul\0"] {
            let error = User::named(name).unwrap_err();
            assert!(matches!(error, HostError::NoUser { .. }), "{error}");
            assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn a_process_with_threads_is_left_as_it_is() {
        let before = capabilities(None).unwrap();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || wait.recv().is_err());
        let error = confine(None, &[], &[]).unwrap_err();
        assert!(matches!(error, HostError::HasThreads), "{error}");
        let after = capabilities(None).unwrap();
        assert_eq!(after.permitted, before.permitted);
        drop(done);
        assert!(other.join().unwrap());
    }
}
