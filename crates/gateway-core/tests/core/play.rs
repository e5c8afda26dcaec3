//! The play: a portal that signs, a gateway, a data plane that judges packets, and shorthands.

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_base::{BootTime, UnixTime};
use culvert_dns::{ForwardId, Transport};
use culvert_gateway_core::{
    Ending, Gateway, GrantChanges, Options, Output, PeerUpdate, PersistedGrants, Resolution,
    append_to_log, begin_log, read_log,
};
use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, ResourceId, SiteId};
use culvert_policy::gate::{DropReason, Frame, Gate, GateTable, PeerKey, Seed, Verdict};
use culvert_policy::{DomainName, Prefix};
use culvert_wire::messages::{
    FromGateway, GrantLabels, Interface, Ranges, ReasonCode, ResolvedName, Sequenced, ToGateway,
    WantedName,
};
use culvert_wire::model::{Filter, Target, TargetKind, Understood};
use culvert_wire::{Cipher, GrantClaims, PROTOCOL, PresharedKey, PublicKey, Timestamp, encode};
use pasetors::keys::AsymmetricSecretKey;
use pasetors::version4::{PublicToken, V4};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Unix time at the start of every play, in milliseconds.
pub(crate) const START_UNIX_MS: u64 = 1_800_000_000_000;
/// Boot time at the start of every play, in milliseconds.
pub(crate) const START_MS: u64 = 50_000;
pub(crate) const HOUR_MS: u64 = 3_600_000;

/// The gateway's id in every play.
pub(crate) const GATEWAY: GatewayId = GatewayId::from_bytes([1; 16]);

/// The gateway's site in every play.
pub(crate) const SITE: SiteId = SiteId::from_bytes([2; 16]);

pub(crate) fn grant_id(number: u8) -> GrantId {
    GrantId::from_bytes([number; 16])
}

pub(crate) fn resource_id(number: u8) -> ResourceId {
    ResourceId::from_bytes([number; 16])
}

pub(crate) fn key(number: u8) -> PublicKey {
    PublicKey::from_bytes([number; 32])
}

pub(crate) fn name(text: &str) -> DomainName {
    text.parse().unwrap()
}

pub(crate) fn filters(text: &str) -> Understood<Filter> {
    serde_json::from_str(text).unwrap()
}

/// A wanted name whose addresses of the range for names end in `number`.
pub(crate) fn wanted(text: &str, number: u8) -> WantedName {
    WantedName {
        name: text.to_owned(),
        ipv4: visible(number),
        ipv6: Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, 0, number.into()),
    }
}

pub(crate) const fn visible(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(100, 96, 0, number)
}

pub(crate) const fn client_ipv4(client: u8) -> Ipv4Addr {
    Ipv4Addr::new(100, 64, 1, client)
}

pub(crate) fn found(addresses: &[&str]) -> Resolution {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
    for address in addresses {
        match address.parse().unwrap() {
            IpAddr::V4(address) => ipv4.push(address),
            IpAddr::V6(address) => ipv6.push(address),
        }
    }
    Resolution::Found {
        ipv4,
        ipv6,
        ttl_s: 30,
    }
}

/// Claims that are good at the start of a play: client `client` may use all of 10.0.`resource`.0/24
/// for an hour.
pub(crate) fn claims(grant: u8, client: u8, resource: u8) -> GrantClaims {
    GrantClaims {
        grant: grant_id(grant),
        client: ClientId::from_bytes([client; 16]),
        client_key: key(client),
        client_ipv4: client_ipv4(client),
        client_ipv6: Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0, 0, 0, 1, client.into()),
        gateway: GATEWAY,
        resource: resource_id(resource),
        target: target(&format!("10.0.{resource}.0/24")).into(),
        inbound: Vec::new().into(),
        filters: vec![Filter::Any].into(),
        cipher: Cipher::ChaCha20Poly1305,
        plain: false,
        iat: Timestamp::from_unix_ms(START_UNIX_MS),
        exp: Timestamp::from_unix_ms(START_UNIX_MS + HOUR_MS),
    }
}

/// The same for a DNS pattern.
pub(crate) fn name_claims(grant: u8, client: u8, resource: u8, pattern: &str) -> GrantClaims {
    GrantClaims {
        target: target(pattern).into(),
        ..claims(grant, client, resource)
    }
}

