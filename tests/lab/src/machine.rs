//! Debian machines with systemd: each is a container around a network namespace.
//!
//! A machine starts as a real one does: systemd is the first process, on a cgroup2 hierarchy of its own, with
//! D-Bus, polkit and systemd-resolved. The root directory that `scripts/debian-root.sh` makes is the same for
//! all; what a machine writes lies in a layer above it and goes away with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::command::{checked, command, outcome, run_with_input};
use crate::namespace::Namespace;
use crate::process::Process;
use crate::{reaper, wait_until};

/// It takes a second where nobody else wants the processors.
const BOOT_DEADLINE: Duration = Duration::from_secs(60);

/// The hierarchies in which systemd of the container needs a cgroup of its own. That is the one of this
/// machine; in the older layout it is those of systemd's names and of cgroup2.
const HIERARCHIES: [&str; 3] = [
    "/sys/fs/cgroup",
    "/sys/fs/cgroup/systemd",
    "/sys/fs/cgroup/unified",
];

/// A machine that runs.
#[derive(Debug)]
pub struct Machine {
    name: String,
    process: Process,
    /// The process id of its systemd.
    init: String,
    cgroups: Vec<PathBuf>,
}

impl Machine {
    /// Boots one with the interfaces of `namespace`. `packages` is a directory that it has as `/packages`.
    ///
    /// # Errors
    /// When there is no root directory, or it does not boot.
    pub fn boot(namespace: &Namespace, name: &str, packages: &Path) -> Result<Self> {
        Self::boot_from(&root_dir("")?, namespace, name, packages)
    }

    /// The same of a machine on which windows can be shown.
    ///
    /// # Errors
    /// As [`Self::boot`].
    pub fn boot_desktop(namespace: &Namespace, name: &str, packages: &Path) -> Result<Self> {
        Self::boot_from(&root_dir("desktop")?, namespace, name, packages)
    }

    fn boot_from(root: &Path, namespace: &Namespace, name: &str, packages: &Path) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let id = reaper::machine_name(NEXT.fetch_add(1, Ordering::Relaxed));
        let cgroups = make_cgroups(&id)?;
        let join: String = cgroups
            .iter()
            .map(|cgroup| format!("echo $$ >{}/cgroup.procs\n", cgroup.display()))
            .collect();
        // A cgroup2 hierarchy alone, whatever this machine has; its programs decide about devices by BPF.
        // Several boot from one directory, which none of them writes to.
        let script = format!(
            "{join}export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 SYSTEMD_NSPAWN_LOCK=0 TMPDIR={}
             exec systemd-nspawn --quiet --directory={} --volatile=overlay --machine={id} \
             --hostname={name} --boot --keep-unit --register=no --link-journal=no --console=pipe \
             --network-namespace-path=/run/netns/{} --capability=CAP_NET_ADMIN,CAP_BPF \
             --system-call-filter='bpf landlock_create_ruleset landlock_add_rule landlock_restrict_self' \
             --resolv-conf=off --timezone=off --bind-ro={}:/packages",
            reaper::process_dir()?.display(),
            root.display(),
            namespace.name(),
            packages.display()
        );
        let mut command = crate::command::dies_with_us();
        command.args(["sh", "-ec", &script]);
        let process = Process::start(namespace.held(), command, &format!("systemd-nspawn {name}"))?;
        let mut machine = Self {
            name: name.to_owned(),
            process,
            init: String::new(),
            cgroups,
        };
        machine.is_up()?;
        // As udev makes it: everybody may open it, and needs a capability for what it is good for.
        machine
            .shell("mkdir -p /dev/net; rm -f /dev/net/tun; mknod -m 666 /dev/net/tun c 10 200")?;
        Ok(machine)
    }

    fn is_up(&mut self) -> Result<()> {
        let id = self.process.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let what = format!("{} to boot", self.name);
        let mut state = Vec::new();
        wait_until(&what, BOOT_DEADLINE, || {
            let found = fs::read_to_string(&children).unwrap_or_default();
            let Some(init) = found.split_whitespace().next() else {
                return false;
            };
            self.init = init.to_owned();
            let asked = self.outcome("systemctl is-system-running");
            state = asked.map_or_else(|_| Vec::new(), |outcome| outcome.stdout);
            // A failed unit ends the start as well: waiting longer is useless.
            ["running", "degraded"].contains(&String::from_utf8_lossy(&state).trim())
        })
        .with_context(|| self.process.output())?;
        if state.starts_with(b"degraded") {
            bail!("{}: {}", self.name, self.run("systemctl --failed")?);
        }
        Ok(())
    }

    /// Runs a command to its end and returns its standard output; `line` is split at white space.
    ///
    /// # Errors
    /// When it fails; the message holds its error output.
    pub fn run(&self, line: &str) -> Result<String> {
        checked(&self.outcome(line)?, line)
    }

    /// Runs a command to its end and returns its status and output, also when it fails.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn outcome(&self, line: &str) -> Result<Output> {
        outcome(self.command(line.split_whitespace())?, line)
    }

    /// Runs a shell script to its end and returns its standard output; it stops at the first error.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn shell(&self, script: &str) -> Result<String> {
        checked(
            &outcome(self.command(["sh", "-ec", script])?, script)?,
            script,
        )
    }

    /// Writes a file of root's, and the directories above it.
    ///
    /// # Errors
    /// When that fails.
    pub fn write(&self, path: &str, mode: &str, text: &str) -> Result<()> {
        let line = format!(
            "nsenter -t {} -a install -D -m {mode} /dev/stdin {path}",
            self.init
        );
        run_with_input(&line, text).map(drop)
    }

    /// The path by which this machine's programs find a file of the other's.
    #[must_use]
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.init))
    }

    /// The log of the units of these names.
    #[must_use]
    pub fn journal(&self, units: &str) -> String {
        self.run(&format!("journalctl --no-pager --output=cat -u {units}"))
            .unwrap_or_else(|error| format!("{error:#}"))
    }

    fn command<'a>(&'a self, words: impl IntoIterator<Item = &'a str>) -> Result<Command> {
        let inside = [
            "nsenter",
            "-t",
            &self.init,
            "-a",
            "env",
            "-i",
            "HOME=/root",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND=noninteractive",
        ];
        command(inside.into_iter().chain(words))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // With its first process all others end, and then the container's program does.
        let _killed = crate::run(&format!("kill -9 {}", self.init));
        let _ended = self.process.wait(Duration::from_secs(10));
        for cgroup in &self.cgroups {
            let _removed = crate::run(&format!(
                "find {} -depth -type d -exec rmdir {{}} ;",
                cgroup.display()
            ));
        }
    }
}

fn root_dir(kind: &str) -> Result<PathBuf> {
    let script = crate::workspace_dir().join("scripts/debian-root.sh");
    let said =
        crate::run(&format!("{} {kind} --is-there", script.display())).with_context(|| {
            format!("there is no Debian to boot: run scripts/debian-root.sh {kind}")
        })?;
    Ok(PathBuf::from(said.trim()))
}

fn make_cgroups(name: &str) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for hierarchy in HIERARCHIES.map(Path::new) {
        if hierarchy.join("cgroup.procs").exists() {
            let cgroup = hierarchy.join(name);
            fs::create_dir(&cgroup).with_context(|| format!("cannot make {}", cgroup.display()))?;
            made.push(cgroup);
        }
    }
    if made.is_empty() {
        bail!("this machine has no cgroups below /sys/fs/cgroup");
    }
    Ok(made)
}
