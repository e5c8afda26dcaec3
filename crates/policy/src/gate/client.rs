//! A client's gate: nothing comes in through the tunnel but answers to the flows that its host began, and what an
//! administrator has opened ([`InboundRules`]).
//!
//! ```text
//! host → ClientGate::note_outbound → gateway     a flow begins
//! host ← ClientGate::admit         ← gateway     passes only as part of such a flow, or as an ICMP error about one
//! ```
//!
//! A gateway is trusted with what it is sent, not with the host. A holder of its key can answer what the host asks it,
//! and can neither open a connection nor find out which ones there are (CVE-2019-14899, by the way of the tunnel).
//!
//! All workers share one gate. A packet costs one look-up, and waits for nobody; fragments alone take a lock. The rules are
//! asked where no flow of the host is found, and for each packet of a flow that began outside: it ends with its rule.

mod fragmented;
mod fragments;

use super::client_flows::{ClientFlows, Found, KeyWords, MAX_CLIENT_FLOWS, Rank};
use super::flow::{FlowKey, Progress, TCP_ACK, TCP_RST, TCP_SYN};
use super::heading::{
    AddressBits, Heading, Kind, Quotation, address, address_bits, quoted_heading,
};
use super::icmp_error::of_query;
use super::inbound::{InboundRules, beginning_to_host};
use super::seed::{Seed, fold};
use super::{DropReason, Frame, PeerKey, Verdict};
use crate::never_forwarded::is_forwarded;
use culvert_base::BootTime;
use culvert_packet::ip::{IpVersion, Protocol};
use fragmented::Fragmented;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Mutex;

const ANSWERED: u32 = 1;
const CLIENT_FINISHED: u32 = 2;
const REMOTE_FINISHED: u32 = 4;
const RESET: u32 = 8;
/// It began outside, by a rule.
const INBOUND: u32 = ANSWERED << INBOUND_SHIFT;
const INBOUND_SHIFT: u32 = 4;

/// The client's addresses in the tunnel: the only ones that anything may come in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelAddresses {
    /// Of IPv4.
    pub v4: Ipv4Addr,
    /// Of IPv6.
    pub v6: Ipv6Addr,
}

impl TunnelAddresses {
    #[inline(always)]
    fn has(self, version: IpVersion, bits: AddressBits) -> bool {
        match version {
            IpVersion::V4 => bits == self.v4.to_bits().into(),
            IpVersion::V6 => bits == self.v6.to_bits(),
        }
    }
}

/// Remembers the flows of a host, and judges what comes in through its tunnel.
#[derive(Debug)]
pub struct ClientGate {
    seed: Seed,
    flows: ClientFlows,
    fragments: Mutex<Fragmented>,
}

