//! Rules as rtnetlink writes them.

use std::fmt;
use std::net::SocketAddr;

use culvert_netlink::packet::DefaultNla;
use culvert_netlink::route::IpProtocol;
use culvert_netlink::route::route::RouteProtocol;
use culvert_netlink::route::rule::{
    RuleAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange,
};
use ipnet::IpNet;

use super::message::{
    MAIN_TABLE, PROTOCOL, SUPPRESS_NOTHING, address_family, family_of, host_length, local_ranges,
};
use super::wanted::{Exemption, Mark, PREFERENCE_SPAN, Table, Wanted};
use crate::Family;

/// A rule of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) family: Family,
    pub(super) preference: u32,
    pub(super) kind: RuleKind,
}

/// The action of a rule of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// `iif lo ipproto udp sport PORT goto LANDING`, or `iif lo to ADDRESS ipproto tcp dport PORT goto LANDING`:
    /// passes the rules into the tunnel by. The kernel keeps the table and does not use it.
    Exempt(Exemption, u32, Table),
    /// `not fwmark MARK lookup TABLE`
    Unmarked(Mark, Table),
    /// `to PREFIX lookup main suppress_prefixlength 0`: what `main` knows of one of the
    /// [`local_ranges`], but for its default route.
    Local(IpNet),
    /// `ipproto udp sport 1-65534 nop`: what exempt packets go on behind.
    ///
    /// The kernel reads the ports of a packet that it routes again only where some rule asks for them that is not for
    /// packets of the host alone (`fib_rule_requires_fldissect`), so this one does. It needs Linux 4.17.
    Landing(Table),
}

/// The name by which a rule speaks of packets that the host sends itself.
const FROM_HERE: &str = "lo";

/// As many ports as the kernel takes in one rule: it refuses a range that ends with the last (`fib_rule_port_range_valid`).
const ALL_PORTS: RulePortRange = RulePortRange {
    start: 1,
    end: u16::MAX - 1,
};

/// `FRA_SPORT_MASK` and `FRA_DPORT_MASK` of `linux/fib_rules.h`, which Linux 6.15 and later say of every single port.
const PORT_MASKS: [u16; 2] = [28, 29];

/// The distance by which the rules for exemptions precede the first that leads into the tunnel.
const EXEMPT_AHEAD: u32 = 1;

const fn only(port: u16) -> RulePortRange {
    RulePortRange {
        start: port,
        end: port,
    }
}

impl Rule {
    /// The rules of one family.
    pub(super) fn of(wanted: &Wanted, family: Family) -> Vec<Self> {
        let routing = &wanted.routing;
        let first = routing.preference.get();
        let landing = first + PREFERENCE_SPAN;
        let unmarked = |table| RuleKind::Unmarked(routing.mark, table);
        let exempt = wanted.exemptions.iter().filter_map(|it| match it {
            Exemption::UdpFrom(port) => (*port != 0).then_some(*it),
            Exemption::TcpTo(to) => {
                // A rule knows neither scope nor flow label, and reads as it was written.
                let to = SocketAddr::new(to.ip().to_canonical(), to.port());
                (to.port() != 0 && Family::of(to.ip()) == family).then_some(Exemption::TcpTo(to))
            }
        });
        let mut kinds = Vec::new();
        // The target first: before it is there, a rule that leads to it is passed over.
        if exempt.clone().next().is_some() {
            kinds.push((landing, RuleKind::Landing(routing.table)));
        }
        kinds.extend(exempt.map(|it| {
            let kind = RuleKind::Exempt(it, landing, routing.table);
            (first - EXEMPT_AHEAD, kind)
        }));
        kinds.push((first, unmarked(routing.table)));
        if wanted.is_full_tunnel(family) {
            let local = local_ranges(family).iter();
            kinds.extend(local.map(|range| (first + 10, RuleKind::Local(*range))));
            kinds.push((first + 20, unmarked(routing.default_table)));
        }
        let rule = |(preference, kind)| Self {
            family,
            preference,
            kind,
        };
        kinds.into_iter().map(rule).collect()
    }

