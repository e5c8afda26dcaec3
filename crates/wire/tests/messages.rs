//! Messages: what they look like, and what becomes of those that are not understood.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, ResourceId, SiteId};
use culvert_policy::conditions::OperatingSystem;
use culvert_wire::messages::{
    AdmittedDevice, ClientFeature, DeviceEndpoint, EndedFlow, Existence, FlowEnd, FlowReport,
    FromClient, FromGateway, FromRelay, GatewayFeature, GatewayLoad, GrantLabels, Interface,
    MAX_CLIENT_MESSAGE_LEN, MAX_DEVICES_PER_MESSAGE, MAX_FLOWS_PER_REPORT, MAX_NAMES,
    NameElsewhere, NatMapping, PathKind, PortalSet, Ranges, Reason, ReasonCode, RelayAccess,
    RelayLoad, RelayPlace, RelayPort, RelayReach, RelayTls, ResolvedName, Sequenced, SiteAnswer,
    ToClient, ToGateway, ToRelay, WantedName, decode_sequenced,
};
use culvert_wire::model::{
    Applications, Condition, Dns, DnsDomain, Filter, PortRange, Resource, Target, TargetKind,
    ToldApplications, ToldTarget,
};
use culvert_wire::token::CertificatePin;
use culvert_wire::{
    Cipher, DecodeError, Decoded, MAX_MESSAGE_LEN, Message, PresharedKey, PublicKey, Timestamp,
    decode, encode,
};
use proptest::prelude::*;
use std::fmt::Debug;

const RELAY: RelayId = RelayId::from_bytes([8; 16]);

const INTERFACE: Interface = Interface {
    ipv4: std::net::Ipv4Addr::new(100, 64, 0, 9),
    ipv6: std::net::Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, 9),
};

fn reason() -> Reason {
    Reason {
        code: ReasonCode::ConditionNotMet,
        text: "not at this hour".to_owned(),
    }
}

fn ranges() -> Ranges {
    Ranges {
        machines_ipv4: "100.64.0.0/11".to_owned(),
        machines_ipv6: "fd00:2021:1111::/112".to_owned(),
        names_ipv4: "100.96.0.0/11".to_owned(),
        names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
    }
}

fn portals() -> PortalSet {
    PortalSet {
        urls: vec!["https://portal.example".to_owned()],
        pins: vec![CertificatePin::of(b"certificate")],
        authorities: true,
    }
}

fn resource() -> Resource {
    Resource {
        id: ResourceId::from_bytes([1; 16]),
        name: "db".to_owned(),
        site: SiteId::from_bytes([2; 16]),
        target: ToldTarget::Known(Target {
            kind: TargetKind::Dns,
            address: "db.corp.example".to_owned(),
        }),
        inbound: Vec::new().into(),
        filters: vec![Filter::Icmp].into(),
        applications: ToldApplications::Known(Applications::Only(vec!["backup".to_owned()])),
    }
}

fn dns() -> Dns {
    Dns {
        search: vec!["corp.example".to_owned()],
        domains: vec![DnsDomain {
            name: "corp.example".to_owned(),
            servers: vec!["10.0.0.53".to_owned()],
        }],
    }
}

fn wanted() -> WantedName {
    WantedName {
        name: "db.corp.example".to_owned(),
        ipv4: [100, 96, 0, 1].into(),
        ipv6: INTERFACE.ipv6,
    }
}

fn resolved() -> ResolvedName {
    ResolvedName {
        name: "db.corp.example".to_owned(),
        ipv4: true,
        ipv6: false,
        existence: Existence::Exists,
    }
}

fn from_client() -> Vec<FromClient> {
    vec![
        FromClient::Hello {
            protocols: vec![1],
            version: "0.1.0".to_owned(),
            machine: "m".to_owned(),
            name: "laptop".to_owned(),
            public_key: PublicKey::from_bytes([9; 32]),
            ciphers: vec![Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305],
            features: vec![ClientFeature::Applications, ClientFeature::Dns],
            os: Some(OperatingSystem {
                id: Some("debian".to_owned()),
                version: Some("12".to_owned()),
                ..OperatingSystem::linux()
            }),
        },
        FromClient::RequestAccess {
            request: 4,
            resource: ResourceId::from_bytes([1; 16]),
            names: vec![wanted()],
            avoid: vec![GatewayId::from_bytes([3; 16])],
        },
        FromClient::AnswerNow {
            request: 4,
            resource: ResourceId::from_bytes([1; 16]),
        },
        FromClient::ReleaseAccess {
            grant: GrantId::from_bytes([4; 16]),
        },
        FromClient::CandidatesChanged {
            candidates: vec!["192.0.2.7:51820".parse().unwrap()],
        },
        FromClient::RelaysReached {
            relays: vec![reached()],
        },
        FromClient::PathChanged {
            gateway: GatewayId::from_bytes([3; 16]),
            path: PathKind::RelayedTls,
            relay: Some(RELAY),
            round_trip_us: Some(900),
        },
        FromClient::NatFound {
            mapping: NatMapping::EndpointDependent,
        },
        FromClient::Unsupported {
            kind: "new".to_owned(),
        },
    ]
}

