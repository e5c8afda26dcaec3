//! The relay that is measured: one worker of the product, in a process of its own.

use super::ends::{PORTAL_KEY, RELAY};
use anyhow::{Context, Result};
use clap::Args;
use culvert_base::PresharedKey;
use culvert_lab::measure::Usage;
use culvert_relay::{Command, PortRange, Sockets, Workers};
use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroU32;
use std::process::{Child, Stdio};

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
}

/// Forwards until standard input ends.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sockets = Sockets::bind_ports(arguments.port, arguments.gateway_ports)?;
    let workers = Workers::start(sockets, NonZeroU32::MIN, None)?;
    let key = PresharedKey::from_bytes(PORTAL_KEY);
    workers.tell(&Command::Identity { relay: RELAY, key })?;
    let mut output = std::io::stdout();
    writeln!(output, "{READY}")?;
    output.flush()?;
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    workers.stop();
    Ok(())
}

/// A worker that runs.
pub(super) struct Worker(Child);

impl Worker {
    /// Starts one in the namespace of this thread.
    pub(super) fn start(port: u16, gateway_ports: &str) -> Result<Self> {
        let program = std::env::current_exe().context("this program has no path")?;
        let mut child = std::process::Command::new(program)
            .args(["relay-worker", "--port", &port.to_string()])
            .args(["--gateway-ports", gateway_ports])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the worker does not start")?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        anyhow::ensure!(line.trim() == READY, "the worker is not ready: {line:?}");
        Ok(Self(child))
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        Usage::of(self.0.id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ended = self.0.wait();
    }
}
