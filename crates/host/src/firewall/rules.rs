//! The gateway's rules as text for `nft`.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Write};
use std::net::{IpAddr, Ipv6Addr};

use culvert_policy::{EMBEDDINGS, Embedding, NEVER_FORWARDED};
use ipnet::IpNet;

use crate::{Family, InterfaceName};

/// The prefix of a table's name; the interface follows. One table a tunnel, and nothing outside of
/// it is ever changed.
pub(super) const TABLE_PREFIX: &str = "culvert_";

/// Chains that others lead to.
const PREROUTING_FROM_TUNNEL: &str = "prerouting_from_tunnel";
const EMBEDDED_IPV4: &str = "embedded_ipv4";
const FORWARD_FROM_TUNNEL: &str = "forward_from_tunnel";
const FORWARD_TO_TUNNEL: &str = "forward_to_tunnel";

/// The time for which the kernel remembers a silent UDP flow, in seconds. RFC 4787 REQ-5 recommends
/// five minutes, as the gateway's own table has it (both have this one number); the kernel's
/// default is 30 seconds for a flow without an answer, and 120.
pub(super) const UDP_IDLE_S: u64 = culvert_policy::gate::UDP_IDLE.as_secs();

/// Both ends of a TCP connection learn what fits through the tunnel and the network behind the gateway,
/// where ICMP is lost.
const CLAMP: &str = "tcp flags & (syn | rst) == syn tcp option maxseg size set rt mtu";

/// The rules by which the kernel limits a gateway's tunnel. They are a guard around the decisions
/// that the program takes for each packet, and do not repeat them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayRules {
    /// The tunnel interface. It need not exist yet.
    pub interface: InterfaceName,
    /// The gateway's own addresses in the tunnel. They answer pings and questions about names, and only through the
    /// tunnel.
    pub addresses: Vec<IpAddr>,
    /// The ranges of clients' addresses. Of a family without a range nothing is forwarded.
    pub client_ranges: Vec<IpNet>,
    /// The source address of clients' packets, as resources see it.
    pub source: SourceAddress,
    /// The port of UDP and TCP at the gateway's own addresses at which it answers questions about names.
    pub dns_port: u16,
    /// The port at which plain WireGuard devices ask them. It leads to `dns_port`.
    pub plain_dns_port: u16,
    /// True if clients may reach the gateway's own host, as far as their grants allow it.
    pub host_access: HostAccess,
    /// The ranges that may begin flows at clients, as far as their grants open that. Beyond [`MAX_INBOUND_RANGES`], all may.
    pub inbound: Vec<IpNet>,
}

/// Ranges of [`GatewayRules::inbound`] that the kernel looks at: some 30 KB of text, which `nft` loads within milliseconds.
pub(crate) const MAX_INBOUND_RANGES: usize = 1024;

/// The source address of packets from clients, as resources see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceAddress {
    /// The gateway's address: the network behind it needs no route back.
    Masquerade,
    /// The client's own: the network behind the gateway must route the client ranges to it.
    Keep,
}

/// The access of packets from the tunnel to the gateway's own host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostAccess {
    /// Only pings of the gateway's address in the tunnel, and questions about names there, are answered.
    Deny,
    /// Every address of the host but loopback, for when the host itself is a resource.
    Allow,
}

impl GatewayRules {
    /// The name of the table, of family `inet`.
    #[must_use]
    pub fn table(&self) -> String {
        table_of(&self.interface)
    }

    /// The transaction that replaces whatever is in the table by these rules.
    #[must_use]
    pub fn to_nft(&self) -> String {
        self.text(UdpIdle::Own, PlainDns::Redirected)
    }

    /// The same with a choice of how long UDP flows are remembered, and if plain WireGuard devices can ask for names.
    pub(super) fn text(&self, udp_idle: UdpIdle, plain_dns: PlainDns) -> String {
        let table = Table {
            name: self.table(),
            objects: udp_idle.objects(),
            chains: [
                Some(self.prerouting()),
                Some(self.prerouting_from_tunnel()),
                Some(embedded_ipv4()),
                Some(self.input()),
                Some(self.forward()),
                Some(self.forward_from_tunnel(udp_idle)),
                Some(self.forward_to_tunnel()),
                self.redirect_dns(plain_dns),
                self.postrouting(udp_idle),
            ],
        };
        table.to_string()
    }

