//! What the portal says.

use super::access::tidy;
use super::directory::{Changed, Unreadable};
use super::log::LogEvent;
use super::output::{Ending, Output};
use super::{Client, Network, PacketRefusal};
use culvert_base::{BootTime, LogLine};
use culvert_dns::Stub;
use culvert_ids::{GatewayId, GrantId, ResourceId};
use culvert_policy::{Prefix, Resource};
use culvert_wire::messages::{FromClient, Ranges, Reason, ReasonCode, ToClient, decode_sequenced};
use culvert_wire::{Decoded, PROTOCOL};
use ipnet::{Ipv4Net, Ipv6Net};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest life of a grant that is believed, in seconds: a month. What the portal says beyond it
/// is cut, so that sums of times stay sums.
const MAX_GRANT_LIFETIME_S: u32 = 31 * 86_400;

impl<P> Client<P> {
    /// The portal sent `text`.
    pub fn handle_portal_message(&mut self, text: &str, now: BootTime) {
        if !self.session.is_connected() {
            return;
        }
        let message = match decode_sequenced::<ToClient>(text) {
            Ok(message) => message,
            Err(error) => {
                self.break_off(&error.to_string(), now);
                return self.finish(now);
            }
        };
        if self.session.take_place(message.epoch, message.seq).is_err() {
            self.break_off("the portal left out a message", now);
            return self.finish(now);
        }
        match message.message {
            Decoded::Known(message) => self.handle_message(message, now),
            Decoded::Unknown { kind } => {
                let answer = FromClient::Unsupported { kind };
                self.outputs.push_back(Output::ToPortal(answer));
            }
        }
        self.finish(now);
    }

    fn handle_message(&mut self, message: ToClient, now: BootTime) {
        match message {
            ToClient::Refused {
                reason,
                retry_after_s,
            } => self.handle_refused(&reason, retry_after_s, now),
            ToClient::Welcome { .. } if !self.session.is_open() => {
                self.handle_welcome(message, now);
            }
            ToClient::Unsupported { kind } => {
                let line = LogLine::warn("the portal does not know a message; it may be older");
                self.log.push(line.with_text("kind", &kind));
            }
            _ if !self.session.is_open() => {
                self.break_off("the portal did not begin with welcome", now);
            }
            ToClient::Welcome { .. } => {
                self.break_off("the portal said welcome twice", now);
            }
            ToClient::ResourceSet { resource } => {
                match self.directory.set(&resource, &mut self.log) {
                    Changed::Other => self.forget_denial(resource.id, now),
                    Changed::Target | Changed::Gone => self.drop_access(resource.id, now),
                }
                self.log_unreadable(Some(resource.id));
                // It may be for the same range as one that is in use.
                self.same_target_due = now;
                self.is_stale = true;
            }
            ToClient::ResourceRemoved { resource } => {
                self.directory.remove(resource);
                self.drop_access(resource, now);
                self.is_stale = true;
            }
            ToClient::DnsSet { dns } => self.set_dns_rules(&dns, now),
            granted @ ToClient::AccessGranted { .. } => self.handle_granted(granted, now),
            ToClient::AccessDenied {
                request,
                resource,
                reason,
            } => self.handle_denied(request, resource, &reason, now),
            ToClient::AccessRevoked { grant, reason } => {
                self.handle_revoked(grant, &reason, now);
            }
            ToClient::GatewayLost { gateway } => {
                if let Some(lost) = self.gateways.get(&gateway)
                    && let Some(repeated) =
                        self.log_events.count(LogEvent::GatewayLost(gateway), now)
                {
                    let line = LogLine::info("a gateway is gone, as the portal says")
                        .with_text("gateway", &lost.introduction.name)
                        .with("repeated", repeated);
                    self.log.push(line);
                }
                self.lose_gateway(gateway, now);
            }
            ToClient::GatewayDraining { gateway } => self.leave_gateway(gateway, now),
            ToClient::GatewayMoved {
                gateway,
                candidates,
            } => self.move_gateway(gateway, &candidates, now),
        }
    }

