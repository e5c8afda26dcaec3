//! Names of plain WireGuard devices at other sites than that of the gateway that they ask (ADR 0061).
//!
//! That gateway is told which names those are. When the device asks for one, the hub has the gateway with the standing grant
//! resolve it. The grant is the decision.

use super::Hub;
use crate::limits::NAME_ANSWER_MS;
use crate::name_asks::{NameAsk, ToldNames};
use crate::timers::{Timer, later};
use culvert_ids::{ClientId, GatewayId, ResourceId};
use culvert_policy::DomainName;
use culvert_store::{Client, Gateway};
use culvert_wire::Timestamp;
use culvert_wire::messages::{NameElsewhere, SiteAnswer, ToGateway, WantedName};
use std::net::IpAddr;

/// A gateway's question for a name at another site.
#[derive(Debug)]
pub(super) struct NameQuestion {
    /// The gateway's number of it.
    pub(super) ask: u64,
    pub(super) client: ClientId,
    pub(super) resource: ResourceId,
    pub(super) name: WantedName,
}

impl Hub {
    /// The gateway that a plain device asks for names: the first in its file that is not revoked, with its place there.
    pub(super) fn name_server_of(&self, client: &Client) -> Option<(u8, &Gateway)> {
        let rows = (0_u8..).zip(&client.gateways);
        let mut rows = rows.filter_map(|(place, id)| Some((place, self.directory.gateway(*id)?)));
        rows.find(|(_, row)| row.revoked.is_none())
    }

    /// True unless the gateway is connected and of a version that knows nothing of names at other sites.
    pub(super) fn may_know_site_names(&self, gateway: GatewayId) -> bool {
        let session = self.sessions.gateways.get(gateway);
        session.is_none_or(|session| session.announced.knows_site_names)
    }

    /// Tells the gateway that a device asks for names which of its resources are at other sites, unless it knows. Those that
    /// are `permitted` count, whether their gateways are there or not.
    pub(super) fn tell_names_elsewhere(&mut self, client: ClientId, permitted: &[ResourceId]) {
        let Some((server, told)) = self.names_elsewhere(client, permitted) else {
            self.site_names.told.remove(&client);
            return;
        };
        let before = self.site_names.told.get(&client);
        let is_nothing = told.names.is_empty() && told.place == 0;
        let knows = match before.filter(|before| before.session == told.session) {
            Some(before) => *before == told,
            None => is_nothing,
        };
        if knows {
            return;
        }
        let message = ToGateway::NamesElsewhere {
            client,
            place: told.place,
            names: told.names.clone(),
        };
        if let Some(session) = self.sessions.gateways.get(server) {
            self.outbox.tell_gateway(session.id, message);
        }
        match is_nothing {
            true => self.site_names.told.remove(&client),
            false => self.site_names.told.insert(client, told),
        };
    }

    /// A gateway has a device's grant that it had not before: the one that the device asks for names looks anew.
    pub(super) fn tell_names_elsewhere_anew(&mut self, client: ClientId) {
        let Some(told) = self.site_names.told.get(&client) else {
            return;
        };
        let server = self.directory.client(client);
        let server = server.and_then(|row| Some(self.name_server_of(row)?.1.id));
        let session = server.and_then(|server| self.sessions.gateways.get(server));
        if let Some(session) = session.filter(|session| session.id == told.session) {
            let message = ToGateway::NamesElsewhere {
                client,
                place: told.place,
                names: told.names.clone(),
            };
            self.outbox.tell_gateway(session.id, message);
        }
    }

    /// The gateway that a device asks for names, and what it is to know. None if it is not there, or can't know.
    fn names_elsewhere(
        &self,
        client: ClientId,
        permitted: &[ResourceId],
    ) -> Option<(GatewayId, ToldNames)> {
        let row = self
            .directory
            .client(client)
            .filter(|row| row.name_shares)?;
        let (place, server) = self.name_server_of(row)?;
        let session = self.sessions.gateways.get(server.id)?;
        if !session.announced.knows_site_names {
            return None;
        }
        let names = permitted.iter().filter_map(|id| {
            let resource = self.directory.resource(*id)?;
            let pattern = resource.parsed.target.pattern()?;
            if resource.parsed.site == server.site {
                return None;
            }
            Some(NameElsewhere {
                resource: *id,
                pattern: pattern.as_str().to_owned(),
                place: self.place_of_site(row, resource.parsed.site)?,
            })
        });
        let told = ToldNames {
            session: session.id,
            place,
            names: names.collect(),
        };
        Some((server.id, told))
    }

    /// The place in a device's file of the gateway of a site, unless that is revoked.
    fn place_of_site(&self, client: &Client, site: culvert_ids::SiteId) -> Option<u8> {
        let mut places = (0_u8..).zip(&client.gateways);
        let at_site = |id: &GatewayId| {
            let row = self.directory.gateway(*id);
            row.is_some_and(|row| row.site == site && row.revoked.is_none())
        };
        places.find(|(_, id)| at_site(id)).map(|(place, _)| place)
    }

