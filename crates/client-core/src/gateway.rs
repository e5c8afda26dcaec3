//! One gateway: its path, and what the data plane reports of it.

use super::grant::Introduction;
use super::paths::ToldPath;
use culvert_base::{BootTime, LogLine, LogQueue, UnixTime, whole_millis};
use culvert_path::{Guard, Kind, Nat64Prefix, Race, RelayPath, Selection, reach_all};
use culvert_relay_core::probe::{PairEnd, PairProbes};
use culvert_wire::PublicKey;
use std::net::SocketAddr;
use std::time::Duration;

/// The data plane's report of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerReport {
    /// The gateway's key.
    pub key: PublicKey,
    /// The address from which it was last heard.
    pub endpoint: Option<SocketAddr>,
    /// The source of its last record, if this client sends elsewhere by [`Output::UsePath`](super::Output::UsePath).
    pub heard_elsewhere: Option<SocketAddr>,
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
    /// The choice of paths, for a gateway with relays.
    pub(super) selection: Option<Selection>,
    /// The path that the portal was told of in this session.
    pub(super) told_path: Option<ToldPath>,
    /// The time at which it last carried something.
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
    /// The time at which the rates were taken, and the numbers of bytes then.
    rated: (BootTime, u64, u64),
}

/// The circumstances in which a selection is made.
#[derive(Debug)]
pub(super) struct Making {
    pub(super) guard: Guard,
    pub(super) seed: u64,
    /// By which IPv4 is reached, on a network that has IPv6 alone.
    pub(super) nat64: Option<Nat64Prefix>,
}

/// Rates are taken over at least this long, so that they do not flicker.
const RATE_SPAN: Duration = Duration::from_secs(1);

impl Gateway {
    /// A gateway that a grant leads through from now on.
    pub(super) fn new(introduction: &Introduction, guard: Guard, now: BootTime) -> Self {
        Self {
            introduction: introduction.clone(),
            race: Race::new(guard),
            selection: None,
            told_path: None,
            active: now,
            report: None,
        }
    }

    /// The race knows the candidates that the portal told, as they are reached from here.
    pub(super) fn replace_candidates(&mut self, nat64: Option<Nat64Prefix>, log: &mut LogQueue) {
        let candidates = reach_all(nat64, &self.introduction.candidates);
        for (address, refusal) in self.race.replace(Kind::Public, candidates) {
            let line = LogLine::debug("not a way to the gateway")
                .with("address", address)
                .with("refusal", refusal);
            log.push(line);
        }
    }

    /// The relays through which the gateway is reached: those that are known, and those where this client is registered.
    pub(super) fn set_relays(
        &mut self,
        known: &[RelayPath],
        usable: &[RelayPath],
        making: Making,
        now: BootTime,
    ) {
        self.race.replace_relays(known);
        if known.is_empty() {
            self.selection = None;
            return;
        }
        if self.selection.is_none() {
            let probes = PairProbes::new(&self.introduction.preshared_key, PairEnd::Client);
            let made = probes
                .map(|probes| Selection::new(probes, PairEnd::Client, making.guard, making.seed));
            self.selection = made;
            self.announce_candidates(making.nat64, now);
        }
        if let Some(selection) = &mut self.selection {
            selection.set_relays(known, usable, now);
        }
    }

    /// The selection knows the candidates that the portal told, as they are reached from here.
    pub(super) fn announce_candidates(&mut self, nat64: Option<Nat64Prefix>, now: BootTime) {
        if let Some(selection) = &mut self.selection {
            // The race has said which ones are no candidates.
            let candidates = reach_all(nat64, &self.introduction.candidates);
            let _ = selection.set_candidates(&candidates, now);
        }
    }

    /// The data plane's report, for the selection.
    fn report_paths(&mut self, peer: &PeerReport, now: BootTime) {
        let Some(selection) = &mut self.selection else {
            return;
        };
        if let (Some(endpoint), Some(received)) = (peer.endpoint, peer.received) {
            selection.handle_endpoint(endpoint, now);
            selection.handle_traffic(received);
        }
        if let Some(source) = peer.heard_elsewhere {
            selection.handle_heard_from(source, now);
        }
        selection.handle_unanswered(peer.unanswered);
        if let Some(unanswered) = peer.unanswered {
            selection.handle_traffic(unanswered);
        }
    }

    pub(super) fn take_report(&mut self, peer: PeerReport, now: BootTime, log: &mut LogQueue) {
        let before = self.report.map(|report| report.peer);
        let traffic = (peer.rx_bytes, peer.tx_bytes);
        if before.map_or((0, 0), |it| (it.rx_bytes, it.tx_bytes)) != traffic {
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
            // Unanswered data was sent after all that has come, however close: the data plane looks
            // at its clock once for all that it receives and sends in one go.
            let after = |at: BootTime| at.saturating_add(Duration::from_millis(1));
            let sent = unanswered.max(peer.received.map_or(BootTime::ZERO, after));
            self.race.handle_sent(sent);
        }
        self.report_paths(&peer, now);
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
