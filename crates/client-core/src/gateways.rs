//! Gateways that grants lead through: their paths, and whether they answer.

use super::gateway::{Gateway, PeerReport};
use super::grant::{Grant, Introduction};
use super::log::LogEvent;
use super::outbox::Outbox;
use culvert_base::{BootTime, LogLine, LogQueue};
use culvert_ids::GatewayId;
use culvert_path::{Guard, Nat64Prefix, Output as RaceOutput, Selection};
use culvert_relay_core::Message;
use culvert_wire::PublicKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The time for which a gateway that did not answer is avoided, in milliseconds: until the portal has noticed
/// too, and then some. If there is no other, it is asked for all the same.
pub const AVOID_MS: u64 = 60_000;

/// The time after data was sent to a dead gateway within which somebody is taken to wait for another:
/// longer than TCP waits between two attempts of its first.
const WANTED: Duration = Duration::from_secs(10);

/// Gateways that are avoided at once: those of a site. The one that was added first gives way.
const MAX_AVOIDED: usize = 16;

/// The interval at which the data plane is asked what it knows of peers. A path is in doubt after
/// 2 s of silence and dead 2 s later: an eighth of either.
const REPORT_EVERY: Duration = Duration::from_millis(250);

/// The gateways of the client.
#[derive(Debug, Default)]
pub(super) struct Gateways {
    by_id: BTreeMap<GatewayId, Gateway>,
    /// Gateways that did not answer, and the time until which they are avoided.
    avoided: BTreeMap<GatewayId, BootTime>,
    /// By which IPv4 is reached, on a network that has IPv6 alone.
    nat64: Option<Nat64Prefix>,
}

/// The findings of the races of all gateways.
#[derive(Debug, Default)]
pub(super) struct Raced {
    /// Those that shall begin a handshake.
    pub(super) begin: BTreeSet<PublicKey>,
    /// Those to be lost: they are dead, and there is a portal to ask for another.
    pub(super) dead: Vec<GatewayId>,
    /// Candidates of one are others than before.
    pub(super) has_changed: bool,
    /// Somebody waits for another gateway, and there is no portal.
    pub(super) is_portal_wanted: bool,
}

