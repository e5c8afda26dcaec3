//! The gateway's program, in the namespace of everybody.

use super::super::program::resident_bytes;
use anyhow::{Context, Result};
use culvert_lab::measure::Usage;
use culvert_lab::{Namespace, Process, culvert_program};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// The address that clients would reach it at.
const ADDRESS: &str = "192.0.2.1/24";

/// The limit for its start, on a machine that is busy with something else too.
const SOON: Duration = Duration::from_secs(20);

/// A gateway that the portal has welcomed.
pub(super) struct Gateway {
    process: Process,
    namespace: Namespace,
    dir: TempDir,
}

impl Gateway {
    pub(super) fn start(namespace: &Namespace, token: &str) -> Result<Self> {
        for line in [
            "sysctl -q -w net.ipv4.ip_forward=1",
            "sysctl -q -w net.ipv6.conf.all.forwarding=1",
            "ip link add uplink type veth peer name internet",
            "ip link set uplink up",
            "ip link set internet up",
            &format!("ip address add {ADDRESS} dev uplink"),
        ] {
            namespace.run(line)?;
        }
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("token");
        fs::write(&file, token)?;
        fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        let socket = dir.path().join("run/gateway.sock");
        let state = dir.path().join("state");
        let line = format!(
            "env CULVERT_GATEWAY_STATUS_SOCKET={} {} gateway run --token-file {} --state-dir {} --name gateway",
            socket.display(),
            culvert_program()?.display(),
            file.display(),
            state.display()
        );
        let mut gateway = Self {
            process: namespace.spawn(&line)?,
            namespace: namespace.clone(),
            dir,
        };
        let welcome = gateway
            .process
            .wait_for_output("connected to the portal", SOON);
        welcome.with_context(|| gateway.process.output())?;
        Ok(gateway)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("run/gateway.sock")
    }

    pub(super) fn cpu(&self) -> Result<Duration> {
        Ok(Usage::of(self.process.id())?.cpu)
    }

    pub(super) fn memory(&self) -> Result<u64> {
        resident_bytes(self.process.id())
    }

    /// The grants that are in force, and those that were revoked since its start.
    pub(super) fn grants(&self) -> Result<(u64, u64)> {
        let line = format!(
            "{} gateway status --json --socket {}",
            culvert_program()?.display(),
            self.socket().display()
        );
        let status: Value = serde_json::from_str(&self.namespace.run(&line)?)?;
        let in_force = status["grant_count"].as_u64();
        let counters = status["counters"].as_array().context("no counters")?;
        let revoked = counters
            .iter()
            .find(|counter| counter["name"] == "grants_revoked")
            .and_then(|counter| counter["count"].as_u64());
        in_force
            .zip(revoked)
            .with_context(|| format!("no counts of grants in {status}"))
    }
}
