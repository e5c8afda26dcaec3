//! Network namespaces.

use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::command::{checked, command, dies_with_us, outcome};
use crate::named::Named;
use crate::process::Process;
use crate::reaper;

/// A network namespace with its loopback interface up.
///
/// Clones are handles to the same one. With the last of them it is removed, and every process that
/// still runs inside is killed: a detached daemon cannot outlive its test.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<Named>);

impl Namespace {
    /// Makes a namespace under a name that nobody else has.
    ///
    /// # Errors
    /// When not root, or `ip` is missing or refuses.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        reaper::process_dir()?;
        let name = reaper::namespace_name(NEXT.fetch_add(1, Ordering::Relaxed));
        crate::run(&format!("ip netns add {name}"))?;
        let namespace = Self(Arc::new(Named(name)));
        namespace.run("ip link set lo up")?;
        // A socket born under bbr keeps bbr's pacing when it is given another congestion control, and
        // pacing costs a fast tunnel a quarter of its throughput. Every host allows reno.
        namespace.run("sysctl -q -w net.ipv4.tcp_congestion_control=reno")?;
        Ok(namespace)
    }

    /// The name under which `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.0
    }

    /// Runs a command to its end and returns its standard output; `line` is split at white space. It has no mounts of
    /// its own, so `/sys` tells of another namespace: a script finds this one's there.
    ///
    /// # Errors
    /// When it cannot be started, fails, or takes more than a minute; the message holds the command
    /// and its error output.
    pub fn run(&self, line: &str) -> Result<String> {
        checked(&self.outcome(line)?, line)
    }

    /// Runs a command to its end and returns its status and output, also when it fails.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn outcome(&self, line: &str) -> Result<Output> {
        let command = command(line.split_whitespace())?;
        self.inside(|| outcome(command, line))
    }

    /// Runs a shell script to its end, with mounts of its own, and returns its standard output; it stops at the first error.
    ///
    /// # Errors
    /// As [`Namespace::run`].
    pub fn shell(&self, script: &str) -> Result<String> {
        checked(&self.outcome_of_script(script)?, script)
    }

    /// Runs a shell script to its end, with mounts of its own, and returns its status and output, also
    /// when it fails.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn outcome_of_script(&self, script: &str) -> Result<Output> {
        let words = ["ip", "netns", "exec", self.name(), "sh", "-ec", script];
        outcome(command(words)?, script)
    }

    /// Starts a program that keeps running; `line` is split at white space.
    ///
    /// It is killed when the returned handle is dropped, and when the thread that called this ends.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, line: &str) -> Result<Process> {
        self.spawn_with(line, |_| {})
    }

    /// As [`Namespace::spawn`], with a last word on the command, such as environment variables.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_with(&self, line: &str, adjust: impl FnOnce(&mut Command)) -> Result<Process> {
        let mut command = dies_with_us();
        command
            .args(["ip", "netns", "exec", self.name()])
            .args(line.split_whitespace());
        adjust(&mut command);
        Process::start(self.held(), command, line)
    }

    /// Starts a shell script that keeps running, with mounts of its own; it stops at the first error.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn_script(&self, script: &str) -> Result<Process> {
        self.spawn_script_with(script, |_| Ok(()))
    }

    /// As [`Namespace::spawn_script`], with a last word on the command, such as descriptors.
    pub(crate) fn spawn_script_with(
        &self,
        script: &str,
        adjust: impl FnOnce(&mut Command) -> Result<()>,
    ) -> Result<Process> {
        let mut command = dies_with_us();
        command.args(["ip", "netns", "exec", self.name(), "sh", "-ec", script]);
        adjust(&mut command)?;
        Process::start(self.held(), command, script)
    }

    /// Calls `work` inside the namespace, on a thread of its own. Sockets that it opens stay in the
    /// namespace wherever they are used afterwards.
    ///
    /// # Errors
    /// When the namespace cannot be entered, or `work` fails.
    ///
    /// # Panics
    /// When `work` does.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = format!("/run/netns/{}", self.name());
        let file = std::fs::File::open(&path).with_context(|| format!("cannot open {path}"))?;
        thread::scope(|scope| {
            let thread = scope.spawn(move || {
                move_into_link_name_space(
                    std::os::fd::AsFd::as_fd(&file),
                    Some(LinkNameSpaceType::Network),
                )
                .context("cannot enter the namespace")?;
                work()
            });
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Keeps the namespace for as long as it is held.
    pub(crate) fn held(&self) -> Arc<Named> {
        Arc::clone(&self.0)
    }
}
