//! All machines come back: the portal stops, or its clock was set.

use super::Hub;
use crate::output::SessionId;
use crate::sessions::Party;
use crate::{limits, reasons};
use culvert_base::LogLine;
use culvert_ids::{GatewayId, RelayId};
use culvert_wire::Timestamp;
use culvert_wire::messages::{ReasonCode, ToClient, ToGateway, ToRelay};

impl Hub {
    /// The portal's clock was set, back or ahead. Machines read it when they connect, so each is told to come back, within
    /// `within_s` seconds. With the time of before, a gateway would refuse new grants as expired, or as made in the future.
    /// Grants stay in force, until they expire by the clock of now.
    ///
    /// All waits begin anew: their ends were set by the clock of before.
    pub fn handle_clock_set(&mut self, within_s: u32, now: Timestamp) {
        let text = "the clock was set: all machines connect again, and read it";
        self.outbox.push_line(LogLine::warn(text));
        for session in self.send_away("the portal's clock was set", within_s) {
            match self.sessions.remove(session) {
                Some(Party::Client(client)) => self.drop_asks_of(client),
                Some(Party::Gateway(gateway)) => {
                    self.interrupt_gateway(gateway, limits::GATEWAY_RETURN_MS, now);
                }
                Some(Party::Relay(relay)) => self.expect_relay(relay, now),
                None => {}
            }
        }
        let returning: Vec<GatewayId> = self.returning.0.keys().copied().collect();
        for gateway in returning {
            self.expect_gateway(gateway, limits::GATEWAY_RETURN_MS, now);
        }
        let away = self.relays.known.iter();
        let away = away.filter(|(_, relay)| relay.session.is_none());
        let away: Vec<RelayId> = away.map(|(id, _)| *id).collect();
        for relay in away {
            self.expect_relay(relay, now);
        }
        for (client, resource) in self.grants.pairs() {
            self.review_grants(client, resource, now);
        }
        self.review_all_standing(now);
        self.finish(now);
    }

    /// Tells every machine to come back, and ends its session. Returns the sessions, which the hub still has.
    pub(super) fn send_away(&mut self, why: &str, within_s: u32) -> Vec<SessionId> {
        let sessions = self.sessions.gateways_first();
        let reason = reasons::brief(ReasonCode::TryLater, why);
        for (number, session) in sessions.iter().enumerate() {
            let spread = number as u64 * u64::from(within_s) / sessions.len() as u64;
            let place = spread.min(number as u64 / limits::COME_BACK_PER_S);
            let wait_s = u32::try_from(place).unwrap_or(within_s).saturating_add(1);
            match self.sessions.party(*session) {
                Some(Party::Gateway(_)) => self.outbox.tell_gateway(
                    *session,
                    ToGateway::Refused {
                        reason: reason.clone(),
                        retry_after_s: Some(wait_s),
                    },
                ),
                Some(Party::Relay(_)) => self.outbox.tell_relay(
                    *session,
                    ToRelay::Refused {
                        reason: reason.clone(),
                        retry_after_s: Some(wait_s),
                    },
                ),
                Some(Party::Client(_)) | None => self.outbox.tell_client(
                    *session,
                    ToClient::Refused {
                        reason: reason.clone(),
                        retry_after_s: Some(wait_s),
                    },
                ),
            }
            self.outbox.close(*session, ReasonCode::TryLater);
        }
        sessions
    }
}
