//! Standing grants: the access of plain WireGuard devices, which have no Culvert and ask for nothing.
//!
//! For each resource at the sites of the device's gateways that a policy permits, the hub asks in the device's name. It
//! renews a grant at half of its life, and asks again when the gateway comes back. A device's access ends with all
//! that ends a client's.

use super::Hub;
use super::asks::Pair;
use crate::limits::{MAX_STANDING_GRANTS, STANDING_RETRY_MS, STANDING_REVIEW_MS};
use crate::reasons::StatedReason;
use crate::session::Facts;
use crate::timers::{Timer, later};
use culvert_ids::{ClientId, GatewayId, ResourceId, SiteId};
use culvert_store::Client;
use culvert_store::range::Range;
use culvert_wire::messages::ReasonCode;
use culvert_wire::{PresharedKey, Timestamp};
use std::collections::BTreeSet;

/// The reason where the gateway of another site can't resolve names for devices.
pub(super) const EARLIER_RESOLVER: &str = "the gateway of the resource's site is of an earlier version and finds no names for \
                                           devices that ask another one: update it";

impl Hub {
    /// The facts that conditions look at. Of a plain device, the gateway that leads to the resource tells where it is. The
    /// device enforces nothing by itself.
    pub(super) fn facts_of(&self, (client, resource): Pair, now: Timestamp) -> Facts {
        let row = self.directory.client(client);
        if let Some(row) = row.filter(|row| row.is_plain()) {
            return Facts {
                seen: self.facts_of_plain(row, resource, now),
                keeps_applications: Some(false),
                ..Facts::default()
            };
        }
        let facts = self.sessions.clients.facts(client);
        facts.cloned().unwrap_or_default()
    }

    /// The pre-shared key of the two. A plain device's file has none, so that no answer of the portal is a secret.
    pub(super) fn preshared_key_of(
        &self,
        client: ClientId,
        gateway: GatewayId,
    ) -> Option<PresharedKey> {
        let client = self.directory.client(client)?;
        let gateway = self.directory.gateway(gateway)?;
        Some(match client.is_plain() {
            true => PresharedKey::NONE,
            false => self
                .signer
                .preshared_key(&client.public_key, &gateway.public_key),
        })
    }

    /// Refuses a resource that a plain device can't use by its file. All others may have any resource.
    pub(super) fn suits_plain_client(
        &self,
        client: &Client,
        resource: ResourceId,
    ) -> Result<(), StatedReason> {
        if !client.is_plain() {
            return Ok(());
        }
        let refused = |text| Err(StatedReason::plain(ReasonCode::NoAccess, text));
        let row = self.directory.resource(resource);
        if row.is_none_or(|row| !self.leads_to(client, row.parsed.site)) {
            return refused("the file of this device leads to no gateway of the resource's site");
        }
        if let Some(row) = row.filter(|row| row.parsed.target.pattern().is_some()) {
            self.finds_names_of(client, row.parsed.site)
                .or_else(refused)?;
        }
        if row.is_some_and(|row| !row.parsed.applications.is_any()) {
            return refused(
                "only some applications may use it, and a plain WireGuard device enforces no such rule",
            );
        }
        if !self.shows_addresses() {
            return refused(
                "the account allows paths through relays alone, and a plain WireGuard device uses none",
            );
        }
        if !self.has_address_in_range(client) {
            return refused(
                "the networks of the tunnel have changed; give the device a new key and file",
            );
        }
        Ok(())
    }

