//! The ledger of accesses that may pass. Every grant that the portal has made is compared with the
//! rules when it is made and whenever anything changes. The ledger also has the time by which each
//! must have ended.

use super::catalog::Destination;
use super::config::Config;
use super::rules;
use super::wire_id::WireId;
use culvert_ids::{GrantId, ResourceId};
use culvert_policy::Service;
use culvert_store::{Client, Entity, Gateway, Resource};
use culvert_wire::model::Filter;
use culvert_wire::{GrantClaims, PublicKey};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The time after a change for which forbidden packets may still pass, if portal and gateway reach
/// each other, in milliseconds (`docs/access.md`, "Gateway").
const GRACE_MS: u64 = 1_000;

/// The most that a gateway's idea of the portal's clock may lag, in milliseconds. The portal tells
/// it in full seconds, and the message takes its time.
const CLOCK_LAG_MS: u64 = 1_500;

/// All grants that were ever offered to a gateway, and the links to gateways.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// By the client's key: every packet asks for those of one client.
    entries: BTreeMap<PublicKey, BTreeMap<GrantId, Entry>>,
    /// Filters of each resource, and from when on they were so.
    filters: BTreeMap<ResourceId, Vec<(u64, Vec<Filter>)>>,
    links: BTreeMap<usize, Link>,
}

#[derive(Debug)]
struct Entry {
    claims: GrantClaims,
    gateway: usize,
    made_ms: u64,
    expires_ms: u64,
    limits: Vec<Limit>,
}

/// The access ends earlier than the grant says.
#[derive(Clone, Copy, Debug)]
struct Limit {
    /// Since when the portal knows.
    known_ms: u64,
    ends_ms: u64,
}

/// The times at which portal and gateway could speak to each other.
#[derive(Debug, Default)]
struct Link {
    /// The gateway's session, and since when it has worked without a break.
    up: Option<(WireId, u64)>,
    session: Option<WireId>,
    before: Vec<(u64, u64)>,
    /// The excess lifetime of grants that it kept over a restart, in milliseconds: it had only its
    /// own clock then.
    slack_ms: u64,
}

/// The reason for which a packet should not have passed.
pub(crate) type Fault = String;

impl Ledger {
    /// A grant goes out to a gateway. It must be what the rules give, and not for longer.
    pub(crate) fn issue(
        &mut self,
        claims: GrantClaims,
        gateway: usize,
        config: &Config,
        portal_epoch_ms: u64,
        now_ms: u64,
    ) -> Result<(), Fault> {
        let unix_ms = portal_epoch_ms + now_ms;
        let Some(until) = permitted_until(&claims, config, unix_ms) else {
            return Err(format!("a grant that nothing allows: {claims:?}"));
        };
        let longest = until.min(unix_ms + config.grant_lifetime_ms());
        if claims.exp.unix_ms() > longest {
            return Err(format!("a grant that lasts beyond {longest}: {claims:?}"));
        }
        let resource: Option<Resource> = config.row(claims.resource);
        if resource.is_none_or(|row| row.filters[..] != claims.filters[..]) {
            return Err(format!("a grant with other filters: {claims:?}"));
        }
        let entry = Entry {
            gateway,
            made_ms: now_ms,
            expires_ms: claims.exp.unix_ms() - portal_epoch_ms,
            limits: Vec::new(),
            claims,
        };
        let entries = self.entries.entry(entry.claims.client_key).or_default();
        entries.insert(entry.claims.grant, entry);
        Ok(())
    }

    /// The configuration, or what is known of a client, has changed.
    pub(crate) fn review(&mut self, config: &Config, portal_epoch_ms: u64, now_ms: u64) {
        for entry in self.entries.values_mut().flat_map(BTreeMap::values_mut) {
            if entry.expires_ms + CLOCK_LAG_MS < now_ms {
                continue;
            }
            let unix_ms = portal_epoch_ms + now_ms;
            let until = permitted_until(&entry.claims, config, unix_ms);
            let ends_ms = until.map_or(now_ms, |until| until.saturating_sub(portal_epoch_ms));
            // Access that is allowed again may pass again, whether the gateway heard of it meanwhile
            // or not.
            if until.is_some() {
                entry.limits.retain(|limit| limit.ends_ms >= ends_ms);
            }
            let known = entry.limits.iter().map(|limit| limit.ends_ms).min();
            if ends_ms < entry.expires_ms.min(known.unwrap_or(u64::MAX)) {
                entry.limits.push(Limit {
                    known_ms: now_ms,
                    ends_ms,
                });
            }
        }
        for row in config.rows() {
            let Entity::Resource(row) = row else { continue };
            let history = self.filters.entry(row.id).or_default();
            if history.last().is_none_or(|(_, last)| *last != row.filters) {
                history.push((now_ms, row.filters.clone()));
            }
        }
    }

    /// The gateway has a session over this connection, and what was said before it counts.
    pub(crate) fn link_up(&mut self, gateway: usize, wire: WireId, at_ms: u64) {
        let link = self.links.entry(gateway).or_default();
        if link.session != Some(wire) {
            // Grants that ended meanwhile were ended by `welcome`.
            link.slack_ms = 0;
        }
        link.session = Some(wire);
        link.up = link
            .up
            .filter(|(known, _)| *known == wire)
            .or(Some((wire, at_ms)));
    }

    /// Portal and gateway do not hear each other any more, whatever they know of it.
    pub(crate) fn link_lost(&mut self, gateway: usize, now_ms: u64) {
        let link = self.links.entry(gateway).or_default();
        if let Some((_, since_ms)) = link.up.take() {
            link.before.push((since_ms, now_ms));
        }
    }

