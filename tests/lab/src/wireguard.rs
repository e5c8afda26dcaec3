//! One end of a tunnel, whatever implementation runs it.

use std::fmt;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::measure::Usage;
use crate::namespace::Namespace;
use crate::process::Process;
use crate::programs::{culvert_program, peer_program};
use crate::reaper;
use crate::wait::wait_until;

/// The directory of configuration sockets, by the cross-platform configuration protocol.
const SOCKETS_DIR: &str = "/var/run/wireguard";

/// An implementation is ready in a fraction of a second; a loaded machine may take longer.
const START_DEADLINE: Duration = Duration::from_secs(10);

/// A WireGuard implementation in user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Implementation {
    /// `culvert wg`, with further arguments before the interface name.
    Culvert {
        /// Another build of it than the one that is tested.
        program: Option<PathBuf>,
        /// The arguments, such as `--workers` and `2`.
        args: Vec<String>,
        /// The rights that are taken from it although it is root, such as `-bpf,-sys_admin`, in
        /// setpriv's words.
        taken_away: Option<&'static str>,
    },
    /// wireguard-go as its authors publish it.
    WireguardGo,
    /// Tailscale's fork of wireguard-go.
    Tailscale,
    /// Cloudflare's boringtun.
    Boringtun,
    /// Mullvad's gotatun.
    Gotatun,
}

impl Implementation {
    /// `culvert wg` with its defaults.
    #[must_use]
    pub fn culvert() -> Self {
        Self::culvert_with("")
    }

    /// `culvert wg` with `arguments`, split at white space.
    #[must_use]
    pub fn culvert_with(arguments: &str) -> Self {
        Self::Culvert {
            program: None,
            args: arguments.split_whitespace().map(str::to_owned).collect(),
            taken_away: None,
        }
    }

    /// `culvert wg` of the build at `program`, with `arguments`, split at white space.
    #[must_use]
    pub fn culvert_at(program: &Path, arguments: &str) -> Self {
        Self::Culvert {
            program: Some(program.to_owned()),
            args: arguments.split_whitespace().map(str::to_owned).collect(),
            taken_away: None,
        }
    }

    /// `culvert wg` that may load no program into the kernel.
    #[must_use]
    pub fn culvert_without_programs() -> Self {
        Self::Culvert {
            program: None,
            args: Vec::new(),
            // The latter allows it too.
            taken_away: Some("-bpf,-sys_admin"),
        }
    }

    /// The program.
    ///
    /// # Errors
    /// When it is not built; the message says how to.
    pub fn program(&self) -> Result<PathBuf> {
        match self {
            Self::Culvert {
                program: Some(program),
                ..
            } => Ok(program.clone()),
            Self::Culvert { .. } => culvert_program(),
            Self::WireguardGo => peer_program("wireguard-go"),
            Self::Tailscale => peer_program("wireguard-go-tailscale"),
            Self::Boringtun => peer_program("boringtun-cli"),
            Self::Gotatun => peer_program("gotatun-cli"),
        }
    }

    /// The command line that serves `interface` in the foreground.
    ///
    /// # Errors
    /// As [`Implementation::program`].
    pub fn command_line(&self, interface: &str) -> Result<String> {
        let program = self.program()?;
        let program = program.display();
        Ok(match self {
            Self::Culvert {
                args, taken_away, ..
            } => {
                let unprivileged = taken_away.map_or_else(String::new, |capabilities| {
                    format!("setpriv --inh-caps {capabilities} --bounding-set {capabilities} ")
                });
                format!(
                    "{unprivileged}{program} wg -f {} {interface}",
                    args.join(" ")
                )
            }
            Self::WireguardGo | Self::Tailscale => format!("{program} -f {interface}"),
            Self::Boringtun | Self::Gotatun => {
                format!("{program} -f --disable-drop-privileges {interface}")
            }
        })
    }
}

/// A key pair, as `wg` writes it.
#[derive(Clone)]
pub struct KeyPair {
    /// The private key in base64. Only tests and benchmarks use it, so it may live in a string.
    pub private_key: String,
    /// The public key in base64.
    pub public_key: String,
}

