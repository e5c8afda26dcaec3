//! The system calls that a TUN descriptor takes, tried on the kernel that runs.

use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use culvert_io_models::{Call, Outcome, Purpose, probe};
use culvert_lab::{Family, Namespace, Subnet};
use culvert_tun::{Device, Options};
use etherparse::PacketBuilder;

/// The network of the interface that is probed.
const NETWORK: Subnet = Subnet(100);

const INTERFACE: &str = "probe0";

/// Tries each system call that might read, write or watch a TUN descriptor, and prints which do.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write the result as JSON to this file as well.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Probes and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let calls = try_calls()?;
    let kernel = culvert_lab::run("uname -r")?;
    print(&calls, kernel.trim())?;
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "schema_version": 1,
            "kernel": kernel.trim(),
            "calls": calls,
        }))?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Tries the calls on an interface in a namespace of its own.
pub(crate) fn try_calls() -> Result<Vec<Call>> {
    let namespace = Namespace::new()?;
    let (mut device, sender) = namespace.inside(|| {
        let device = Device::create(&Options {
            name: INTERFACE.to_owned(),
            mtu: 1420,
            offload: false,
            steering: None,
            bound: false,
        })?;
        Ok((device, UdpSocket::bind("0.0.0.0:0")?))
    })?;
    let own = NETWORK.host(Family::V4, 1);
    let other = NETWORK.host(Family::V4, 2);
    // Nothing but the probe's packets is to come.
    namespace.run(&format!(
        "sysctl -qw net.ipv6.conf.{INTERFACE}.disable_ipv6=1"
    ))?;
    namespace.run(&format!("ip addr add {own}/24 dev {INTERFACE}"))?;
    namespace.run(&format!("ip link set {INTERFACE} up"))?;
    let queue = device.take_queues().remove(0);
    let feed = || {
        sender
            .send_to(b"a packet for the probe", (other, 9))
            .map(drop)
    };
    Ok(probe(&queue, &packet()?, &feed)?)
}

/// A packet from the other end.
fn packet() -> Result<Vec<u8>> {
    let [other, own] = [2, 1].map(|host| match NETWORK.host(Family::V4, host) {
        std::net::IpAddr::V4(address) => address.octets(),
        std::net::IpAddr::V6(_) => unreachable!("asked for IPv4"),
    });
    let builder = PacketBuilder::ipv4(other, own, 64).udp(9, 9);
    let payload = b"a packet of the probe";
    let mut packet = Vec::with_capacity(builder.size(payload.len()));
    builder.write(&mut packet, payload)?;
    Ok(packet)
}

fn print(calls: &[Call], kernel: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "calls on a TUN descriptor, Linux {kernel}")?;
    for purpose in [Purpose::Take, Purpose::Deliver, Purpose::Wait] {
        writeln!(out, "\n{}", purpose.what())?;
        for call in calls.iter().filter(|call| call.purpose == purpose) {
            writeln!(out, "  {:30}{}", call.name, shown(&call.outcome))?;
        }
    }
    Ok(())
}

pub(crate) fn shown(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Works => "works".to_owned(),
        Outcome::Fails(what) => format!("no: {what}"),
        Outcome::Refused(error) => format!("no: {error}"),
    }
}