pub(crate) fn target(address: &str) -> Target {
    let kind = match address {
        _ if address.contains('/') => TargetKind::Cidr,
        _ if address.parse::<IpAddr>().is_ok() => TargetKind::Address,
        _ => TargetKind::Dns,
    };
    Target {
        kind,
        address: address.to_owned(),
    }
}

/// A signer of grants, which signs as the portal does.
pub(crate) struct Signer {
    secret: AsymmetricSecretKey<V4>,
    public: String,
}

impl Signer {
    pub(crate) fn new(seed: u8) -> Self {
        let seed = [seed; 32];
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        let public = pair.public_key().as_ref();
        let secret = [seed.as_slice(), public].concat();
        Self {
            secret: AsymmetricSecretKey::from(&secret).unwrap(),
            public: STANDARD.encode(public),
        }
    }

    pub(crate) fn sign(&self, claims: &GrantClaims) -> String {
        let payload = serde_json::to_vec(claims).unwrap();
        PublicToken::sign(&self.secret, &payload, None, None).unwrap()
    }
}

/// A peer of the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) preshared_key: PresharedKey,
    pub(crate) cipher: Cipher,
    pub(crate) gate_key: PeerKey,
    pub(crate) addresses: [IpAddr; 2],
}

pub(crate) struct Play {
    pub(crate) gateway: Gateway,
    pub(crate) portal: Signer,
    pub(crate) now_ms: u64,
    pub(crate) epoch: u64,
    pub(crate) seq: u64,
    pub(crate) said: Vec<FromGateway>,
    pub(crate) connects: usize,
    pub(crate) disconnects: usize,
    pub(crate) ended: Option<Ending>,
    /// Addresses of the portal that are to be kept.
    pub(crate) portals: Vec<culvert_wire::messages::PortalSet>,
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) asked: Vec<DomainName>,
    /// Answers to plain devices, each with the table that was in force when it was sent.
    pub(crate) answers: Vec<(Vec<u8>, SocketAddr, Arc<GateTable>)>,
    /// Queries of plain devices for the system's resolver.
    pub(crate) lookups: Vec<(ClientId, (ForwardId, Transport), Vec<u8>)>,
    /// The number of questions to the shell for the names in use.
    pub(crate) looks: usize,
    /// Datagrams about paths.
    pub(crate) sent: Vec<(SocketAddr, Vec<u8>)>,
    /// Streams to relays: true opens one, false closes it.
    pub(crate) streams: Vec<(RelayId, bool)>,
    /// Addresses of a relay, and those that it has instead.
    pub(crate) moved: Vec<(SocketAddr, SocketAddr)>,
    /// The log that would be in a file.
    log: Vec<u8>,
    /// The grants that it holds, with those that have become void since.
    pub(crate) grants_file: Option<PersistedGrants>,
    pub(crate) peers: BTreeMap<PublicKey, Peer>,
    pub(crate) table: Arc<GateTable>,
    /// The ranges that the kernel lets begin flows at clients.
    pub(crate) inbound: BTreeSet<Prefix>,
    /// True if accepted grants are to be in force.
    pub(crate) is_guarded: bool,
}

impl Play {
    /// A gateway that has been told nothing, and wants to connect.
    pub(crate) fn begin() -> Self {
        let mut play = Self {
            gateway: Gateway::new(
                options(),
                candidates(),
                [7; 32],
                BootTime::from_millis(START_MS),
            ),
            portal: Signer::new(7),
            now_ms: START_MS,
            epoch: 100,
            seq: 0,
            said: Vec::new(),
            connects: 0,
            disconnects: 0,
            ended: None,
            portals: Vec::new(),
            interfaces: Vec::new(),
            asked: Vec::new(),
            answers: Vec::new(),
            lookups: Vec::new(),
            looks: 0,
            sent: Vec::new(),
            streams: Vec::new(),
            moved: Vec::new(),
            log: Vec::new(),
            grants_file: None,
            peers: BTreeMap::new(),
            table: Arc::default(),
            inbound: BTreeSet::new(),
            is_guarded: true,
        };
        play.time();
        play
    }

    /// A gateway in an open session.
    pub(crate) fn open() -> Self {
        let mut play = Self::begin();
        play.connect();
        play.welcome(&[]);
        play.said.clear();
        play
    }