fn to_client() -> Vec<ToClient> {
    let gateway = GatewayId::from_bytes([3; 16]);
    let grant = GrantId::from_bytes([4; 16]);
    vec![
        ToClient::Welcome {
            relays: Vec::new(),
            protocol: 1,
            client: ClientId::from_bytes([5; 16]),
            interface: INTERFACE,
            ranges: ranges(),
            resources: vec![resource()],
            later_resources: 2,
            grants: vec![GrantId::from_bytes([6; 16])],
            grant_lifetime_s: 3600,
            dns: dns(),
            portals: portals(),
            releases_ended_access: true,
        },
        ToClient::Refused {
            reason: reason(),
            retry_after_s: Some(5),
        },
        ToClient::ResourceSet {
            resource: resource(),
        },
        ToClient::ResourceRemoved {
            resource: resource().id,
        },
        ToClient::DnsSet { dns: dns() },
        ToClient::EndedAccessSet { releases: true },
        ToClient::PortalsSet { portals: portals() },
        ToClient::AccessGranted {
            relays: Vec::new(),
            request: 4,
            resource: resource().id,
            grant,
            expires: Timestamp::from_unix_ms(1_790_000_000_123),
            gateway,
            gateway_name: "gw".to_owned(),
            gateway_key: PublicKey::from_bytes([8; 32]),
            gateway_interface: INTERFACE,
            candidates: vec!["192.0.2.1:51820".parse().unwrap()],
            preshared_key: PresharedKey::from_bytes([6; 32]),
            cipher: Cipher::Aes256Gcm,
            names: vec![resolved()],
            answers_dns: true,
        },
        ToClient::AccessDenied {
            request: 4,
            resource: resource().id,
            reason: reason(),
        },
        ToClient::AccessRevoked {
            grant,
            reason: reason(),
        },
        ToClient::GatewayLost { gateway },
        ToClient::GatewayDraining { gateway },
        ToClient::GatewayMoved {
            gateway,
            candidates: vec![],
        },
        ToClient::RelayPlacesSet {
            relays: vec![place()],
        },
        ToClient::RelaysSet {
            gateway,
            relays: vec![access()],
        },
        ToClient::Unsupported {
            kind: "new".to_owned(),
        },
    ]
}

fn from_gateway() -> Vec<FromGateway> {
    let grant = GrantId::from_bytes([4; 16]);
    vec![
        FromGateway::Hello {
            protocols: vec![1],
            version: "0.1.0".to_owned(),
            machine: "m".to_owned(),
            name: "gw".to_owned(),
            public_key: PublicKey::from_bytes([9; 32]),
            ciphers: vec![],
            candidates: vec!["[2001:db8::1]:51820".parse().unwrap()],
            draining: false,
            grants: vec![grant],
            more_grants: false,
            features: vec![GatewayFeature::Flows],
        },
        FromGateway::GrantsHeld {
            grants: vec![grant],
            more: true,
        },
        FromGateway::GrantAccepted {
            grant,
            names: vec![resolved()],
        },
        FromGateway::GrantRefused {
            grant,
            reason: reason(),
        },
        FromGateway::Load(GatewayLoad {
            clients: 1,
            flows: 2,
            rate_bytes_per_s: 3,
            processor_permille: 4,
        }),
        FromGateway::Flows(flow_report()),
        FromGateway::CandidatesChanged { candidates: vec![] },
        FromGateway::RelaysReached {
            relays: vec![reached()],
        },
        FromGateway::Draining { on: true },
        FromGateway::NatFound {
            mapping: NatMapping::None,
        },
        FromGateway::DeviceEndpoints {
            devices: vec![device_endpoint()],
            more: true,
        },
        FromGateway::AskName {
            ask: 3,
            client: ClientId::from_bytes([7; 16]),
            resource: ResourceId::from_bytes([8; 16]),
            name: wanted(),
        },
        FromGateway::NameAnswered {
            ask: 4,
            answer: SiteAnswer::Found {
                ipv4: true,
                ipv6: false,
            },
        },
        FromGateway::Unsupported {
            kind: "new".to_owned(),
        },
    ]
}