impl KeyPair {
    /// Makes a fresh pair with `wg genkey`.
    ///
    /// # Errors
    /// When `wg` fails.
    pub fn generate() -> Result<Self> {
        let private_key = crate::run("wg genkey")?.trim().to_owned();
        let public_key = crate::command::run_with_input("wg pubkey", &private_key)?;
        Ok(Self {
            private_key,
            public_key: public_key.trim().to_owned(),
        })
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyPair({})", self.public_key)
    }
}

/// A running implementation with its interface up.
///
/// Dropping it kills the program, which takes the interface with it, and removes its socket.
#[derive(Debug)]
pub struct WireGuardEnd {
    /// The implementation that runs.
    pub implementation: Implementation,
    /// The namespace of the interface.
    pub namespace: Namespace,
    /// The interface, unique on this machine.
    pub interface: String,
    /// Its keys; not configured until [`WireGuardEnd::configure`].
    pub keys: KeyPair,
    /// The program, to look at its output or to end it.
    pub process: Process,
}

impl WireGuardEnd {
    /// Starts an implementation and waits until it answers on its configuration socket. It has no
    /// keys and no addresses yet.
    ///
    /// # Errors
    /// When it is not built, ends early, or does not answer in time; the message holds its output.
    pub fn start(implementation: &Implementation, namespace: &Namespace) -> Result<Self> {
        Self::start_named(implementation, namespace, &Self::unique_name())
    }

    /// As [`WireGuardEnd::start`], under a name of [`WireGuardEnd::unique_name`].
    ///
    /// # Errors
    /// As [`WireGuardEnd::start`].
    pub fn start_named(
        implementation: &Implementation,
        namespace: &Namespace,
        interface: &str,
    ) -> Result<Self> {
        let mut process = namespace.spawn(&implementation.command_line(interface)?)?;
        wait_until_ready(&mut process, interface)?;
        Ok(Self {
            implementation: implementation.clone(),
            namespace: namespace.clone(),
            interface: interface.to_owned(),
            keys: KeyPair::generate()?,
            process,
        })
    }

    /// Ends the program, at once, and starts it again under the same name with the same keys. Its
    /// peers and addresses must be configured again.
    ///
    /// # Errors
    /// As [`WireGuardEnd::start`].
    pub fn restart(&mut self) -> Result<()> {
        // The interface name is free only once the old program is gone.
        self.process.kill()?;
        let _removed = fs::remove_file(Self::socket_path(&self.interface));
        self.process = self
            .namespace
            .spawn(&self.implementation.command_line(&self.interface)?)?;
        wait_until_ready(&mut self.process, &self.interface)
    }