    /// Drops packets whatever their destination. `raw` comes before connections are tracked, so a
    /// packet that is dropped here costs no entry.
    fn prerouting(&self) -> Chain {
        let mut rules = vec![format!(
            "iifname \"{}\" goto {PREROUTING_FROM_TUNNEL}",
            self.interface
        )];
        // Packets for the tunnel's own address that come from elsewhere are forged: a neighbour on the
        // local network would learn from the answers what goes on inside (CVE-2019-14899).
        rules.extend(self.of_own_addresses(|family, own| {
            let header = header(family);
            format!("{header} daddr {own} fib saddr type != local counter drop")
        }));
        Chain {
            name: "prerouting",
            hook: Some("type filter hook prerouting priority raw"),
            rules,
        }
    }

    fn prerouting_from_tunnel(&self) -> Chain {
        let mut rules = Vec::new();
        if self.host_access == HostAccess::Deny {
            // Before a port that the host publishes, such as a container's, leads the packet past the
            // hook for input.
            rules.extend(self.of_own_addresses(|family, own| {
                let header = header(family);
                format!("{header} daddr != {own} fib daddr type local counter drop")
            }));
        }
        let ranges = IpNet::aggregate(&self.client_ranges);
        for family in [Family::V4, Family::V6] {
            let ranges = ranges
                .iter()
                .filter(|range| Family::of(range.addr()) == family);
            let (header, protocol) = (header(family), protocol(family));
            rules.push(match set(ranges) {
                Some(ranges) => format!("{header} saddr != {ranges} counter drop"),
                None => format!("meta nfproto {protocol} counter drop"),
            });
        }
        for family in [Family::V4, Family::V6] {
            let ranges = NEVER_FORWARDED
                .iter()
                .filter(|range| Family::of(range.address()) == family);
            if let Some(ranges) = set(ranges) {
                let header = header(family);
                rules.push(format!("{header} daddr {ranges} counter drop"));
            }
        }
        rules.push(format!("meta nfproto ipv6 jump {EMBEDDED_IPV4}"));
        Chain {
            name: PREROUTING_FROM_TUNNEL,
            hook: None,
            rules,
        }
    }

    fn input(&self) -> Chain {
        let Self { interface, .. } = self;
        let from_tunnel = format!("iifname \"{interface}\"");
        let rules = match self.host_access {
            HostAccess::Deny => {
                let mut rules = self.of_own_addresses(|family, own| {
                    let header = header(family);
                    let ping = match family {
                        Family::V4 => "icmp type echo-request",
                        Family::V6 => "icmpv6 type echo-request",
                    };
                    format!("{from_tunnel} {header} daddr {own} {ping} accept")
                });
                rules.extend(self.of_own_addresses(|family, own| {
                    let (header, port) = (header(family), self.dns_port);
                    format!("{from_tunnel} {header} daddr {own} meta l4proto {{ tcp, udp }} th dport {port} accept")
                }));
                rules.push(format!("{from_tunnel} counter drop"));
                rules
            }
            HostAccess::Allow => vec![format!("{from_tunnel} accept")],
        };
        Chain {
            name: "input",
            hook: Some("type filter hook input priority filter"),
            rules,
        }
    }

    fn forward(&self) -> Chain {
        let Self { interface, .. } = self;
        Chain {
            name: "forward",
            hook: Some("type filter hook forward priority filter"),
            rules: vec![
                format!("iifname \"{interface}\" goto {FORWARD_FROM_TUNNEL}"),
                format!("oifname \"{interface}\" goto {FORWARD_TO_TUNNEL}"),
            ],
        }
    }

    fn forward_from_tunnel(&self, udp_idle: UdpIdle) -> Chain {
        let mut rules = vec![
            // Clients do not reach each other, whatever their addresses are.
            format!("oifname \"{}\" counter drop", self.interface),
            // Packets that conntrack cannot place are not masqueraded: they would show clients'
            // addresses to the network.
            "ct state invalid counter drop".to_owned(),
            CLAMP.to_owned(),
        ];
        if self.source == SourceAddress::Keep {
            rules.extend(udp_idle.rules("ct state new"));
        }
        Chain {
            name: FORWARD_FROM_TUNNEL,
            hook: None,
            rules,
        }
    }