    /// Refuses names where the device finds none: it asks one gateway, which has names of other sites resolved there.
    fn finds_names_of(&self, client: &Client, site: SiteId) -> Result<(), &'static str> {
        let Some((_, server)) = self.name_server_of(client) else {
            return Err("all gateways of this device are revoked");
        };
        let is_own = server.site == site;
        if !is_own && !client.name_shares {
            return Err(
                "the device has a file of an earlier version, with which it finds names at the site of its first gateway alone: \
                 give it a new key and file",
            );
        }
        let session = self.sessions.gateways.get(server.id);
        // A gateway that is away keeps the grants that it has.
        if session.is_some_and(|session| !session.announced.answers_plain) {
            return Err(
                "the device's first gateway is of an earlier version and answers no names for it: update the gateway",
            );
        }
        if client.name_shares && !self.may_know_site_names(server.id) {
            return Err(
                "the device's first gateway is of an earlier version and knows nothing of the device's file: update the gateway",
            );
        }
        let mut resolvers = client.gateways.iter();
        let is_earlier = |id: &&GatewayId| {
            let row = self.directory.gateway(**id);
            row.is_some_and(|row| row.site == site) && !self.may_know_site_names(**id)
        };
        match !is_own && resolvers.any(|id| is_earlier(&id)) {
            true => Err(EARLIER_RESOLVER),
            false => Ok(()),
        }
    }

    /// True if a gateway of the site is in the plain device's file.
    fn leads_to(&self, client: &Client, site: SiteId) -> bool {
        let rows = client.gateways.iter();
        let mut rows = rows.filter_map(|id| self.directory.gateway(*id));
        rows.any(|row| row.site == site)
    }

    /// True if a plain device's addresses are of the networks of today: nothing gives it others but a new file.
    pub(super) fn has_address_in_range(&self, client: &Client) -> bool {
        let ranges = &self.directory.settings().ranges;
        let holds = |text: &str, len, address| {
            Range::parse(text, len).is_ok_and(|range| range.contains(address))
        };
        holds(&ranges.machines_ipv4, 4, client.ipv4.into())
            && holds(&ranges.machines_ipv6, 16, client.ipv6.into())
    }

    /// All plain devices are looked at: the portal has just started, or a rule for all has changed.
    pub(super) fn review_all_standing(&mut self, now: Timestamp) {
        for client in self.directory.plain_clients().collect::<Vec<_>>() {
            self.review_client_grants(client, now);
            self.serve_standing(client, now);
        }
    }

    /// The devices of a gateway are looked at: it has come, perhaps without the grants that it had.
    pub(super) fn review_standing_of(&mut self, gateway: GatewayId, now: Timestamp) {
        let devices = self.directory.plain_clients_of(gateway);
        for client in devices.collect::<Vec<_>>() {
            self.serve_standing(client, now);
        }
    }

    /// Asks for each grant that a plain device may have and has not, or has not for long. Of another client it does nothing.
    pub(super) fn serve_standing(&mut self, client: ClientId, now: Timestamp) {
        self.cancel_standing(client);
        self.review_admissions(client);
        let admitted = self.directory.admit_client(client);
        let Some(row) = admitted.ok().filter(|row| row.is_plain()) else {
            self.endpoints.forget_client(client);
            return;
        };
        self.endpoints.keep_gateways(client, &row.gateways);
        let (present, name_shares) = (self.present_sites_of(row), row.name_shares);
        self.look_at_standing(client, next_review(client, now));
        let ends = self.endpoints.of_client(client);
        let next_end = ends.map(|(_, it)| it.until()).filter(|until| *until > now);
        if let Some(until) = next_end.min() {
            self.look_at_standing(client, until);
        }
        if present.is_empty() {
            // A gateway's coming is the next occasion. The grants that it holds meanwhile are renewed then.
            return;
        }
        let shown = self.directory.shown_to(client).into_iter();
        let permitted =
            shown.filter_map(|id| Some((id, self.permit((client, id), now).ok()?.until)));
        // Those of gateways that are away keep their places: they are the same resources whoever is there.
        let permitted: Vec<_> = permitted.take(MAX_STANDING_GRANTS).collect();
        if name_shares {
            let resources: Vec<_> = permitted.iter().map(|(resource, _)| *resource).collect();
            self.tell_names_elsewhere(client, &resources);
        }
        for (resource, until) in permitted {
            let site = self.directory.resource(resource).map(|row| row.parsed.site);
            if !site.is_some_and(|site| present.contains(&site)) {
                continue;
            }
            match self.renewal_of((client, resource), until, now) {
                Renewal::Due => self.ask_standing((client, resource), now),
                Renewal::At(due) => self.look_at_standing(client, due),
                Renewal::Pointless => {}
            }
        }
    }

    /// The sites of a plain device's gateways that have a session.
    fn present_sites_of(&self, client: &Client) -> BTreeSet<SiteId> {
        let rows = client.gateways.iter();
        let present = rows.filter(|id| self.sessions.gateways.contains(**id));
        let present = present.filter_map(|id| self.directory.gateway(*id));
        present.map(|row| row.site).collect()
    }

    /// It is time to look at a device again.
    pub(super) fn standing_due(&mut self, client: ClientId, now: Timestamp) {
        self.plain_reviews.0.remove(&client);
        self.review_client_grants(client, now);
        self.serve_standing(client, now);
    }

    /// A standing grant is in force, and to be renewed in time.
    pub(super) fn watch_standing(&mut self, row: &culvert_store::Grant) {
        let client = self.directory.client(row.client);
        if client.is_some_and(Client::is_plain) {
            self.look_at_standing(row.client, half_of_life(row));
        }
    }

    /// A standing grant came to nothing.
    pub(super) fn retry_standing(&mut self, client: ClientId, now: Timestamp) {
        let row = self.directory.client(client);
        if row.is_some_and(Client::is_plain) {
            self.look_at_standing(client, later(now, STANDING_RETRY_MS));
        }
    }

    /// The renewal of the pair's grant, by a permission that lasts until `until`.
    fn renewal_of(&self, pair: Pair, until: Option<Timestamp>, now: Timestamp) -> Renewal {
        let Some(current) = self.grants.current(pair.0, pair.1) else {
            return Renewal::Due;
        };
        let lifetime_ms = u64::from(self.directory.settings().grant_lifetime_s) * 1_000;
        let longest = later(now, lifetime_ms);
        let end = until.map_or(longest, |until| until.min(longest));
        let half = half_of_life(&current.row);
        match half <= now {
            _ if end <= current.row.expires => Renewal::Pointless,
            true => Renewal::Due,
            false => Renewal::At(half),
        }
    }

    /// Sets the next look at a device, unless there is one earlier.
    pub(super) fn look_at_standing(&mut self, client: ClientId, at: Timestamp) {
        let known = self.plain_reviews.0.get(&client).copied();
        if known.is_some_and(|known| known <= at) {
            return;
        }
        self.cancel_standing(client);
        self.plain_reviews.0.insert(client, at);
        self.timers.set(at, Timer::PlainReview(client));
    }

    fn cancel_standing(&mut self, client: ClientId) {
        if let Some(at) = self.plain_reviews.0.remove(&client) {
            self.timers.clear(at, Timer::PlainReview(client));
        }
    }
}

/// The renewal of a standing grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    /// Now: there is none, or half of its life is over.
    Due,
    /// Later.
    At(Timestamp),
    /// Another one would end no later.
    Pointless,
}

/// The next look at a device: half of [`STANDING_REVIEW_MS`] to all of it from now, by its id, so that devices which were
/// looked at together are not looked at together again.
fn next_review(client: ClientId, now: Timestamp) -> Timestamp {
    let [.., high, low] = *client.as_bytes();
    let place = u64::from(u16::from_be_bytes([high, low]));
    let half_ms = STANDING_REVIEW_MS / 2;
    later(now, half_ms + place * half_ms / u64::from(u16::MAX))
}

/// The time at which half of a grant's life is over.
const fn half_of_life(row: &culvert_store::Grant) -> Timestamp {
    let life_ms = row.expires.unix_ms().saturating_sub(row.issued.unix_ms());
    later(row.issued, life_ms / 2)
}
