//! Gateways: their paths, whether they answer, and what they carried.

use super::Client;
use super::access::{Grant, Introduction};
use super::log::LogEvent;
use culvert_base::{BootTime, LogLine, LogQueue, UnixTime, whole_millis};
use culvert_ids::{GatewayId, GrantId, ResourceId};
use culvert_path::{Guard, Kind, Output as RaceOutput, Race};
use culvert_wire::PublicKey;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a gateway that did not answer is avoided, in milliseconds: until the portal has noticed
/// too, and then some. Where there is no other, it is asked for all the same.
pub const AVOID_MS: u64 = 60_000;

/// How long after data was sent to a dead gateway somebody is taken to wait for another:
/// longer than TCP waits between two attempts of its first.
const WANTED: Duration = Duration::from_secs(10);

/// Gateways that are avoided at once: those of a site. Whichever was added first gives way.
const MAX_AVOIDED: usize = 16;

/// How often the data plane is asked what it knows of peers. A path is in doubt after
/// 2 s of silence and dead 2 s later: an eighth of either.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// What the data plane knows of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// Which.
    pub key: PublicKey,
    /// Where it was last heard.
    pub endpoint: Option<SocketAddr>,
    /// The time of the last completed handshake.
    pub handshake: Option<UnixTime>,
    /// The time at which it was last heard.
    pub received: Option<BootTime>,
    /// Since when data was sent to it, or waited to be, without anything heard.
    pub unanswered: Option<BootTime>,
    /// Bytes that came from it.
    pub rx_bytes: u64,
    /// Bytes that went to it.
    pub tx_bytes: u64,
    /// The longest packet that a probe proved to pass the path, in bytes with all headers.
    pub measured_mtu_bytes: Option<u16>,
}

/// A gateway with at least one grant.
#[derive(Debug)]
pub(super) struct Gateway {
    pub(super) introduction: Introduction,
    pub(super) race: Race,
    /// When it last carried something.
    pub(super) active: BootTime,
    pub(super) report: Option<Report>,
}

/// The last report about a gateway, and how fast bytes came and went before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) at: BootTime,
    pub(super) peer: PeerReport,
    pub(super) rx_bytes_per_s: u64,
    pub(super) tx_bytes_per_s: u64,
    /// When the rates were taken, and the numbers of bytes then.
    rated: (BootTime, u64, u64),
}

/// Rates are taken over at least this long, so that they do not flicker.
const RATE_SPAN: Duration = Duration::from_secs(1);

impl<P> Client<P> {
    /// What the data plane knows of its peers, at this very moment. To be told when
    /// [`Self::poll_report`] says so: paths are judged by it.
    pub fn handle_peers(&mut self, reports: &[PeerReport], now: BootTime) {
        for report in reports {
            let mut known = self.gateways.values_mut();
            if let Some(gateway) = known.find(|known| known.introduction.key == report.key) {
                gateway.take_report(*report, now, &mut self.log);
            }
        }
        for gateway in self.gateways.values_mut() {
            gateway.race.handle_timeout(now);
        }
        self.promote_successors(now);
        self.keep_names_in_use(now);
        self.ask_for_same_target(now);
        self.finish(now);
    }

    /// When [`Self::handle_peers`] is to be called; never where there is no peer.
    #[must_use]
    pub fn poll_report(&self, now: BootTime) -> Option<BootTime> {
        if self.gateways.is_empty() {
            return None;
        }
        let races = self
            .gateways
            .values()
            .filter_map(|it| it.race.poll_timeout());
        let race = races.min().unwrap_or(BootTime::MAX);
        let last = self.gateways.values().map(|gateway| {
            let last = gateway.report.map(|report| report.at);
            last.map_or(now, |at| at.saturating_add(REPORT_EVERY))
        });
        Some(last.min().unwrap_or(now).min(race))
    }

    /// Where the gateways in use may be: the ways there matter.
    #[must_use]
    pub fn destinations(&self) -> Vec<IpAddr> {
        let candidates = self
            .gateways
            .values()
            .flat_map(|gateway| gateway.race.targets());
        let addresses: BTreeSet<IpAddr> = candidates.map(|candidate| candidate.ip()).collect();
        addresses.into_iter().collect()
    }

    /// True if a gateway carried something within the last `span`.
    pub(super) fn is_in_use(&self, grant: &Grant, span: Duration, now: BootTime) -> bool {
        let gateway = self.gateways.get(&grant.gateway.id);
        gateway.is_some_and(|gateway| !now.has_passed(gateway.active, span))
    }

