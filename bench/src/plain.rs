//! A plain tunnel between two namespaces: this program itself at both ends, in another way to wait.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use culvert_io_models::{Ends, Model, Plan};
use culvert_lab::{Family, Link, Namespace, Process, Subnet, wait_until};

/// Addresses inside.
pub(crate) const INNER: Subnet = Subnet(100);

/// The UDP port of both ends.
const PORT: u16 = 51840;

/// The name of both interfaces; each is in a namespace of its own.
const INTERFACE: &str = "plain0";

/// The limit for the start of a program, on a machine that is busy with something else too.
const SOON: Duration = Duration::from_secs(10);

/// One end of a plain tunnel: unencrypted, packet by packet. `models` starts it by itself.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The way to wait for packets.
    #[arg(long)]
    model: Model,
    #[command(flatten)]
    plan: Plan,
}

/// Carries packets until that fails.
pub(crate) fn run(arguments: &Arguments) -> Result<Infallible> {
    let ends = Arc::new(Ends::open(&arguments.plan, arguments.model)?);
    Ok(culvert_io_models::run(&ends, arguments.model)?)
}

/// Two ends that know each other.
#[derive(Debug)]
pub(crate) struct PlainTunnel {
    pub(crate) ends: [Process; 2],
}

impl PlainTunnel {
    /// Makes it over `link`, and waits until a packet passes.
    pub(crate) fn over(link: &Link, model: Model) -> Result<Self> {
        let left = start(&link.left, link.subnet, model, 1)?;
        let right = start(&link.right, link.subnet, model, 2)?;
        let line = format!("ping -c 1 -W 0.5 {}", INNER.host(Family::V4, 2));
        let ends = [left, right];
        wait_until("an answer through the plain tunnel", SOON, || {
            link.left.run(&line).is_ok()
        })
        .with_context(|| ends.each_ref().map(Process::output).join("\n"))?;
        Ok(Self { ends })
    }
}

fn start(namespace: &Namespace, outer: Subnet, model: Model, host: u8) -> Result<Process> {
    let program = std::env::current_exe().context("where is this program?")?;
    let peer = SocketAddr::new(outer.host(Family::V4, 3 - host), PORT);
    let process = namespace.spawn(&format!(
        "{} proxy --model {} {INTERFACE} --port {PORT} --peer {peer}",
        program.display(),
        model.name(),
    ))?;
    wait_until("the interface of a plain tunnel", SOON, || {
        namespace.run(&format!("ip link show {INTERFACE}")).is_ok()
    })
    .with_context(|| process.output())?;
    let address = INNER.host(Family::V4, host);
    namespace.run(&format!("ip addr add {address}/24 dev {INTERFACE}"))?;
    namespace.run(&format!("ip link set {INTERFACE} up"))?;
    Ok(process)
}
