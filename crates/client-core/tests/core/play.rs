//! The play: a client, what it said, and shorthands for what it hears.

use culvert_base::{BootTime, UnixTime};
use culvert_client_core::{
    Client, Domains, Ending, GuardRules, Options, Output, PacketFacts, PacketRefusal, Peer,
    PeerReport, PeerUpdate, Remembered,
};
use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, ResourceId, SiteId};
use culvert_policy::gate::InboundRules;
use culvert_policy::{Prefix, RoutedServices, Service};
use culvert_wire::messages::{
    FromClient, Interface, Ranges, Reason, ReasonCode, ResolvedName, Sequenced, ToClient,
    WantedName,
};
use culvert_wire::model::{
    Dns, Filter, Resource, Target, TargetKind, ToldApplications, ToldTarget,
};
use culvert_wire::{Cipher, PresharedKey, PublicKey, Timestamp, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Unix time at the start of every play, in milliseconds.
pub(crate) const START_UNIX_MS: u64 = 1_800_000_000_000;
/// Boot time at the start of every play, in milliseconds.
pub(crate) const START_MS: u64 = 50_000;
pub(crate) const START: BootTime = BootTime::from_millis(START_MS);
pub(crate) const HOUR_MS: u64 = 3_600_000;

pub(crate) struct Play {
    pub(crate) client: Client<u32>,
    pub(crate) now_ms: u64,
    epoch: u64,
    seq: u64,
    /// Everything that was polled and not yet looked at, by kind.
    pub(crate) said: Vec<FromClient>,
    pub(crate) connects: usize,
    pub(crate) disconnects: usize,
    pub(crate) ended: Option<Ending>,
    /// Addresses of the portal that are to be kept.
    pub(crate) portals: Vec<culvert_wire::messages::PortalSet>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) routes: BTreeSet<Prefix>,
    pub(crate) domains: Vec<Domains>,
    /// The domains by which short names are completed.
    pub(crate) search: Vec<String>,
    /// The portal's rules about names in `welcome`.
    pub(crate) dns: Dns,
    /// The rules that the host was last asked for.
    pub(crate) guard: GuardRules,
    pub(crate) resumed: Vec<u32>,
    pub(crate) refused: Vec<(u32, PacketRefusal)>,
    pub(crate) answers: Vec<Vec<u8>>,
    pub(crate) forwarded: usize,
    /// The resolvers that were asked.
    pub(crate) upstreams: Vec<SocketAddr>,
    pub(crate) begun: Vec<PublicKey>,
    /// Datagrams about paths.
    pub(crate) sent: Vec<(SocketAddr, Vec<u8>)>,
    /// Paths that are to be used.
    pub(crate) used: Vec<(PublicKey, Option<SocketAddr>)>,
    /// Addresses to which the initiation that waits is to go too.
    pub(crate) repeated: Vec<SocketAddr>,
    /// Streams to relays: true opens one, false closes it.
    pub(crate) streams: Vec<(GatewayId, RelayId, bool)>,
    /// The relays in `welcome`.
    pub(crate) places: Vec<culvert_wire::messages::RelayPlace>,
    /// Each time that the client has kept where it led.
    pub(crate) remembered: Vec<Remembered>,
    /// The account's rule about ended access in `welcome`.
    pub(crate) releases_ended_access: bool,
    /// Resources that follow the next `welcome`.
    pub(crate) later_resources: u32,
    /// The data plane.
    pub(crate) peers: BTreeMap<PublicKey, Peer>,
    /// Ranges whose routes are for some services alone.
    pub(crate) services: BTreeMap<Prefix, RoutedServices>,
    /// The rights of resources at the host.
    pub(crate) inbound: InboundRules,
}

pub(crate) fn gateway_id(number: u8) -> GatewayId {
    GatewayId::from_bytes([number; 16])
}

pub(crate) fn grant_id(number: u8) -> GrantId {
    GrantId::from_bytes([number; 16])
}

pub(crate) fn resource_id(number: u8) -> ResourceId {
    ResourceId::from_bytes([number; 16])
}

pub(crate) fn key(number: u8) -> PublicKey {
    PublicKey::from_bytes([number; 32])
}

pub(crate) fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub(crate) fn resource(number: u8, address: &str) -> Resource {
    let kind = match address {
        _ if address.contains('/') => TargetKind::Cidr,
        _ if address.parse::<IpAddr>().is_ok() => TargetKind::Address,
        _ => TargetKind::Dns,
    };
    Resource {
        id: resource_id(number),
        name: format!("resource {number}"),
        site: SiteId::from_bytes([1; 16]),
        target: ToldTarget::Known(Target {
            kind,
            address: address.to_owned(),
        }),
        inbound: Vec::new().into(),
        filters: vec![Filter::Any].into(),
        applications: ToldApplications::default(),
    }
}

