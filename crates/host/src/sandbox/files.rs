//! Files that are none of a service's business (Landlock, landlock(7)).
//!
//! The service may read programs, certificates of authorities, and its own entries in `/proc`. It may write its own
//! directories and the kernel's network settings, and may run nothing that it may write. A rule is about an inode: a
//! directory with all below it, also what is replaced there later, or a single file until that is replaced. Files that
//! are replaced beside secrets, as `/etc/resolv.conf` is, are the [helper's](crate::system_helper) to open.
//!
//! Landlock does not decide who connects to a socket by its path. Modes and owners do.
//!
//! Descriptors that are open stay open, and reading, writing and sending on them is asked of nobody: the
//! packet road does nothing else.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, make_bitflags,
};

use super::barrier::Barrier;
use super::needs::SandboxNeeds;
use crate::state_dir::{make_directory, make_directory_of};

/// The requested version: that of Linux 6.12. Older kernels do what they know of it.
const WANTED: ABI = ABI::V6;

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// Reading, and running programs.
const RUN: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute});

/// Everything but running programs, devices, and pipes.
const KEEP: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir
});

/// Sockets by their names, and the room to put one in the place of another.
const ANSWER: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadDir | MakeSock | RemoveFile});

/// Switches of the kernel, which are there.
const TURN: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate});

/// Cgroups: directories with switches in them.
const GROUP: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeDir | RemoveDir});

const DEVICE: BitFlags<AccessFs> =
    make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev});

/// The directories of a system's programs and libraries, in the layouts of the usual distributions.
const PROGRAMS: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// Certificates of authorities, as distributions have them. They are public. The directories of private keys are
/// beside them (`/etc/ssl/private`, `/etc/pki/tls/private`), not below.
const AUTHORITIES: [&str; 9] = [
    // Debian, Ubuntu, Alpine, Gentoo; NixOS by links.
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    // Fedora, RHEL.
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cert.pem",
    // Arch.
    "/etc/ca-certificates/extracted",
    // SUSE.
    "/var/lib/ca-certificates",
    "/etc/static/ssl/certs",
];

/// Files that the program loader and the program `resolvconf` read. Both go on without.
const OF_PROGRAMS: [&str; 4] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/resolvconf.conf",
    "/etc/resolvconf",
];

/// The operating system's name, where it is no link below `/usr`. The client tells it to the portal.
const OF_SYSTEM: [&str; 1] = ["/etc/os-release"];

/// Files of the kernel that the service and the C library read. Other processes are not there: of `/proc`, only this one.
const OF_KERNEL: [&str; 9] = [
    // Threads, load, mounts, namespaces, interfaces, routes.
    "/proc/self",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/vm/overcommit_memory",
    // The number of processors, and the memory.
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
    // The share of the processors that this group may use.
    "/sys/fs/cgroup",
];

/// Files for the helper's look-ups: names, users, addresses of interfaces, start times of processes. NSS modules, which its C
/// library loads, have their sockets and caches in `/run`.
const OF_HELPER: [&str; 3] = ["/etc", "/run", "/proc"];

