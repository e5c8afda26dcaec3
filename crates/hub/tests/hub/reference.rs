//! A reference for the grants that may be in force, worked out without the hub.

use crate::rows::client_token;
use crate::world::World;
use culvert_base::UnixTime;
use culvert_hub::limits::ENDPOINT_FRESH_MS;
use culvert_ids::{ActorId, ClientId, GatewayId, GroupId, ResourceId};
use culvert_policy::{ClientFacts, Decision, Subject, evaluate};
use culvert_store::{Client, Entity};
use culvert_wire::{GrantClaims, GrantTarget, Timestamp, model};
use std::collections::BTreeSet;
use std::net::IpAddr;

impl World {
    /// Checks that the rows allow every grant on connected gateways now, and until its expiry. Connected
    /// clients must be shown exactly the resources of their groups.
    pub(crate) fn check(&self) {
        for (id, gateway) in &self.gateways {
            if gateway.session.is_none() {
                continue;
            }
            let awaited = !self.is_verified_as_required(*id);
            assert_eq!(gateway.verification_awaited, awaited, "{id} waits");
            for held in gateway.held.values() {
                let claims = &held.claims;
                if claims.exp <= self.now {
                    continue;
                }
                let fault = self.fault_of(claims);
                assert_eq!(fault, None, "{id} holds {claims:?}");
            }
        }
        for (id, client) in &self.clients {
            if client.session.is_some() {
                let shown: BTreeSet<_> = client.resources.keys().copied().collect();
                assert_eq!(shown, self.shown_to(*id), "of {id}");
                for (resource, shown) in &client.resources {
                    let Some(Entity::Resource(row)) = self.rows.get(&(*resource).into()) else {
                        panic!("{resource} is shown and not there");
                    };
                    assert_eq!(shown.target.known(), Some(&row.target));
                    assert_eq!(shown.filters[..], row.filters[..]);
                }
            }
        }
        self.check_relays();
    }

    /// The reason for which a grant should not be there.
    fn fault_of(&self, claims: &GrantClaims) -> Option<String> {
        let Some(Entity::Client(row)) = self.rows.get(&claims.client.into()) else {
            return Some("no such client".to_owned());
        };
        let Some(Entity::Actor(who)) = self.rows.get(&row.actor.into()) else {
            return Some("no such actor".to_owned());
        };
        if row.revoked.is_some() || who.disabled || row.public_key != claims.client_key {
            return Some("the client is out".to_owned());
        }
        if row.is_plain() && !row.gateways.contains(&claims.gateway) {
            return Some("a gateway that is not in the device's file".to_owned());
        }
        let [.., a, b] = *row.actor.as_bytes();
        match self
            .rows
            .get(&client_token(u16::from_be_bytes([a, b])).into())
        {
            Some(Entity::Token(token)) => {
                let expires = token.expires.unwrap_or(Timestamp::MAX);
                let is_plain = row.is_plain();
                if !is_plain && (token.revoked.is_some() || expires < claims.exp) {
                    return Some("the token is out".to_owned());
                }
            }
            _ if row.is_plain() => {}
            _ => return Some("the token is gone".to_owned()),
        }
        let Some(Entity::Resource(target)) = self.rows.get(&claims.resource.into()) else {
            return Some("no such resource".to_owned());
        };
        let within = target
            .within
            .as_deref()
            .map(|ranges| model::within(ranges).unwrap());
        let expected = GrantTarget::new(target.target.clone(), within.as_ref());
        if claims.target != expected || target.filters[..] != claims.filters[..] {
            return Some(format!("the resource is {target:?}"));
        }
        let Some(Entity::Gateway(through)) = self.rows.get(&claims.gateway.into()) else {
            return Some("no such gateway".to_owned());
        };
        if through.site != target.site || through.revoked.is_some() {
            return Some("another site's or a revoked gateway".to_owned());
        }
        if !self.is_verified_as_required(claims.gateway) {
            return Some("a gateway that is to be verified first".to_owned());
        }
        let subject = Subject {
            groups: self.groups_of(row.actor),
            verified: row.verified.is_some(),
            client: ClientFacts::seen_at(self.address_of(row, claims.gateway), |_| None),
        };
        let policies: Vec<_> = self.policies().collect();
        match evaluate(&policies, claims.resource, &subject, self.now.unix_time()) {
            Decision::Allow { until, .. } => (until.unwrap_or(UnixTime::MAX)
                < claims.exp.unix_time())
            .then(|| format!("allowed until {until:?} only")),
            Decision::Deny { reasons } => Some(format!("{reasons:?}")),
        }
    }

    /// The address that the portal sees, or where the gateway hears a plain device.
    fn address_of(&self, row: &Client, gateway: GatewayId) -> Option<IpAddr> {
        if !row.is_plain() {
            return self.clients[&row.id].address;
        }
        let (address, handshake) = self.gateways[&gateway].told.get(&row.id)?;
        let until_ms = handshake.unix_ms() + ENDPOINT_FRESH_MS;
        address.filter(|_| self.now.unix_ms() < until_ms)
    }

    fn is_verified_as_required(&self, id: GatewayId) -> bool {
        let Some(Entity::Gateway(row)) = self.rows.get(&id.into()) else {
            return false;
        };
        row.verified.is_some() || !self.account().settings.require_verified_gateways
    }

    fn groups_of(&self, of: ActorId) -> BTreeSet<GroupId> {
        let memberships = self.rows.values().filter_map(|row| match row {
            Entity::Membership(row) if row.actor == of => Some(row.group),
            _ => None,
        });
        memberships.collect()
    }

    fn policies(&self) -> impl Iterator<Item = culvert_policy::Policy> {
        self.rows.values().filter_map(|row| match row {
            Entity::Policy(row) => Some(culvert_policy::Policy {
                id: row.id,
                group: row.group,
                resource: row.resource,
                disabled: row.disabled,
                conditions: model::conditions(&row.conditions).ok()?,
            }),
            _ => None,
        })
    }

    fn shown_to(&self, id: ClientId) -> BTreeSet<ResourceId> {
        let Some(Entity::Client(row)) = self.rows.get(&id.into()) else {
            return BTreeSet::new();
        };
        let groups = self.groups_of(row.actor);
        let policies = self.policies();
        policies
            .filter(|policy| !policy.disabled && groups.contains(&policy.group))
            .map(|policy| policy.resource)
            .filter(|resource| self.rows.contains_key(&(*resource).into()))
            .collect()
    }

    // Shorthands.
}