    /// A name for an interface that nobody else on this machine uses.
    #[must_use]
    pub fn unique_name() -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        reaper::interface_name(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The configuration socket of an interface.
    #[must_use]
    pub fn socket_path(interface: &str) -> PathBuf {
        PathBuf::from(SOCKETS_DIR).join(format!("{interface}.sock"))
    }

    /// Sets the private key and the port, gives the interface `addresses` (with prefix lengths) and
    /// `mtu_bytes`, and brings it up.
    ///
    /// # Errors
    /// When `wg` or `ip` refuses.
    pub fn configure(&self, port: u16, addresses: &[String], mtu_bytes: u32) -> Result<()> {
        let private_key_path = secret_file(&self.keys.private_key)?;
        let set = self.set(&format!(
            "listen-port {port} private-key {}",
            private_key_path.display()
        ));
        let _removed = fs::remove_file(&private_key_path);
        set?;
        let interface = &self.interface;
        for address in addresses {
            let flags = if address.contains(':') { " nodad" } else { "" };
            self.namespace
                .run(&format!("ip address add {address} dev {interface}{flags}"))?;
        }
        self.namespace
            .run(&format!("ip link set {interface} mtu {mtu_bytes} up"))?;
        Ok(())
    }

    /// Adds or changes a peer: where it is, which addresses are its own, and a pre-shared key.
    ///
    /// # Errors
    /// When `wg` refuses.
    pub fn set_peer(
        &self,
        public_key: &str,
        endpoint: Option<SocketAddr>,
        allowed_ips: &str,
        preshared_key: Option<&str>,
    ) -> Result<()> {
        let mut line = format!("peer {public_key}");
        let secret_path = preshared_key.map(secret_file).transpose()?;
        if let Some(path) = &secret_path {
            line += &format!(" preshared-key {}", path.display());
        }
        if let Some(endpoint) = endpoint {
            line += &format!(" endpoint {endpoint}");
        }
        line += &format!(" allowed-ips {allowed_ips}");
        let set = self.set(&line);
        if let Some(path) = secret_path {
            let _removed = fs::remove_file(path);
        }
        set
    }

    /// `wg set` with the given arguments.
    ///
    /// # Errors
    /// When `wg` refuses.
    pub fn set(&self, arguments: &str) -> Result<()> {
        self.namespace
            .run(&format!("wg set {} {arguments}", self.interface))?;
        Ok(())
    }

    /// `wg show` of one property, such as `latest-handshakes`.
    ///
    /// # Errors
    /// When `wg` refuses.
    pub fn show(&self, property: &str) -> Result<String> {
        self.namespace
            .run(&format!("wg show {} {property}", self.interface))
    }

    /// The time of the last handshake with `public_key` in seconds since 1970; zero if there was
    /// none.
    ///
    /// # Errors
    /// When `wg` refuses or there is no such peer.
    pub fn latest_handshake_s(&self, public_key: &str) -> Result<u64> {
        let handshakes = self.show("latest-handshakes")?;
        let seconds = handshakes
            .lines()
            .find_map(|line| line.strip_prefix(public_key))
            .with_context(|| format!("no peer {public_key} in: {handshakes}"))?;
        Ok(seconds.trim().parse()?)
    }

    /// The output of `culvert wg show --json` at this end.
    ///
    /// # Errors
    /// When `culvert` refuses, such as for another implementation.
    pub fn culvert_json(&self) -> Result<serde_json::Value> {
        let program = culvert_program()?;
        let line = format!("{} wg show {} --json", program.display(), self.interface);
        let text = self.namespace.run(&line)?;
        serde_json::from_str(&text).with_context(|| format!("`{line}` printed {text}"))
    }

    /// The number of packets that `culvert` dropped at `stage` for `reason`.
    ///
    /// # Errors
    /// As [`WireGuardEnd::culvert_json`], or when there is no such stage and reason.
    pub fn culvert_drops(&self, stage: &str, reason: &str) -> Result<u64> {
        let status = self.culvert_json()?;
        let drops = status["drops"].as_array().context("no list of drops")?;
        let found = drops
            .iter()
            .find(|drop| drop["stage"] == stage && drop["reason"] == reason);
        found
            .and_then(|drop| drop["count"].as_u64())
            .with_context(|| format!("no drops counted as {stage}/{reason} in {status}"))
    }

    /// Processor time and memory that the program has used so far.
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> Result<Usage> {
        self.process.usage()
    }
}

impl Drop for WireGuardEnd {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        // A killed program leaves its socket behind.
        let _removed = fs::remove_file(Self::socket_path(&self.interface));
    }
}

/// Writes a secret where `wg` can read it; the caller removes the file.
fn secret_file(secret: &str) -> Result<PathBuf> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = reaper::process_dir()?.join(format!("secret-{number}"));
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .with_context(|| format!("cannot make {}", path.display()))?;
    file.write_all(secret.as_bytes())?;
    Ok(path)
}

/// Waits until an implementation answers for `interface`.
///
/// # Errors
/// When its program ends or the deadline passes before; the message holds its output.
fn wait_until_ready(process: &mut Process, interface: &str) -> Result<()> {
    let socket_path = WireGuardEnd::socket_path(interface);
    let mut ended = false;
    let result = wait_until(
        &format!("{}", socket_path.display()),
        START_DEADLINE,
        || {
            ended = !process.is_running().unwrap_or(false);
            ended || UnixStream::connect(&socket_path).is_ok()
        },
    );
    if ended {
        bail!(
            "the WireGuard program ended at once: {}",
            process.output().trim()
        );
    }
    result.with_context(|| process.output())
}