const DEVICES: [&str; 6] = [
    "/dev/net",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// A path, and what may be done there.
type Rule = (PathBuf, BitFlags<AccessFs>);

/// Descriptors that keep the inodes of rules in `/proc` in place. The kernel makes others there once it has forgotten the
/// entries of the old ones, and a rule knows only the old.
static PINNED: Mutex<Vec<PathFd>> = Mutex::new(Vec::new());

/// Closes them to the helper, for this thread and all that it starts: it writes beside `resolv.conf` at most.
pub(super) fn close_helper(may_write: bool) -> Barrier {
    let read = PROGRAMS.into_iter().chain(OF_HELPER);
    let mut rules: Vec<Rule> = read.map(|path| (path.into(), READ)).collect();
    if may_write {
        rules.push(("/etc".into(), KEEP));
    }
    match restrict(&rules, Scope::Signal.into()) {
        Ok(status) => barrier(&status),
        Err(error) => Barrier::Open(format!("Landlock: {error}")),
    }
}

/// Closes them, for this thread and all that it starts.
pub(super) fn close(needs: &SandboxNeeds<'_>) -> Barrier {
    make_directories(needs);
    if needs.resolver_files().has_resolvconf {
        return Barrier::Open(
            "the program resolvconf, and others that it runs, write where their configuration says: \
             --dns resolved or file closes them"
                .to_owned(),
        );
    }
    match restrict(&rules(needs), scope()) {
        Ok(status) => barrier(&status),
        Err(error) => Barrier::Open(format!("Landlock: {error}")),
    }
}

/// A rule takes a path that exists. A directory that can't be made is reported later by the code that
/// needs it.
fn make_directories(needs: &SandboxNeeds<'_>) {
    let socket = needs
        .socket
        .parent()
        .filter(|it| !it.as_os_str().is_empty());
    let made = [
        make_directory(needs.state_dir),
        socket.map_or(Ok(()), |it| make_directory_of(it, 0o755, None)),
    ];
    for error in made.into_iter().filter_map(Result::err) {
        tracing::debug!(%error, "a directory of the sandbox is missing");
    }
}

fn rules(needs: &SandboxNeeds<'_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut add = |path: &Path, access| rules.push((path.to_owned(), access));
    for path in PROGRAMS {
        add(Path::new(path), RUN);
    }
    // The directories in which programs are looked for by name.
    for path in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
        if path.is_absolute() {
            add(&path, RUN);
        }
    }
    let public = AUTHORITIES.into_iter().chain(OF_PROGRAMS).chain(OF_SYSTEM);
    for path in public.chain(OF_KERNEL) {
        add(Path::new(path), READ);
    }
    for variable in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        for path in env::split_paths(&env::var_os(variable).unwrap_or_default()) {
            add(&path, READ);
        }
    }
    // Its own program, for the names of functions where it panics.
    if let Ok(program) = env::current_exe() {
        add(&program, READ);
    }
    for path in DEVICES {
        add(Path::new(path), DEVICE);
    }
    add(Path::new("/proc/sys/net"), TURN);
    add(needs.state_dir, KEEP);
    if let Some(log_dir) = needs.log_dir {
        add(log_dir, KEEP);
    }
    match needs.socket.parent() {
        Some(directory) if directory != Path::new("") => add(directory, ANSWER),
        _ => add(Path::new("."), ANSWER),
    }
    if needs.has_cgroups {
        add(Path::new("/sys/fs/cgroup"), GROUP);
    }
    rules
}

/// Its reach besides files: no sockets without a file, and no signals to others.
fn scope() -> BitFlags<Scope> {
    let is_abstract = |name: &str| {
        let value = env::var(name).unwrap_or_default();
        value.starts_with('@') || value.contains("abstract=")
    };
    let needs_abstract = ["NOTIFY_SOCKET", "DBUS_SYSTEM_BUS_ADDRESS"];
    match needs_abstract.into_iter().any(is_abstract) {
        true => Scope::Signal.into(),
        false => Scope::Signal | Scope::AbstractUnixSocket,
    }
}

fn restrict(rules: &[Rule], scope: BitFlags<Scope>) -> Result<RestrictionStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .scope(scope)?
        .create()?;
    for (path, access) in rules {
        // A path that is not there needs no rule.
        let Ok(open) = PathFd::new(path) else {
            continue;
        };
        let access = match path.is_dir() {
            true => *access,
            false => *access & AccessFs::from_file(WANTED),
        };
        ruleset = ruleset.add_rule(PathBeneath::new(&open, access))?;
        if path.starts_with("/proc") {
            let mut pinned = PINNED.lock().unwrap_or_else(PoisonError::into_inner);
            pinned.push(open);
        }
    }
    ruleset.restrict_self()
}

fn barrier(status: &RestrictionStatus) -> Barrier {
    match (&status.ruleset, &status.landlock) {
        (RulesetStatus::FullyEnforced, _) => Barrier::Closed,
        (RulesetStatus::PartiallyEnforced, _) => Barrier::Partly(
            "this kernel's Landlock does not know all of it: Linux 6.12 does".to_owned(),
        ),
        (RulesetStatus::NotEnforced, LandlockStatus::NotEnabled) => Barrier::Open(
            "Landlock is not switched on: put landlock first into the kernel's parameter lsm="
                .to_owned(),
        ),
        (RulesetStatus::NotEnforced, _) => Barrier::Open(
            "there is no Landlock: the kernel is older than 5.13, or the container or the unit \
             forbids its system calls"
                .to_owned(),
        ),
    }
}
