//! One flow: what it is known by, how long it may be silent, what it has carried.

use super::heading::{AddressBits, Heading, address};
use super::{ClientGrants, DropReason, Frame, GateTable, PeerKey};
use crate::Service;
use culvert_base::BootTime;
use culvert_ids::{GrantId, ResourceId};
use culvert_packet::ip::{IpVersion, Protocol};
use std::net::IpAddr;
use std::time::Duration;

/// Idle time of a TCP connection: RFC 5382 REQ-5, "not less than 2 hours 4 minutes".
const TCP_IDLE: Duration = Duration::from_secs(7440);
/// Idle time of a TCP connection that is not answered yet: RFC 5382 REQ-5, "not less than 4
/// minutes".
const TCP_OPENING_IDLE: Duration = Duration::from_secs(240);
/// Idle time after both ends closed a TCP connection, or one reset it. Answers to lost packets need
/// seconds, and Linux uses ports again after a minute.
const TCP_CLOSED_IDLE: Duration = Duration::from_secs(30);
/// Idle time of a UDP flow: RFC 4787 REQ-5, at least two minutes, five recommended.
pub const UDP_IDLE: Duration = Duration::from_secs(300);
/// RFC 5508 REQ-2: at least 60 seconds.
const ICMP_IDLE: Duration = Duration::from_secs(60);
/// The idle time that Linux gives unknown protocols (`nf_conntrack_generic_timeout`).
pub(super) const OTHER_IDLE: Duration = Duration::from_secs(600);

const SCTP: Protocol = Protocol(132);

pub(super) const TCP_FIN: u8 = 0x01;
pub(super) const TCP_SYN: u8 = 0x02;
pub(super) const TCP_RST: u8 = 0x04;
pub(super) const TCP_ACK: u8 = 0x10;

/// The key of a flow, as one of its two ends sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowKey {
    pub(super) client: AddressBits,
    pub(super) remote: AddressBits,
    /// Everything else in one word, which is compared and hashed at once: the client's port, the
    /// resource's, the protocol and the version, 16 bits each.
    word: u64,
}

impl FlowKey {
    /// The flow that a packet of a client belongs to or begins.
    #[inline(always)]
    pub(super) fn of_client(heading: &Heading) -> Self {
        Self {
            client: heading.source,
            remote: heading.destination,
            word: word(heading, heading.source_port, heading.destination_port),
        }
    }

    /// The flow that a packet to a client belongs to.
    #[inline(always)]
    pub(super) fn of_remote(heading: &Heading) -> Self {
        Self {
            client: heading.destination,
            remote: heading.source,
            word: word(heading, heading.destination_port, heading.source_port),
        }
    }

    /// The port of TCP or UDP; of ICMP the identifier of the query; of other protocols 0.
    pub(super) const fn client_port(&self) -> u16 {
        (self.word >> 48) as u16
    }

    /// The port of TCP or UDP; of other protocols 0.
    pub(super) const fn remote_port(&self) -> u16 {
        (self.word >> 32) as u16
    }

    pub(super) const fn protocol(&self) -> Protocol {
        Protocol((self.word >> 16) as u8)
    }

    pub(super) const fn version(&self) -> IpVersion {
        match self.word & 0xFFFF {
            0 => IpVersion::V4,
            _ => IpVersion::V6,
        }
    }

    pub(super) const fn word(&self) -> u64 {
        self.word
    }

    pub(super) const fn with_remote(self, remote: AddressBits) -> Self {
        Self { remote, ..self }
    }

    pub(super) const fn with_client_port(self, port: u16) -> Self {
        let word = self.word & 0xFFFF_FFFF_FFFF | (port as u64) << 48;
        Self { word, ..self }
    }

    pub(super) fn client_address(&self) -> IpAddr {
        address(self.version(), self.client)
    }

    pub(super) fn remote_address(&self) -> IpAddr {
        address(self.version(), self.remote)
    }

    /// The service that filters are asked about.
    pub(super) const fn service(&self) -> Service {
        match (self.protocol(), self.version()) {
            (Protocol::TCP, _) => Service::Tcp(self.remote_port()),
            (Protocol::UDP, _) => Service::Udp(self.remote_port()),
            (Protocol::ICMP, IpVersion::V4) | (Protocol::ICMPV6, IpVersion::V6) => Service::Icmp,
            (protocol, _) => Service::Other(protocol),
        }
    }