    pub(super) fn message(self) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = address_family(self.family);
        message.header.action = RuleAction::ToTable;
        message.attributes = vec![
            RuleAttribute::Priority(self.preference),
            RuleAttribute::Protocol(PROTOCOL),
        ];
        match self.kind {
            RuleKind::Exempt(exemption, landing, table) => {
                message.header.action = RuleAction::Goto;
                message.attributes.extend([
                    RuleAttribute::Goto(landing),
                    RuleAttribute::Table(table.get()),
                    RuleAttribute::Iifname(FROM_HERE.to_owned()),
                ]);
                match exemption {
                    Exemption::UdpFrom(port) => message.attributes.extend([
                        RuleAttribute::IpProtocol(IpProtocol::Udp),
                        RuleAttribute::SourcePortRange(only(port)),
                    ]),
                    Exemption::TcpTo(to) => {
                        message.header.dst_len = host_length(to.ip());
                        message.attributes.extend([
                            RuleAttribute::Destination(to.ip()),
                            RuleAttribute::IpProtocol(IpProtocol::Tcp),
                            RuleAttribute::DestinationPortRange(only(to.port())),
                        ]);
                    }
                }
            }
            RuleKind::Unmarked(mark, table) => {
                message.header.flags = RuleFlags::Invert;
                message.attributes.extend([
                    RuleAttribute::Table(table.get()),
                    RuleAttribute::FwMark(mark.get()),
                    RuleAttribute::FwMask(u32::MAX),
                ]);
            }
            RuleKind::Local(range) => {
                message.header.dst_len = range.prefix_len();
                message.attributes.extend([
                    RuleAttribute::Destination(range.addr()),
                    RuleAttribute::Table(MAIN_TABLE),
                    RuleAttribute::SuppressPrefixLen(0),
                ]);
            }
            RuleKind::Landing(table) => {
                message.header.action = RuleAction::Nop;
                message.attributes.extend([
                    RuleAttribute::Table(table.get()),
                    RuleAttribute::IpProtocol(IpProtocol::Udp),
                    RuleAttribute::SourcePortRange(ALL_PORTS),
                ]);
            }
        }
        message
    }

    /// Reads a message that is a rule as we make them.
    pub(super) fn read(message: &RuleMessage) -> Option<Self> {
        let header = &message.header;
        if header.src_len != 0 || header.tos != 0 {
            return None;
        }
        let said = Said::read(message)?;
        if said.protocol != Some(PROTOCOL) {
            return None;
        }
        let kind = match header.action {
            RuleAction::ToTable => said.to_table(header.flags.contains(RuleFlags::Invert))?,
            RuleAction::Goto => said.exempt()?,
            RuleAction::Nop => said.landing()?,
            _ => return None,
        };
        Some(Self {
            family: family_of(header.family)?,
            preference: said.preference,
            kind,
        })
    }
}

/// True if an attribute says that all bits of a port count.
fn is_whole_port(attribute: &DefaultNla) -> bool {
    let whole = u16::MAX.to_ne_bytes();
    let mut masks = PORT_MASKS.into_iter();
    masks.any(|kind| *attribute == DefaultNla::new(kind, whole.to_vec()))
}

/// The attributes of a rule, as far as ours have them.
#[derive(Default)]
struct Said {
    preference: u32,
    protocol: Option<RouteProtocol>,
    table: Option<u32>,
    mark: Option<u32>,
    mask: Option<u32>,
    suppress: Option<u32>,
    to: Option<IpNet>,
    goto: Option<u32>,
    is_from_here: bool,
    ip_protocol: Option<IpProtocol>,
    source_ports: Option<RulePortRange>,
    destination_ports: Option<RulePortRange>,
}

