use super::*;
use culvert_gateway::status::{
    CounterStatus, DropStatus, FirewallStatus, GrantStatus, LoadStatus, PortalState, PortalStatus,
    SCHEMA_VERSION,
};
use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, ResourceId, SiteId};
use culvert_wire::{Cipher, PublicKey, Timestamp};

const NOW_MS: u64 = 1_800_000_000_000;

/// A gateway that drains, with one client.
pub(in super::super) fn status() -> Status {
    Status {
        schema_version: SCHEMA_VERSION,
        version: "1.2.3".to_owned(),
        at: Timestamp::from_unix_ms(NOW_MS),
        running_for_ms: 3_700_000,
        interface: "culvert-gw0".to_owned(),
        name: "gw-1".to_owned(),
        machine: "a-machine".to_owned(),
        gateway: Some(GatewayId::from_bytes([1; 16])),
        site: Some(SiteId::from_bytes([2; 16])),
        site_name: Some("office".to_owned()),
        public_key: PublicKey::from_bytes([3; 32]),
        fingerprint: PublicKey::from_bytes([3; 32]).fingerprint(),
        awaits_verification: false,
        ipv4: Some("100.64.0.1".parse().unwrap()),
        ipv6: Some("fd00:2021:1111::1".parse().unwrap()),
        listen_port: 51_820,
        candidates: vec!["192.0.2.20:51820".parse().unwrap()],
        relays: Vec::new(),
        portal_url: "https://192.0.2.10:8443".to_owned(),
        portal: PortalStatus {
            owner_disabled: false,
            listing: false,
            state: PortalState::Waiting,
            state_for_ms: 8_000,
            next_attempt_in_ms: Some(1_500),
            last_error: Some("connection refused".to_owned()),
            attempts: 5,
            sessions: 1,
            clock_ahead_ms: Some(20),
        },
        ready: false,
        not_ready_because: Some("it drains and takes no new clients".to_owned()),
        draining: true,
        draining_by_itself: true,
        clients: vec![client()],
        client_count: 3,
        grant_count: 4,
        waiting_grants: 1,
        names: vec![NameStatus {
            name: "db.corp.example".to_owned(),
            answered: true,
            ipv4: Some("10.7.0.1".parse().unwrap()),
            ipv6: None,
            renewed_in_ms: 30_000,
        }],
        name_count: 1,
        load: LoadStatus {
            flows: 7,
            bytes_per_s: 1_250_000,
            processor_permille: 125,
        },
        sandbox: None,
        firewall: FirewallStatus {
            table: "culvert_culvert-gw0".to_owned(),
            state: FirewallState::Intact,
            checked_ms_ago: Some(900),
            restored: 2,
        },
        drops: vec![DropStatus {
            stage: "gate".to_owned(),
            reason: "no_grant".to_owned(),
            count: 3,
        }],
        counters: vec![CounterStatus {
            name: "grants_accepted".to_owned(),
            count: 9,
        }],
        problems: vec!["IPv6 is not forwarded".to_owned()],
    }
}

fn client() -> ClientStatus {
    let grant = |number, target: &str| GrantStatus {
        id: GrantId::from_bytes([number; 16]),
        resource: ResourceId::from_bytes([number; 16]),
        target: target.to_owned(),
        expires: Timestamp::from_unix_ms(NOW_MS + 90_000),
    };
    ClientStatus {
        id: ClientId::from_bytes([9; 16]),
        public_key: PublicKey::from_bytes([4; 32]),
        ipv4: "100.64.1.1".parse().unwrap(),
        ipv6: "fd00:2021:1111::101".parse().unwrap(),
        cipher: Cipher::Aes256Gcm,
        relay_name: None,
        endpoint: Some("198.51.100.7:4000".parse().unwrap()),
        handshake_age_ms: Some(61_000),
        heard_ms_ago: Some(10),
        rx_bytes: 1_000,
        tx_bytes: 2_000,
        rx_bytes_per_s: 125_000,
        tx_bytes_per_s: 0,
        grants: vec![grant(1, "10.0.1.0/24"), grant(2, "db.corp.example")],
        grant_count: 3,
    }
}

#[test]
fn relays_and_clients_that_come_through_them_are_told() {
    let mut status = status();
    let relay = |name: &str, registered, round_trip_us| RelayStatus {
        id: RelayId::from_bytes([5; 16]),
        name: name.to_owned(),
        address: "203.0.113.9:3479".parse().unwrap(),
        registered,
        by_tls: false,
        round_trip_us,
    };
    status.relays = vec![
        relay("fra-1", true, Some(12_345)),
        relay("ams-1", false, None),
        RelayStatus {
            by_tls: true,
            ..relay("ber-1", true, Some(9_000))
        },
    ];
    status.clients[0].relay_name = Some("fra-1".to_owned());
    let text = render(&status);
    let expected = "\
relay      fra-1 (203.0.113.9:3479): registered in 12.3 ms
relay      ams-1 (203.0.113.9:3479): not registered yet
relay      ber-1: registered by TLS in 9.0 ms, UDP gets no answer
";
    assert!(text.contains(expected), "{text}");
    assert!(
        text.contains("  relayed by fra-1  handshake 1 min"),
        "{text}"
    );
}

#[test]
fn everything_that_there_is_to_know_stands_in_lines() {
    let client = ClientId::from_bytes([9; 16]);
    let (gateway, site) = (GatewayId::from_bytes([1; 16]), SiteId::from_bytes([2; 16]));
    let expected = format!(
        "\
gateway    gw-1 ({gateway})
site       office ({site})
key        AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=
           648a-a5c5-79fb-30f3-8af7-44d9-7d6e-c840
portal     https://192.0.2.10:8443: not connected, next attempt in 1 s (connection refused)
clients    not ready: it drains and takes no new clients
tunnel     culvert-gw0: 100.64.0.1, fd00:2021:1111::1
reached    192.0.2.20:51820
firewall   inet culvert_culvert-gw0: intact, put back 2 times
load       7 flows, 10.0 Mbit/s, processors 12.5 %
running    1 h 1 min, culvert 1.2.3

CLIENTS
  {client}  198.51.100.7:4000  handshake 1 min 1 s ago  aes256gcm  in 1.0 Mbit/s, out 0 bit/s  \
10.0.1.0/24 (1 min 30 s left), db.corp.example (1 min 30 s left), 1 more
  … and 2 more
  waiting for the DNS: 1

NAMES
  db.corp.example  10.7.0.1  -

DROPPED
  gate  no_grant  3

PROBLEMS
  IPv6 is not forwarded
"
    );
    assert_eq!(render(&status()), expected);
}

#[test]
fn a_gateway_without_clients_or_portal_says_so() {
    let status = Status {
        gateway: None,
        site: None,
        site_name: None,
        ipv4: None,
        clients: Vec::new(),
        client_count: 0,
        names: Vec::new(),
        drops: Vec::new(),
        problems: Vec::new(),
        ..status()
    };
    let text = render(&status);
    assert!(
        text.starts_with("gateway    gw-1\nkey        AwMD"),
        "{text}"
    );
    assert!(text.ends_with("CLIENTS\n  none holds a grant\n"), "{text}");
}