    fn handle_refused(&mut self, reason: &Reason, retry_after_s: Option<u32>, now: BootTime) {
        let reason = tidy(reason);
        if let Some(retry_after_s) = retry_after_s {
            self.outputs.push_back(Output::Disconnect);
            let retry_after_ms = u64::from(retry_after_s) * 1_000;
            return self.lose_session(Some(reason.text), Some(retry_after_ms), now);
        }
        let ending = match reason.code {
            ReasonCode::BadToken => Ending::NotEnrolled(reason.text),
            ReasonCode::Revoked => Ending::Denied(reason.text),
            ReasonCode::Protocol
            | ReasonCode::Replaced
            | ReasonCode::TryLater
            | ReasonCode::NoAccess
            | ReasonCode::ConditionNotMet
            | ReasonCode::NoGateway
            | ReasonCode::GatewayRefused
            | ReasonCode::HostAddress
            | ReasonCode::NameNotFound
            | ReasonCode::NameOutside
            | ReasonCode::NameUnanswered
            | ReasonCode::TooMany
            | ReasonCode::Expired
            | ReasonCode::PolicyChanged
            | ReasonCode::BadGrant
            | ReasonCode::Internal
            | ReasonCode::Other => Ending::Failed(reason.text),
        };
        // What was granted to this client counts no longer, whatever the gateways know of it.
        self.drop_everything(now);
        self.end(ending, now);
    }

    fn handle_welcome(&mut self, message: ToClient, now: BootTime) {
        let ToClient::Welcome {
            protocol,
            client,
            interface,
            ranges,
            resources,
            grants,
            grant_lifetime_s,
            dns,
        } = message
        else {
            return;
        };
        if protocol != PROTOCOL {
            return self.break_off("the portal chose a protocol that was not offered", now);
        }
        let Some((own, names)) = parse_ranges(&ranges) else {
            return self.break_off("the portal's address ranges can't be read", now);
        };
        let before = self.network.replace(Network {
            client,
            interface,
            own,
            names,
            grant_lifetime: Duration::from_secs(grant_lifetime_s.min(MAX_GRANT_LIFETIME_S).into()),
        });
        let is_same_machine = before
            .as_ref()
            .is_some_and(|before| before.client == client && before.interface == interface);
        if !is_same_machine {
            // Another client id or address: no grant that was given to the old one is ours.
            self.drop_everything(now);
            self.outputs.push_back(Output::Interface(interface));
        }
        if before.is_none_or(|before| before.names != names) && !self.renew_stub(now) {
            return self.break_off("the portal's ranges for names can't be used", now);
        }
        self.session.open(now);
        let standing: BTreeSet<GrantId> = grants.into_iter().collect();
        self.keep_only(&standing, now);
        self.replace_resources(&resources, now);
        self.set_dns_rules(&dns, now);
        self.log_unreadable(None);
    }

    /// One line for what can't be read: `one` resource, or all.
    fn log_unreadable(&mut self, one: Option<ResourceId>) {
        let mut unreadable = self.directory.unreadable();
        let first = match one {
            Some(id) => unreadable.find(|(unreadable, _)| *unreadable == id),
            None => unreadable.next(),
        };
        let Some((id, Unreadable { why, .. })) = first else {
            return;
        };
        let others = one.map_or_else(|| unreadable.count(), |_| 0);
        let line = LogLine::warn("a resource can't be read: no access to it")
            .with("id", id)
            .with_text("why", why)
            .with("others", others);
        self.log.push(line);
    }

    /// What the portal lists is there, and what it does not list is gone; but a resource whose grant
    /// still stands only follows in a later message, since one does not hold them all.
    fn replace_resources(&mut self, resources: &[culvert_wire::model::Resource], now: BootTime) {
        let held: Vec<(ResourceId, Option<Resource>)> = self
            .accesses
            .keys()
            .map(|id| (*id, self.directory.get(*id).cloned()))
            .collect();
        self.directory.replace(resources, &mut self.log);
        for (id, before) in held {
            let has_grant = self.accesses.get(&id).is_some_and(|it| it.grant.is_some());
            let before_target = before.as_ref().map(|before| before.target.clone());
            match (self.directory.get(id), before) {
                (Some(listed), Some(_)) if Some(&listed.target) == before_target.as_ref() => {
                    self.forget_denial(id, now);
                }
                (None, Some(before)) if has_grant && !self.directory.is_unreadable(id) => {
                    self.directory.restore(before);
                }
                _ => self.drop_access(id, now),
            }
        }
        self.is_stale = true;
    }

