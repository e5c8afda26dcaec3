//! The program `resolvconf`, which writes `/etc/resolv.conf` from what each interface tells it. There are
//! two of that name: Debian's own, and openresolv. A third is systemd-resolved in disguise and is not
//! taken for one.

use super::resolv_conf::{ResolvConf, without};
use crate::{HostError, InterfaceName, StateDir};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The name of the program.
const PROGRAM: &str = "resolvconf";

/// What says, in the state directory, that an entry was made: under which name.
pub(super) const ENTRY: &str = "resolvconf.entry";

/// The longest entry: "tun." and the name of an interface.
const MAX_ENTRY_BYTES: usize = 64;

/// How long it may take: it runs the scripts of all subscribers, which restart services.
const RUN_LIMIT: Duration = Duration::from_secs(10);

/// How often it is looked whether other interfaces have other servers. It takes a process each time.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// Which of the programs it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    Debian,
    Openresolv,
}

/// The program, and what it was told.
#[derive(Debug)]
pub(super) struct Resolvconf {
    flavour: Flavour,
    resolv_conf: PathBuf,
    told: Option<Told>,
}

#[derive(Debug)]
struct Told {
    server: IpAddr,
    upstreams: Vec<SocketAddr>,
}

impl Resolvconf {
    /// Finds out which program it is.
    pub(super) async fn find(resolv_conf: &Path) -> Result<Self, HostError> {
        let flavour = match run(&["--version"], "").await {
            Ok(said) if said.contains("openresolv") => Flavour::Openresolv,
            // systemd's says which systemd it is.
            Ok(_) | Err(HostError::ResolvconfMissing) => return Err(HostError::ResolvconfMissing),
            // Debian's has no such option.
            Err(_) => Flavour::Debian,
        };
        Ok(Self {
            flavour,
            resolv_conf: resolv_conf.to_owned(),
            told: None,
        })
    }

    /// Has it name `server` before, or instead of, all others.
    pub(super) async fn apply(
        &mut self,
        interface: &InterfaceName,
        server: IpAddr,
        state: &StateDir,
        tell: impl FnOnce(&[SocketAddr]),
    ) -> Result<(), HostError> {
        let upstreams = self.upstreams(server).await?;
        tell(&upstreams);
        let entry = entry(interface);
        state.write(ENTRY, entry.as_bytes())?;
        let arguments: &[&str] = match self.flavour {
            Flavour::Openresolv => &["-m", "0", "-x", "-a", &entry],
            Flavour::Debian => &["-a", &entry],
        };
        run(arguments, &format!("nameserver {server}\n")).await?;
        self.told = Some(Told { server, upstreams });
        match self.is_in_force() {
            true => Ok(()),
            false => Err(HostError::ResolvconfRefused {
                message: format!(
                    "it has not written {server} into {}",
                    self.resolv_conf.display()
                ),
            }),
        }
    }

    /// Returns once the file names another, or other interfaces have other servers.
    pub(super) async fn changed(&self) {
        loop {
            tokio::time::sleep(CHECK_EVERY).await;
            let Some(told) = &self.told else { return };
            let upstreams = self.upstreams(told.server).await;
            let is_same = upstreams.is_ok_and(|upstreams| upstreams == told.upstreams);
            if !is_same || !self.is_in_force() {
                return;
            }
        }
    }

    /// Whom other interfaces name. Debian's program tells by the file alone.
    async fn upstreams(&self, own: IpAddr) -> Result<Vec<SocketAddr>, HostError> {
        let text = match self.flavour {
            Flavour::Openresolv => run(&["-l"], "").await?,
            Flavour::Debian => std::fs::read_to_string(&self.resolv_conf).unwrap_or_default(),
        };
        let known = without(own, ResolvConf::parse(&text));
        Ok(known.upstreams(super::interface_index))
    }

    /// Whether programs ask here first.
    fn is_in_force(&self) -> bool {
        let text = std::fs::read_to_string(&self.resolv_conf).unwrap_or_default();
        let first = ResolvConf::parse(&text)
            .servers
            .first()
            .map(|it| it.address);
        first.is_some() && first == self.told.as_ref().map(|told| told.server)
    }
}

/// Takes back what a client has told it, this one or one before.
pub(super) async fn remove(state: &StateDir) -> Result<(), HostError> {
    let Some(entry) = state.read_at_most(MAX_ENTRY_BYTES, ENTRY)? else {
        return Ok(());
    };
    let entry = String::from_utf8_lossy(entry.expose()).into_owned();
    match run(&["-f", "-d", &entry], "").await {
        // With the program, what it was told is gone.
        Ok(_) | Err(HostError::ResolvconfMissing) => state.remove(ENTRY),
        Err(error) => Err(error),
    }
}

/// Under which name it knows the tunnel: Debian's sorts by name, and takes those of tunnels first.
fn entry(interface: &InterfaceName) -> String {
    format!("tun.{interface}")
}

async fn run(arguments: &[&str], input: &str) -> Result<String, HostError> {
    let refused = |message: String| HostError::ResolvconfRefused { message };
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(HostError::ResolvconfMissing);
        }
        Err(error) => return Err(refused(error.to_string())),
    };
    let exchange = async {
        if let Some(mut stdin) = child.stdin.take() {
            // Whoever does not read it does not need it.
            let _unread = stdin.write_all(input.as_bytes()).await;
        }
        child.wait_with_output().await
    };
    let output = match timeout(RUN_LIMIT, exchange).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return Err(refused(error.to_string())),
        Err(_elapsed) => return Err(refused("no end within ten seconds".to_owned())),
    };
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(refused(said.lines().next().unwrap_or_default().to_owned()))
        }
    }
}
