//! A relay.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::soon::SOON;
use crate::culvert_program;
use crate::namespace::Namespace;
use crate::process::Process;

/// The port that it takes by itself.
const TLS_PORT: u16 = 443;

/// A relay.
#[derive(Debug)]
pub struct Relay {
    /// Its network namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: String,
    /// Its TCP port for ends whose network blocks UDP.
    pub tls_port: u16,
    /// Further arguments of `culvert relay run`, for every start from here on.
    pub arguments: String,
    /// The prefix of the command, such as `env` with variables.
    pub wrapper: String,
    dir: PathBuf,
    process: Option<Process>,
}

impl Relay {
    pub(super) fn new(namespace: Namespace, name: &str, dir: PathBuf) -> Self {
        Self {
            namespace,
            name: name.to_owned(),
            tls_port: TLS_PORT,
            arguments: String::new(),
            wrapper: String::new(),
            dir,
            process: None,
        }
    }

    /// The file with its token.
    #[must_use]
    pub fn token_file(&self) -> PathBuf {
        self.dir.join("token")
    }

    /// Starts it, for the first time or again, and waits until the portal has welcomed it.
    ///
    /// # Errors
    /// When that does not happen.
    pub fn start(&mut self) -> Result<()> {
        let command = format!(
            "{} {} relay run --token-file {} --state-dir {} --name {} --status-socket {} {}",
            self.wrapper,
            culvert_program()?.display(),
            self.token_file().display(),
            self.dir.join("state").display(),
            self.name,
            self.dir.join("run/relay.sock").display(),
            self.arguments
        );
        let mut process = self.namespace.spawn(&command)?;
        let welcomed = process.wait_for_output("connected to the portal", SOON);
        self.process = Some(process);
        welcomed.with_context(|| self.output())
    }

    /// The output of `culvert relay status --json`.
    ///
    /// # Errors
    /// When it says nothing.
    pub fn status(&self) -> Result<serde_json::Value> {
        let text = self.namespace.run(&format!(
            "{} relay status --json --socket {}",
            culvert_program()?.display(),
            self.dir.join("run/relay.sock").display()
        ))?;
        Ok(serde_json::from_str(&text)?)
    }

    /// Its log so far.
    #[must_use]
    pub fn output(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, Process::output)
    }

    /// Its process.
    ///
    /// # Errors
    /// When it does not run.
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the relay does not run")
    }

    /// Kills it.
    ///
    /// # Errors
    /// When there is none.
    pub fn kill(&mut self) -> Result<()> {
        self.process
            .take()
            .context("the relay does not run")?
            .kill()
    }
}