    /// A grant leads through this gateway.
    pub(super) fn meet_gateway(&mut self, introduction: &Introduction, now: BootTime) {
        let strangers: Vec<GatewayId> = self
            .gateways
            .iter()
            .filter(|(id, known)| {
                // The same machine under another id, or the same id with another key: what was
                // granted through the one that was is void.
                let same_id = **id == introduction.id;
                same_id != (known.introduction.key == introduction.key)
            })
            .map(|(id, _)| *id)
            .collect();
        for stranger in strangers {
            self.replace_gateway(stranger, now);
        }
        self.is_stale = true;
        if !self.gateways.contains_key(&introduction.id) {
            let gateway = Gateway {
                introduction: introduction.clone(),
                race: Race::new(self.guard()),
                active: now,
                report: None,
            };
            self.gateways.insert(introduction.id, gateway);
        }
        let Some(gateway) = self.gateways.get_mut(&introduction.id) else {
            return;
        };
        gateway.introduction = introduction.clone();
        gateway.replace_candidates(&introduction.candidates, &mut self.log);
        if gateway.race.current().is_none() {
            // Access was asked for because somebody wants to send.
            gateway.race.handle_sent(now);
        }
    }

    pub(super) fn set_candidates(
        &mut self,
        id: GatewayId,
        candidates: &[SocketAddr],
        now: BootTime,
    ) {
        if let Some(gateway) = self.gateways.get_mut(&id) {
            gateway.introduction.candidates = candidates.to_vec();
            gateway.replace_candidates(candidates, &mut self.log);
            // Where it was may be where it is no longer.
            gateway.race.handle_network_changed(now);
            self.is_stale = true;
        }
    }

    /// The host's network is another: all paths are tried again.
    pub(super) fn race_again(&mut self, now: BootTime) {
        for gateway in self.gateways.values_mut() {
            gateway.race.handle_network_changed(now);
        }
    }

    /// A gateway is gone, and every grant through it. Those in use are asked for again.
    pub(super) fn lose_gateway(&mut self, id: GatewayId, now: BootTime) {
        self.lose_grants(id, |grant| grant.gateway.id == id, now);
    }

    /// A gateway is about to end every grant through it: those in use are asked for anew, while they still carry.
    pub(super) fn leave_gateway(&mut self, id: GatewayId, now: BootTime) {
        let grants = self.accesses.iter().filter_map(|(resource, access)| {
            let grant = access.grant.as_ref()?;
            Some((*resource, grant)).filter(|_| access.successor.is_none())
        });
        let through_it = grants.filter(|(_, grant)| grant.gateway.id == id);
        let in_use: Vec<ResourceId> = through_it
            .filter(|(_, grant)| self.is_in_use(grant, grant.life() / 3, now))
            .map(|(resource, _)| resource)
            .collect();
        if let Some(gateway) = self.gateways.get(&id)
            && let Some(repeated) = self.log_events.count(LogEvent::GatewayDraining(id), now)
        {
            let line = LogLine::info("a gateway drains: asking for another")
                .with_text("gateway", &gateway.introduction.name)
                .with("resources", in_use.len())
                .with("repeated", repeated);
            self.log.push(line);
        }
        for resource in in_use {
            self.ask(resource, now);
        }
    }

    /// A gateway has another key, or another gateway has its: what the one that was known was
    /// granted is void. There are grants of both for a moment.
    fn replace_gateway(&mut self, id: GatewayId, now: BootTime) {
        if let Some(key) = self.gateways.get(&id).map(|known| known.introduction.key) {
            let is_of_known = |grant: &Grant| grant.gateway.id == id && grant.gateway.key == key;
            self.lose_grants(id, is_of_known, now);
        }
    }

    fn lose_grants(&mut self, id: GatewayId, is_lost: impl Fn(&Grant) -> bool, now: BootTime) {
        let mut lost: Vec<GrantId> = Vec::new();
        for access in self.accesses.values() {
            let grants = [&access.successor, &access.grant];
            let grants = grants.into_iter().flatten().filter(|grant| is_lost(grant));
            lost.extend(grants.map(|grant| grant.id));
        }
        if self.gateways.contains_key(&id) || !lost.is_empty() {
            self.counters.gateways_lost += 1;
        }
        for grant in lost {
            self.lose_grant(grant, now);
        }
        self.gateways.remove(&id);
        self.is_stale = true;
    }

