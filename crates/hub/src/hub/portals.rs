//! The addresses and certificates of the portal, which machines keep.

use super::Hub;
use culvert_base::LogLine;
use culvert_wire::messages::{PortalSet, ToClient, ToGateway, ToRelay};

impl Hub {
    /// The portal is reached in these ways from now on. Every machine that is connected is told, and every one that
    /// comes. A version of before the message can't keep it: such a machine may lose the portal.
    pub fn handle_portals(&mut self, portals: PortalSet) {
        if portals == self.portals {
            return;
        }
        let clients = self.sessions.clients.iter();
        let clients: Vec<_> = clients
            .map(|(_, client)| (client.id, client.keeps_portals))
            .collect();
        let gateways = self.sessions.gateways.iter();
        let gateways: Vec<_> = gateways
            .map(|(_, gateway)| (gateway.id, gateway.announced.keeps_portals))
            .collect();
        let machines = clients.len() + gateways.len();
        let mut told = 0;
        for (session, _) in clients.into_iter().filter(|(_, keeps)| *keeps) {
            let portals = portals.clone();
            self.outbox
                .tell_client(session, ToClient::PortalsSet { portals });
            told += 1;
        }
        for (session, _) in gateways.into_iter().filter(|(_, keeps)| *keeps) {
            let portals = portals.clone();
            self.outbox
                .tell_gateway(session, ToGateway::PortalsSet { portals });
            told += 1;
        }
        let relays = self.relays.connected();
        let relays: Vec<_> = relays
            .filter_map(|(id, _)| self.relays.session(id))
            .collect();
        for session in relays {
            let portals = portals.clone();
            self.outbox
                .tell_relay(session, ToRelay::PortalsSet { portals });
        }
        self.portals = portals;
        if told < machines {
            let text = "connected machines are of a version that does not keep the portal's addresses and \
                        certificates: update them before these change";
            self.outbox
                .push_line(LogLine::warn(text).with("machines", machines - told));
        }
    }
}
