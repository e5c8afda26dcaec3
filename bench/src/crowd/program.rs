//! The program under measurement, on a processor of its own.

use super::company::{Company, configuration};
use anyhow::{Context, Result, ensure};
use culvert_lab::{Implementation, Namespace, WireGuardEnd};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

pub(super) const PORT: u16 = 51_820;

/// The processor of the program. The others are left to the initiators.
const PROCESSOR: &str = "0";

/// A running program without peers.
pub(super) struct Program {
    end: WireGuardEnd,
}

impl Program {
    pub(super) fn start(implementation: &Implementation, namespace: &Namespace) -> Result<Self> {
        let program = Self::start_anywhere(implementation, namespace)?;
        let id = program.end.process.id();
        culvert_lab::run(&format!(
            "taskset --all-tasks --cpu-list --pid {PROCESSOR} {id}"
        ))?;
        Ok(program)
    }

    /// The same on all processors.
    pub(super) fn start_anywhere(
        implementation: &Implementation,
        namespace: &Namespace,
    ) -> Result<Self> {
        let end = WireGuardEnd::start(implementation, namespace)?;
        let program = Self { end };
        program.set(&configuration(&Company::of(0), Some(PORT)))?;
        let interface = &program.end.interface;
        namespace.run(&format!("ip link set {interface} up"))?;
        namespace.run("ip link set lo up")?;
        Ok(program)
    }

    /// Carries out a request of the configuration protocol.
    pub(super) fn set(&self, request: &str) -> Result<()> {
        let path = WireGuardEnd::socket_path(&self.end.interface);
        let mut socket = UnixStream::connect(path)?;
        socket.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n\n") {
            let mut part = [0; 64];
            let len = socket.read(&mut part)?;
            ensure!(len > 0, "the program closed its socket");
            answer.extend_from_slice(&part[..len]);
        }
        let answer = String::from_utf8_lossy(&answer);
        ensure!(answer.starts_with("errno=0\n"), "it answered {answer}");
        Ok(())
    }

    pub(super) fn interface(&self) -> &str {
        &self.end.interface
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, PORT).into()
    }

    /// The processor time of all its threads.
    pub(super) fn cpu(&self) -> Result<Duration> {
        let id = self.end.process.id();
        let mut time = Duration::ZERO;
        for thread in fs::read_dir(format!("/proc/{id}/task"))? {
            let path = thread?.path().join("schedstat");
            let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
            let ns = text
                .split_whitespace()
                .next()
                .context("an empty schedstat")?;
            time += Duration::from_nanos(ns.parse()?);
        }
        Ok(time)
    }

    /// Resident bytes.
    pub(super) fn memory(&self) -> Result<u64> {
        resident_bytes(self.end.process.id())
    }
}

/// The resident memory of a process.
pub(super) fn resident_bytes(id: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.context("no VmRSS")?.parse::<u64>()? * 1024)
}
