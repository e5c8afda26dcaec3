//! Cleaning up after programs that were killed.
//!
//! `Drop` does not run in a process that dies of a signal, and most interrupted tests and benchmarks
//! do. So the first namespace starts a *watcher*: a shell whose standard input is a pipe that only
//! this process holds open. However this process ends, the pipe closes, the watcher wakes, and it
//! removes what bears this process's id. Should the watcher itself be killed too, the next program
//! that uses the lab removes what belongs to processes that are gone.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

/// Every namespace and directory of the lab is called `cvl-<pid>-…`.
const PREFIX: &str = "cvl-";

/// Interfaces are called `cw<pid>n<number>`: their configuration sockets lie in one directory that
/// all namespaces share, so the name must be unique, and it may have 15 bytes at most.
const INTERFACE_PREFIX: &str = "cw";

/// Applications are called `lab<pid>_<number>`, for the same reason.
const APPLICATION_PREFIX: &str = "lab";

/// The directory in which `ip netns` keeps its names.
const NAMESPACES_DIR: &str = "/run/netns";

/// Removes all that belongs to one process id, given as `$1`. It waits for the end of its input
/// first; interrupting the whole process group must not end it before its work is done.
const WATCHER: &str = r#"
trap '' INT TERM HUP QUIT
read -r _
# A database server ends by itself, and takes its shared memory with it: its own shell waits for the same end of input.
rounds=50
while set -- "$1" "${TMPDIR:-/tmp}/cvl-$1"/postgres-*/* && [ -e "$2" ] && [ "$rounds" -gt 0 ]; do
    rounds=$((rounds - 1))
    sleep 0.1
done
sweep() {
    for file in /run/netns/cvl-"$1"-*; do
        [ -e "$file" ] || continue
        name=${file##*/}
        for pid in $(ip netns pids "$name"); do kill -9 "$pid"; done
        ip netns del "$name"
    done
    for cgroup in /sys/fs/cgroup/cvl-"$1"-* /sys/fs/cgroup/*/cvl-"$1"-*; do
        [ -d "$cgroup" ] && find "$cgroup" -depth -type d -exec rmdir {} +
    done
    rm -f /run/wireguard/cw"$1"n*.sock /var/run/wireguard/cw"$1"n*.sock
    rm -rf "${TMPDIR:-/tmp}/cvl-$1"
    for tree in /sys/fs/cgroup/culvert.slice /sys/fs/cgroup/unified/culvert.slice; do
        [ -d "$tree" ] || continue
        rmdir "$tree"/culvert-lab"$1"_*.slice/culvert-run.scope
        rmdir "$tree"/culvert-lab"$1"_*.slice
        rmdir "$tree"
    done
}
# A command that was starting while its parent died may enter a namespace after the first sweep.
sweep "$1"; sleep 0.2; sweep "$1"
"#;

/// A directory for logs and keys of this process, which the watcher removes.
///
/// The first call cleans up after the dead and starts the watcher.
///
/// # Errors
/// When this machine cannot run the lab ([`crate::require`]), the directory cannot be made or the watcher not started.
pub fn process_dir() -> Result<PathBuf> {
    static STARTED: OnceLock<std::result::Result<Watched, String>> = OnceLock::new();
    match STARTED.get_or_init(|| start().map_err(|error| format!("{error:#}"))) {
        Ok(watched) => Ok(watched.dir.clone()),
        Err(message) => anyhow::bail!("{message}"),
    }
}

/// The name of this process's namespace `number`.
pub(crate) fn namespace_name(number: usize) -> String {
    format!("{PREFIX}{}-{number}", std::process::id())
}

/// The name of this process's machine `number`, and of its cgroups.
pub(crate) fn machine_name(number: usize) -> String {
    format!("{PREFIX}{}-m{number}", std::process::id())
}

/// The name of this process's WireGuard interface `number`.
pub(crate) fn interface_name(number: usize) -> String {
    format!("{INTERFACE_PREFIX}{}n{number}", std::process::id())
}

/// The name of an application for one test: its cgroup is shared by all namespaces of the machine, so
/// the name must be unique.
#[must_use]
pub fn application_name() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{APPLICATION_PREFIX}{}_{number}", std::process::id())
}

struct Watched {
    dir: PathBuf,
    /// Held open for the life of the process: its end is what the watcher waits for.
    _pipe: ChildStdin,
}

fn start() -> Result<Watched> {
    crate::require()?;
    bury_the_dead();
    let own_id = std::process::id();
    let dir = std::env::temp_dir().join(format!("{PREFIX}{own_id}"));
    match fs::create_dir(&dir) {
        Ok(()) => {}
        // A dead process had our id.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("cannot make {}", dir.display())),
    }
    Ok(Watched {
        dir,
        _pipe: watcher(own_id)?,
    })
}

fn watcher(owner_id: u32) -> Result<ChildStdin> {
    let mut child = Command::new("sh")
        .args(["-c", WATCHER, "lab-watcher", &owner_id.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start the watcher shell")?;
    child
        .stdin
        .take()
        .context("the watcher has no standard input")
}

/// Removes namespaces and files of processes that no longer exist, and of an earlier one that had
/// our own id. Those of living processes stay: they belong to a test that runs beside us.
fn bury_the_dead() {
    let mut dead: Vec<u32> = [Path::new(NAMESPACES_DIR), &std::env::temp_dir()]
        .into_iter()
        .filter_map(|dir| fs::read_dir(dir).ok())
        .flatten()
        .filter_map(|entry| owner(entry.ok()?.file_name().to_str()?))
        .filter(|&id| id == std::process::id() || !Path::new(&format!("/proc/{id}")).exists())
        .collect();
    dead.sort_unstable();
    dead.dedup();
    for id in dead {
        // The watcher's script, with its input at the end at once.
        let swept = Command::new("sh")
            .args(["-c", WATCHER, "lab-janitor", &id.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        debug_assert!(swept.is_ok(), "sh is everywhere");
    }
}

/// The process id in a name of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_lab_have_an_owner() {
        assert_eq!(owner("cvl-123-4"), Some(123));
        assert_eq!(owner("cvl-123"), Some(123));
        assert_eq!(owner("other-123-4"), None);
        assert_eq!(owner("cvl-x-4"), None);
    }

    #[test]
    fn an_interface_name_fits_the_kernel_with_the_largest_process_id() {
        // IFNAMSIZ is 16 with the terminating zero; process ids end at 2^22.
        assert!(format!("{INTERFACE_PREFIX}{}n{}", 1 << 22, 99_999).len() <= 15);
    }
}