    /// True where only addresses tell flows of its protocol apart, also in the kernel's address translation. That knows
    /// the ports of SCTP.
    pub(super) fn is_portless(&self) -> bool {
        !self.has_ports() && self.protocol() != SCTP
    }

    /// True if flows of its protocol are told apart by the client's port.
    pub(super) const fn has_ports(&self) -> bool {
        !matches!(self.service(), Service::Other(_))
    }
}

#[inline(always)]
fn word(heading: &Heading, client_port: u16, remote_port: u16) -> u64 {
    let version = match heading.version {
        IpVersion::V4 => 0,
        IpVersion::V6 => 1,
    };
    let ports = u64::from(client_port) << 48 | u64::from(remote_port) << 32;
    ports | u64::from(heading.protocol.0) << 16 | version
}

/// Packets and bytes of one direction. A superframe counts as the packets that it stands for; its
/// bytes are those of the one IP packet that it is, whose headers are not repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes of IP packets.
    pub bytes: u64,
}

impl Tally {
    #[inline(always)]
    pub(super) fn add(&mut self, packets: u32, len: usize) {
        self.packets += u64::from(packets);
        self.bytes += len as u64;
    }
}

/// The state of a TCP connection; for other protocols only `answered` is ever set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) answered: bool,
    pub(super) client_finished: bool,
    pub(super) remote_finished: bool,
    pub(super) reset: bool,
}

impl Progress {
    /// The time for which a flow of the protocol may be silent.
    pub(super) const fn idle(self, protocol: Protocol) -> Duration {
        match protocol {
            Protocol::TCP if self.is_closed() => TCP_CLOSED_IDLE,
            Protocol::TCP if self.answered => TCP_IDLE,
            Protocol::TCP => TCP_OPENING_IDLE,
            Protocol::UDP => UDP_IDLE,
            Protocol::ICMP | Protocol::ICMPV6 => ICMP_IDLE,
            _ => OTHER_IDLE,
        }
    }

    /// True if a TCP connection is over, so that its silence is its end.
    pub(super) const fn is_closed(self) -> bool {
        self.reset || self.client_finished && self.remote_finished
    }

    #[inline(always)]
    pub(super) const fn note_of_client(&mut self, tcp_flags: u8) {
        self.client_finished |= tcp_flags & TCP_FIN != 0;
        self.reset |= tcp_flags & TCP_RST != 0;
    }

    #[inline(always)]
    pub(super) const fn note_of_remote(&mut self, tcp_flags: u8) {
        self.answered = true;
        self.remote_finished |= tcp_flags & TCP_FIN != 0;
        self.reset |= tcp_flags & TCP_RST != 0;
    }
}

/// A flow that a client began, or a resource to a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// As the client sees it.
    pub(super) near: FlowKey,
    /// As the resource sees it: the same, unless it is translated.
    pub(super) far: FlowKey,
    /// Of the table by which it was last judged.
    pub(super) epoch: u64,
    pub(super) expires: BootTime,
    pub(super) last: BootTime,
    pub(super) peer: PeerKey,
    progress: Progress,
    pub(super) to_remote: Tally,
    pub(super) to_client: Tally,
    pub(super) started: BootTime,
    pub(super) grant: GrantId,
    pub(super) resource: ResourceId,
    /// True if its address stands for a name.
    pub(super) is_named: bool,
    /// True if the resource began it.
    pub(super) is_inbound: bool,
}

impl Flow {
    pub(super) fn new(
        near: FlowKey,
        far: FlowKey,
        peer: PeerKey,
        grant: GrantId,
        resource: ResourceId,
        now: BootTime,
    ) -> Self {
        Self {
            near,
            far,
            epoch: 0,
            expires: BootTime::ZERO,
            last: now,
            peer,
            progress: Progress::default(),
            to_remote: Tally::default(),
            to_client: Tally::default(),
            started: now,
            grant,
            resource,
            is_named: false,
            is_inbound: false,
        }
    }

    /// The same, which the resource began.
    pub(super) const fn inbound(self) -> Self {
        Self {
            is_inbound: true,
            ..self
        }
    }

    #[inline(always)]
    pub(super) fn is_translated(&self) -> bool {
        self.near.remote != self.far.remote || self.near.word != self.far.word
    }

    /// True if it has been silent for too long.
    #[inline(always)]
    pub(super) fn is_idle(&self, now: BootTime) -> bool {
        now.has_passed(self.last, self.progress.idle(self.near.protocol()))
    }