fn flow_report() -> FlowReport {
    FlowReport {
        run: u64::MAX >> 1,
        batch: 2,
        lost: 1,
        flows: vec![EndedFlow {
            client: ClientId::from_bytes([7; 16]),
            resource: resource().id,
            grant: GrantId::from_bytes([4; 16]),
            protocol: 6,
            address: "2001:db8::1".parse().unwrap(),
            inbound: false,
            port: 443,
            started: Timestamp::from_unix_ms(1_800_000_000_000),
            ended: Timestamp::from_unix_ms(1_800_000_001_000),
            sent_bytes: 1,
            sent_packets: 2,
            received_bytes: 3,
            received_packets: 4,
            end: FlowEnd::Policy,
        }],
    }
}

#[test]
fn a_full_report_of_flows_is_short_enough_for_a_message() {
    let mut report = flow_report();
    let mut flow = report.flows[0].clone();
    flow.protocol = u8::MAX;
    flow.port = u16::MAX;
    flow.address = "2001:db80:1111:2222:3333:4444:5555:6666".parse().unwrap();
    for count in [
        &mut flow.sent_bytes,
        &mut flow.sent_packets,
        &mut flow.received_bytes,
        &mut flow.received_packets,
    ] {
        *count = u64::MAX;
    }
    report.flows = vec![flow; MAX_FLOWS_PER_REPORT];
    let text = encode(&FromGateway::Flows(report));
    assert!(text.len() < MAX_FLOWS_PER_REPORT * 500, "{}", text.len());
}

fn device_endpoint() -> DeviceEndpoint {
    DeviceEndpoint {
        client: ClientId::from_bytes([7; 16]),
        client_key: PublicKey::from_bytes([9; 32]),
        address: Some("2001:db80:1111:2222:3333:4444:5555:6666".parse().unwrap()),
        handshake: Timestamp::from_unix_ms(1_800_000_000_123),
    }
}

fn admitted_device() -> AdmittedDevice {
    AdmittedDevice {
        client: ClientId::from_bytes([7; 16]),
        client_key: PublicKey::from_bytes([9; 32]),
        client_ipv4: "100.111.222.133".parse().unwrap(),
        client_ipv6: "fd00:2021:1111:2222:3333:4444:5555:6666".parse().unwrap(),
        dns: true,
    }
}

#[test]
fn full_lists_of_devices_are_short_enough_for_a_message() {
    let endpoints = FromGateway::DeviceEndpoints {
        devices: vec![device_endpoint(); MAX_DEVICES_PER_MESSAGE],
        more: true,
    };
    let admitted = ToGateway::DevicesAdmitted {
        devices: vec![admitted_device(); MAX_DEVICES_PER_MESSAGE],
        more: true,
        kept_s: u32::MAX,
    };
    for text in [encode(&endpoints), encode(&admitted)] {
        assert!(text.len() < MAX_DEVICES_PER_MESSAGE * 250, "{}", text.len());
    }
}

#[test]
fn a_device_without_an_address_says_so_by_leaving_it_out() {
    let mut endpoint = device_endpoint();
    endpoint.address = None;
    let text = serde_json::to_string(&endpoint).unwrap();
    assert!(!text.contains("address"), "{text}");
    assert_eq!(
        serde_json::from_str::<DeviceEndpoint>(&text).unwrap(),
        endpoint
    );
}

