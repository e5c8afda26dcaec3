//! The places of plain WireGuard devices, as their gateways told them (ADR 0062).

use crate::limits::{DEVICE_SEEN_EVERY_MS, ENDPOINT_FRESH_MS, GATEWAY_RETURN_MS};
use crate::timers::later;
use culvert_ids::{ClientId, GatewayId, ID_LEN};
use culvert_policy::{ClientFacts, Country};
use culvert_wire::Timestamp;
use culvert_wire::messages::AdmittedDevice;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Says in which country an address is.
pub type CountryOf = Box<dyn Fn(IpAddr) -> Option<Country> + Send + Sync>;

/// The place of a device, as one gateway told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// The address and its country. None of them while the device moves too often.
    pub(super) facts: ClientFacts,
    pub(super) handshake: Timestamp,
    /// The time that was last recorded, and the address with it.
    recorded: Option<(Timestamp, IpAddr)>,
}

impl Endpoint {
    /// The end of what the handshake says.
    pub(super) const fn until(&self) -> Timestamp {
        later(self.handshake, ENDPOINT_FRESH_MS)
    }
}

/// Of each device and gateway of its file one at most: bounded with the devices.
pub(super) struct Endpoints {
    of: BTreeMap<(ClientId, GatewayId), Endpoint>,
    /// The facts that were last recorded of devices, before any gateway told this portal.
    presumed: BTreeMap<ClientId, ClientFacts>,
    presumed_until: Timestamp,
    country_of: CountryOf,
}

impl Endpoints {
    /// `presumed` are the facts of devices that were recorded when the portal last ran.
    pub(super) fn new(presumed: BTreeMap<ClientId, ClientFacts>, now: Timestamp) -> Self {
        Self {
            of: BTreeMap::new(),
            presumed,
            presumed_until: later(now, GATEWAY_RETURN_MS),
            country_of: Box::new(|_| None),
        }
    }

    pub(super) fn set_countries(&mut self, country_of: CountryOf) {
        self.country_of = country_of;
    }

    /// The last word of a gateway about a device, fresh or not.
    pub(super) fn get(&self, client: ClientId, gateway: GatewayId) -> Option<&Endpoint> {
        self.of.get(&(client, gateway))
    }

    /// The same while it counts.
    pub(super) fn fresh(
        &self,
        client: ClientId,
        gateway: GatewayId,
        now: Timestamp,
    ) -> Option<&Endpoint> {
        self.get(client, gateway).filter(|it| now < it.until())
    }

    /// The facts that were last recorded, for a gateway that has not told yet where its devices are.
    pub(super) fn presumed(&self, client: ClientId, now: Timestamp) -> Option<&ClientFacts> {
        let facts = self.presumed.get(&client);
        facts.filter(|_| now < self.presumed_until)
    }

    /// A gateway told of a device. Returns the time and address that are to be recorded, if it is time for that.
    pub(super) fn note(
        &mut self,
        (client, gateway): (ClientId, GatewayId),
        address: Option<IpAddr>,
        handshake: Timestamp,
    ) -> Option<(Timestamp, IpAddr)> {
        let before = self.of.get(&(client, gateway));
        let recorded = before.and_then(|before| before.recorded);
        let due = address.filter(|address| {
            recorded.is_none_or(|(at, before)| {
                before != *address || later(at, DEVICE_SEEN_EVERY_MS) <= handshake
            })
        });
        let record = due.map(|address| (handshake, address));
        let endpoint = Endpoint {
            facts: ClientFacts::seen_at(address, &self.country_of),
            handshake,
            recorded: record.or(recorded),
        };
        self.of.insert((client, gateway), endpoint);
        record
    }

    /// All that gateways told of a device.
    pub(super) fn of_client(
        &self,
        client: ClientId,
    ) -> impl Iterator<Item = (GatewayId, &Endpoint)> {
        let first = GatewayId::from_bytes([0; ID_LEN]);
        let last = GatewayId::from_bytes([u8::MAX; ID_LEN]);
        let told = self.of.range((client, first)..=(client, last));
        told.map(|((_, gateway), endpoint)| (*gateway, endpoint))
    }

    /// The device has these gateways alone.
    pub(super) fn keep_gateways(&mut self, client: ClientId, gateways: &[GatewayId]) {
        let others = self.of_client(client).map(|(gateway, _)| gateway);
        let others: Vec<_> = others.filter(|id| !gateways.contains(id)).collect();
        for gateway in others {
            self.of.remove(&(client, gateway));
        }
    }

    /// The device is gone, or has another key.
    pub(super) fn forget_client(&mut self, client: ClientId) {
        self.presumed.remove(&client);
        self.keep_gateways(client, &[]);
    }

    /// The gateway is lost: its devices have no tunnel to it.
    pub(super) fn forget_gateway(&mut self, gateway: GatewayId) {
        self.of.retain(|(_, at), _| *at != gateway);
    }

    /// The gateway told of all its devices: of these `listed` are there, and the others are nowhere.
    pub(super) fn keep_listed(
        &mut self,
        gateway: GatewayId,
        devices: &[ClientId],
        listed: &BTreeSet<ClientId>,
    ) {
        for client in devices.iter().filter(|client| !listed.contains(client)) {
            self.of.remove(&(*client, gateway));
        }
    }
}

/// The part of a gateway's session that plain devices are about.
#[derive(Debug, Default)]
pub(super) struct SessionDevices {
    /// The devices that it was told to admit. None before it was told the list.
    pub(super) admitted: Option<BTreeMap<ClientId, AdmittedDevice>>,
    /// It has told where all its devices are.
    pub(super) is_told: bool,
    /// Devices of its list, while that is not complete.
    pub(super) listed: BTreeSet<ClientId>,
}