    /// True if the grant that allowed it is still in force, and neither the grants of its client nor anything else that it
    /// depends on has changed since: the same verdict would come out again.
    pub(super) fn is_allowed_still(
        &self,
        table: &GateTable,
        client: &ClientGrants,
        now: BootTime,
    ) -> bool {
        client.peer() == self.peer
            && now < self.expires
            && table.is_unchanged_since(client, self.epoch)
    }

    /// True if a TCP connection is over, so that its silence is its end.
    pub(super) const fn is_closed(&self) -> bool {
        self.progress.is_closed()
    }

    /// True if a packet of the client begins another connection between the same ports.
    #[inline(always)]
    pub(super) fn begins_anew(&self, heading: &Heading) -> bool {
        heading.tcp_flags & TCP_SYN != 0 && self.is_closed()
    }

    #[inline(always)]
    pub(super) fn note_of_client(&mut self, heading: &Heading, frame: &Frame<'_>, now: BootTime) {
        let tcp_flags = heading.tcp_flags | frame.later.tcp_flags;
        self.last = self.last.max(now);
        self.to_remote
            .add(frame.packets, heading.len + frame.later.bytes);
        self.progress.note_of_client(tcp_flags);
        self.progress.answered |= self.is_inbound;
    }

    #[inline(always)]
    pub(super) fn note_of_remote(&mut self, heading: &Heading, frame: &Frame<'_>, now: BootTime) {
        let tcp_flags = heading.tcp_flags | frame.later.tcp_flags;
        self.last = self.last.max(now);
        self.to_client
            .add(frame.packets, heading.len + frame.later.bytes);
        let was_answered = self.progress.answered;
        self.progress.note_of_remote(tcp_flags);
        // The beginner does not answer itself.
        self.progress.answered = was_answered || !self.is_inbound;
    }

    /// The record of it for reports.
    pub(super) fn record(&self, ended: Option<End>) -> FlowRecord {
        let Self { near, far, .. } = self;
        let (client_port, remote_port) = match self.is_inbound && near.is_icmp() {
            true => (near.remote_port(), near.client_port()),
            false => (near.client_port(), near.remote_port()),
        };
        FlowRecord {
            peer: self.peer,
            grant: self.grant,
            resource: self.resource,
            client: near.client_address(),
            visible: near.remote_address(),
            remote: far.remote_address(),
            protocol: near.protocol(),
            client_port,
            remote_port,
            is_inbound: self.is_inbound,
            started: self.started,
            last: self.last,
            to_remote: self.to_remote,
            to_client: self.to_client,
            ended,
        }
    }
}

/// A flow as it was, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The client's peer.
    pub peer: PeerKey,
    /// The grant by which it passed last.
    pub grant: GrantId,
    /// The resource.
    pub resource: ResourceId,
    /// The client's tunnel address.
    pub client: IpAddr,
    /// The address that the client sent to.
    pub visible: IpAddr,
    /// The address that it went to: for names the one that the name stood for, otherwise the same.
    pub remote: IpAddr,
    /// TCP, UDP, ICMP or another protocol.
    pub protocol: Protocol,
    /// The client's port; of ICMP the identifier of the query.
    pub client_port: u16,
    /// The resource's port; of anything but TCP and UDP 0.
    pub remote_port: u16,
    /// True if the resource began it, by a grant's `inbound`.
    pub is_inbound: bool,
    /// The time of its first packet.
    pub started: BootTime,
    /// The time of its last packet.
    pub last: BootTime,
    /// Traffic that the client sent.
    pub to_remote: Tally,
    /// Traffic that was sent to the client.
    pub to_client: Tally,
    /// The cause of its end; none while it lasts.
    pub ended: Option<End>,
}

impl FlowRecord {
    /// True if its protocol has ports: the identifier of a query of ICMP is none.
    #[must_use]
    pub const fn has_ports(&self) -> bool {
        matches!(self.protocol, Protocol::TCP | Protocol::UDP)
    }
}

/// The cause of a flow's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Both ends of a TCP connection closed it, or one reset it.
    Closed,
    /// It was silent for too long.
    Idle,
    /// It is no longer allowed, for this reason.
    Denied(DropReason),
    /// Another flow between the same ends took its place: the grant now leads elsewhere, or the
    /// address went to another client.
    Replaced,
    /// Its client began another one and had as many as it may, and this one had been silent for longer than others
    /// of its client.
    Evicted,
}