fn to_gateway() -> Vec<ToGateway> {
    let grant = GrantId::from_bytes([4; 16]);
    vec![
        ToGateway::Welcome {
            protocol: 1,
            gateway: GatewayId::from_bytes([3; 16]),
            site: Some(SiteId::from_bytes([5; 16])),
            site_name: Some("office".to_owned()),
            interface: INTERFACE,
            ranges: ranges(),
            grant_keys: vec!["key".to_owned()],
            grants: vec![grant],
            more_grants: false,
            draining: false,
            verification_awaited: true,
            portals: portals(),
        },
        ToGateway::GrantsRetained {
            grants: vec![grant],
            more: true,
        },
        ToGateway::Refused {
            reason: reason(),
            retry_after_s: None,
        },
        ToGateway::Grant {
            token: "v4.public.x".to_owned(),
            preshared_key: PresharedKey::from_bytes([6; 32]),
            replaces: Some(grant),
            names: vec![wanted()],
            labels: GrantLabels {
                client: Some("laptop".to_owned()),
                resource: None,
            },
        },
        ToGateway::AnswerNow { grant },
        ToGateway::Revoke { grant },
        ToGateway::FiltersChanged {
            resource: resource().id,
            inbound: Vec::new().into(),
            filters: vec![Filter::Any].into(),
        },
        ToGateway::Drain { on: true },
        ToGateway::Verification { awaited: true },
        ToGateway::FlowLog { on: true },
        ToGateway::PortalsSet { portals: portals() },
        ToGateway::RelaysSet {
            relays: vec![access()],
        },
        ToGateway::ClientCandidates {
            client: ClientId::from_bytes([7; 16]),
            client_key: PublicKey::from_bytes([9; 32]),
            candidates: vec!["192.0.2.7:51820".parse().unwrap()],
        },
        ToGateway::FlowsTaken { run: 1, batch: 2 },
        ToGateway::DevicesAdmitted {
            devices: vec![admitted_device()],
            more: true,
            kept_s: 3_600,
        },
        ToGateway::DeviceAdmitted {
            device: admitted_device(),
        },
        ToGateway::DeviceDismissed {
            client: ClientId::from_bytes([7; 16]),
        },
        ToGateway::NamesElsewhere {
            client: ClientId::from_bytes([7; 16]),
            place: 1,
            names: vec![NameElsewhere {
                resource: ResourceId::from_bytes([8; 16]),
                pattern: "*.corp.example".to_owned(),
                place: 2,
            }],
        },
        ToGateway::ResolveName {
            ask: 4,
            client: ClientId::from_bytes([7; 16]),
            resource: ResourceId::from_bytes([8; 16]),
            name: wanted(),
        },
        ToGateway::NameAnswered {
            ask: 3,
            answer: SiteAnswer::Denied {
                text: "no".to_owned(),
            },
        },
        ToGateway::Unsupported {
            kind: "new".to_owned(),
        },
    ]
}

fn reached() -> RelayReach {
    RelayReach {
        relay: RELAY,
        round_trip_us: 900,
        registered: true,
        tls: false,
    }
}

fn place() -> RelayPlace {
    RelayPlace {
        relay: RELAY,
        name: "relay".to_owned(),
        addresses: vec!["192.0.2.9:3478".parse().unwrap()],
        tls: Some(RelayTls {
            port: 443,
            pin: CertificatePin::of(b"certificate"),
        }),
    }
}

fn access() -> RelayAccess {
    RelayAccess {
        place: place(),
        port: 3_479,
        token: "v4.local.x".to_owned(),
        key: PresharedKey::from_bytes([6; 32]),
        expires: Timestamp::from_unix_ms(1_800_000_000_000),
    }
}

fn from_relay() -> Vec<FromRelay> {
    vec![
        FromRelay::Hello {
            protocols: vec![1],
            version: "0.1.0".to_owned(),
            machine: "m".to_owned(),
            name: "relay".to_owned(),
            addresses: place().addresses,
            first_port: 3_479,
            ports: 64,
            tls: place().tls,
            draining: false,
            assigned: vec![RelayPort {
                port: 3_479,
                gateway: GatewayId::from_bytes([3; 16]),
            }],
        },
        FromRelay::Load(RelayLoad {
            gateways: 1,
            clients: 2,
            rate_bytes_per_s: 3,
            processor_permille: 4,
        }),
        FromRelay::AddressesChanged { addresses: vec![] },
        FromRelay::Draining { on: true },
        FromRelay::Unsupported {
            kind: "new".to_owned(),
        },
    ]
}

fn to_relay() -> Vec<ToRelay> {
    vec![
        ToRelay::Welcome {
            protocol: 1,
            relay: RELAY,
            key: PresharedKey::from_bytes([6; 32]),
            draining: false,
            portals: portals(),
        },
        ToRelay::Refused {
            reason: reason(),
            retry_after_s: Some(1),
        },
        ToRelay::Withdraw {
            gateway: GatewayId::from_bytes([3; 16]),
            client: None,
            until: Timestamp::from_unix_ms(1_800_000_000_000),
        },
        ToRelay::Drain { on: true },
        ToRelay::PortalsSet { portals: portals() },
        ToRelay::Unsupported {
            kind: "new".to_owned(),
        },
    ]
}

