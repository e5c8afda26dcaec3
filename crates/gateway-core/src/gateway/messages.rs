//! The portal's messages.

use super::Gateway;
use super::take::MAX_GRANTS;
use crate::backlog::Offered;
use crate::log::tidy;
use crate::network::Network;
use crate::output::{Ending, Output};
use crate::services::ChangedServices;
use crate::verify::GrantKeys;
use culvert_base::{BootTime, LogLine};
use culvert_ids::{GatewayId, GrantId};
use culvert_policy::Prefix;
use culvert_wire::messages::{
    FromGateway, Interface, PortalSet, Ranges, Reason, ReasonCode, ToGateway, decode_sequenced,
};
use culvert_wire::{Decoded, PROTOCOL};

impl Gateway {
    /// A text of the portal.
    pub fn handle_text(&mut self, text: &str, now: BootTime) {
        self.take_text(text, now);
        self.finish_texts(now);
    }

    /// One of several texts of the portal, which are handled together: [`Self::finish_texts`] follows the last one. All of
    /// them together are one change of the data plane.
    ///
    /// Grants wait until the other texts are handled. If many wait, some are put in force then, and the others as
    /// [`Self::handle_timeout`] is called, which is due at once.
    pub fn take_text(&mut self, text: &str, now: BootTime) {
        if !self.portal.session.is_connected() {
            return;
        }
        match decode_sequenced::<ToGateway>(text) {
            Ok(placed) => {
                if self
                    .portal
                    .session
                    .take_place(placed.epoch, placed.seq)
                    .is_err()
                {
                    self.break_off("a message of the portal is missing", now);
                } else {
                    self.handle_message(placed.message, now);
                }
            }
            Err(error) => self.break_off(&error.to_string(), now),
        }
    }

    /// See [`Self::take_text`].
    pub fn finish_texts(&mut self, now: BootTime) {
        self.finish(now);
    }

    fn handle_message(&mut self, message: Decoded<ToGateway>, now: BootTime) {
        let message = match message {
            Decoded::Known(message) => message,
            Decoded::Unknown { kind } => {
                self.outputs
                    .push(Output::ToPortal(FromGateway::Unsupported { kind }));
                return;
            }
        };
        match message {
            ToGateway::Welcome {
                protocol,
                gateway,
                site,
                site_name,
                interface,
                ranges,
                grant_keys,
                grants,
                more_grants,
                draining,
                verification_awaited,
                portals,
            } => {
                if protocol != PROTOCOL || self.portal.session.is_open() {
                    self.break_off("the portal chose a protocol that was not offered", now);
                    return;
                }
                let keys = GrantKeys::new(grant_keys);
                if !self.take_network(gateway, interface, ranges, keys, now) {
                    self.break_off("the portal's ranges can't be", now);
                    return;
                }
                self.portal.site = site;
                self.portal.site_name = site_name.as_deref().map(tidy);
                self.portal.session.open(now);
                self.paths.begin_session();
                self.dns.site_names.begin_session();
                let retained = grants.into_iter().collect();
                match more_grants {
                    true => self.portal.retained = Some(retained),
                    false => self.retain_grants(&retained, now),
                }
                self.portal.drain.portal = draining;
                self.set_verification_awaited(verification_awaited, now);
                self.set_expiries(now);
                self.persistence.change_network();
                self.learn_portals(portals);
            }
            ToGateway::Refused {
                reason,
                retry_after_s,
            } => self.handle_refused(reason, retry_after_s, now),
            // The rest belongs to a session that is open.
            _ if !self.portal.session.is_open() => {
                self.break_off("the portal did not begin with welcome", now);
            }
            ToGateway::GrantsRetained { grants, more } => self.retain_more(grants, more, now),
            // The state that it goes on with is said first.
            _ if self.portal.retained.is_some() => {
                self.break_off("the portal did not say which grants are still valid", now);
            }
            ToGateway::Grant {
                token,
                preshared_key,
                replaces,
                names,
                labels,
            } => {
                let offered = Offered {
                    token,
                    preshared_key,
                    replaces,
                    names,
                    labels,
                };
                self.hear_grant(offered, now);
            }
            ToGateway::AnswerNow { grant } => self.answer_now(grant, now),
            ToGateway::Revoke { grant } => self.revoke(grant, now),
            ToGateway::FiltersChanged {
                resource,
                filters,
                inbound,
            } => self.set_services(resource, &ChangedServices { filters, inbound }),
            ToGateway::Drain { on } => self.portal.drain.portal = on,
            ToGateway::Verification { awaited } => self.set_verification_awaited(awaited, now),
            ToGateway::FlowLog { on } => self.want_flows(on, now),
            ToGateway::PortalsSet { portals } => self.learn_portals(portals),
            ToGateway::RelaysSet { relays } => self.paths.set_relays(&relays, now),
            ToGateway::ClientCandidates {
                client: _,
                client_key,
                candidates,
            } => self.paths.set_candidates(client_key, candidates, now),
            ToGateway::DevicesAdmitted {
                devices,
                more,
                kept_s,
            } => self.hear_admitted(devices, more, kept_s, now),
            ToGateway::DeviceAdmitted { device } => self.admit(device, now),
            ToGateway::DeviceDismissed { client } => self.dismiss(client),
            ToGateway::NamesElsewhere {
                client,
                place,
                names,
            } => self.set_names_elsewhere(client, place, names),
            ToGateway::ResolveName {
                ask,
                client,
                resource,
                name,
            } => self.resolve_for_other(ask, (client, resource), &name, now),
            ToGateway::NameAnswered { ask, answer } => self.elsewhere_answered(ask, answer, now),
            ToGateway::FlowsTaken { run, batch } => self.flows_taken(run, batch, now),
            ToGateway::Unsupported { kind } => {
                let line = LogLine::warn("the portal does not know a message of this gateway");
                self.journal.log.push(line.with_text("kind", &kind));
            }
        }
    }