pub(crate) fn reason(code: ReasonCode) -> Reason {
    Reason {
        code,
        text: format!("because of {code:?}"),
    }
}

pub(crate) fn to(address: &str, port: u16) -> PacketFacts {
    PacketFacts {
        destination: address.parse().unwrap(),
        service: Some(Service::Tcp(port)),
        size_bytes: 100,
        is_whole: true,
    }
}

pub(crate) fn candidate(number: u8) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, number), 51820).into()
}

pub(crate) fn interface(number: u8) -> Interface {
    Interface {
        ipv4: Ipv4Addr::new(100, 64, 0, number),
        ipv6: format!("fd00:2021:1111::{number:x}").parse().unwrap(),
    }
}

pub(crate) fn options() -> Options {
    Options {
        machine: "a machine".to_owned(),
        name: "laptop".to_owned(),
        version: "1".to_owned(),
        public_key: key(200),
        ciphers: vec![Cipher::ChaCha20Poly1305],
        dns_listen: Vec::new(),
        dns_upstreams: vec!["192.0.2.53:53".parse().unwrap()],
        asks_all: false,
        portals: vec!["portal.corp.example".parse().unwrap()],
    }
}

/// The portal's message about a grant.
pub(crate) struct Granting {
    pub(crate) grant: u8,
    pub(crate) gateway: u8,
    pub(crate) key: u8,
    pub(crate) life_ms: u64,
    pub(crate) names: Vec<ResolvedName>,
    pub(crate) answers_dns: bool,
    pub(crate) relays: Vec<culvert_wire::messages::RelayAccess>,
    /// The gateway has no address that the portal knows.
    pub(crate) is_hidden: bool,
}

impl Granting {
    pub(crate) fn through(gateway: u8, grant: u8) -> Self {
        Self {
            grant,
            gateway,
            key: gateway,
            life_ms: HOUR_MS,
            names: Vec::new(),
            answers_dns: false,
            relays: Vec::new(),
            is_hidden: false,
        }
    }
}

impl Play {
    /// A client that has not been polled yet.
    pub(crate) fn new() -> Self {
        Self::with_seed(1)
    }

    pub(crate) fn with_seed(seed: u8) -> Self {
        Self {
            client: Client::new(options(), [seed; 32], START),
            now_ms: START_MS,
            epoch: 0,
            seq: 0,
            said: Vec::new(),
            connects: 0,
            disconnects: 0,
            ended: None,
            portals: Vec::new(),
            interfaces: Vec::new(),
            routes: BTreeSet::new(),
            domains: Vec::new(),
            search: Vec::new(),
            dns: Dns::default(),
            guard: GuardRules::default(),
            resumed: Vec::new(),
            refused: Vec::new(),
            answers: Vec::new(),
            forwarded: 0,
            upstreams: Vec::new(),
            begun: Vec::new(),
            sent: Vec::new(),
            used: Vec::new(),
            repeated: Vec::new(),
            streams: Vec::new(),
            places: Vec::new(),
            remembered: Vec::new(),
            releases_ended_access: false,
            later_resources: 0,
            peers: BTreeMap::new(),
            services: BTreeMap::new(),
            inbound: InboundRules::default(),
        }
    }

    /// A client whose session is open, with these resources.
    pub(crate) fn open(resources: &[(u8, &str)]) -> Self {
        let mut play = Self::new();
        play.client.handle_timeout(START);
        play.poll();
        play.connect();
        let resources = resources
            .iter()
            .map(|(number, text)| resource(*number, text));
        play.welcome(resources.collect(), Vec::new());
        play.said.clear();
        play
    }

    pub(crate) const fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    /// In whole milliseconds, and not before it is due.
    pub(crate) fn next_timeout_ms(&self) -> Option<u64> {
        let due = self.client.poll_timeout()?;
        Some(due.as_nanos().div_ceil(1_000_000))
    }

    pub(crate) fn unix(&self) -> UnixTime {
        UnixTime::from_millis(self.unix_ms())
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        START_UNIX_MS + self.now_ms - START_MS
    }

    pub(crate) fn connect(&mut self) {
        self.client.handle_connected(self.unix(), self.now());
        self.epoch += 1;
        self.seq = 0;
        self.poll();
    }

    pub(crate) fn disconnect(&mut self) {
        let error = "the network is gone".to_owned();
        self.client.handle_disconnected(error, None, self.now());
        self.poll();
    }

    /// Loses the session and opens another, as soon as the client tries.
    pub(crate) fn reconnect(&mut self, resources: Vec<Resource>, grants: Vec<GrantId>) {
        self.disconnect();
        let before = self.connects;
        while self.connects == before {
            self.step();
        }
        self.connect();
        self.welcome(resources, grants);
    }

