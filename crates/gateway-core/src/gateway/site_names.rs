//! Names of plain WireGuard devices between sites (ADR 0061). The gateway that a device asks has the names of other sites
//! resolved by the gateways there. The portal is between the two, and decides.

use super::Gateway;
use crate::other_sites::OtherSites;
use crate::plain_dns::Wanted;
use crate::site_names::{ResolvedForOther, heard, told};
use culvert_base::BootTime;
use culvert_dns::Outcome;
use culvert_ids::{ClientId, ResourceId};
use culvert_policy::DomainName;
use culvert_wire::messages::{FromGateway, NameElsewhere, SiteAnswer, WantedName};

impl Gateway {
    /// The portal says which names of a device are at other sites.
    pub(super) fn set_names_elsewhere(
        &mut self,
        client: ClientId,
        place: u8,
        names: Vec<NameElsewhere>,
    ) {
        let other_sites = OtherSites::new(place, names);
        if let Some(stub) = self.dns.plain.stub(client) {
            let (own, others) = other_sites.shares();
            stub.assign_shares(own, others);
        }
        self.dns.site_names.set(client, other_sites);
        self.dns.plain.grants_changed(client);
    }

    /// Has the portal ask for a name of another site. None while the answer is awaited.
    pub(super) fn ask_elsewhere(
        &mut self,
        client: ClientId,
        name: &DomainName,
        wanted: Wanted,
        now: BootTime,
    ) -> Option<Outcome> {
        if !self.portal.session.is_open() {
            return Some(Outcome::Unreachable);
        }
        let resource = wanted.resource;
        let Some(ask) = self.dns.site_names.ask(client, name, resource, now) else {
            self.journal.counters.questions_refused += 1;
            return Some(Outcome::Unreachable);
        };
        let name = WantedName {
            name: name.as_str().to_owned(),
            ipv4: wanted.addresses.v4,
            ipv6: wanted.addresses.v6,
        };
        self.tell(FromGateway::AskName {
            ask,
            client,
            resource,
            name,
        });
        None
    }

    /// The portal has the answer of the name's gateway.
    pub(super) fn elsewhere_answered(&mut self, ask: u64, answer: SiteAnswer, now: BootTime) {
        // It may come after the device's query was answered without it.
        if let Some(asked) = self.dns.site_names.take_asked(ask) {
            let outcome = heard(answer);
            self.take_name_outcome(asked.client, &asked.name, asked.resource, outcome, now);
            self.drain_stub(asked.client, now);
        }
    }

    /// The session with the portal is over, and with it all questions of both sides.
    pub(super) fn end_site_names(&mut self, now: BootTime) {
        for asked in self.dns.site_names.end_session() {
            let outcome = Outcome::Unreachable;
            self.take_name_outcome(asked.client, &asked.name, asked.resource, outcome, now);
            self.drain_stub(asked.client, now);
        }
    }

    /// A device asked another gateway for a name of this site.
    pub(super) fn resolve_for_other(
        &mut self,
        ask: u64,
        (client, resource): (ClientId, ResourceId),
        name: &WantedName,
        now: BootTime,
    ) {
        let WantedName { name, ipv4, ipv6 } = name;
        let network = self.network.as_ref();
        let are_of_names = network.is_some_and(|it| it.may_stand_for_names(*ipv4, *ipv6));
        let name = DomainName::shown(name).ok().filter(|_| are_of_names);
        let is_plain = self.grants.of_client(client).any(|held| held.claims.plain);
        let Some(name) = name.filter(|_| is_plain) else {
            let text = "no policy gives this device the name now".to_owned();
            let answer = SiteAnswer::Denied { text };
            self.tell(FromGateway::NameAnswered { ask, answer });
            return;
        };
        let addresses = culvert_dns::Addresses {
            v4: *ipv4,
            v6: *ipv6,
        };
        let wanted = Wanted {
            resource,
            addresses,
        };
        self.answer_other(client, name, ResolvedForOther { ask, wanted }, now);
    }

    /// The DNS has answered for a name, or has not: the portal may wait for it.
    pub(super) fn name_of_others_resolved(&mut self, name: &DomainName, now: BootTime) {
        for (client, waiting) in self.dns.site_names.waiters(name) {
            self.answer_other(client, name.clone(), waiting, now);
        }
    }

    fn answer_other(
        &mut self,
        client: ClientId,
        name: DomainName,
        waiting: ResolvedForOther,
        now: BootTime,
    ) {
        let outcome = match self.grant_name(client, &name, waiting.wanted, now) {
            Some(outcome) => outcome,
            None if self.dns.site_names.wait(client, name, waiting) => return,
            None => Outcome::Unreachable,
        };
        self.tell(FromGateway::NameAnswered {
            ask: waiting.ask,
            answer: told(outcome),
        });
        self.look_for_room(client, now);
    }
}
