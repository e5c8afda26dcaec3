//! The program `resolvconf`, which writes `/etc/resolv.conf` from what each interface tells it. There are
//! two of that name: Debian's own, and openresolv. A third is systemd-resolved in disguise and is not
//! taken for one.

use super::resolv_conf::{ResolvConf, joined_search, without};
use super::wanted::ResolverWanted;
use crate::{HostError, InterfaceName, StateDir};
use culvert_policy::DomainName;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The name of the program.
const PROGRAM: &str = "resolvconf";

/// The file in the state directory that records an entry: it holds the name of the entry.
pub(super) const ENTRY: &str = "resolvconf.entry";

/// The longest entry: "tun." and the name of an interface.
const MAX_ENTRY_BYTES: usize = 64;

/// The time limit for a run: it runs the scripts of all subscribers, which restart services.
const RUN_LIMIT: Duration = Duration::from_secs(10);

/// The interval between two checks for other servers on other interfaces. It takes a process each
/// time.
const CHECK_EVERY: Duration = Duration::from_secs(30);

/// The line before each entry in openresolv's list; the name of the entry follows.
const HEAD: &str = "# resolv.conf from ";

/// The program that has the name `resolvconf`.
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
    entry: String,
    others: Others,
}

/// The data that other interfaces have given it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Others {
    upstreams: Vec<SocketAddr>,
    /// The search domains for short names that are lost unless our entry repeats them.
    search: Vec<String>,
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

    /// Has it name `wanted.server` before, or instead of, all others.
    pub(super) async fn apply(
        &mut self,
        wanted: &ResolverWanted,
        state: &StateDir,
        tell: impl FnOnce(&[SocketAddr]),
    ) -> Result<(), HostError> {
        let server = wanted.server;
        let entry = entry(&wanted.interface);
        let others = self.others(server, &entry).await?;
        tell(&others.upstreams);
        state.write(ENTRY, entry.as_bytes())?;
        let arguments: &[&str] = match self.flavour {
            Flavour::Openresolv => &["-m", "0", "-x", "-a", &entry],
            Flavour::Debian => &["-a", &entry],
        };
        run(arguments, &said(server, &wanted.search, &others.search)).await?;
        self.told = Some(Told {
            server,
            entry,
            others,
        });
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
            let others = self.others(told.server, &told.entry).await;
            let is_same = others.is_ok_and(|others| others == told.others);
            if !is_same || !self.is_in_force() {
                return;
            }
        }
    }

    /// The data of other interfaces. Debian's program tells by the file alone, where what they
    /// search stays beside ours.
    async fn others(&self, own: IpAddr, entry: &str) -> Result<Others, HostError> {
        let text = match self.flavour {
            Flavour::Openresolv => without_entry(&run(&["-l"], "").await?, entry),
            Flavour::Debian => std::fs::read_to_string(&self.resolv_conf).unwrap_or_default(),
        };
        let known = without(own, ResolvConf::parse(&text));
        let search = match self.flavour {
            Flavour::Openresolv => searched(&text),
            Flavour::Debian => Vec::new(),
        };
        let upstreams = known.upstreams(InterfaceName::index_of);
        Ok(Others { upstreams, search })
    }

    /// True if programs ask here first.
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

/// The entry for the tunnel: an entry that shuts out all others has to repeat their search domains.
fn said(server: IpAddr, search: &[DomainName], theirs: &[String]) -> String {
    let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
    let joined = joined_search(search, &theirs);
    match joined.is_empty() {
        true => format!("nameserver {server}\n"),
        false => format!("nameserver {server}\nsearch {}\n", joined.join(" ")),
    }
}

/// The search domains of all entries that openresolv lists.
fn searched(listed: &str) -> Vec<String> {
    let entries = listed.split(HEAD).map(ResolvConf::parse);
    let searched = entries.map(|entry| {
        let domains = entry.search().into_iter().map(str::to_owned);
        domains.collect::<Vec<_>>()
    });
    searched.flatten().collect()
}

/// The list of openresolv without the entry named `entry`.
fn without_entry(listed: &str, entry: &str) -> String {
    let mut is_other = true;
    let others = listed.lines().filter(|line| {
        if let Some(name) = line.strip_prefix(HEAD) {
            is_other = name.trim() != entry;
        }
        is_other
    });
    others.map(|line| format!("{line}\n")).collect()
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
            // A program that does not read its input does not need it.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As `resolvconf -l` of openresolv 3.12 prints it.
    const LISTED: &str = "# resolv.conf from tun.culvert0\nnameserver 100.64.0.7\nsearch corp.example \
                          lan\n\n# resolv.conf from eth0\nsearch lan\nnameserver 192.0.2.53\n\n\
                          # resolv.conf from tun.culvert01\nsearch guest.lan\nnameserver 192.0.2.54\n\n";

    #[test]
    fn what_we_said_ourselves_is_not_taken_for_what_others_say() {
        let listed = without_entry(LISTED, "tun.culvert0");
        assert_eq!(searched(&listed), ["lan", "guest.lan"]);
        let others = ResolvConf::parse(&listed);
        let servers: Vec<String> = others
            .servers
            .iter()
            .map(|server| server.address.to_string())
            .collect();
        assert_eq!(servers, ["192.0.2.53", "192.0.2.54"]);
    }
}