fn survives<M: Message + PartialEq + Debug>(messages: Vec<M>) {
    let mut kinds: Vec<String> = Vec::new();
    for message in messages {
        let text = encode(&message);
        assert!(text.len() <= M::MAX_LEN);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        kinds.push(value["type"].as_str().unwrap().to_owned());
        assert_eq!(decode::<M>(&text), Ok(Decoded::Known(message)), "{text}");
    }
    assert_eq!(kinds, M::KINDS, "every kind has an example, in order");
}

#[test]
fn every_message_survives_its_text() {
    survives(from_client());
    survives(to_client());
    survives(from_gateway());
    survives(to_gateway());
    survives(from_relay());
    survives(to_relay());
}

#[test]
fn a_message_of_the_portal_has_its_place_in_the_session() {
    for (seq, message) in (1..).zip(to_client()) {
        let placed = Sequenced {
            epoch: 77,
            seq,
            message,
        };
        let decoded = decode_sequenced::<ToClient>(&encode(&placed)).unwrap();
        assert_eq!((decoded.epoch, decoded.seq), (77, seq));
        assert_eq!(decoded.message, Decoded::Known(placed.message));
    }
    let unknown = r#"{"epoch":1,"seq":2,"type":"news","x":{}}"#;
    let decoded = decode_sequenced::<ToGateway>(unknown).unwrap();
    assert_eq!((decoded.epoch, decoded.seq), (1, 2));
    let kind = "news".to_owned();
    assert_eq!(decoded.message, Decoded::Unknown { kind });
}

#[test]
fn unknown_fields_are_ignored() {
    let text = r#"{"type":"draining","on":true,"until":"tomorrow","more":[{}]}"#;
    let message = decode::<FromGateway>(text);
    assert_eq!(
        message,
        Ok(Decoded::Known(FromGateway::Draining { on: true }))
    );
}

