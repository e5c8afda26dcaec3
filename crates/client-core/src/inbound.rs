//! Flows that resources begin at this host: what an administrator has opened by `inbound`.
//!
//! They come while there is a grant. Nobody here asks for one by a packet, so the client holds grants of such resources by
//! itself while it has a session with the portal.

use super::client::Client;
use super::grant::Grant;
use culvert_base::BootTime;
use culvert_ids::{GatewayId, ResourceId};
use culvert_policy::gate::{InboundRule, InboundRules};
use std::collections::BTreeSet;
use std::time::Duration;

/// The first wait after which a grant that was denied or has ended is asked for again: longer than the first denial stands,
/// and than a gateway takes to start again. It doubles with each request, up to [`LONGEST_WAIT_MS`].
const FIRST_WAIT_MS: u64 = 4_000;

/// The longest of these waits: 10,000 clients that are denied one grant each ask 130 times a second. Up to half of a wait is
/// added by chance.
const LONGEST_WAIT_MS: u64 = 60_000;

impl<P> Client<P> {
    /// Asks for grants of the resources that open something here, where it has none.
    pub(super) fn hold_opening(&mut self, now: BootTime) {
        let opening = self.directory.opening();
        if !self.portal.is_open() || opening.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        let wanted: Vec<ResourceId> = opening.held().collect();
        let wait_ms = (FIRST_WAIT_MS << opening.attempts()).min(LONGEST_WAIT_MS);
        let wait_ms = wait_ms + self.random.up_to(wait_ms / 2);
        let due = now.saturating_add(Duration::from_millis(wait_ms));
        self.directory.opening_mut().wait_until(due);
        for id in wanted {
            if self.accesses.grant(id).is_none() && !self.accesses.is_asking(id) {
                self.want_one(id, None, now);
            }
        }
    }

    /// The time at which [`Self::hold_opening`] has something to do.
    pub(super) fn opening_due(&self) -> Option<BootTime> {
        let due = self.directory.opening().poll_timeout();
        due.filter(|_| self.portal.is_open())
    }

    /// True if a grant is to be renewed: its gateway carried something within the last `span`, or the resource opens
    /// something here.
    pub(super) fn is_wanted(
        &self,
        id: ResourceId,
        grant: &Grant,
        span: Duration,
        now: BootTime,
    ) -> bool {
        self.directory.opening().is_held(id) || self.gateways.is_in_use(grant, span, now)
    }

    /// The rights of resources at this host, by the live grants. Ranges that open nothing are among them: of the ranges around
    /// an address the longest decides.
    pub(super) fn inbound_rules(&self, now: BootTime) -> InboundRules {
        let Some(network) = &self.network else {
            return InboundRules::default();
        };
        let live = self.accesses.granted();
        let rules = live.filter_map(|(id, grant)| {
            let resource = self.directory.get(id)?;
            let range = resource.target.prefix()?;
            (grant.expires > now).then(|| InboundRule {
                range,
                services: resource.inbound.clone(),
                expires: grant.expires,
            })
        });
        let rules = InboundRules::new(rules, network.own.clone());
        match rules.is_empty() {
            true => InboundRules::default(),
            false => rules,
        }
    }

    /// The gateways by which something may begin here: the paths to them are kept open.
    pub(super) fn opening_gateways(&self) -> BTreeSet<GatewayId> {
        let granted = self.accesses.granted();
        let opening = granted.filter(|(id, _)| {
            let resource = self.directory.get(*id);
            resource.is_some_and(|resource| !resource.inbound.is_empty())
        });
        opening.map(|(_, grant)| grant.gateway.id).collect()
    }
}
