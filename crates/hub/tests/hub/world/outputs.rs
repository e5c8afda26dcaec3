//! Outputs of the hub, each passed on to the one that it is for.

use super::{Party, World};
use culvert_hub::{Output, SessionId};
use culvert_ids::{ClientId, GatewayId};
use culvert_store::{MachineId, SeenMachine};
use culvert_wire::messages::{ReasonCode, ToClient, ToGateway};

impl World {
    pub(crate) fn drain(&mut self) {
        while let Some(output) = self.hub.poll_output() {
            match output {
                Output::ToClient { session, message } => {
                    self.check_place(session, message.epoch, message.seq);
                    if let Some(Party::Client(id)) = self.parties.get(&session).copied() {
                        self.client_hears(id, session, message.message);
                    }
                }
                Output::ToGateway { session, message } => {
                    self.check_place(session, message.epoch, message.seq);
                    if let Some(Party::Gateway(id)) = self.parties.get(&session).copied() {
                        self.gateway_hears(id, session, message.message);
                    }
                }
                Output::ToRelay { session, message } => {
                    self.check_place(session, message.epoch, message.seq);
                    if let Some(Party::Relay(id)) = self.parties.get(&session).copied() {
                        self.relays.get_mut(&id).unwrap().hear(message.message);
                    }
                }
                Output::Close { session, reason } => self.close(session, reason),
                Output::SaveGrants(grants) => {
                    self.saved
                        .extend(grants.into_iter().map(|grant| (grant.id, grant)));
                }
                Output::EndGrants(grants) => {
                    for grant in grants {
                        self.saved.remove(&grant);
                    }
                }
                Output::AccessLog(entries) => self.log.extend(entries),
                Output::Flows { session, batch } => self.flows.push((session, batch)),
                Output::Traffic { bytes } => self.traffic_bytes += bytes,
                Output::Seen(machines) => self.record_seen(machines),
            }
        }
    }

    fn record_seen(&mut self, machines: Vec<SeenMachine>) {
        for machine in &machines {
            if let MachineId::Client(id) = machine.id {
                let client = self.clients.entry(id).or_default();
                client.address = machine.seen.address;
            }
        }
        self.seen.extend(machines);
    }

    fn close(&mut self, session: SessionId, reason: ReasonCode) {
        self.closed.push((session, reason));
        match self.parties.remove(&session) {
            Some(Party::Client(id)) => {
                let client = self.clients.get_mut(&id).unwrap();
                if client.session == Some(session) {
                    client.session = None;
                }
            }
            Some(Party::Gateway(id)) => {
                let gateway = self.gateways.get_mut(&id).unwrap();
                if gateway.session == Some(session) {
                    gateway.session = None;
                }
            }
            Some(Party::Relay(id)) => {
                let relay = self.relays.get_mut(&id).unwrap();
                if relay.session == Some(session) {
                    relay.session = None;
                }
            }
            None => {}
        }
    }

    fn check_place(&mut self, session: SessionId, epoch: u64, seq: u64) {
        let place = self.places.entry(session).or_insert((epoch, 0));
        place.1 += 1;
        assert_eq!(*place, (epoch, seq), "a gap in session {session:?}");
    }

    fn client_hears(&mut self, id: ClientId, session: SessionId, message: ToClient) {
        self.to_clients.push((id, message.clone()));
        if let ToClient::AccessGranted {
            gateway, relays, ..
        }
        | ToClient::RelaysSet { gateway, relays } = &message
        {
            self.note_told(*gateway, Some(id), relays);
        }
        let client = self.clients.get_mut(&id).unwrap();
        let is_current = client.session == Some(session);
        client.hear(message, is_current);
    }

    fn gateway_hears(&mut self, id: GatewayId, session: SessionId, message: ToGateway) {
        self.to_gateways.push((id, message.clone()));
        if let ToGateway::RelaysSet { relays } = &message {
            self.note_told(id, None, relays);
        }
        let answer = self.gateways.get_mut(&id).unwrap().hear(id, message);
        if let Some(answer) = answer {
            self.hub.handle_gateway_message(session, answer, self.now);
        }
    }
}