    /// The connection that was asked for is there.
    pub(crate) fn connect(&mut self) {
        let unix_ms = self.unix_ms();
        self.epoch += 1;
        self.seq = 0;
        self.gateway
            .handle_connected(UnixTime::from_millis(unix_ms), self.now());
        self.execute();
    }

    pub(crate) fn disconnect(&mut self) {
        self.gateway
            .handle_disconnected("cut".to_owned(), None, self.now());
        self.execute();
    }

    /// The connection breaks, and the gateway tries again.
    pub(crate) fn break_off(&mut self) {
        self.disconnect();
        self.wait_for_connect();
    }

    /// Waits until the gateway tries again.
    fn wait_for_connect(&mut self) {
        let connects = self.connects;
        while self.connects == connects {
            self.now_ms = self.gateway.poll_timeout().unwrap().as_millis();
            self.time();
        }
    }

    /// Waits until the gateway tries again, and connects.
    pub(crate) fn reconnect(&mut self, grants: &[GrantId]) {
        self.wait_for_connect();
        self.connect();
        self.welcome(grants);
    }

    pub(crate) fn welcome(&mut self, grants: &[GrantId]) {
        let welcome = self.welcome_message(grants);
        self.hear(welcome);
    }

    pub(crate) fn welcome_message(&self, grants: &[GrantId]) -> ToGateway {
        ToGateway::Welcome {
            protocol: PROTOCOL,
            gateway: GATEWAY,
            site: Some(SITE),
            site_name: Some("office".to_owned()),
            interface: Interface {
                ipv4: "100.64.0.1".parse().unwrap(),
                ipv6: "fd00:2021:1111::1".parse().unwrap(),
            },
            ranges: Ranges {
                machines_ipv4: "100.64.0.0/11".to_owned(),
                machines_ipv6: "fd00:2021:1111::/64".to_owned(),
                names_ipv4: "100.96.0.0/11".to_owned(),
                names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
            },
            grant_keys: vec![self.portal.public.clone()],
            grants: grants.to_vec(),
            more_grants: false,
            draining: false,
            verification_awaited: false,
            portals: culvert_wire::messages::PortalSet::default(),
        }
    }

    /// A message of the portal in its place.
    pub(crate) fn hear(&mut self, message: ToGateway) {
        self.tell(message);
        self.execute();
    }

    /// The same, but what follows is not carried out.
    pub(crate) fn tell(&mut self, message: ToGateway) {
        let text = self.text(message);
        self.gateway.handle_text(&text, self.now());
    }

    /// Messages that come together.
    pub(crate) fn tell_together(&mut self, messages: impl IntoIterator<Item = ToGateway>) {
        for message in messages {
            let text = self.text(message);
            self.gateway.take_text(&text, self.now());
        }
        self.gateway.finish_texts(self.now());
    }

    fn text(&mut self, message: ToGateway) -> String {
        self.seq += 1;
        let (epoch, seq) = (self.epoch, self.seq);
        encode(&Sequenced {
            epoch,
            seq,
            message,
        })
    }

    pub(crate) fn grant(&mut self, claims: &GrantClaims) {
        self.grant_with(claims, None, &[]);
    }

    pub(crate) fn grant_with(
        &mut self,
        claims: &GrantClaims,
        replaces: Option<GrantId>,
        names: &[WantedName],
    ) {
        let message = self.grant_message(claims, replaces, names);
        self.hear(message);
    }

    pub(crate) fn grant_message(
        &self,
        claims: &GrantClaims,
        replaces: Option<GrantId>,
        names: &[WantedName],
    ) -> ToGateway {
        let token = self.portal.sign(claims);
        let preshared_key = preshared_key(claims);
        let names = names.to_vec();
        ToGateway::Grant {
            token,
            preshared_key,
            replaces,
            names,
            labels: GrantLabels {
                client: Some("laptop".to_owned()),
                resource: Some("web".to_owned()),
            },
        }
    }

    pub(crate) fn revoke(&mut self, number: u8) {
        let grant = grant_id(number);
        self.hear(ToGateway::Revoke { grant });
    }

    pub(crate) fn resolved(&mut self, text: &str, resolution: Resolution) {
        self.gateway
            .handle_resolved(&name(text), resolution, self.now());
        self.execute();
    }