    fn forward_to_tunnel(&self) -> Chain {
        let mut rules = vec![
            CLAMP.to_owned(),
            "ct state established,related accept".to_owned(),
        ];
        rules.extend(self.inbound());
        rules.push("counter drop".to_owned());
        Chain {
            name: FORWARD_TO_TUNNEL,
            hook: None,
            rules,
        }
    }

    /// Flows that resources begin at clients, never those of one client at another. The program judges the services.
    fn inbound(&self) -> Vec<String> {
        let (sources, clients) = (
            IpNet::aggregate(&self.inbound),
            IpNet::aggregate(&self.client_ranges),
        );
        let mut rules = Vec::new();
        for family in [Family::V4, Family::V6] {
            let is_of_family = |range: &&IpNet| Family::of(range.addr()) == family;
            let sources = sources.iter().filter(is_of_family);
            let header = header(family);
            let from = match sources.clone().count() {
                0 => continue,
                1..=MAX_INBOUND_RANGES => set(sources).map(|set| format!(" {header} saddr {set}")),
                _ => None,
            };
            if let Some(clients) = set(clients.iter().filter(is_of_family)) {
                rules.push(format!(
                    "{header} saddr != {clients}{} {header} daddr {clients} ct state new accept",
                    from.unwrap_or_default()
                ));
            }
        }
        rules
    }

    /// Leads questions of plain WireGuard devices to where the gateway listens: the port that their files mean is below 1024,
    /// and another program may have it at all addresses. Only the first packet of a flow comes here.
    fn redirect_dns(&self, plain_dns: PlainDns) -> Option<Chain> {
        let Self { interface, .. } = self;
        let (from, to) = (self.plain_dns_port, self.dns_port);
        let own: BTreeSet<&IpAddr> = self.addresses.iter().filter(|it| it.is_ipv4()).collect();
        let own = set(own.into_iter()).filter(|_| plain_dns == PlainDns::Redirected)?;
        let rule = |protocol| {
            format!(
                "iifname \"{interface}\" ip daddr {own} {protocol} dport {from} redirect to :{to}"
            )
        };
        Some(Chain {
            name: "redirect_dns",
            hook: Some("type nat hook prerouting priority dstnat"),
            rules: ["tcp", "udp"].map(rule).to_vec(),
        })
    }

    /// The incoming interface is known in this hook since Linux 5.7. Only the first packet of a flow comes here.
    fn postrouting(&self, udp_idle: UdpIdle) -> Option<Chain> {
        let Self { interface, .. } = self;
        match self.source {
            SourceAddress::Keep => None,
            SourceAddress::Masquerade => {
                let mut rules = udp_idle.rules(&format!("iifname \"{interface}\""));
                rules.push(format!(
                    "iifname \"{interface}\" oifname != \"{interface}\" masquerade"
                ));
                Some(Chain {
                    name: "postrouting",
                    hook: Some("type nat hook postrouting priority srcnat"),
                    rules,
                })
            }
        }
    }

    /// A rule for each family in which the gateway has addresses in the tunnel.
    fn of_own_addresses(&self, rule: impl Fn(Family, &str) -> String) -> Vec<String> {
        let mut rules = Vec::new();
        for family in [Family::V4, Family::V6] {
            let own: BTreeSet<&IpAddr> = self
                .addresses
                .iter()
                .filter(|&&address| Family::of(address) == family)
                .collect();
            if let Some(own) = set(own.into_iter()) {
                rules.push(rule(family, &own));
            }
        }
        rules
    }
}

/// The port at which plain WireGuard devices ask for names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PlainDns {
    /// It leads to the gateway.
    Redirected,
    /// It leads nowhere: the kernel can't redirect.
    Closed,
}

/// The time for which the kernel remembers UDP flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UdpIdle {
    /// For [`UDP_IDLE_S`].
    Own,
    /// As it does for everybody: it knows no timeouts of single flows.
    Kernels,
}