impl ClientGate {
    /// A gate that remembers [`MAX_CLIENT_FLOWS`] flows.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        Self::with_max_flows(seed, MAX_CLIENT_FLOWS)
    }

    /// A gate that remembers fewer flows, at least eight.
    #[must_use]
    pub fn with_max_flows(seed: Seed, max_flows: usize) -> Self {
        Self {
            seed,
            flows: ClientFlows::new(max_flows.min(MAX_CLIENT_FLOWS)),
            fragments: Mutex::new(Fragmented::new(seed)),
        }
    }

    /// Remembers the flow of a packet, or of a superframe, that leaves the host through the tunnel.
    ///
    /// A flow begins with a packet of UDP or of a protocol without ports, with a query of ICMP, and with a SYN. A connection
    /// that is older than the gate is known by a packet that goes on with it: the host outlives a restart of the client.
    /// A RST and a SYN that answers another one begin nothing: they are answers to what nobody here has asked for.
    #[inline]
    pub fn note_outbound(&self, now: BootTime, packet: &[u8]) {
        let mut heading = Heading::NONE;
        if heading.read(packet).is_err() || !matches!(heading.kind, Kind::Plain | Kind::Query) {
            return;
        }
        let key = FlowKey::of_client(&heading);
        let (hash, words) = (self.hash(&key), words(&key));
        let now_s = seconds(now);
        let found = self.flows.find(hash, &words);
        if let Some(found) = found {
            let mut progress = progress_of(found.flags);
            let begins_anew = heading.tcp_flags & TCP_SYN != 0 && progress.is_closed();
            if !begins_anew && !is_idle(&found, key.protocol(), now_s) {
                progress.note_of_client(heading.tcp_flags);
                // The host's packet is the answer to a flow that began outside.
                let answered = (found.flags & INBOUND) >> INBOUND_SHIFT;
                self.flows.add_flags(&found, flags_of(progress) | answered);
                self.flows.touch(&found, now_s);
                return;
            }
        }
        self.begin(&heading, &key, now_s, found);
    }

    #[cold]
    #[inline(never)]
    fn begin(&self, heading: &Heading, key: &FlowKey, now_s: u64, replaced: Option<Found>) {
        let Some(progress) = beginning(heading) else {
            return;
        };
        if !is_forwarded(key.remote_address()) {
            return;
        }
        let (hash, words) = (self.hash(key), words(key));
        let flags = flags_of(progress);
        let rank = |word, flags, last_s| rank(word, flags, last_s, now_s);
        // If others write all its places, its answer is lost and its sender repeats it.
        let _is_remembered = self.flows.begin(hash, &words, flags, now_s, replaced, rank);
    }

    /// Knows a flow that the host began before there was this gate: of TCP, or of UDP where both ends are fixed. `own` and
    /// `remote` are of one family.
    pub fn adopt(&self, now: BootTime, protocol: Protocol, own: SocketAddr, remote: SocketAddr) {
        let version = match own {
            SocketAddr::V4(_) => IpVersion::V4,
            SocketAddr::V6(_) => IpVersion::V6,
        };
        let heading = Heading {
            version,
            protocol,
            kind: Kind::Plain,
            tcp_flags: TCP_ACK,
            source_port: own.port(),
            destination_port: remote.port(),
            source: address_bits(own.ip()),
            destination: address_bits(remote.ip()),
            ..Heading::NONE
        };
        let key = FlowKey::of_client(&heading);
        if own.is_ipv4() == remote.is_ipv4() && !self.has(&key, seconds(now)) {
            self.begin(&heading, &key, seconds(now), None);
        }
    }

    /// Judges a packet that came from `peer`, or those that were joined behind it. `is_peers` says whether an address is one
    /// that goes to that peer.
    ///
    /// The caller has checked the source as WireGuard does, but for ICMP errors of routers behind the peer. `rules` say what
    /// may begin outside; nothing without them.
    #[inline]
    pub fn admit(
        &self,
        now: BootTime,
        peer: PeerKey,
        home: Option<TunnelAddresses>,
        rules: Option<&InboundRules>,
        is_peers: impl Fn(IpAddr) -> bool,
        frame: &Frame<'_>,
    ) -> Verdict {
        let passed = self.pass(now, peer, home, rules, is_peers, frame);
        passed.unwrap_or_else(Verdict::Drop)
    }

    #[inline]
    fn pass(
        &self,
        now: BootTime,
        peer: PeerKey,
        home: Option<TunnelAddresses>,
        rules: Option<&InboundRules>,
        is_peers: impl Fn(IpAddr) -> bool,
        frame: &Frame<'_>,
    ) -> Result<Verdict, DropReason> {
        let mut heading = Heading::NONE;
        heading.read(frame.packet)?;
        if !home.is_some_and(|home| home.has(heading.version, heading.destination)) {
            return Err(DropReason::ForeignDestination);
        }
        let now_s = seconds(now);
        match heading.kind {
            Kind::Plain | Kind::Answer => {
                let found = match self.flow(&heading, now_s) {
                    Ok(found) if found.flags & INBOUND == 0 => found,
                    judged => self.inbound_flow(judged, rules, &heading, now)?,
                };
                self.note_packet(&heading, frame, &found, now_s);
                if heading.is_first_fragment && self.remember(&heading, &found, peer, now) {
                    return Ok(Verdict::AdmitFirst(peer));
                }
            }
            Kind::LaterFragment => {
                let found = self.of_fragment(&heading, rules, now)?;
                self.note_inbound(&found, progress_of(found.flags | ANSWERED), now_s);
            }
            Kind::Error => self.about_flow(&heading, frame.packet, rules, is_peers, now)?,
            Kind::Query => {
                let judged = Err(stranger(&heading, DropReason::NotOpened));
                let found = self.inbound_flow(judged, rules, &heading, now)?;
                self.note_packet(&heading, frame, &found, now_s);
                if heading.is_first_fragment && self.remember(&heading, &found, peer, now) {
                    return Ok(Verdict::AdmitFirst(peer));
                }
            }
        }
        Ok(Verdict::Admit(peer))
    }

    /// The flow that a packet to the host belongs to.
    #[inline]
    fn flow(&self, heading: &Heading, now_s: u64) -> Result<Found, DropReason> {
        let key = FlowKey::of_remote(heading);
        let found = self.flows.find(self.hash(&key), &words(&key));
        let found = found.filter(|found| !is_idle(found, key.protocol(), now_s));
        // A SYN alone begins something, and nothing begins at the host: the port may be of a listener by now.
        let opens = heading.tcp_flags & (TCP_SYN | TCP_ACK) == TCP_SYN;
        match found {
            Some(found) if !opens => Ok(found),
            _ if opens => Err(stranger(heading, DropReason::NotOpened)),
            _ => Err(stranger(heading, DropReason::NotAFlow)),
        }
    }

    /// The flow of a packet that belongs to none of the host's: one that began outside, or begins so now. `judged` is what the
    /// table of flows says of it.
    #[cold]
    #[inline(never)]
    fn inbound_flow(
        &self,
        judged: Result<Found, DropReason>,
        rules: Option<&InboundRules>,
        heading: &Heading,
        now: BootTime,
    ) -> Result<Found, DropReason> {
        let reason = judged.err().unwrap_or(DropReason::NotOpened);
        let key = FlowKey::of_remote(heading);
        let is_open = rules.is_some_and(|rules| rules.open(&key, now));
        let beginning = beginning_to_host(heading).filter(|_| is_open);
        let Some(progress) = beginning.filter(|_| reason != DropReason::ForgedSource) else {
            // A known flow of TCP goes on by a packet that begins nothing, such as a RST.
            return judged.ok().filter(|_| is_open).ok_or(reason);
        };
        let (hash, words, now_s) = (self.hash(&key), words(&key), seconds(now));
        let known = self.flows.find(hash, &words);
        if let Some(known) = known {
            let is_over = is_idle(&known, key.protocol(), now_s)
                || (heading.tcp_flags & TCP_SYN != 0 && progress_of(known.flags).is_closed());
            match known.flags & INBOUND != 0 {
                _ if is_over => {}
                true => return Ok(known),
                // It can't take the place of what the host began.
                false => return Err(reason),
            }
        }
        let flags = flags_of(progress) | INBOUND;
        let rank = |word, flags, last_s| (flags & INBOUND != 0, rank(word, flags, last_s, now_s));
        self.flows
            .begin_inbound(hash, &words, flags, now_s, known, rank);
        self.flows.find(hash, &words).ok_or(DropReason::FlowsFull)
    }

    #[inline(always)]
    fn note_packet(&self, heading: &Heading, frame: &Frame<'_>, found: &Found, now_s: u64) {
        let mut progress = progress_of(found.flags);
        progress.note_of_remote(heading.tcp_flags | frame.later.tcp_flags);
        self.note_inbound(found, progress, now_s);
    }

    /// A connection that is over is not kept by what comes in.
    #[inline]
    fn note_inbound(&self, found: &Found, progress: Progress, now_s: u64) {
        // The end that began a flow does not answer it.
        let unanswered = (found.flags & INBOUND) >> INBOUND_SHIFT;
        self.flows
            .add_flags(found, flags_of(progress) & !unanswered);
        if !progress_of(found.flags).is_closed() {
            self.flows.touch(found, now_s);
        }
    }

    /// Judges an ICMP error by the packet that it quotes: one of a flow to an address of this very peer.
    #[cold]
    fn about_flow(
        &self,
        heading: &Heading,
        packet: &[u8],
        rules: Option<&InboundRules>,
        is_peers: impl Fn(IpAddr) -> bool,
        now: BootTime,
    ) -> Result<(), DropReason> {
        let quotation = Quotation::parse(packet, heading);
        let quoted = quotation
            .ok_or(stranger(heading, DropReason::NotAFlow))?
            .heading;
        let key = of_query(&quoted)?;
        if quoted.source != heading.destination {
            return Err(stranger(heading, DropReason::NotAFlow));
        }
        if stranger(heading, DropReason::NotAFlow) == DropReason::ForgedSource {
            return Err(DropReason::ForgedSource);
        }
        let found = self.lasting(&key, seconds(now));
        let is_open = |found: Found| {
            found.flags & INBOUND == 0 || rules.is_some_and(|rules| rules.open(&key, now))
        };
        if !found.is_some_and(is_open) {
            return Err(DropReason::NotAFlow);
        }
        match is_peers(key.remote_address()) {
            true => Ok(()),
            false => Err(DropReason::OtherGateway),
        }
    }

    /// True if the packet that a peer quotes, from its first byte on, is one of a flow that the host began.
    #[cold]
    #[must_use]
    pub fn has_sent(&self, now: BootTime, home: Option<TunnelAddresses>, quoted: &[u8]) -> bool {
        let Some(quoted) = quoted_heading(quoted) else {
            return false;
        };
        let is_ours = home.is_some_and(|home| home.has(quoted.version, quoted.source));
        is_ours && of_query(&quoted).is_ok_and(|key| self.has(&key, seconds(now)))
    }

    fn has(&self, key: &FlowKey, now_s: u64) -> bool {
        self.lasting(key, now_s).is_some()
    }

    fn lasting(&self, key: &FlowKey, now_s: u64) -> Option<Found> {
        let found = self.flows.find(self.hash(key), &words(key));
        found.filter(|found| !is_idle(found, key.protocol(), now_s))
    }

    /// Flows that last.
    #[must_use]
    pub fn flow_count(&self, now: BootTime) -> usize {
        let now_s = seconds(now);
        self.flows
            .count(|word, flags, last_s| rank(word, flags, last_s, now_s))
    }

    /// Flows that made room for others although they were not over.
    #[must_use]
    pub fn displaced(&self) -> u64 {
        self.flows.displaced()
    }

    #[inline(always)]
    fn hash(&self, key: &FlowKey) -> u64 {
        let Seed([a, b, c, d]) = self.seed;
        let low = fold(key.client as u64 ^ a, key.remote as u64 ^ b);
        let high = fold((key.client >> 64) as u64 ^ c, (key.remote >> 64) as u64 ^ d);
        fold(low ^ key.word(), high ^ b)
    }
}