impl Gateways {
    pub(super) fn get(&self, id: GatewayId) -> Option<&Gateway> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: GatewayId) -> Option<&mut Gateway> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn ids(&self) -> Vec<GatewayId> {
        self.by_id.keys().copied().collect()
    }

    /// A probe came, or the answer to one.
    pub(super) fn handle_probe(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) {
        let Some(message) = Message::parse(datagram) else {
            return;
        };
        let mut selections = self
            .by_id
            .values_mut()
            .filter_map(|it| it.selection.as_mut());
        selections.any(|selection| selection.handle_message(&message, source, now));
    }

    /// Selections of paths have something to do.
    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        let selections = self
            .by_id
            .values_mut()
            .filter_map(|it| it.selection.as_mut());
        for selection in selections {
            selection.handle_timeout(now);
        }
    }

    /// The time at which [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        let selections = self.by_id.values().filter_map(|it| it.selection.as_ref());
        selections.filter_map(Selection::poll_timeout).min()
    }

    /// The portal knows nothing of the paths.
    pub(super) fn begin_session(&mut self) {
        for gateway in self.by_id.values_mut() {
            gateway.told_path = None;
        }
    }

    pub(super) fn contains(&self, id: GatewayId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (GatewayId, &Gateway)> {
        self.by_id.iter().map(|(id, gateway)| (*id, gateway))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The data plane reports of its peers.
    pub(super) fn handle_reports(
        &mut self,
        reports: &[PeerReport],
        log: &mut LogQueue,
        now: BootTime,
    ) {
        for report in reports {
            let mut known = self.by_id.values_mut();
            if let Some(gateway) = known.find(|known| known.introduction.key == report.key) {
                gateway.take_report(*report, now, log);
            }
        }
        for gateway in self.by_id.values_mut() {
            gateway.race.handle_timeout(now);
        }
    }

    /// The time at which reports are wanted; never if there is no gateway.
    pub(super) fn poll_report(&self, now: BootTime) -> Option<BootTime> {
        if self.by_id.is_empty() {
            return None;
        }
        let races = self.by_id.values().filter_map(|it| it.race.poll_timeout());
        let race = races.min().unwrap_or(BootTime::MAX);
        let selections = self.by_id.values().filter_map(|it| it.selection.as_ref());
        let judgement = selections.filter_map(Selection::poll_judgement).min();
        let judgement = judgement.unwrap_or(BootTime::MAX);
        let last = self.by_id.values().map(|gateway| {
            let last = gateway.report.map(|report| report.at);
            last.map_or(now, |at| at.saturating_add(REPORT_EVERY))
        });
        Some(last.min().unwrap_or(now).min(race).min(judgement))
    }

    /// The addresses at which the gateways may be.
    pub(super) fn destinations(&self) -> Vec<IpAddr> {
        let candidates = self
            .by_id
            .values()
            .flat_map(|gateway| gateway.race.targets());
        let addresses: BTreeSet<IpAddr> = candidates.map(|candidate| candidate.ip()).collect();
        addresses.into_iter().collect()
    }

    /// True if the gateway of a grant carried something within the last `span`.
    pub(super) fn is_in_use(&self, grant: &Grant, span: Duration, now: BootTime) -> bool {
        let gateway = self.by_id.get(&grant.gateway.id);
        gateway.is_some_and(|gateway| !now.has_passed(gateway.active, span))
    }

    /// The same machine under another id, or the same id with another key: grants through those are void.
    pub(super) fn strangers_to(&self, introduction: &Introduction) -> Vec<GatewayId> {
        let strangers = self.by_id.iter().filter(|(id, known)| {
            let same_id = **id == introduction.id;
            same_id != (known.introduction.key == introduction.key)
        });
        strangers.map(|(id, _)| *id).collect()
    }

    /// A grant leads through this gateway.
    pub(super) fn meet(
        &mut self,
        introduction: &Introduction,
        guard: impl FnOnce() -> Guard,
        log: &mut LogQueue,
        now: BootTime,
    ) {
        let gateway = self
            .by_id
            .entry(introduction.id)
            .or_insert_with(|| Gateway::new(introduction, guard(), now));
        if gateway.introduction.preshared_key != introduction.preshared_key {
            // Its probes are by the secret of the pair.
            gateway.selection = None;
        }
        gateway.introduction = introduction.clone();
        gateway.replace_candidates(self.nat64, log);
        gateway.announce_candidates(self.nat64, now);
    }

    /// Somebody wants to send through this gateway.
    pub(super) fn reach(&mut self, id: GatewayId, now: BootTime) {
        if let Some(gateway) = self.by_id.get_mut(&id)
            && gateway.race.current().is_none()
        {
            gateway.race.handle_sent(now);
        }
    }

    /// A gateway is elsewhere. False if it is not known.
    pub(super) fn set_candidates(
        &mut self,
        id: GatewayId,
        candidates: &[SocketAddr],
        log: &mut LogQueue,
        now: BootTime,
    ) -> bool {
        let Some(gateway) = self.by_id.get_mut(&id) else {
            return false;
        };
        gateway.introduction.candidates = candidates.to_vec();
        gateway.replace_candidates(self.nat64, log);
        gateway.announce_candidates(self.nat64, now);
        // It may have left the place where it was.
        gateway.race.handle_network_changed(now);
        true
    }

    /// IPv4 is reached by this prefix from now on, or as it is.
    pub(super) fn set_nat64(
        &mut self,
        prefix: Option<Nat64Prefix>,
        log: &mut LogQueue,
        now: BootTime,
    ) {
        self.nat64 = prefix;
        for gateway in self.by_id.values_mut() {
            gateway.replace_candidates(prefix, log);
            gateway.announce_candidates(prefix, now);
            gateway.race.handle_network_changed(now);
        }
    }

    /// The host's network is another: all paths are tried again.
    pub(super) fn handle_network_changed(&mut self, now: BootTime) {
        for gateway in self.by_id.values_mut() {
            gateway.race.handle_network_changed(now);
            if let Some(selection) = &mut gateway.selection {
                selection.handle_network_changed(now);
            }
        }
    }

    pub(super) fn remove(&mut self, id: GatewayId) {
        self.by_id.remove(&id);
    }

    /// Forgets all but these.
    pub(super) fn keep_only(&mut self, live: &BTreeSet<GatewayId>) {
        self.by_id.retain(|id, _| live.contains(id));
    }

    /// Takes in what the races say. A dead gateway is lost if there is a portal to ask for another. Without one the
    /// grants of a dead gateway are the best there is: it may only have been restarted, and has kept them too.
    pub(super) fn drain_races<P>(
        &mut self,
        has_portal: bool,
        outbox: &mut Outbox<P>,
        now: BootTime,
    ) -> Raced {
        let mut raced = Raced::default();
        for (id, gateway) in &mut self.by_id {
            let name = &gateway.introduction.name;
            while let Some(output) = gateway.race.poll_output() {
                match output {
                    RaceOutput::TargetsChanged => raced.has_changed = true,
                    RaceOutput::BeginHandshake => {
                        raced.begin.insert(gateway.introduction.key);
                    }
                    RaceOutput::Dead => {
                        outbox.log_event(LogEvent::GatewaySilent(*id), now, || {
                            silent_line(name, has_portal)
                        });
                    }
                }
            }
            if gateway.race.is_dead() && has_portal {
                raced.dead.push(*id);
            } else if gateway.race.is_dead() && !now.has_passed(gateway.active, WANTED) {
                raced.is_portal_wanted = true;
            }
        }
        raced
    }

    /// Requests ask for another gateway than this one for a while.
    pub(super) fn avoid(&mut self, id: GatewayId, now: BootTime) {
        if self.avoided.len() >= MAX_AVOIDED {
            let first = self.avoided.iter().min_by_key(|(_, until)| **until);
            if let Some(first) = first.map(|(first, _)| *first) {
                self.avoided.remove(&first);
            }
        }
        let until = now.saturating_add(Duration::from_millis(AVOID_MS));
        self.avoided.insert(id, until);
    }

    pub(super) fn is_avoided(&self, id: GatewayId) -> bool {
        self.avoided.contains_key(&id)
    }

    /// The gateways that are avoided.
    pub(super) fn avoided(&self) -> Vec<GatewayId> {
        self.avoided.keys().copied().collect()
    }

    /// Ends the avoiding of gateways whose time is over.
    pub(super) fn expire_avoided(&mut self, now: BootTime) {
        self.avoided.retain(|_, until| now < *until);
    }

    pub(super) fn avoid_none(&mut self) {
        self.avoided.clear();
    }
}

/// Tells of a gateway that does not answer.
fn silent_line(name: &str, has_portal: bool) -> LogLine {
    let text = match has_portal {
        true => "a gateway does not answer: asking for another",
        false => "a gateway does not answer, and the portal can't be asked for another",
    };
    LogLine::warn(text).with_text("gateway", name)
}
