//! A second way of a machine to the internet.

use crate::link::Subnet;
use crate::namespace::Namespace;
use crate::nat::Routers;
use anyhow::{Context, Result};
use culvert_base::Family;

/// More than neighbours say to each other.
const LEAST_BYTES: u64 = 10_000;

/// Two uplinks of a machine, each by host 1 of its network.
#[derive(Debug)]
pub struct Uplink {
    namespace: Namespace,
    /// The first, and this one.
    nets: [Subnet; 2],
    _routers: Routers,
}

impl Uplink {
    pub(super) const fn new(namespace: Namespace, nets: [Subnet; 2], routers: Routers) -> Self {
        Self {
            namespace,
            nets,
            _routers: routers,
        }
    }

    /// The first uplink is gone, and everything goes by this one.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn take(&self) -> Result<()> {
        let [first, second] = self.nets;
        self.change(first, second)
    }

    /// The first uplink is back, and this one is gone.
    ///
    /// # Errors
    /// When `ip` refuses.
    pub fn leave(&self) -> Result<()> {
        let [first, second] = self.nets;
        self.change(second, first)
    }

    fn change(&self, from: Subnet, to: Subnet) -> Result<()> {
        let [gone, there] = [from, to].map(|net| format!("veth{}", net.0));
        let via = to.host(Family::V4, 1);
        self.namespace
            .shell(&format!(
                "ip link set {gone} down && ip link set {there} up && ip route replace default via {via}"
            ))
            .map(drop)
    }

    /// True once a datagram has left by this uplink.
    ///
    /// # Errors
    /// When the counters can't be read.
    pub fn has_carried(&self) -> Result<bool> {
        let line = format!("ip -s -j link show dev veth{}", self.nets[1].0);
        let shown: serde_json::Value = serde_json::from_str(&self.namespace.run(&line)?)?;
        let bytes = shown[0]["stats64"]["tx"]["bytes"].as_u64();
        Ok(bytes.context("no number of bytes")? > LEAST_BYTES)
    }
}