/// The state in which a packet of the host begins a flow; none where it does not.
fn beginning(heading: &Heading) -> Option<Progress> {
    let mut progress = Progress::default();
    if heading.kind == Kind::Plain && heading.protocol == Protocol::TCP {
        match heading.tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST) {
            TCP_SYN => {}
            // A connection that is older than what is remembered of it: it is answered.
            TCP_ACK => progress.answered = true,
            _ => return None,
        }
        progress.note_of_client(heading.tcp_flags);
    }
    Some(progress)
}

/// The reason for which a packet of no flow is dropped: a source that can be nobody's behind a gateway before any other.
#[cold]
fn stranger(heading: &Heading, reason: DropReason) -> DropReason {
    let source = address(heading.version, heading.source);
    let is_own = heading.source == heading.destination;
    match is_own || !is_forwarded(source) {
        true => DropReason::ForgedSource,
        false => reason,
    }
}

fn rank(word: u64, flags: u32, last_s: u64, now_s: u64) -> Rank {
    let progress = progress_of(flags);
    let idle_s = progress.idle(protocol_of(word)).as_secs();
    match now_s.saturating_sub(last_s) >= idle_s {
        true => Rank::Over,
        false => Rank::Lasting {
            is_answered: progress.answered && !progress.is_closed(),
            last_s,
        },
    }
}