impl Said {
    fn read(message: &RuleMessage) -> Option<Self> {
        let mut said = Self::default();
        for attribute in &message.attributes {
            match attribute {
                RuleAttribute::Priority(value) => said.preference = *value,
                RuleAttribute::Table(value) => said.table = Some(*value),
                RuleAttribute::FwMark(value) => said.mark = Some(*value),
                RuleAttribute::FwMask(value) => said.mask = Some(*value),
                RuleAttribute::SuppressPrefixLen(SUPPRESS_NOTHING) => {}
                RuleAttribute::SuppressPrefixLen(value) => said.suppress = Some(*value),
                RuleAttribute::Protocol(value) => said.protocol = Some(*value),
                RuleAttribute::Destination(address) => {
                    said.to = Some(IpNet::new(*address, message.header.dst_len).ok()?);
                }
                RuleAttribute::Goto(value) => said.goto = Some(*value),
                RuleAttribute::Iifname(name) if name == FROM_HERE => said.is_from_here = true,
                RuleAttribute::IpProtocol(value) => said.ip_protocol = Some(*value),
                RuleAttribute::SourcePortRange(value) => said.source_ports = Some(*value),
                RuleAttribute::DestinationPortRange(value) => said.destination_ports = Some(*value),
                RuleAttribute::Other(other) if is_whole_port(other) => {}
                // An interface, a user: not ours.
                _ => return None,
            }
        }
        Some(said)
    }

    /// True if it tells packets apart by a property that the rules into the tunnel do not look at.
    fn has_more(&self) -> bool {
        self.is_from_here
            || self.goto.is_some()
            || self.ip_protocol.is_some()
            || self.source_ports.is_some()
            || self.destination_ports.is_some()
    }

    fn to_table(&self, is_inverted: bool) -> Option<RuleKind> {
        if self.has_more() {
            return None;
        }
        let Self {
            mark,
            mask,
            suppress,
            to,
            ..
        } = *self;
        match (is_inverted, self.table?, mark, mask, suppress, to) {
            (true, table, Some(mark), Some(u32::MAX), None, None) => Some(RuleKind::Unmarked(
                Mark::new(mark).ok()?,
                Table::new(table).ok()?,
            )),
            (false, MAIN_TABLE, None, None, Some(0), Some(range)) => Some(RuleKind::Local(range)),
            _ => None,
        }
    }

    fn exempt(&self) -> Option<RuleKind> {
        let is_plain = self.mark.is_none() && self.suppress.is_none() && self.is_from_here;
        let single = |ports: RulePortRange| (ports == only(ports.start)).then_some(ports.start);
        let exemption = match (
            self.ip_protocol?,
            self.source_ports,
            self.destination_ports,
            self.to,
        ) {
            (IpProtocol::Udp, Some(ports), None, None) => Exemption::UdpFrom(single(ports)?),
            (IpProtocol::Tcp, None, Some(ports), Some(to))
                if to.prefix_len() == to.max_prefix_len() =>
            {
                Exemption::TcpTo((to.addr(), single(ports)?).into())
            }
            _ => return None,
        };
        let table = Table::new(self.table?).ok()?;
        is_plain.then_some(RuleKind::Exempt(exemption, self.goto?, table))
    }

    fn landing(&self) -> Option<RuleKind> {
        let is_landing = self.ip_protocol == Some(IpProtocol::Udp)
            && self.source_ports == Some(ALL_PORTS)
            && self.destination_ports.is_none()
            && self.mark.is_none()
            && self.to.is_none()
            && !self.is_from_here;
        let table = Table::new(self.table?).ok()?;
        is_landing.then_some(RuleKind::Landing(table))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            preference,
            kind,
        } = self;
        write!(f, "{family} rule {preference}: ")?;
        match kind {
            RuleKind::Exempt(Exemption::UdpFrom(port), landing, _) => {
                write!(f, "iif lo ipproto udp sport {port} goto {landing}")
            }
            RuleKind::Exempt(Exemption::TcpTo(to), landing, _) => write!(
                f,
                "iif lo to {} ipproto tcp dport {} goto {landing}",
                to.ip(),
                to.port()
            ),
            RuleKind::Unmarked(mark, table) => {
                write!(f, "not fwmark {:#x} lookup {table}", mark.get())
            }
            RuleKind::Local(range) => {
                write!(f, "to {range} lookup main suppress_prefixlength 0")
            }
            RuleKind::Landing(_) => f.write_str("ipproto udp sport 1-65534 nop"),
        }
    }
}
