//! The services of a client's own host that resources may use: what an administrator opens by `inbound`.
//!
//! A gateway has them in its table, beside what the client may use. A client has [`InboundRules`] of its own, by what the
//! portal told it: a gateway can't open more.

use super::flow::{FlowKey, Progress, TCP_ACK, TCP_FIN, TCP_RST, TCP_SYN};
use super::grants::Permit;
use super::heading::{Heading, Kind, address};
use super::{ClientGrants, DropReason, GateTable};
use crate::prefix_map::PrefixMap;
use crate::{Filters, Prefix, Service};
use culvert_base::BootTime;
use culvert_packet::ip::{IpVersion, Protocol};
use std::net::IpAddr;

/// Ranges of a client's rules: as many as it has accesses at once.
pub const MAX_INBOUND_RULES: usize = 4096;

/// The right of a range of addresses to begin flows at the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundRule {
    /// The addresses of a resource that the client has a grant for.
    pub range: Prefix,
    /// The services of the client's host that they may use; empty for a resource that opens nothing.
    pub services: Filters,
    /// The end of the grant. That instant is no longer within it.
    pub expires: BootTime,
}

/// The rules of a client. Of the ranges around an address the longest decides alone, as it does for what goes out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboundRules {
    ranges: PrefixMap<Vec<InboundRule>>,
    /// The tunnel's own networks: other clients are there, and nothing of theirs comes in.
    tunnel: Vec<Prefix>,
}

impl InboundRules {
    /// The first [`MAX_INBOUND_RULES`] of these rules. Nothing comes in from the networks of `tunnel`.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = InboundRule>, tunnel: Vec<Prefix>) -> Self {
        let mut ranges = PrefixMap::<Vec<InboundRule>>::default();
        for rule in rules.into_iter().take(MAX_INBOUND_RULES) {
            ranges.entry(rule.range).push(rule);
        }
        Self { ranges, tunnel }
    }

    /// True if nothing is ever let in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let mut rules = self.ranges.values().flatten();
        rules.all(|rule| rule.services.is_empty())
    }

    /// True if a flow to the host may begin, or go on, now.
    pub(super) fn open(&self, key: &FlowKey, now: BootTime) -> bool {
        let service = key.host_service();
        service.is_some_and(|service| self.opens(key.remote_address(), service, now))
    }

    /// The same of a later fragment, of whose flow `word` of the key is known.
    pub(super) fn open_fragment(&self, heading: &Heading, word: u64, now: BootTime) -> bool {
        let source = address(heading.version, heading.source);
        let service = FlowKey::host_service_of(word);
        service.is_some_and(|service| self.opens(source, service, now))
    }

    /// True if an address may use a service of the host now.
    #[must_use]
    pub fn opens(&self, source: IpAddr, service: Service, now: BootTime) -> bool {
        if self.tunnel.iter().any(|own| own.contains(source)) {
            return false;
        }
        let rules = self.ranges.longest(source).map_or(&[][..], Vec::as_slice);
        let mut live = rules.iter().filter(|rule| now < rule.expires);
        live.any(|rule| rule.services.allows(service))
    }
}

impl FlowKey {
    /// The service of the client's host that a flow to it uses. Only TCP, UDP and queries of ICMP can be opened: of other
    /// protocols nobody could tell a question from an answer.
    pub(super) const fn host_service(&self) -> Option<Service> {
        Self::host_service_of(self.word())
    }

    /// By the word of the key that has ports, protocol and version.
    const fn host_service_of(word: u64) -> Option<Service> {
        let is_v4 = word & 0xFFFF == 0;
        match Protocol((word >> 16) as u8) {
            Protocol::TCP => Some(Service::Tcp((word >> 48) as u16)),
            Protocol::UDP => Some(Service::Udp((word >> 48) as u16)),
            Protocol::ICMP if is_v4 => Some(Service::Icmp),
            Protocol::ICMPV6 if !is_v4 => Some(Service::Icmp),
            _ => None,
        }
    }

    /// True for a query of ICMP that a resource sent: its identifier is at the resource's end.
    pub(super) const fn is_icmp(&self) -> bool {
        matches!(
            (self.protocol(), self.version()),
            (Protocol::ICMP, IpVersion::V4) | (Protocol::ICMPV6, IpVersion::V6)
        )
    }
}

/// The state in which a packet to a host begins a flow; none where it can't. A connection of TCP that is older than what is
/// remembered of it goes on: its SYN would have been let in by the same rule.
pub(super) fn beginning_to_host(heading: &Heading) -> Option<Progress> {
    let mut progress = Progress::default();
    match heading.kind {
        Kind::Query => return Some(progress),
        Kind::Plain => {}
        Kind::Answer | Kind::Error | Kind::LaterFragment => return None,
    }
    match heading.protocol {
        Protocol::UDP => {}
        Protocol::TCP => match heading.tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST) {
            TCP_SYN | TCP_ACK => progress.remote_finished = heading.tcp_flags & TCP_FIN != 0,
            _ => return None,
        },
        _ => return None,
    }
    Some(progress)
}

/// The permit of a flow that a resource began at a client, or is about to. No client begins one at another, and neither does
/// the gateway's own machine.
pub(super) fn permit_inbound(
    table: &GateTable,
    client: &ClientGrants,
    key: &FlowKey,
    now: BootTime,
) -> Result<Permit, DropReason> {
    let source = key.remote_address();
    let service = key.host_service().ok_or(DropReason::NotAFlow)?;
    if table.owner(source).is_some() {
        return Err(DropReason::NotAFlow);
    }
    let permit = client.permit_inbound(source, service, now)?;
    match table.is_host_address(source) {
        true => Err(DropReason::HostAddress),
        false => Ok(permit),
    }
}
