//! Plain WireGuard devices that gateways admit without a grant (ADR 0062, ADR 0067).
//!
//! A condition about the address is judged by where a gateway hears the device. A gateway hears nobody whose key it does not
//! know. So it is told the keys of devices that such a condition concerns, whether they have a grant or not.
//!
//! The first gateway in a device's file is its DNS server. It answers the device without a grant too.

use super::Hub;
use culvert_ids::{ClientId, GatewayId};
use culvert_store::Client;
use culvert_wire::messages::{AdmittedDevice, MAX_DEVICES_PER_MESSAGE, ToGateway};
use std::collections::BTreeMap;

impl Hub {
    /// Tells a gateway that has come all devices that it is to admit.
    pub(super) fn list_admitted(&mut self, gateway: GatewayId) {
        let devices = self.directory.plain_clients_of(gateway);
        let admitted = devices.filter_map(|client| self.admission(client, gateway));
        let admitted: Vec<AdmittedDevice> = admitted.collect();
        let kept_s = self.directory.settings().grant_lifetime_s;
        let Some(session) = self.sessions.gateways.get_mut(gateway) else {
            return;
        };
        if !session.announced.tells_endpoints {
            return;
        }
        let by_client = admitted
            .iter()
            .map(|device| (device.client, device.clone()));
        session.devices.admitted = Some(by_client.collect::<BTreeMap<_, _>>());
        let id = session.id;
        let mut pages = admitted.chunks(MAX_DEVICES_PER_MESSAGE).peekable();
        loop {
            let devices = pages.next().unwrap_or_default().to_vec();
            let more = pages.peek().is_some();
            let message = ToGateway::DevicesAdmitted {
                devices,
                more,
                kept_s,
            };
            self.outbox.tell_gateway(id, message);
            if !more {
                return;
            }
        }
    }

    /// Has each connected gateway know whether it is to admit the device.
    pub(super) fn review_admissions(&mut self, client: ClientId) {
        let gateways: Vec<GatewayId> = self.sessions.gateways.iter().map(|(id, _)| id).collect();
        for gateway in gateways {
            let wanted = self.admission(client, gateway);
            let Some(session) = self.sessions.gateways.get_mut(gateway) else {
                continue;
            };
            let Some(admitted) = &mut session.devices.admitted else {
                continue;
            };
            let id = session.id;
            let message = match wanted {
                Some(device) if admitted.get(&client) == Some(&device) => continue,
                Some(device) => {
                    admitted.insert(client, device.clone());
                    ToGateway::DeviceAdmitted { device }
                }
                None if admitted.remove(&client).is_none() => continue,
                None => ToGateway::DeviceDismissed { client },
            };
            self.outbox.tell_gateway(id, message);
        }
    }

    /// The device, if the gateway is to admit it: it may have access by where it is, or asks the gateway for names.
    fn admission(&self, client: ClientId, gateway: GatewayId) -> Option<AdmittedDevice> {
        let admitted = self.directory.admit_client(client).ok();
        let row = admitted.filter(|row| row.gateways.contains(&gateway))?;
        let dns = self.answers_without_grant(row, gateway);
        let may_serve = self.directory.may_serve(gateway);
        (may_serve && (dns || self.depends_on_address(row, gateway))).then_some(AdmittedDevice {
            client,
            client_key: row.public_key,
            client_ipv4: row.ipv4,
            client_ipv6: row.ipv6,
            dns,
        })
    }

    /// True if the gateway is the device's DNS server, and needs no grant to answer it. The device could have grants.
    fn answers_without_grant(&self, row: &Client, gateway: GatewayId) -> bool {
        let session = self.sessions.gateways.get(gateway);
        let knows_how = session.is_some_and(|session| session.announced.answers_admitted);
        let server = self.name_server_of(row);
        knows_how
            && server.is_some_and(|(_, server)| server.id == gateway)
            && self.shows_addresses()
            && self.has_address_in_range(row)
    }

    /// True if a condition about the address decides on a resource that the device reaches through the gateway.
    fn depends_on_address(&self, row: &Client, gateway: GatewayId) -> bool {
        let site = self.directory.gateway(gateway).map(|row| row.site);
        let mut shown = self.directory.shown_to(row.id).into_iter();
        shown.any(|id| {
            let resource = self.directory.resource(id);
            resource.map(|resource| resource.parsed.site) == site
                && self.looks_at_address(row, id)
                && self.suits_plain_client(row, id).is_ok()
        })
    }
}