    /// The same, where it is this connection that is over.
    pub(crate) fn link_closed(&mut self, gateway: usize, wire: WireId, now_ms: u64) {
        let link = self.links.entry(gateway).or_default();
        if link.session == Some(wire) {
            link.session = None;
            self.link_lost(gateway, now_ms);
        }
    }

    pub(crate) fn is_session(&self, gateway: usize, wire: WireId) -> bool {
        let link = self.links.get(&gateway);
        link.is_some_and(|link| link.session == Some(wire))
    }

    /// A gateway goes on with what it kept, by a clock that is so much behind the portal's.
    pub(crate) fn restored(&mut self, gateway: usize, behind_ms: u64) {
        self.links.entry(gateway).or_default().slack_ms = behind_ms;
    }

    /// True if the address inside the tunnel is one of the client with this key.
    pub(crate) fn is_address_of(&self, key: PublicKey, address: IpAddr) -> bool {
        self.of_client(key).any(|entry| {
            let claims = &entry.claims;
            let own: [IpAddr; 2] = [claims.client_ipv4.into(), claims.client_ipv6.into()];
            own.contains(&address)
        })
    }

    fn of_client(&self, key: PublicKey) -> impl Iterator<Item = &Entry> {
        self.entries
            .get(&key)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Judges a packet of the client with this key that has passed the gateway just now.
    pub(crate) fn judge(
        &self,
        gateway: usize,
        key: PublicKey,
        destination: Destination,
        service: Service,
        now_ms: u64,
    ) -> Result<(), Fault> {
        let entries = self.of_client(key).filter(|entry| {
            entry.gateway == gateway && rules::leads_to(&entry.claims.target.target(), destination)
        });
        let mut why = Vec::new();
        for entry in entries {
            match self.judge_entry(entry, service, now_ms) {
                Ok(()) => return Ok(()),
                Err(fault) => why.push(fault),
            }
        }
        Err(format!(
            "{service:?} to {destination:?} passed gateway {gateway}: {}",
            why.join("; ")
        ))
    }

    fn judge_entry(&self, entry: &Entry, service: Service, now_ms: u64) -> Result<(), Fault> {
        let grant = entry.claims.grant;
        let link = self.links.get(&entry.gateway);
        let slack_ms = CLOCK_LAG_MS + link.map_or(0, |link| link.slack_ms);
        if entry.made_ms > now_ms {
            return Err(format!("{grant} is yet to be made"));
        }
        if now_ms >= entry.expires_ms + slack_ms {
            return Err(format!("{grant} expired at {}", entry.expires_ms));
        }
        let expiry = Limit {
            known_ms: entry.expires_ms,
            ends_ms: entry.expires_ms,
        };
        for limit in entry.limits.iter().chain([&expiry]) {
            let since_ms = limit.known_ms.max(limit.ends_ms);
            let is_told = self.could_tell(entry.gateway, limit.known_ms, now_ms);
            if is_told && now_ms > since_ms.saturating_add(GRACE_MS) {
                return Err(format!("{grant} ended at {since_ms}"));
            }
        }
        let history = self.filters.get(&entry.claims.resource);
        let allowed = rules::allows(&entry.claims.filters, service)
            && self.is_current(entry, &entry.claims.filters, entry.made_ms, now_ms);
        let later = history.into_iter().flatten();
        let mut later = later.filter(|(from_ms, _)| *from_ms >= entry.made_ms);
        let allowed = allowed
            || later.any(|(from_ms, filters)| {
                rules::allows(filters, service) && self.is_current(entry, filters, *from_ms, now_ms)
            });
        match allowed {
            true => Ok(()),
            false => Err(format!("{grant} has filters that do not allow it")),
        }
    }

    /// True if filters that held from `from_ms` on may still hold at the gateway.
    fn is_current(&self, entry: &Entry, filters: &[Filter], from_ms: u64, now_ms: u64) -> bool {
        let history = self.filters.get(&entry.claims.resource);
        let mut later = history.into_iter().flatten();
        let replaced = later.find(|(at_ms, other)| *at_ms >= from_ms && other != filters);
        replaced.is_none_or(|(at_ms, _)| !self.could_tell(entry.gateway, *at_ms, now_ms))
    }

    /// True if the portal had the time to tell the gateway something since.
    fn could_tell(&self, gateway: usize, since_ms: u64, now_ms: u64) -> bool {
        let Some(link) = self.links.get(&gateway) else {
            return false;
        };
        let up = link.up.map(|(_, from_ms)| (from_ms, now_ms));
        link.before
            .iter()
            .copied()
            .chain(up)
            .any(|(from_ms, until_ms)| {
                let from_ms = from_ms.max(since_ms);
                until_ms.min(now_ms).saturating_sub(from_ms) > GRACE_MS
            })
    }
}

/// Until when what the grant says is right, by the portal's clock.
fn permitted_until(claims: &GrantClaims, config: &Config, unix_ms: u64) -> Option<u64> {
    let client: Client = config.row(claims.client)?;
    let gateway: Gateway = config.row(claims.gateway)?;
    let resource: Resource = config.row(claims.resource)?;
    let is_right = client.public_key == claims.client_key
        && (client.ipv4, client.ipv6) == (claims.client_ipv4, claims.client_ipv6)
        && gateway.revoked.is_none()
        && rules::is_verified_as_required(config, &gateway)
        && gateway.site == resource.site
        && resource.target == claims.target.target();
    if !is_right {
        return None;
    }
    rules::allowed_until(config, claims.client, claims.resource, unix_ms)
}
