//! A client.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result};

use super::names::{Answer, RecordKind, ask};
use super::soon::SOON;
use crate::namespace::Namespace;
use crate::process::Process;
use crate::service_manager::ServiceManager;
use crate::{culvert_program, wait_until};

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its network namespace.
    pub namespace: Namespace,
    /// Its name for people.
    pub name: String,
    /// Further arguments of `culvert client run`, for every start from here on.
    pub arguments: String,
    /// A shell script that gives each of its programs the files of its machine, where they are not this
    /// one's: mounts, and variables of the environment.
    pub machine: String,
    /// True if it gets no token, and waits for commands.
    pub takes_commands: bool,
    /// The service manager that starts it, keeps its descriptors and hears its state; none if the
    /// test itself does.
    pub manager: Option<ServiceManager>,
    dir: PathBuf,
    process: Option<Process>,
}

impl Client {
    pub(super) fn new(namespace: Namespace, dir: PathBuf) -> Self {
        Self {
            namespace,
            name: "laptop".to_owned(),
            arguments: String::new(),
            machine: String::new(),
            takes_commands: false,
            manager: None,
            dir,
            process: None,
        }
    }

    /// The file with its token.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.dir.join("token")
    }

    /// The directory with its id and its key.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The socket at which it reports its status.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("run/culvert.sock")
    }

    /// Starts it, for the first time or again, and waits until the portal has welcomed it.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        self.is_welcomed_within(SOON)
    }

    /// Starts it, and waits for nothing.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn launch(&mut self) -> Result<()> {
        let command = self.command()?;
        self.process = Some(match &self.manager {
            Some(manager) => manager.start(&self.namespace, &self.machine, &command)?,
            None if self.machine.is_empty() => self.namespace.spawn(&command)?,
            None => self.namespace.spawn_script(&self.on_machine(&command))?,
        });
        Ok(())
    }

    /// Runs a command with the files of its machine.
    ///
    /// # Errors
    /// When it fails.
    pub fn run(&self, line: &str) -> Result<String> {
        self.namespace.shell(&self.on_machine(line))
    }

    fn on_machine(&self, line: &str) -> String {
        format!("{}\nexec {line}", self.machine)
    }

    /// Waits until the portal has welcomed it and its routes stand, which is a moment later.
    ///
    /// # Errors
    /// When that does not happen before `deadline`.
    pub fn is_welcomed_within(&self, deadline: Duration) -> Result<()> {
        wait_until("the client to be connected", deadline, || {
            let is_connected = |status: serde_json::Value| status["portal"]["state"] == "connected";
            self.output().contains("INFO connected to https:")
                && self.status().is_ok_and(is_connected)
        })
        .with_context(|| self.output())
    }

    /// The command that starts it.
    ///
    /// # Errors
    /// When there is no program.
    pub fn command(&self) -> Result<String> {
        let token = match self.takes_commands {
            true => String::new(),
            false => format!("--token-file {}", self.token_file().display()),
        };
        Ok(format!(
            "{} client run {token} --state-dir {} --name {} --status-socket {} {} {}",
            culvert_program()?.display(),
            self.state_dir().display(),
            self.name,
            self.socket().display(),
            // The resolver of the machine that runs the tests is none of theirs.
            match self.arguments.contains("--dns ") {
                true => "",
                false => "--dns off",
            },
            self.arguments,
        ))
    }

    /// The running process.
    ///
    /// # Errors
    /// When there is none.
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the client does not run")
    }

    /// Its log so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, Process::output)
    }

    /// Kills it.
    ///
    /// # Errors
    /// When there is none.
    pub fn kill(&mut self) -> Result<()> {
        self.process
            .take()
            .context("the client does not run")?
            .kill()
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When there is none, or it does not end.
    pub fn stop(&mut self) -> Result<()> {
        let process = self.process.take().context("the client does not run")?;
        process.stop()?;
        if let Some(manager) = &self.manager {
            manager.release();
        }
        Ok(())
    }

    /// Has it end for a restart, starts it again, and waits until the portal has welcomed it.
    ///
    /// # Errors
    /// When there is none, or that does not happen.
    pub fn restart(&mut self) -> Result<()> {
        let process = self.process.take().context("the client does not run")?;
        process.stop_for_restart()?;
        self.start()
    }

    /// Tells it something: a command line behind `culvert`.
    ///
    /// # Errors
    /// When the command can't be run.
    pub fn tell(&self, line: &str) -> Result<Output> {
        self.namespace.outcome(&format!(
            "{} {line} --socket {}",
            culvert_program()?.display(),
            self.socket().display()
        ))
    }

    /// The output of `culvert status --json`.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn status(&self) -> Result<serde_json::Value> {
        let text = self.namespace.run(&format!(
            "{} status --json --socket {}",
            culvert_program()?.display(),
            self.socket().display()
        ))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Its IPv4 address inside the tunnel, where it answers DNS.
    ///
    /// # Errors
    /// When it has none.
    pub fn address(&self) -> Result<IpAddr> {
        let status = self.status()?;
        let address = status["ipv4"].as_str();
        Ok(address.context("the client has no address")?.parse()?)
    }

    /// The answer of its own stub for a name.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn ask(&self, name: &str, kind: RecordKind) -> Result<Answer> {
        ask(&self.namespace, self.address()?, name, kind)
    }

    /// Runs a command whose names are resolved by the client's own stub.
    ///
    /// # Errors
    /// When it fails.
    pub fn run_with_dns(&self, line: &str) -> Result<String> {
        let address = self.address()?;
        let file = self.dir.join("resolv.conf");
        fs::write(
            &file,
            format!("nameserver {address}\noptions timeout:5 attempts:1\n"),
        )?;
        // `ip netns exec` gives the script mounts of its own.
        self.namespace.shell(&format!(
            "mount --bind {} /etc/resolv.conf && exec {line}",
            file.display()
        ))
    }

    /// The output of `culvert status` for people.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn status_text(&self) -> Result<String> {
        self.namespace.run(&format!(
            "{} status --socket {}",
            culvert_program()?.display(),
            self.socket().display()
        ))
    }
}