#[test]
fn an_unknown_kind_is_told_from_a_malformed_message() {
    let long = "x".repeat(100);
    let text = format!(r#"{{"type":"{long}"}}"#);
    let kind = "x".repeat(64);
    assert_eq!(decode::<FromClient>(&text), Ok(Decoded::Unknown { kind }));
    let malformed = decode::<FromClient>(r#"{"type":"release_access","grant":"gw_1"}"#);
    assert!(matches!(malformed, Err(DecodeError::Malformed { .. })));
    for text in [
        "",
        "[]",
        "{}",
        r#"{"type":7}"#,
        "\u{0}",
        r#"{"type":"hello"} x"#,
    ] {
        let error = decode::<FromClient>(text).unwrap_err();
        assert_eq!(error, DecodeError::NoMessage, "{text}");
    }
}

#[test]
fn an_oversized_message_is_not_looked_at() {
    let of_client = "[".repeat(MAX_CLIENT_MESSAGE_LEN + 1);
    let (len, max) = (of_client.len(), MAX_CLIENT_MESSAGE_LEN);
    assert_eq!(
        decode::<FromClient>(&of_client),
        Err(DecodeError::TooLong { len, max })
    );
    assert_eq!(
        decode::<FromGateway>(&of_client),
        Err(DecodeError::NoMessage)
    );
    let of_portal = "[".repeat(MAX_MESSAGE_LEN + 1);
    let (len, max) = (of_portal.len(), MAX_MESSAGE_LEN);
    assert_eq!(
        decode_sequenced::<ToClient>(&of_portal),
        Err(DecodeError::TooLong { len, max })
    );
}

#[test]
fn the_longest_request_of_a_client_leaves_a_third_of_its_limit() {
    let label = "n".repeat(62);
    let longest = WantedName {
        name: [label.as_str(); 4].join(".") + "nn",
        ipv4: [100, 127, 255, 255].into(),
        ipv6: [0xffff; 8].into(),
    };
    assert_eq!(longest.name.len(), 253);
    let request = FromClient::RequestAccess {
        request: u64::MAX,
        resource: ResourceId::from_bytes([0xff; 16]),
        names: vec![longest; MAX_NAMES],
        avoid: Vec::new(),
    };
    let len = encode(&request).len();
    assert!(len <= MAX_CLIENT_MESSAGE_LEN * 2 / 3, "{len}");
}

#[test]
fn a_malformed_message_is_not_repeated_in_the_error() {
    let text = r#"{"type":"grant","token":"t","preshared_key":"hunter2"}"#;
    let error = decode::<ToGateway>(text).unwrap_err();
    assert!(!error.to_string().contains("hunter2"));
    assert!(!format!("{error:?}").contains("hunter2"));
}

#[test]
fn a_preshared_key_is_in_no_debug_text() {
    let text = format!("{:?}", to_client());
    assert!(text.contains("PresharedKey(redacted)"));
}

#[test]
fn aes_is_chosen_only_where_both_do_it_fast() {
    let (aes, chacha) = (Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305);
    assert_eq!(Cipher::choose(&[chacha, aes], &[aes]), aes);
    assert_eq!(Cipher::choose(&[chacha], &[aes, chacha]), chacha);
    assert_eq!(Cipher::choose(&[], &[]), chacha);
}

#[test]
fn a_port_is_a_number_and_a_range_is_a_text() {
    let text = r#"{"protocol":"tcp","ports":[80,"8000-8100","443"]}"#;
    let filter: Filter = serde_json::from_str(text).unwrap();
    let range = |first, last| PortRange { first, last };
    let ports = vec![range(80, 80), range(8000, 8100), range(443, 443)];
    assert_eq!(filter, Filter::Tcp { ports });
    let again = serde_json::to_string(&filter).unwrap();
    assert_eq!(again, r#"{"protocol":"tcp","ports":[80,"8000-8100",443]}"#);
    for port in [
        "70000",
        "-1",
        "\"9-8\"",
        "\"1-2-3\"",
        "\" 1\"",
        "\"+1\"",
        "\"\"",
        "1.5",
    ] {
        let text = format!(r#"{{"protocol":"udp","ports":[{port}]}}"#);
        assert!(serde_json::from_str::<Filter>(&text).is_err(), "{port}");
    }
}

#[test]
fn ports_left_out_are_all_and_an_empty_list_is_none() {
    let all: Filter = serde_json::from_str(r#"{"protocol":"tcp"}"#).unwrap();
    let none: Filter = serde_json::from_str(r#"{"protocol":"tcp","ports":[]}"#).unwrap();
    let (first, last) = (0, u16::MAX);
    let ports = vec![PortRange { first, last }];
    assert_eq!(all, Filter::Tcp { ports });
    assert_eq!(none, Filter::Tcp { ports: vec![] });
}

#[test]
fn a_filter_that_says_more_than_is_understood_is_refused() {
    // A field that is ignored may have been meant to narrow the filter: this one would allow all
    // ports.
    for text in [
        r#"{"protocol":"tcp","port":80}"#,
        r#"{"protocol":"any","ports":[80]}"#,
        r#"{"protocol":"icmp","ports":[]}"#,
        r#"{"protocol":"any","except":"tcp"}"#,
        r#"{"protocol":"sctp"}"#,
        r#"{"ports":[80]}"#,
    ] {
        assert!(serde_json::from_str::<Filter>(text).is_err(), "{text}");
    }
}

#[test]
fn a_condition_with_an_unknown_field_is_refused() {
    // An ignored part of a condition would open what it was to close.
    let text = r#"{"kind":"public_address","cidrs":["192.0.2.0/24"],"except":["192.0.2.7/32"]}"#;
    assert!(serde_json::from_str::<Condition>(text).is_err());
}

#[test]
fn the_last_instant_survives_its_text() {
    for unix_ms in [u64::MAX, Timestamp::MAX.unix_ms() - 1] {
        let instant = Timestamp::from_unix_ms(unix_ms);
        let text = serde_json::to_string(&instant).unwrap();
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), instant);
        assert_eq!(instant.to_string().parse(), Ok(instant));
    }
}

proptest! {
    #[test]
    fn instants_survive_their_text(unix_ms in 0..=Timestamp::MAX.unix_ms()) {
        let at = Timestamp::from_unix_ms(unix_ms);
        prop_assert_eq!(at.to_string().parse(), Ok(at));
    }

    #[test]
    fn no_text_makes_the_decoder_panic(text in "\\{?\"?type\"?:?\"(hello|grant)\"?\\PC{0,60}") {
        let _any = decode::<FromClient>(&text);
        let _any = decode_sequenced::<ToGateway>(&text);
    }

    #[test]
    fn keys_survive_their_text(bytes: [u8; 32]) {
        let key = PublicKey::from_bytes(bytes);
        prop_assert_eq!(key.to_string().parse(), Ok(key));
    }
}