    /// A gateway asks for a name at another site, for a device.
    pub(super) fn ask_name(&mut self, from: GatewayId, question: NameQuestion, now: Timestamp) {
        let ask = question.ask;
        if let Err(answer) = self.pass_on(from, question, now)
            && let Some(session) = self.sessions.gateways.get(from)
        {
            let message = ToGateway::NameAnswered { ask, answer };
            self.outbox.tell_gateway(session.id, message);
        }
    }

    /// Has the name's gateway resolve it, or says why not.
    fn pass_on(
        &mut self,
        from: GatewayId,
        question: NameQuestion,
        now: Timestamp,
    ) -> Result<(), SiteAnswer> {
        let to = self.gateway_of_name(from, &question)?;
        let directory = &self.directory;
        let is_device = |id| directory.client(id).is_some_and(Client::is_plain);
        let client = question.client;
        let session = self.sessions.gateways.get(from);
        let session = session.map(|session| session.id);
        let (Some(session), Some(resolver)) = (session, self.sessions.gateways.session(to)) else {
            return Err(SiteAnswer::Unreachable);
        };
        if !self.site_names.take_token(client, now, is_device) {
            return Err(SiteAnswer::Unreachable);
        }
        let deadline = later(now, NAME_ANSWER_MS);
        let begun = self.site_names.begin(NameAsk {
            from,
            number: question.ask,
            session,
            to,
            deadline,
        });
        let ask = begun.ok_or(SiteAnswer::Unreachable)?;
        self.timers.set(deadline, Timer::NameAsk(ask));
        let resolve = ToGateway::ResolveName {
            ask,
            client,
            resource: question.resource,
            name: question.name,
        };
        self.outbox.tell_gateway(resolver, resolve);
        Ok(())
    }

    /// The gateway that resolves a name for a device which asked `from`. Only the device's own name server asks, for a name of a
    /// resource that the device has a grant for, with addresses that its file sends there.
    fn gateway_of_name(
        &self,
        from: GatewayId,
        question: &NameQuestion,
    ) -> Result<GatewayId, SiteAnswer> {
        let denied = |text: &str| SiteAnswer::Denied {
            text: text.to_owned(),
        };
        let no_access = || denied("no policy gives this device the name now");
        let row = self.directory.admit_client(question.client);
        let row = row.ok().filter(|row| row.is_plain() && row.name_shares);
        let row = row.ok_or_else(no_access)?;
        let server = self.name_server_of(row);
        if server.is_none_or(|(_, server)| server.id != from) {
            return Err(no_access());
        }
        let resource = self.directory.resource(question.resource);
        let pattern = resource.and_then(|resource| resource.parsed.target.pattern());
        let name = DomainName::shown(&question.name.name).ok();
        let is_of_resource = pattern
            .zip(name)
            .is_some_and(|(pattern, name)| pattern.matches(&name));
        if !is_of_resource {
            return Err(no_access());
        }
        let Some(grant) = self.grants.current(question.client, question.resource) else {
            // Its gateway is away, or the policies no longer permit it: the next review says so.
            return Err(SiteAnswer::Unreachable);
        };
        let to = grant.row.gateway;
        let place = (0_u8..).zip(&row.gateways).find(|(_, id)| **id == to);
        let share = place.and_then(|(place, _)| self.directory.settings().ranges.name_share(place));
        let WantedName { ipv4, ipv6, .. } = question.name;
        let are_there = share.is_some_and(|[v4, v6]| {
            v4.contains(IpAddr::from(ipv4)) && v6.contains(IpAddr::from(ipv6))
        });
        if to == from || !are_there {
            return Err(denied(
                "the device's file does not lead to the name's gateway",
            ));
        }
        match self.may_know_site_names(to) {
            true => Ok(to),
            false => Err(denied(super::plain_grants::EARLIER_RESOLVER)),
        }
    }

    /// The name's gateway has answered.
    pub(super) fn name_answered(&mut self, by: GatewayId, ask: u64, answer: SiteAnswer) {
        match self.site_names.end(ask, Some(by)) {
            Some(ended) => {
                self.timers.clear(ended.deadline, Timer::NameAsk(ask));
                self.tell_answer(&ended, answer);
            }
            // It came too late.
            None => self.counters.ignored += 1,
        }
    }

    /// The name's gateway did not answer in time.
    pub(super) fn name_timed_out(&mut self, ask: u64) {
        if let Some(ended) = self.site_names.end(ask, None) {
            self.tell_answer(&ended, SiteAnswer::Unanswered);
        }
    }

    fn tell_answer(&mut self, ask: &NameAsk, answer: SiteAnswer) {
        if self.sessions.gateways.session(ask.from) == Some(ask.session) {
            let message = ToGateway::NameAnswered {
                ask: ask.number,
                answer,
            };
            self.outbox.tell_gateway(ask.session, message);
        }
    }
}
