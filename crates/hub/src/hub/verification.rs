//! Gateways that wait to be verified by an administrator: they are connected, and have no grants.

use super::Hub;
use crate::reasons::StatedReason;
use crate::session::Verification;
use culvert_ids::GatewayId;
use culvert_store::Decision;
use culvert_wire::Timestamp;
use culvert_wire::messages::{ReasonCode, ToGateway};

impl Hub {
    /// The verification that a gateway is told of when it connects.
    pub(super) fn verification_of(&self, id: GatewayId) -> Verification {
        let may_serve = self.directory.may_serve(id);
        Verification {
            told_awaited: !may_serve,
            has_served: may_serve,
        }
    }

    /// The gateway was verified, or no longer is, or the account requires something else.
    pub(super) fn review_verification(&mut self, id: GatewayId, now: Timestamp) {
        let awaited = !self.directory.may_serve(id);
        if awaited {
            self.revoke_grants_through(id);
            let refusal =
                StatedReason::plain(ReasonCode::NoGateway, "the gateway waits to be verified");
            self.void_grants_through(id, &refusal, Decision::Revoked, now);
        }
        let Some(session) = self.sessions.gateways.get_mut(id) else {
            return;
        };
        if session.verification.told_awaited == awaited {
            return;
        }
        session.verification.told_awaited = awaited;
        session.verification.has_served |= !awaited;
        let (session, tells_flows) = (session.id, session.announced.tells_flows);
        self.outbox
            .tell_gateway(session, ToGateway::Verification { awaited });
        if tells_flows && !awaited {
            self.tell_flow_log(session);
        }
    }
}