    /// A further page of the grants that are still valid. All others end with the last one.
    fn retain_more(&mut self, grants: Vec<GrantId>, more: bool, now: BootTime) {
        let Some(mut retained) = self.portal.retained.take() else {
            self.break_off("the portal had said which grants are still valid", now);
            return;
        };
        retained.extend(grants);
        if retained.len() > MAX_GRANTS {
            self.break_off("the portal named more grants than there can be", now);
            return;
        }
        match more {
            true => self.portal.retained = Some(retained),
            false => self.retain_grants(&retained, now),
        }
    }

    fn learn_portals(&mut self, portals: PortalSet) {
        if !portals.is_empty() {
            self.outputs.push(Output::Portals(portals));
        }
    }

    /// The portal has taken all grants back by then; one that it still believes in must not stay.
    fn set_verification_awaited(&mut self, awaited: bool, now: BootTime) {
        self.portal.verification_awaited = awaited;
        if awaited {
            self.drop_all_grants(now);
        }
    }

    fn handle_refused(&mut self, reason: Reason, retry_after_s: Option<u32>, now: BootTime) {
        let Some(retry_after_s) = retry_after_s else {
            let ending = match reason.code {
                ReasonCode::BadToken => Ending::NotEnrolled(reason.text),
                ReasonCode::Revoked => Ending::Revoked(reason.text),
                _ => Ending::Failed(reason.text),
            };
            self.end(ending, now);
            return;
        };
        self.outputs.push(Output::Disconnect);
        let retry_after_ms = u64::from(retry_after_s) * 1000;
        self.lose_session(Some(reason.text), Some(retry_after_ms), now);
    }

    /// Takes over who the gateway is and which networks are in use. False where a range can't be; all is
    /// as before then. Another identity voids every grant.
    pub(super) fn take_network(
        &mut self,
        gateway: GatewayId,
        interface: Interface,
        ranges: Ranges,
        keys: GrantKeys,
        now: BootTime,
    ) -> bool {
        let pair = |v4: &str, v6: &str| -> Option<[Prefix; 2]> {
            let pair = [v4.parse::<Prefix>().ok()?, v6.parse::<Prefix>().ok()?];
            let is_right = pair[0].address().is_ipv4() && pair[1].address().is_ipv6();
            is_right.then_some(pair)
        };
        let machines = pair(&ranges.machines_ipv4, &ranges.machines_ipv6);
        let names = pair(&ranges.names_ipv4, &ranges.names_ipv6);
        let (Some(machines), Some(names)) = (machines, names) else {
            return false;
        };
        let before = self.network.as_ref();
        let is_same = before.is_some_and(|old| {
            old.gateway == gateway && old.machines == machines && old.names == names
        });
        let has_moved =
            before.is_none_or(|old| old.interface != interface || old.machines != machines);
        if !is_same {
            self.drop_all_grants(now);
        }
        self.network = Some(Network {
            gateway,
            interface,
            ranges,
            machines,
            names,
            keys,
        });
        self.guard_paths();
        if has_moved {
            self.outputs.push(Output::Interface(interface));
        }
        true
    }
}
