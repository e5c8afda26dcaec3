//! The grants that a gateway says to hold when it comes, in one message or in pages.

use super::Hub;
use crate::reasons::StatedReason;
use culvert_ids::{GatewayId, GrantId};
use culvert_store::Decision;
use culvert_wire::Timestamp;
use culvert_wire::messages::ReasonCode;
use std::collections::BTreeSet;

impl Hub {
    /// Ends grants that are no longer allowed, and those beyond the most that the gateway may have. Changes have
    /// ended most of the former before; those whose time is over end here. Returns those that it has not named.
    pub(super) fn prune(
        &mut self,
        gateway: GatewayId,
        named: &BTreeSet<GrantId>,
        max: usize,
        now: Timestamp,
    ) -> BTreeSet<GrantId> {
        let full = StatedReason::new(
            ReasonCode::GatewayRefused,
            "the gateway holds fewer grants than before",
            "this version of the gateway holds fewer grants than the one before: update it",
        );
        let mut unnamed = BTreeSet::new();
        let mut left = 0;
        for id in self.grants_of_gateway(gateway) {
            let Some(grant) = self.grants.get(id) else {
                continue;
            };
            let pair = (grant.row.client, grant.row.resource);
            if let Err(refusal) = self.permit(pair, now) {
                self.end_grant(id, &refusal, Decision::Revoked, now);
            } else if left >= max {
                self.end_grant(id, &full, Decision::Ended, now);
            } else {
                left += 1;
                if !named.contains(&id) {
                    unnamed.insert(id);
                }
            }
        }
        unnamed
    }

    /// The gateway names more of the grants that it holds. With the last of them it is known which it holds no longer.
    pub(super) fn note_held(
        &mut self,
        gateway: GatewayId,
        grants: &[GrantId],
        more: bool,
        now: Timestamp,
    ) {
        let session = self.sessions.gateways.get_mut(gateway);
        let Some(unconfirmed) = session.and_then(|session| session.unconfirmed.as_mut()) else {
            self.counters.ignored += 1;
            return;
        };
        for grant in grants {
            unconfirmed.remove(grant);
        }
        if !more {
            self.end_unconfirmed(gateway, now);
        }
    }

    /// The gateway names no more of the grants that it holds.
    pub(super) fn end_unconfirmed(&mut self, gateway: GatewayId, now: Timestamp) {
        let session = self.sessions.gateways.get_mut(gateway);
        let unconfirmed = session.and_then(|session| session.unconfirmed.take());
        self.end_unheld(unconfirmed.unwrap_or_default(), now);
    }

    /// Ends grants that their gateway no longer holds.
    pub(super) fn end_unheld(&mut self, grants: BTreeSet<GrantId>, now: Timestamp) {
        let text = "the gateway no longer holds the grant";
        let gone = StatedReason::plain(ReasonCode::GatewayRefused, text);
        for id in grants {
            self.end_grant(id, &gone, Decision::Ended, now);
        }
    }
}