    /// Takes what the races say: those who shall begin a handshake are returned, and who is dead is
    /// lost, if there is a portal to ask for another. Without one the grants of a dead gateway are the
    /// best there is: it may only have been restarted, and has kept them too.
    pub(super) fn drain_races(&mut self, now: BootTime) -> BTreeSet<PublicKey> {
        let has_portal = self.session.is_open();
        let mut begin = BTreeSet::new();
        let mut dead = Vec::new();
        for (id, gateway) in &mut self.gateways {
            let name = &gateway.introduction.name;
            while let Some(output) = gateway.race.poll_output() {
                match output {
                    RaceOutput::TargetsChanged => self.is_stale = true,
                    RaceOutput::BeginHandshake => {
                        begin.insert(gateway.introduction.key);
                    }
                    RaceOutput::Dead => {
                        let event = LogEvent::GatewaySilent(*id);
                        if let Some(repeated) = self.log_events.count(event, now) {
                            let what = match has_portal {
                                true => "a gateway does not answer: asking for another",
                                false => {
                                    "a gateway does not answer, and the portal can't be asked for another"
                                }
                            };
                            let line = LogLine::warn(what)
                                .with_text("gateway", name)
                                .with("repeated", repeated);
                            self.log.push(line);
                        }
                    }
                }
            }
            if gateway.race.is_dead() && has_portal {
                dead.push(*id);
            } else if gateway.race.is_dead() && !now.has_passed(gateway.active, WANTED) {
                self.session.hurry();
            }
        }
        for id in dead {
            if self.avoid.len() >= MAX_AVOIDED {
                let first = self.avoid.iter().min_by_key(|(_, until)| **until);
                if let Some(first) = first.map(|(first, _)| *first) {
                    self.avoid.remove(&first);
                }
            }
            self.avoid
                .insert(id, now.saturating_add(Duration::from_millis(AVOID_MS)));
            self.lose_gateway(id, now);
        }
        begin
    }

    fn guard(&self) -> Guard {
        let own = self.network.iter().flat_map(|network| &network.own);
        let own = own.filter_map(|range| ipnet::IpNet::new(range.address(), range.len()).ok());
        // Four ranges are below the guard's bound.
        Guard::new(own).unwrap_or_default()
    }
}

impl Gateway {
    fn replace_candidates(&mut self, candidates: &[SocketAddr], log: &mut LogQueue) {
        for (address, refusal) in self.race.replace(Kind::Public, candidates.iter().copied()) {
            let line = LogLine::debug("not a way to the gateway")
                .with("address", address)
                .with("refusal", refusal);
            log.push(line);
        }
    }

    fn take_report(&mut self, peer: PeerReport, now: BootTime, log: &mut LogQueue) {
        let before = self.report.map(|report| report.peer);
        let carried = (peer.rx_bytes, peer.tx_bytes);
        if before.map_or((0, 0), |it| (it.rx_bytes, it.tx_bytes)) != carried {
            self.active = now;
        }
        if let Some(endpoint) = peer.endpoint
            && let Some(received) = peer.received
        {
            let handshake_before = before.and_then(|before| before.handshake);
            let accepted = if peer.handshake != handshake_before {
                self.race.handle_confirmed(endpoint, received)
            } else if before.and_then(|before| before.endpoint) != Some(endpoint) {
                self.race.handle_roamed(endpoint, received)
            } else {
                self.race.handle_received(received);
                Ok(())
            };
            if let Err(refusal) = accepted {
                let line = LogLine::debug("a path that can't be")
                    .with("endpoint", endpoint)
                    .with("refusal", refusal);
                log.push(line);
            }
        }
        if let Some(unanswered) = peer.unanswered {
            // What is unanswered was sent after all that has come, however close: the data plane looks
            // at its clock once for what it receives and sends in one go.
            let after = |at: BootTime| at.saturating_add(Duration::from_millis(1));
            let sent = unanswered.max(peer.received.map_or(BootTime::ZERO, after));
            self.race.handle_sent(sent);
        }
        self.note(peer, now);
    }

    fn note(&mut self, peer: PeerReport, now: BootTime) {
        let (rx, tx) = (peer.rx_bytes, peer.tx_bytes);
        let mut report = Report {
            at: now,
            peer,
            rx_bytes_per_s: 0,
            tx_bytes_per_s: 0,
            rated: (now, rx, tx),
        };
        if let Some(before) = self.report {
            let (at, rx_before, tx_before) = before.rated;
            let span = now.saturating_since(at);
            let rate = |bytes: u64| bytes.saturating_mul(1_000) / whole_millis(span).max(1);
            if span >= RATE_SPAN {
                report.rx_bytes_per_s = rate(rx.saturating_sub(rx_before));
                report.tx_bytes_per_s = rate(tx.saturating_sub(tx_before));
            } else {
                report.rx_bytes_per_s = before.rx_bytes_per_s;
                report.tx_bytes_per_s = before.tx_bytes_per_s;
                report.rated = before.rated;
            }
        }
        self.report = Some(report);
    }
}
