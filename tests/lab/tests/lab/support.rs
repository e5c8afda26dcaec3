//! Helpers of several tests.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use culvert_lab::{Family, Implementation, Namespace, Transfer, Tunnel, TunnelPlan, WireGuardEnd};

/// Something on this machine that should happen at once may take this long when others compile.
pub(crate) const SOON: Duration = Duration::from_secs(15);

/// Both families.
pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Several thousand packets, in a moment even through the slowest peer.
const SENT_BYTES: u64 = 8 << 20;

/// The port on which files are received.
const FILE_PORT: u16 = 9000;

/// A plan for two Culvert ends with their defaults.
pub(crate) fn culvert_plan() -> TunnelPlan {
    TunnelPlan::between(&Implementation::culvert(), &Implementation::culvert())
}

/// Two Culvert ends with their defaults through which packets pass.
pub(crate) fn culvert_tunnel() -> Result<Tunnel> {
    let tunnel = culvert_plan().build()?;
    tunnel.wait_until_up()?;
    Ok(tunnel)
}

/// Checks that a file passes unharmed, both ways, over both families.
///
/// # Errors
/// When it does not.
pub(crate) fn passes_traffic(tunnel: &Tunnel) -> Result<()> {
    let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
    for family in FAMILIES {
        let target = SocketAddr::new(tunnel.right_address(family), FILE_PORT);
        Transfer::run(left, right, target, SENT_BYTES)
            .with_context(|| format!("left to right over {family:?}"))?;
        let target = SocketAddr::new(tunnel.left_address(family), FILE_PORT);
        Transfer::run(right, left, target, SENT_BYTES)
            .with_context(|| format!("right to left over {family:?}"))?;
    }
    Ok(())
}

/// The number of batches of `kind`, such as `received`, that held more than one packet so far at a
/// Culvert end.
///
/// # Errors
/// When it does not say.
pub(crate) fn joined_batches(end: &WireGuardEnd, kind: &str) -> Result<u64> {
    let status = end.culvert_json()?;
    let mut batches = 0;
    for worker in status["workers"].as_array().context("no workers")? {
        let counts = worker[kind]["counts_by_power_of_two"].as_array();
        for count in &counts.context("no such batches")?[1..] {
            batches += count.as_u64().context("no count")?;
        }
    }
    Ok(batches)
}

/// Counts the packets that match a rule from its making on.
pub(crate) struct PacketCounter {
    namespace: Namespace,
    name: String,
}

impl PacketCounter {
    /// Counts at `hook` (as nftables calls them) the packets that match `rule`.
    ///
    /// # Errors
    /// When `nft` refuses.
    pub(crate) fn new(namespace: &Namespace, hook: &str, rule: &str) -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("counter{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let counter = Self {
            namespace: namespace.clone(),
            name,
        };
        chain(namespace, &counter.name, hook)?;
        namespace.run(&format!("nft add counter inet lab {}", counter.name))?;
        counter.rule(&format!("{rule} counter name {}", counter.name))?;
        Ok(counter)
    }

    /// The packets so far; a superframe counts once.
    ///
    /// # Errors
    /// When `nft` refuses.
    pub(crate) fn packets(&self) -> Result<u64> {
        let text = self
            .namespace
            .run(&format!("nft -j list counter inet lab {}", self.name))?;
        let list: serde_json::Value = serde_json::from_str(&text)?;
        let counters = list["nftables"]
            .as_array()
            .context("no list in the answer of nft")?;
        let packets = counters
            .iter()
            .find_map(|entry| entry["counter"]["packets"].as_u64());
        packets.context("no counter in the answer of nft")
    }

    fn rule(&self, rule: &str) -> Result<()> {
        self.namespace
            .run(&format!("nft add rule inet lab {} {rule}", self.name))?;
        Ok(())
    }
}

/// Applies `rule` to every packet at `hook` of a namespace.
///
/// # Errors
/// When `nft` refuses.
pub(crate) fn apply_rule(namespace: &Namespace, hook: &str, rule: &str) -> Result<()> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("rule{}", NEXT.fetch_add(1, Ordering::Relaxed));
    chain(namespace, &name, hook)?;
    namespace.run(&format!("nft add rule inet lab {name} {rule}"))?;
    Ok(())
}

fn chain(namespace: &Namespace, name: &str, hook: &str) -> Result<()> {
    namespace.run("nft add table inet lab")?;
    namespace.run(&format!(
        "nft add chain inet lab {name} {{ type filter hook {hook} priority 0 ; }}"
    ))?;
    Ok(())
}

/// Sends a request to an end's configuration socket and returns the answer.
pub(crate) fn request(end: &WireGuardEnd, text: &str) -> String {
    let socket_path = WireGuardEnd::socket_path(&end.interface);
    let mut stream = UnixStream::connect(socket_path).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