    /// Lets time pass, with every timer on the way.
    pub(crate) fn pass(&mut self, span_ms: u64) {
        let end_ms = self.now_ms + span_ms;
        while let Some(due) = self.gateway.poll_timeout() {
            let due_ms = due.as_millis();
            if due_ms > end_ms {
                break;
            }
            self.now_ms = self.now_ms.max(due_ms);
            self.time();
        }
        self.now_ms = end_ms;
        self.time();
    }

    pub(crate) fn time(&mut self) {
        self.gateway.handle_timeout(self.now());
        self.execute();
    }

    pub(crate) const fn now(&self) -> BootTime {
        BootTime::from_millis(self.now_ms)
    }

    pub(crate) fn unix_ms(&self) -> u64 {
        START_UNIX_MS + self.now_ms - START_MS
    }

    pub(crate) fn execute(&mut self) {
        while let Some(output) = self.gateway.poll_output() {
            match output {
                Output::Connect => self.connects += 1,
                Output::Disconnect => self.disconnects += 1,
                Output::ToPortal(message) => {
                    self.assert_in_force(&message);
                    self.said.push(message);
                }
                Output::Portals(portals) => self.portals.push(portals),
                Output::End(ending) => self.ended = Some(ending),
                Output::Interface(interface) => self.interfaces.push(interface),
                Output::Engine { peers, table } => {
                    assert!(table.epoch() >= self.table.epoch(), "epochs never go back");
                    peers.into_iter().for_each(|update| self.update(update));
                    self.table = table;
                }
                Output::Inbound(sources) => self.inbound = sources,
                Output::SendPathMessage { datagram, to } => self.sent.push((to, datagram)),
                Output::OpenTls { relay, .. } => self.streams.push((relay, true)),
                Output::MoveClients { from, to } => self.moved.push((from, to)),
                Output::CloseTls(relay) => self.streams.push((relay, false)),
                Output::NamesInUse => self.looks += 1,
                Output::Resolve(name) => self.asked.push(name),
                Output::AnswerPlain { answer, to, .. } => {
                    self.answers.push((answer, to, Arc::clone(&self.table)));
                }
                Output::LookUp {
                    client,
                    id,
                    query,
                    transport,
                } => self.lookups.push((client, (id, transport), query)),
                Output::Void(grants) => {
                    if let Some(grants_file) = &mut self.grants_file {
                        grants_file.void.extend(grants);
                    }
                }
                Output::Persist(changes) => self.persist(&changes),
            }
        }
    }

    /// Appends to the log as the shell does, and reads it again as a next run would.
    fn persist(&mut self, changes: &GrantChanges) {
        match changes.is_whole {
            true => self.log = begin_log(1, changes).0,
            false => drop(append_to_log(&mut self.log, changes)),
        }
        let log = read_log(&self.log, None).unwrap();
        self.grants_file = log.into_persisted(BTreeSet::new());
    }

    /// A grant is in force before its acceptance is sent; without the guard, it is not in force.
    fn assert_in_force(&self, message: &FromGateway) {
        if let FromGateway::GrantAccepted { grant, .. } = message {
            let mut grants = self
                .table
                .clients()
                .flat_map(culvert_policy::gate::ClientGrants::grants);
            let is_in_force = grants.any(|held| held.id == *grant);
            assert_eq!(is_in_force, self.is_guarded, "{grant}");
        }
    }

    fn update(&mut self, update: PeerUpdate) {
        match update {
            PeerUpdate::Remove(key) => {
                assert!(
                    self.peers.remove(&key).is_some(),
                    "a peer that is not there"
                );
            }
            PeerUpdate::Set {
                key,
                preshared_key,
                cipher,
                gate_key,
                ipv4,
                ipv6,
                ..
            } => {
                let peer = Peer {
                    preshared_key,
                    cipher,
                    gate_key,
                    addresses: [ipv4.into(), ipv6.into()],
                };
                self.peers.insert(key, peer);
            }
        }
    }

    /// Sends a datagram of a client, a flow of its own, and says where it comes out.
    pub(crate) fn send(&self, client: u8, to: &str) -> Result<SocketAddr, DropReason> {
        let mut gate = Gate::with_max_flows(Seed::new([3; 32]), 64);
        self.send_through(&mut gate, client, to)
    }

