//! Messages of the portal.

use super::client::Client;
use super::directory::Unreadable;
use super::network::{Network, parse_ranges};
use super::output::{Ending, Output};
use super::reason::tidy;
use culvert_base::{BootTime, LogLine};
use culvert_ids::{GrantId, ResourceId};
use culvert_wire::messages::{
    FromClient, PortalSet, Reason, ReasonCode, ToClient, decode_sequenced,
};
use culvert_wire::{Decoded, PROTOCOL};
use std::collections::BTreeSet;
use std::time::Duration;

/// The longest life of a grant that is believed, in seconds: a month. A longer one is cut to it,
/// so that sums of times stay sums.
const MAX_GRANT_LIFETIME_S: u32 = 31 * 86_400;

impl<P> Client<P> {
    /// The portal sent `text`.
    pub fn handle_portal_message(&mut self, text: &str, now: BootTime) {
        if !self.portal.is_connected() {
            return;
        }
        let message = match decode_sequenced::<ToClient>(text) {
            Ok(message) => message,
            Err(error) => {
                self.break_off(&error.to_string(), now);
                return self.finish(now);
            }
        };
        if self.portal.take_place(message.epoch, message.seq).is_err() {
            self.break_off("the portal left out a message", now);
            return self.finish(now);
        }
        match message.message {
            Decoded::Known(message) => self.handle_message(message, now),
            Decoded::Unknown { kind } => {
                let answer = FromClient::Unsupported { kind };
                self.outbox.push(Output::ToPortal(answer));
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
            ToClient::Welcome { .. } if !self.portal.is_open() => {
                self.handle_welcome(message, now);
            }
            ToClient::Unsupported { kind } => {
                let line = LogLine::warn("the portal does not know a message; it may be older");
                self.outbox.log(line.with_text("kind", &kind));
            }
            _ if !self.portal.is_open() => {
                self.break_off("the portal did not begin with welcome", now);
            }
            ToClient::Welcome { .. } => {
                self.break_off("the portal said welcome twice", now);
            }
            ToClient::ResourceSet { resource } => self.hear_resource(&resource, now),
            ToClient::ResourceRemoved { resource } => {
                self.directory.remove(resource);
                self.drop_access(resource, now);
                self.routes.set_stale();
            }
            ToClient::DnsSet { dns } => self.set_dns_rules(&dns, now),
            ToClient::EndedAccessSet { releases } => self.set_release_ended(releases),
            ToClient::PortalsSet { portals } => self.learn_portals(portals),
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
                self.handle_gateway_lost(gateway, now);
            }
            ToClient::GatewayDraining { gateway } => self.leave_gateway(gateway, now),
            ToClient::GatewayMoved {
                gateway,
                candidates,
            } => self.move_gateway(gateway, &candidates, now),
            ToClient::RelayPlacesSet { relays } => self.paths.set_places(&relays, now),
            ToClient::RelaysSet { gateway, relays } => {
                self.set_gateway_relays(gateway, &relays, now);
            }
        }
    }

    fn handle_refused(&mut self, reason: &Reason, retry_after_s: Option<u32>, now: BootTime) {
        let reason = tidy(reason);
        if reason.code == ReasonCode::OwnerDisabled {
            return self.wait_for_owner(reason.text, retry_after_s, now);
        }
        if let Some(retry_after_s) = retry_after_s {
            self.outbox.push(Output::Disconnect);
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
            | ReasonCode::OwnerDisabled
            | ReasonCode::BadGrant
            | ReasonCode::Internal
            | ReasonCode::Other => Ending::Failed(reason.text),
        };
        // The grants of this client count no longer, whatever the gateways know of them.
        self.drop_everything(now);
        self.end(ending, now);
    }

    /// Keeps who the client is, and nothing of its access: attempts at a session go on until the owner is enabled.
    fn wait_for_owner(&mut self, why: String, retry_after_s: Option<u32>, now: BootTime) {
        if !self.portal.is_owner_disabled() {
            let line = LogLine::warn("no access until the owner of this client is enabled again");
            self.outbox.log(line.with_text("reason", &why));
        }
        self.outbox.push(Output::Disconnect);
        self.drop_everything(now);
        let retry_after_ms = retry_after_s.map(|wait_s| u64::from(wait_s) * 1_000);
        let random = &mut self.random;
        self.portal
            .handle_owner_disabled(why, retry_after_ms, random, now);
    }

    fn handle_welcome(&mut self, message: ToClient, now: BootTime) {
        let ToClient::Welcome {
            protocol,
            relays,
            client,
            interface,
            ranges,
            resources,
            later_resources,
            grants,
            grant_lifetime_s,
            dns,
            portals,
            releases_ended_access,
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
            // Another client id or address: neither grant nor resource of the old one is ours.
            self.drop_everything(now);
            self.directory.clear();
            self.outbox.push(Output::Interface(interface));
        }
        if before.is_none_or(|before| before.names != names) && !self.renew_stub(now) {
            return self.break_off("the portal's ranges for names can't be used", now);
        }
        self.portal.open(now);
        self.paths.begin_session(&relays, now);
        self.gateways.begin_session();
        let current: BTreeSet<GrantId> = grants.into_iter().collect();
        self.keep_only(&current, now);
        self.begin_listing(&resources, later_resources, now);
        self.set_release_ended(releases_ended_access);
        self.set_dns_rules(&dns, now);
        self.learn_portals(portals);
        self.log_unreadable(None);
    }

    /// Follows the account's rule about access that ended.
    fn set_release_ended(&mut self, releases: bool) {
        self.directory.set_release_ended(releases);
        self.routes.set_stale();
    }

    /// True if destinations of ended access leave by the host's own routes: the account says so.
    #[must_use]
    pub const fn releases_ended_access(&self) -> bool {
        self.directory.ended().releases()
    }

    fn learn_portals(&mut self, portals: PortalSet) {
        if !portals.is_empty() {
            self.outbox.push(Output::Portals(portals));
        }
    }

    /// One line for what can't be read: `one` resource, or all.
    pub(super) fn log_unreadable(&mut self, one: Option<ResourceId>) {
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
        self.outbox.log(line);
    }

    /// Of the grants, only those that the portal named still stand.
    fn keep_only(&mut self, current: &BTreeSet<GrantId>, now: BootTime) {
        for grant in self.accesses.grants_except(current) {
            self.lose_grant(grant, now);
        }
    }

    /// The tunnel's networks, or why it has none, are other ones: everything begins anew.
    fn drop_everything(&mut self, now: BootTime) {
        for id in self.accesses.ids() {
            self.drop_access(id, now);
        }
        self.gateways.avoid_none();
    }

    /// Begins to answer names with the ranges of the network; `false` where that can't be.
    fn renew_stub(&mut self, now: BootTime) -> bool {
        let Some(network) = &self.network else {
            return false;
        };
        let random = self.random.next();
        match self.names.make_stub(network, random) {
            Ok(stub) => {
                // Addresses of the old ranges mean nothing now.
                for id in self.accesses.ids() {
                    let resource = self.directory.get(id);
                    if resource.is_none_or(|it| it.target.pattern().is_some()) {
                        self.drop_access(id, now);
                    }
                }
                self.names.set_stub(stub);
                true
            }
            Err(error) => {
                let line = LogLine::warn("names can't be answered").with("error", error);
                self.outbox.log(line);
                false
            }
        }
    }
}