impl UdpIdle {
    fn objects(self) -> Vec<String> {
        let object = |(family, name): (Family, &str)| {
            let header = header(family);
            format!(
                "ct timeout {name} {{\n\t\tprotocol udp; l3proto {header}; \
                 policy = {{ unreplied : {UDP_IDLE_S}, replied : {UDP_IDLE_S} }};\n\t}}"
            )
        };
        self.each().map(object).collect()
    }

    /// Rules that give new flows their time, behind a condition.
    fn rules(self, condition: &str) -> Vec<String> {
        let rule = |(family, name): (Family, &str)| {
            let protocol = protocol(family);
            format!(
                "{condition} meta nfproto {protocol} meta l4proto udp ct timeout set \"{name}\""
            )
        };
        self.each().map(rule).collect()
    }

    /// The name of the kernel's object for each family; none where it has no such objects.
    fn each(self) -> impl Iterator<Item = (Family, &'static str)> {
        let names = [(Family::V4, "udp_idle_v4"), (Family::V6, "udp_idle_v6")];
        names.into_iter().filter(move |_| self == Self::Own)
    }
}

/// Drops packets for an IPv4 address that is never forwarded to, written as an IPv6 address.
fn embedded_ipv4() -> Chain {
    let drop = |embedding: &Embedding| {
        let ((mask, fixed), place) = (embedding.known_by(), embedding.place());
        let ranges = set(embedding.refused().map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        }))?;
        let (known, place) = (mask.to_bits(), place.to_bits());
        let looked_at = Ipv6Addr::from_bits(known | place);
        Some(format!(
            "ip6 daddr & {mask} == {fixed} ip6 daddr & {looked_at} {ranges} counter drop"
        ))
    };
    Chain {
        name: EMBEDDED_IPV4,
        hook: None,
        rules: EMBEDDINGS.iter().filter_map(drop).collect(),
    }
}

/// The name of the table of an interface.
pub(super) fn table_of(interface: &InterfaceName) -> String {
    format!("{TABLE_PREFIX}{interface}")
}

/// The lines that remove a table, whether it is there or not.
pub(super) fn remove_text(table: &str) -> String {
    // Declaring it first makes deleting it succeed; `destroy` is younger than many an nft.
    format!("table inet {table}\ndelete table inet {table}\n")
}

/// A table of the family `inet`, printed as the transaction that replaces it.
#[derive(Debug)]
struct Table {
    name: String,
    objects: Vec<String>,
    chains: [Option<Chain>; 9],
}

/// A chain at a hook, or one that such a chain leads to. Packets that its rules do not decide go on
/// to other tables.
///
/// A name of an interface is 16 bytes that are copied and compared for each rule with one, so a chain asks for it once
/// and the rules stand behind the answer.
#[derive(Debug)]
struct Chain {
    name: &'static str,
    hook: Option<&'static str>,
    rules: Vec<String>,
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        f.write_str(&remove_text(name))?;
        writeln!(f, "table inet {name} {{")?;
        for object in &self.objects {
            writeln!(f, "\t{object}")?;
        }
        for chain in self.chains.iter().flatten() {
            writeln!(f, "\tchain {} {{", chain.name)?;
            if let Some(hook) = chain.hook {
                writeln!(f, "\t\t{hook}; policy accept;")?;
            }
            for rule in &chain.rules {
                writeln!(f, "\t\t{rule}")?;
            }
            writeln!(f, "\t}}")?;
        }
        writeln!(f, "}}")
    }
}

/// An anonymous set of the given elements; `None` if there are none.
fn set(elements: impl Iterator<Item = impl Display>) -> Option<String> {
    let mut text = String::new();
    for element in elements {
        text.push_str(if text.is_empty() { "{ " } else { ", " });
        // Writing into a string does not fail.
        let _written = write!(text, "{element}");
    }
    (!text.is_empty()).then(|| text + " }")
}

/// The word by which a rule names the header of a family.
pub(super) fn header(family: Family) -> &'static str {
    match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    }
}

/// The word by which a rule names a family.
fn protocol(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}