    pub(crate) fn send_through(
        &self,
        gate: &mut Gate,
        client: u8,
        to: &str,
    ) -> Result<SocketAddr, DropReason> {
        let to: SocketAddr = to.parse().unwrap();
        let Some(peer) = self.peers.get(&key(client)) else {
            return Err(DropReason::NoGrant);
        };
        let mut packet = datagram(peer.addresses, to);
        let frame = Frame::packet(&mut packet);
        match gate.admit_from_client(&self.table, self.now(), peer.gate_key, frame) {
            Verdict::Admit(_) | Verdict::AdmitFirst(_) => Ok(destination(&packet)),
            Verdict::Drop(reason) => Err(reason),
        }
    }

    #[track_caller]
    pub(crate) fn assert_reaches(&self, client: u8, to: &str) {
        assert_eq!(self.send(client, to), Ok(to.parse().unwrap()));
    }

    #[track_caller]
    pub(crate) fn assert_reaches_nothing(&self) {
        assert_eq!(self.peers, BTreeMap::new());
        assert_eq!(self.table.clients().count(), 0);
    }

    /// The grants that were accepted since the last call, with the answers about their names.
    pub(crate) fn take_accepted(&mut self) -> Vec<(GrantId, Vec<ResolvedName>)> {
        let said = self.said.extract_if(.., |message| {
            matches!(message, FromGateway::GrantAccepted { .. })
        });
        said.map(|message| match message {
            FromGateway::GrantAccepted { grant, names } => (grant, names),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[track_caller]
    pub(crate) fn assert_accepted(&mut self, number: u8) {
        let accepted = self.take_accepted();
        let ids: Vec<GrantId> = accepted.into_iter().map(|(id, _)| id).collect();
        assert_eq!(ids, [grant_id(number)], "{:?}", self.said);
    }

    /// The last grant was refused for this reason, and its text holds a word.
    #[track_caller]
    pub(crate) fn assert_refused(&mut self, number: u8, code: ReasonCode, word: &str) {
        let last = self.said.pop();
        let Some(FromGateway::GrantRefused { grant, reason }) = last else {
            panic!("{last:?}");
        };
        assert_eq!((grant, reason.code), (grant_id(number), code), "{reason:?}");
        assert!(reason.text.contains(word), "{}", reason.text);
    }
}

pub(crate) fn options() -> Options {
    Options {
        machine: "a-machine".to_owned(),
        name: "gw".to_owned(),
        version: "1.2.3".to_owned(),
        public_key: key(250),
        ciphers: vec![Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm],
    }
}

pub(crate) fn candidates() -> Vec<SocketAddr> {
    vec!["198.51.100.1:51820".parse().unwrap()]
}

/// The secret of a pair, which depends on the client's key.
pub(crate) fn preshared_key(claims: &GrantClaims) -> PresharedKey {
    let mut bytes = *claims.client_key.as_bytes();
    bytes[0] ^= 0x80;
    PresharedKey::from_bytes(bytes)
}

/// A UDP datagram from the client's address of the same family, without payload.
fn datagram(from: [IpAddr; 2], to: SocketAddr) -> Vec<u8> {
    let mut packet = Vec::new();
    match (from, to.ip()) {
        ([IpAddr::V4(from), _], IpAddr::V4(address)) => {
            packet.extend([0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0]);
            packet.extend(from.octets());
            packet.extend(address.octets());
        }
        ([_, IpAddr::V6(from)], IpAddr::V6(address)) => {
            packet.extend([0x60, 0, 0, 0, 0, 8, 17, 64]);
            packet.extend(from.octets());
            packet.extend(address.octets());
        }
        other => panic!("{other:?}"),
    }
    packet.extend(4_000_u16.to_be_bytes());
    packet.extend(to.port().to_be_bytes());
    // The checksum is not looked at on the way, only kept right.
    packet.extend([0, 8, 0x12, 0x34]);
    packet
}

fn destination(packet: &[u8]) -> SocketAddr {
    let (address, ports): (IpAddr, &[u8]) = match packet[0] >> 4 {
        4 => {
            let bytes: [u8; 4] = packet[16..20].try_into().unwrap();
            (bytes.into(), &packet[20..24])
        }
        _ => {
            let bytes: [u8; 16] = packet[24..40].try_into().unwrap();
            (bytes.into(), &packet[40..44])
        }
    };
    SocketAddr::new(address, u16::from_be_bytes([ports[2], ports[3]]))
}
