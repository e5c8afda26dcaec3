//! The portal, and its administrator's shell.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::private_files::write_secret;
use super::soon::SOON;
use crate::link::Subnet;
use crate::namespace::Namespace;
use crate::process::Process;
use crate::{culvert_program, wait_until};
use culvert_base::Family;

/// The address of its health, inside its namespace.
const METRICS: &str = "127.0.0.1:9587";

/// The portal and its administrator's shell.
#[derive(Debug)]
pub struct Portal {
    /// Its network namespace.
    pub namespace: Namespace,
    /// Of the address that machines are told to reach it at.
    pub family: Family,
    /// The name that machines and people are told, in the place of the address.
    pub name: Option<String>,
    /// The URL of a proxy in front of it, which machines and people are told instead.
    pub front: Option<String>,
    /// Further arguments of `culvert portal run`, for every start from here on.
    pub arguments: String,
    /// The prefix of the command, such as a program that enters other mounts.
    pub wrapper: String,
    net: Subnet,
    dir: PathBuf,
    process: Option<Process>,
}

impl Portal {
    pub(super) fn new(namespace: Namespace, net: Subnet, dir: PathBuf) -> Self {
        Self {
            namespace,
            family: Family::V4,
            name: None,
            front: None,
            arguments: String::new(),
            wrapper: String::new(),
            net,
            dir,
            process: None,
        }
    }