#[inline(always)]
fn is_idle(found: &Found, protocol: Protocol, now_s: u64) -> bool {
    let idle_s = progress_of(found.flags).idle(protocol).as_secs();
    now_s.saturating_sub(found.last_s) >= idle_s
}

/// Of the client's address the half that differs between addresses of one network: what comes in is for an address of this
/// very moment, and a flow of an earlier one is another.
#[inline(always)]
fn words(key: &FlowKey) -> KeyWords {
    let remote = key.remote;
    [
        remote as u64,
        (remote >> 64) as u64,
        key.word(),
        key.client as u64,
    ]
}

/// The protocol in the third of these words.
const fn protocol_of(word: u64) -> Protocol {
    Protocol((word >> 16) as u8)
}

#[inline(always)]
const fn flags_of(progress: Progress) -> u32 {
    (progress.answered as u32 * ANSWERED)
        | (progress.client_finished as u32 * CLIENT_FINISHED)
        | (progress.remote_finished as u32 * REMOTE_FINISHED)
        | (progress.reset as u32 * RESET)
}

#[inline(always)]
const fn progress_of(flags: u32) -> Progress {
    Progress {
        answered: flags & ANSWERED != 0,
        client_finished: flags & CLIENT_FINISHED != 0,
        remote_finished: flags & REMOTE_FINISHED != 0,
        reset: flags & RESET != 0,
    }
}

/// Idle times are whole seconds.
#[inline(always)]
const fn seconds(now: BootTime) -> u64 {
    now.as_nanos() / 1_000_000_000
}