    pub(crate) fn welcome(&mut self, resources: Vec<Resource>, grants: Vec<GrantId>) {
        self.hear(ToClient::Welcome {
            relays: self.places.clone(),
            protocol: 1,
            client: ClientId::from_bytes([9; 16]),
            interface: interface(9),
            ranges: Ranges {
                machines_ipv4: "100.64.0.0/11".to_owned(),
                machines_ipv6: "fd00:2021:1111::/112".to_owned(),
                names_ipv4: "100.96.0.0/11".to_owned(),
                names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
            },
            resources,
            later_resources: self.later_resources,
            grants,
            grant_lifetime_s: 3600,
            dns: self.dns.clone(),
            portals: culvert_wire::messages::PortalSet::default(),
            releases_ended_access: self.releases_ended_access,
        });
    }

    pub(crate) fn hear(&mut self, message: ToClient) {
        self.seq += 1;
        let text = encode(&Sequenced {
            epoch: self.epoch,
            seq: self.seq,
            message,
        });
        self.hear_text(&text);
    }

    pub(crate) fn hear_text(&mut self, text: &str) {
        self.client.handle_portal_message(text, self.now());
        self.poll();
    }

    pub(crate) fn grant(&mut self, request: u64, resource: u8, granting: Granting) {
        self.hear(ToClient::AccessGranted {
            relays: granting.relays,
            request,
            resource: resource_id(resource),
            grant: grant_id(granting.grant),
            expires: Timestamp::from_unix_ms(self.unix_ms() + granting.life_ms),
            gateway: gateway_id(granting.gateway),
            gateway_name: format!("gateway {}", granting.gateway),
            gateway_key: key(granting.key),
            gateway_interface: interface(granting.gateway),
            candidates: match granting.is_hidden {
                true => Vec::new(),
                false => vec![candidate(granting.gateway)],
            },
            preshared_key: PresharedKey::from_bytes([granting.gateway; 32]),
            cipher: Cipher::Aes256Gcm,
            names: granting.names,
            answers_dns: granting.answers_dns,
        });
    }

    pub(crate) fn deny(&mut self, request: u64, resource: u8, code: ReasonCode) {
        self.hear(ToClient::AccessDenied {
            request,
            resource: resource_id(resource),
            reason: reason(code),
        });
    }

    pub(crate) fn packet(&mut self, number: u32, facts: PacketFacts) {
        self.client.handle_packet(facts, number, self.now());
        self.poll();
    }

    /// A gateway does not let a packet pass.
    pub(crate) fn refused_packet(
        &mut self,
        number: u32,
        facts: PacketFacts,
        refusal: PacketRefusal,
    ) {
        let now = self.now();
        self.client
            .handle_refused_packet(facts, number, refusal, now);
        self.poll();
    }

    /// The host sees to what it was asked to see to.
    pub(crate) fn guarded(&mut self) {
        let rules = self.guard.clone();
        self.client.handle_guard(rules, Ok(()), self.now());
        self.poll();
    }

    /// The host can't see to it.
    pub(crate) fn unguarded(&mut self, why: &str) {
        let rules = self.guard.clone();
        let result = Err(why.to_owned());
        self.client.handle_guard(rules, result, self.now());
        self.poll();
    }

    /// Goes on to the next instant at which the client has something to do.
    pub(crate) fn step(&mut self) {
        let next = self.next_timeout_ms().unwrap();
        self.now_ms = self.now_ms.max(next);
        self.client.handle_timeout(self.now());
        self.poll();
    }

    /// Lets time pass until the client says something.
    pub(crate) fn until_said(&mut self) {
        while self.said.is_empty() {
            self.step();
        }
    }

    /// Lets time pass, doing what is due on the way.
    pub(crate) fn pass(&mut self, span_ms: u64) {
        let end_ms = self.now_ms + span_ms;
        while let Some(next) = self.next_timeout_ms().filter(|next| *next <= end_ms) {
            assert!(
                next > self.now_ms || self.connects < 10_000,
                "time stands still"
            );
            self.now_ms = self.now_ms.max(next);
            self.client.handle_timeout(self.now());
            self.poll();
        }
        self.now_ms = end_ms;
    }

    /// Tells the client of a gateway that carries data and answers.
    pub(crate) fn report_alive(&mut self, gateway: u8, bytes: u64) {
        let report = PeerReport {
            key: key(gateway),
            endpoint: Some(candidate(gateway)),
            handshake: Some(UnixTime::from_millis(START_UNIX_MS)),
            received: Some(self.now()),
            unanswered: None,
            rx_bytes: bytes,
            tx_bytes: bytes,
            measured_mtu_bytes: None,
            heard_elsewhere: None,
        };
        self.report(report);
    }