    /// Starts it, for the first time or again, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub fn start(&mut self) -> Result<()> {
        self.launch()?;
        wait_until("the portal", SOON, || {
            self.readiness().is_ok_and(|(is_ready, _)| is_ready)
        })
        .with_context(|| self.output())
    }

    /// Starts it, and waits for nothing.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn launch(&mut self) -> Result<()> {
        self.process = Some(self.namespace.spawn(&self.command()?)?);
        Ok(())
    }

    /// The command that starts it.
    ///
    /// # Errors
    /// When there is no program.
    pub fn command(&self) -> Result<String> {
        let home = self.home();
        fs::create_dir_all(&home)?;
        // A portal whose URL is of the machine itself may not listen for others.
        let listen = match self.name.as_deref() {
            Some("localhost") => "127.0.0.1:8443",
            _ => "[::]:8443",
        };
        // The administrator starts it, in their home directory.
        Ok(format!(
            "env -C {home} HOME={home} {} {} portal run --listen {listen} --url {} --state-dir {} \
             --metrics {METRICS} {}",
            self.wrapper,
            culvert_program()?.display(),
            self.url(),
            self.state_dir().display(),
            self.arguments,
            home = home.display()
        ))
    }

    /// The state of the relay beside it, as that tells it.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn relay_status(&self) -> Result<serde_json::Value> {
        let socket = self.state_dir().join("relay/relay.sock");
        let line = format!(
            "{} relay status --json --socket {}",
            culvert_program()?.display(),
            socket.display()
        );
        Ok(serde_json::from_str(&self.namespace.run(&line)?)?)
    }

    /// True if it reports that it is ready, with the text of the report.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn readiness(&self) -> Result<(bool, String)> {
        let line = format!("curl -sS -m 4 -w %{{http_code}} http://{METRICS}/readyz");
        let answer = self.namespace.run(&line)?;
        let said = answer.strip_suffix("200");
        Ok((said.is_some(), said.unwrap_or(&answer).to_owned()))
    }

    /// The same for the first time, with `--set-up`: declares all access, and writes the tokens that
    /// machines need into [`home`](Self::home).
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn start_set_up(&mut self, access_toml: &str) -> Result<()> {
        fs::create_dir_all(self.home())?;
        fs::write(self.home().join("access.toml"), access_toml)?;
        self.arguments += " --set-up access.toml";
        self.start()?;
        wait_until("the tokens", SOON, || self.output().contains("Each token"))
            .with_context(|| self.output())
    }

    /// The home of whoever administrates it.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// The directory with its database and its certificate.
    #[must_use]
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Its output and its log.
    #[must_use]
    pub fn output(&self) -> String {
        self.process
            .as_ref()
            .map_or_else(String::new, Process::output)
    }

    /// The running process.
    ///
    /// # Errors
    /// When there is none.
    pub fn process(&mut self) -> Result<&mut Process> {
        self.process.as_mut().context("the portal does not run")
    }

    /// True if it was started and has not been stopped or killed.
    #[must_use]
    pub const fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When there is none, or it does not end.
    pub fn stop(&mut self) -> Result<()> {
        let process = self.process.take().context("the portal does not run")?;
        process.stop()
    }

    /// Kills it.
    ///
    /// # Errors
    /// When there is none.
    pub fn kill(&mut self) -> Result<()> {
        self.process
            .take()
            .context("the portal does not run")?
            .kill()
    }

    /// Its address on the lab's internet.
    #[must_use]
    pub fn url(&self) -> String {
        if let Some(front) = &self.front {
            return front.clone();
        }
        if let Some(name) = &self.name {
            return format!("https://{name}:8443");
        }
        self.own_url()
    }

    /// The same without a proxy in front of it.
    #[must_use]
    pub fn own_url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The address of its listener on the lab's internet.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.net.host(self.family, 2), 8443)
    }

    /// The value of one of its metrics, such as `granted_total`.
    ///
    /// # Errors
    /// When it does not answer, or has none of that name.
    pub fn metric(&self, name: &str) -> Result<u64> {
        let line = format!("curl -fsS -m 10 http://{METRICS}/metrics");
        let text = self.namespace.run(&line)?;
        let prefix = format!("culvert_portal_{name} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&prefix));
        let value = value.with_context(|| format!("there is no metric {name}:\n{text}"))?;
        Ok(value.parse()?)
    }

    /// The set-up token that it printed, once its line is whole.
    #[must_use]
    pub fn setup_token(&self) -> Option<String> {
        let output = self.output();
        let (_, rest) = output.split_once("cv_setup_")?;
        let (line, _) = rest.split_once('\n')?;
        let end = line.find([' ', '\'']).unwrap_or(line.len());
        Some(format!("cv_setup_{}", &line[..end]))
    }

    /// SHA-256 of its certificate, as it has printed it.
    ///
    /// # Errors
    /// When it has printed none.
    pub fn certificate(&self) -> Result<String> {
        let output = self.output();
        let (_, rest) = output
            .split_once("Certificate (SHA-256): ")
            .with_context(|| format!("the portal printed no certificate:\n{output}"))?;
        Ok(rest.lines().next().unwrap_or_default().to_owned())
    }

    /// Makes the first administrator by the set-up token that the portal printed.
    ///
    /// # Errors
    /// When it printed none, or refuses it.
    pub fn set_up(&self) -> Result<()> {
        // It may be ready a moment before what it printed has been read here.
        wait_until("the set-up token", SOON, || self.setup_token().is_some())?;
        let token = self
            .setup_token()
            .with_context(|| format!("the portal printed no set-up token:\n{}", self.output()))?;
        let file = self.dir.join("setup-token");
        write_secret(&file, &token)?;
        self.admin(&format!("setup --token-file {}", file.display()))?;
        Ok(())
    }

    /// Declares all access.
    ///
    /// # Errors
    /// When the portal refuses.
    pub fn apply(&self, access_toml: &str) -> Result<String> {
        let file = self.dir.join("access.toml");
        fs::write(&file, access_toml)?;
        self.admin(&format!("apply --yes --prune -f {}", file.display()))
    }

    /// Makes a token, such as one of `client --actor laptop`, and puts it in a file.
    ///
    /// # Errors
    /// When the portal refuses, or there is such a file.
    pub fn token(&self, of: &str, file: &Path) -> Result<()> {
        let out = file.display();
        self.admin(&format!("token create --out {out} --kind {of}"))
            .map(drop)
    }

    /// The secret by which its owner uses the API.
    ///
    /// # Errors
    /// When it was never set up.
    pub fn owner_token(&self) -> Result<String> {
        let file = self.dir.join("home/.config/culvert/admin.token");
        let token = fs::read_to_string(file)?;
        // The part behind the second dot is for machines that search for the portal.
        let parts: Vec<_> = token.trim().split('.').take(2).collect();
        Ok(parts.join("."))
    }

    /// Runs `culvert admin` with these arguments.
    ///
    /// # Errors
    /// When it fails; the message holds what it said.
    pub fn admin(&self, arguments: &str) -> Result<String> {
        let outcome = self.admin_outcome(arguments)?;
        if !outcome.status.success() {
            bail!(
                "culvert admin {arguments}: {}{}",
                String::from_utf8_lossy(&outcome.stdout),
                String::from_utf8_lossy(&outcome.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&outcome.stdout).into_owned())
    }

    /// The same, with its exit status.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn admin_outcome(&self, arguments: &str) -> Result<std::process::Output> {
        let culvert = culvert_program()?;
        let home = self.home();
        self.namespace.outcome(&format!(
            "env HOME={} {} admin {arguments}",
            home.display(),
            culvert.display()
        ))
    }
}
