//! The relay that is measured: one worker of the product, in a process of its own.

use super::ends::{PORTAL_KEY, RELAY};
use anyhow::{Context, Result};
use clap::Args;
use culvert_base::PresharedKey;
use culvert_lab::measure::Usage;
use culvert_relay::{Certificates, Command, PortRange, Sockets, Workers};
use culvert_relay_tls::{Acceptor, AcceptorSettings, Limits, listen_everywhere};
use culvert_wire::token::CertificatePin;
use std::io::{BufRead, BufReader, Read, Write};
use std::num::{NonZeroU32, NonZeroUsize};
use std::process::{Child, Stdio};
use std::sync::Arc;

/// The word of a worker that is ready.
const READY: &str = "ready";

/// One worker of a relay, which ends with its standard input. `relay` starts it by itself.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The main port.
    #[arg(long)]
    port: u16,
    /// The gateway ports.
    #[arg(long)]
    gateway_ports: PortRange,
    /// A TCP port for TLS.
    #[arg(long)]
    tls: Option<u16>,
}

/// Forwards until standard input ends.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sockets = Sockets::bind_ports(arguments.port, arguments.gateway_ports)?;
    let workers = Workers::start(sockets, NonZeroU32::MIN, None)?;
    let key = PresharedKey::from_bytes(PORTAL_KEY);
    workers.tell(&Command::Identity { relay: RELAY, key })?;
    let (acceptor, pin) = match arguments.tls {
        Some(port) => {
            listen(port, arguments.gateway_ports).map(|(acceptor, pin)| (Some(acceptor), pin))?
        }
        None => (None, String::new()),
    };
    let mut output = std::io::stdout();
    writeln!(output, "{READY} {pin}")?;
    output.flush()?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    if let Some(acceptor) = acceptor {
        acceptor.stop();
    }
    workers.stop();
    Ok(())
}

/// One thread for TLS streams, with a certificate of its own.
fn listen(port: u16, gateway_ports: PortRange) -> Result<(Acceptor, String)> {
    let made = rcgen::generate_simple_self_signed(Vec::new())?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let certificates = Arc::new(Certificates::from_pem(chain.as_bytes(), key.as_bytes())?);
    let pin = certificates.pin().to_string();
    let acceptor = Acceptor::start(AcceptorSettings {
        listeners: listen_everywhere(port)?,
        certificates,
        gateway_ports: gateway_ports.first()..=gateway_ports.last(),
        limits: Limits::default(),
        threads: NonZeroUsize::MIN,
    })?;
    Ok((acceptor, pin))
}

/// A worker that runs.
pub(super) struct Worker {
    process: Child,
    pin: Option<CertificatePin>,
}

impl Worker {
    /// Starts one in the namespace of this thread.
    pub(super) fn start(port: u16, gateway_ports: &str) -> Result<Self> {
        Self::spawn(port, gateway_ports, None)
    }

    /// The same, with a listener for TLS.
    pub(super) fn start_with_tls(port: u16, gateway_ports: &str, tls: u16) -> Result<Self> {
        Self::spawn(port, gateway_ports, Some(tls))
    }

    fn spawn(port: u16, gateway_ports: &str, tls: Option<u16>) -> Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut child = std::process::Command::new(program)
            .args(["relay-worker", "--port", &port.to_string()])
            .args(["--gateway-ports", gateway_ports])
            .args(tls.map(|port| format!("--tls={port}")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the worker does not start")?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let pin = line.strip_prefix(READY).map(str::trim);
        let pin = pin.with_context(|| format!("the worker is not ready: {line:?}"))?;
        Ok(Self {
            process: child,
            pin: pin.parse().ok(),
        })
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        Usage::of(self.process.id())
    }

    /// The pin of its certificate, with TLS.
    pub(super) const fn pin(&self) -> Option<CertificatePin> {
        self.pin
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}