    pub(crate) fn report(&mut self, report: PeerReport) {
        self.client.handle_peers(&[report], self.now());
        self.poll();
    }

    /// The only request among what the client said, which is taken.
    pub(crate) fn take_request(&mut self) -> (u64, ResourceId, Vec<WantedName>, Vec<GatewayId>) {
        let said = std::mem::take(&mut self.said);
        assert_eq!(said.len(), 1, "{said:?}");
        match said.into_iter().next().unwrap() {
            FromClient::RequestAccess {
                request,
                resource,
                names,
                avoid,
            } => (request, resource, names, avoid),
            other => panic!("{other:?}"),
        }
    }

    /// A packet that a program sends: it comes to the client where the data plane has no route for it. True if it went
    /// to a gateway instead.
    pub(crate) fn send(&mut self, number: u32, facts: PacketFacts) -> bool {
        let address = facts.destination;
        let around = self.services.iter();
        let around = around.filter(|(range, _)| range.contains(address));
        let services = around.max_by_key(|(range, _)| range.len());
        let lacks_route =
            services.is_some_and(|(_, services)| services.lacks_route(facts.service.unwrap()));
        if self.way_to(&address.to_string()).is_some() && !lacks_route {
            return true;
        }
        self.packet(number, facts);
        false
    }

    /// Asks by a packet to `address` and is granted.
    pub(crate) fn gain(&mut self, address: &str, resource: u8, granting: Granting) {
        self.packet(1, to(address, 80));
        let (request, asked, ..) = self.take_request();
        assert_eq!(asked, resource_id(resource));
        self.grant(request, resource, granting);
        self.resumed.clear();
    }

    /// The gateway that the data plane sends `address` to, as the longest match has it.
    pub(crate) fn way_to(&self, address: &str) -> Option<GatewayId> {
        let address: IpAddr = address.parse().unwrap();
        let ranges = self.peers.values().flat_map(|peer| {
            let ranges = peer.allowed_ips.iter();
            ranges.map(|range| (range.len(), range.contains(address), peer.gateway))
        });
        ranges
            .filter(|(_, holds, _)| *holds)
            .max_by_key(|(len, ..)| *len)
            .map(|(.., gateway)| gateway)
    }

    pub(crate) fn poll(&mut self) {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Connect => self.connects += 1,
                Output::Disconnect => self.disconnects += 1,
                Output::ToPortal(message) => self.said.push(message),
                Output::Portals(portals) => self.portals.push(portals),
                Output::End(ending) => self.ended = Some(ending),
                Output::Remember(remembered) => self.remembered.push(remembered),
                Output::Interface(interface) => self.interfaces.push(interface),
                Output::Routes(routes) => self.routes = routes,
                Output::Domains { asked, search } => {
                    self.domains.push(asked);
                    self.search = search.iter().map(ToString::to_string).collect();
                }
                Output::Guard(rules) => self.guard = rules,
                Output::Engine {
                    peers,
                    services,
                    inbound,
                    resume,
                } => {
                    if let Some(inbound) = inbound {
                        self.inbound = *inbound;
                    }
                    if let Some(services) = services {
                        self.services = services;
                    }
                    for update in peers {
                        self.update(update);
                    }
                    self.resumed.extend(resume);
                }
                Output::SendPathMessage { datagram, to } => self.sent.push((to, datagram)),
                Output::UsePath { key, address } => self.used.push((key, address)),
                Output::OpenTls { gateway, relay, .. } => self.streams.push((gateway, relay, true)),
                Output::CloseTls { gateway, relay } => self.streams.push((gateway, relay, false)),
                Output::RepeatInitiation { to, .. } => self.repeated.push(to),
                Output::Refuse { packets, refusal } => {
                    let refused = packets.into_iter().map(|packet| (packet, refusal));
                    self.refused.extend(refused);
                }
                Output::Answer { bytes, .. } => self.answers.push(bytes),
                Output::Forward { upstream, .. } => {
                    self.forwarded += 1;
                    self.upstreams.push(upstream);
                }
            }
        }
    }

    fn update(&mut self, update: PeerUpdate) {
        match update {
            PeerUpdate::Set(peer) => {
                // A range has one peer: whoever gets it takes it.
                for other in self
                    .peers
                    .values_mut()
                    .filter(|other| other.key != peer.key)
                {
                    other
                        .allowed_ips
                        .retain(|range| !peer.allowed_ips.contains(range));
                }
                self.peers.insert(peer.key, *peer);
            }
            PeerUpdate::BeginHandshake(key) => {
                assert!(self.peers.contains_key(&key), "a handshake with nobody");
                self.begun.push(key);
            }
            PeerUpdate::Remove(key) => {
                assert!(self.peers.remove(&key).is_some(), "nobody to remove");
            }
        }
    }
}