    /// Of the grants, only those that the portal named still stand.
    fn keep_only(&mut self, standing: &BTreeSet<GrantId>, now: BootTime) {
        let ended: Vec<GrantId> = self
            .grants
            .keys()
            .filter(|grant| !standing.contains(grant))
            .copied()
            .collect();
        for grant in ended {
            self.lose_grant(grant, now);
        }
    }

    fn move_gateway(&mut self, gateway: GatewayId, candidates: &[SocketAddr], now: BootTime) {
        for access in self.accesses.values_mut() {
            let grants = [&mut access.grant, &mut access.successor];
            for grant in grants.into_iter().flatten() {
                if grant.gateway.id == gateway {
                    grant.gateway.candidates = candidates.to_vec();
                }
            }
        }
        self.set_candidates(gateway, candidates, now);
    }

    /// The tunnel's networks, or why it has none, are other ones: everything begins anew.
    fn drop_everything(&mut self, now: BootTime) {
        let ids: Vec<ResourceId> = self.accesses.keys().copied().collect();
        for id in ids {
            self.drop_access(id, now);
        }
        self.avoid.clear();
    }

    /// Begins to answer names with the ranges of the network; `false` where that can't be.
    fn renew_stub(&mut self, now: BootTime) -> bool {
        let Some(network) = &self.network else {
            return false;
        };
        let mut listens_on = self.options.dns_listen.clone();
        let interface = network.interface;
        listens_on.push((interface.ipv4, super::DNS_PORT).into());
        listens_on.push((interface.ipv6, super::DNS_PORT).into());
        let mut seed = self.dns_seed;
        // Another stream of ids for each resolver.
        for (byte, random) in seed.iter_mut().zip(self.random.next().to_le_bytes()) {
            *byte ^= random;
        }
        let config = culvert_dns::Config {
            ranges: network.names,
            listens_on,
            upstreams: self.options.dns_upstreams.clone(),
            fixed: self.options.portal.clone(),
        };
        let ids: Vec<ResourceId> = self.accesses.keys().copied().collect();
        match Stub::new(config, seed) {
            Ok(mut stub) => {
                stub.set_search(&self.dns_search);
                // Addresses of the old ranges mean nothing now.
                for id in ids {
                    if self
                        .directory
                        .get(id)
                        .is_none_or(|it| it.target.pattern().is_some())
                    {
                        self.drop_access(id, now);
                    }
                }
                self.stub = Some(stub);
                true
            }
            Err(error) => {
                let line = LogLine::warn("names can't be answered").with("error", error);
                self.log.push(line);
                false
            }
        }
    }

    pub(super) fn refuse_packets(&mut self, packets: Vec<P>, refusal: PacketRefusal) {
        if packets.is_empty() {
            return;
        }
        self.counters.packets_refused += packets.len() as u64;
        self.outputs.push_back(Output::Refuse { packets, refusal });
    }
}

fn parse_ranges(ranges: &Ranges) -> Option<(Vec<Prefix>, culvert_dns::Ranges)> {
    let own = [
        &ranges.machines_ipv4,
        &ranges.machines_ipv6,
        &ranges.names_ipv4,
        &ranges.names_ipv6,
    ];
    let own: Result<Vec<Prefix>, _> = own.into_iter().map(|text| text.parse()).collect();
    let v4: Ipv4Net = ranges.names_ipv4.parse().ok()?;
    let v6: Ipv6Net = ranges.names_ipv6.parse().ok()?;
    Some((own.ok()?, culvert_dns::Ranges::new(v4, v6).ok()?))
}
