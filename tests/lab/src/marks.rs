//! Firewalls of other programs that change the marks of what a host sends.

use anyhow::{Context, Result};

use crate::command::run_with_input;
use crate::namespace::Namespace;

/// Rules that set marks, each with the priority of its chain, as Kubernetes' and Calico's, mwan3's, other tunnels' and
/// administrators' do.
pub const MARKING_RULES: [(&str, &str); 20] = [
    ("mangle", "meta mark set meta mark or 0x20000"),
    ("mangle", "meta mark set 0x1"),
    ("mangle", "meta mark set 0"),
    ("mangle", "meta mark set meta mark and 0xffff0000"),
    ("mangle", "meta mark set meta mark xor 0xffffffff"),
    ("mangle", "meta mark set ct mark"),
    ("mangle", "ct mark set 0x100 meta mark set ct mark"),
    ("mangle", "ct state new ct mark set 0x300"),
    ("mangle", "ct direction original meta mark set 0x200"),
    ("mangle", "meta l4proto { tcp, udp } meta mark set 0xca6c"),
    ("mangle", "udp dport 1-65535 meta mark set 0x4000"),
    ("mangle", "meta skuid 0 meta mark set 0x2"),
    ("mangle", "meta length 1-65535 meta mark set 0x3"),
    (
        "mangle",
        "meta mark != 0 meta mark set meta mark or 0x80000000",
    ),
    ("mangle", "meta mark set numgen random mod 65536"),
    ("mangle", "meta mark set numgen inc mod 7"),
    ("raw", "meta mark set 0x5"),
    ("filter", "meta mark set 0x6"),
    ("security", "meta mark set 0xffffffff"),
    ("300", "meta mark set 0x8"),
];

/// Replaces the table `marks` of a namespace by one whose rule sees every packet that the host sends.
///
/// # Errors
/// When `nft` refuses.
pub fn set_marks(namespace: &Namespace, priority: &str, rule: &str) -> Result<()> {
    let script = format!(
        "add table inet marks\ndelete table inet marks\ntable inet marks {{\n\
         chain output {{\ntype route hook output priority {priority};\n{rule}\n}}\n}}\n"
    );
    let line = format!("ip netns exec {} nft -f -", namespace.name());
    run_with_input(&line, &script).map(drop)
}

/// Counts the packets that the host sends by `interface` and that match, from here on.
///
/// # Errors
/// When `nft` refuses.
pub fn count_sent(namespace: &Namespace, interface: &str, matching: &str) -> Result<()> {
    let script = format!(
        "add table inet sent\ndelete table inet sent\ntable inet sent {{\ncounter seen {{\n}}\n\
         chain postrouting {{\ntype filter hook postrouting priority 400;\n\
         oifname \"{interface}\" {matching} counter name seen\n}}\n}}\n"
    );
    let line = format!("ip netns exec {} nft -f -", namespace.name());
    run_with_input(&line, &script).map(drop)
}

/// The count of [`count_sent`].
///
/// # Errors
/// When `nft` refuses.
pub fn sent(namespace: &Namespace) -> Result<u64> {
    let text = namespace.run("nft -j list counter inet sent seen")?;
    let list: serde_json::Value = serde_json::from_str(&text)?;
    let entries = list["nftables"].as_array().context("no list of nft")?;
    let packets = entries
        .iter()
        .find_map(|entry| entry["counter"]["packets"].as_u64());
    packets.context("no counter of nft")
}
