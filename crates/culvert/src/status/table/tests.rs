use super::*;
use culvert_client::status::{
    ApplicationsStatus, CounterStatus, DnsStatus, DropStatus, ReasonStatus, RefusedStatus,
    SCHEMA_VERSION, ServiceStatus, UnreadableStatus, ZoneStatus,
};
use culvert_ids::{GatewayId, ResourceId, SiteId};
use culvert_wire::{PublicKey, Timestamp};

pub(crate) fn status() -> Status {
    let gateway = GatewayId::from_bytes([1; 16]);
    let resource = |number: u8, name: &str, target: &str, state| ResourceStatus {
        id: ResourceId::from_bytes([number; 16]),
        name: name.to_owned(),
        target: target.to_owned(),
        site: SiteId::from_bytes([1; 16]),
        state,
        why: None,
        gateway: None,
        grant: None,
        expires: None,
        renewing: false,
        held_packets: 0,
        allow: Some(vec!["tcp:80".to_owned()]),
        unknown_filters: 0,
        applications: None,
        inbound: Vec::new(),
        sent_bytes: None,
        received_bytes: None,
    };
    let granted = ResourceStatus {
        gateway: Some(gateway),
        expires: Some(Timestamp::from_unix_ms(3_600_000)),
        sent_bytes: Some(999),
        received_bytes: Some(1_250_000),
        ..resource(1, "web", "10.0.0.0/8", AccessState::Granted)
    };
    let denied = ResourceStatus {
        why: Some(ReasonStatus {
            code: "condition_not_met".to_owned(),
            text: "not at this hour".to_owned(),
            ago_ms: 61_000,
        }),
        ..resource(2, "database", "db.corp.example", AccessState::Denied)
    };
    Status {
        schema_version: SCHEMA_VERSION,
        version: "1.0".to_owned(),
        at: Timestamp::from_unix_ms(0),
        running_for_ms: 90_000_000,
        interface: Some("culvert0".to_owned()),
        mtu_bytes: Some(1420),
        name: "laptop".to_owned(),
        machine: "m".to_owned(),
        client: None,
        public_key: PublicKey::from_bytes([3; 32]),
        ipv4: Some([100, 64, 0, 9].into()),
        ipv6: "fd00::9".parse().ok(),
        service: ServiceStatus::default(),
        privileges: None,
        sandbox: None,
        portal_url: "https://portal.example".to_owned(),
        portal_pin: None,
        portal: PortalStatus {
            owner_disabled: false,
            listing: false,
            state: PortalState::Waiting,
            state_for_ms: 5_000,
            next_attempt_in_ms: Some(4_000),
            last_error: Some("it does not answer".to_owned()),
            attempts: 3,
            sessions: 1,
            clock_ahead_ms: None,
        },
        ready: false,
        not_ready_because: Some("it does not answer".to_owned()),
        resources: vec![granted, denied],
        unreadable: Vec::new(),
        gateways: vec![GatewayStatus {
            id: gateway,
            name: "office-1".to_owned(),
            public_key: PublicKey::from_bytes([4; 32]),
            path: "direct".to_owned(),
            relay: None,
            relay_name: None,
            by_tls: false,
            round_trip_us: None,
            why: None,
            endpoint: "192.0.2.1:51820".parse().ok(),
            candidates: Vec::new(),
            cipher: Cipher::Aes256Gcm,
            handshake_age_ms: Some(42_000),
            heard_ms_ago: Some(10),
            silent_for_ms: None,
            rx_bytes: 1_000,
            tx_bytes: 0,
            rx_bytes_per_s: 125_000_000,
            tx_bytes_per_s: 125,
            path_mtu_bytes: None,
            resources: Vec::new(),
        }],
        relays: Vec::new(),
        names: Vec::new(),
        dns: DnsStatus::default(),
        drops: vec![DropStatus {
            stage: "outbound".to_owned(),
            reason: "no_peer".to_owned(),
            count: 3,
        }],
        counters: vec![CounterStatus {
            name: "granted".to_owned(),
            count: 5,
        }],
        applications: ApplicationsStatus::default(),
        problems: vec!["the clock is wrong: set it".to_owned()],
    }
}

#[test]
fn everything_that_matters_is_told() {
    let text = render(&status());
    let expected = "\
client     laptop
portal     https://portal.example: not connected, next attempt in 4 s (it does not answer)
tunnel     culvert0: 100.64.0.9, fd00::9
running    1 d 1 h, culvert 1.0

RESOURCES
  web       10.0.0.0/8       granted  through office-1, 1 h 0 min left; sent 999 B, received 1.2 MB
  database  db.corp.example  denied   not at this hour (1 min 1 s ago)

GATEWAYS
  office-1  direct  192.0.2.1:51820  handshake 42 s ago  aes256gcm  in 1.0 Gbit/s, out 1 kbit/s

DROPPED
  outbound  no_peer  3

PROBLEMS
  the clock is wrong: set it
";
    assert_eq!(text, expected);
}

#[test]
fn what_needs_a_newer_version_is_told() {
    let mut status = status();
    status.resources.remove(0);
    status.resources[0].unknown_filters = 1;
    let [name, why] = ["mail", "it is of another kind"].map(str::to_owned);
    let id = ResourceId::from_bytes([7; 16]);
    let name = Some(name);
    status.unreadable.push(UnreadableStatus { id, name, why });
    let text = render(&status);
    let expected = "\
RESOURCES
  database  db.corp.example  denied  not at this hour (1 min 1 s ago); a part of it needs a newer version of culvert on this machine
  mail: can't be read: it is of another kind
";
    assert!(text.contains(expected), "{text}");
    status.resources.clear();
    let text = render(&status);
    assert!(text.contains("RESOURCES\n  mail: can't be read"), "{text}");
}

#[test]
fn a_list_that_is_not_whole_is_told_and_no_policy_is_to_blame() {
    let mut status = status();
    status.portal.listing = true;
    let text = render(&status);
    let listing = "RESOURCES\n  the portal is listing them: some are missing yet\n";
    assert!(text.contains(&format!("{listing}  web  ")), "{text}");
    status.resources.clear();
    let text = render(&status);
    assert!(text.contains(&format!("{listing}\nGATEWAYS")), "{text}");
}

#[test]
fn whom_rules_about_applications_refused_is_told_by_name() {
    let mut status = status();
    status.resources[0].applications = Some("only programs of backup".to_owned());
    status.applications = ApplicationsStatus {
        refused: vec![RefusedStatus {
            application: "browser".to_owned(),
            packets: 3,
        }],
        refused_others: 7,
    };
    let text = render(&status);
    let resource = "through office-1, 1 h 0 min left; for only programs of backup; sent 999 B, received 1.2 MB\n";
    assert!(text.contains(resource), "{text}");
    let refused = "\nREFUSED APPLICATIONS\n  browser           3 packets\n  \
                   (no application)  7 packets\n";
    assert!(text.contains(refused), "{text}");
}

#[test]
fn whether_and_for_what_the_system_asks_the_client_is_told() {
    let domains = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
    for (mode, applied, domains, expected) in [
        (
            "off",
            false,
            None,
            "off: the system is not told to ask here",
        ),
        ("file", true, None, "file: asks here for every name"),
        ("file", false, None, "file: does not work, see PROBLEMS"),
        (
            "resolved",
            true,
            domains(&[]),
            "resolved: no resource has a name",
        ),
        (
            "resolved",
            true,
            domains(&["a.example", "b"]),
            "resolved: asks here for a.example, b",
        ),
    ] {
        let mut status = status();
        status.dns.control = Some(DnsControlStatus {
            mode: mode.to_owned(),
            applied,
            domains,
        });
        let line = format!("\ndns        {expected}\n");
        assert!(render(&status).contains(&line), "{line}");
    }
}

#[test]
fn what_the_administrator_says_of_names_is_shown() {
    let mut status = status();
    let text = render(&status);
    assert!(
        !text.contains("DOMAINS") && !text.contains("search"),
        "{text}"
    );
    status.dns.search = vec!["corp.example".to_owned(), "lab.example".to_owned()];
    let zone = |name: &str, servers: &[&str]| ZoneStatus {
        name: name.to_owned(),
        servers: servers.iter().map(|it| it.parse().unwrap()).collect(),
    };
    status.dns.zones = vec![
        zone(".", &["10.0.0.53"]),
        zone("corp.example", &["10.1.0.53", "fd0c::53"]),
        zone("new.example", &[]),
    ];
    let text = render(&status);
    assert!(
        text.contains("\nsearch     corp.example, lab.example\n"),
        "{text}"
    );
    let shown = "\nDOMAINS\n  . (all other names)  asked of 10.0.0.53\n  corp.example         asked of \
                 10.1.0.53, fd0c::53\n  new.example          asked of nobody: no server that this \
                 version knows\n";
    assert!(text.contains(shown), "{text}");
}

#[test]
fn the_json_form_reads_what_it_writes() {
    let status = status();
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&text).unwrap(), status);
    assert!(text.starts_with("{\"schema_version\":1,"), "{text}");
}

#[test]
fn the_path_to_a_gateway_is_told_with_its_relay_and_its_round_trip() {
    let mut status = status();
    status.gateways[0].round_trip_us = Some(8_250);
    let text = render(&status);
    assert!(
        text.contains("  office-1  direct in 8.2 ms  192.0.2.1:51820"),
        "{text}"
    );
    status.gateways[0].path = "relayed".to_owned();
    status.gateways[0].relay_name = Some("fra-1".to_owned());
    let text = render(&status);
    assert!(
        text.contains("  office-1  relayed by fra-1 in 8.2 ms  192"),
        "{text}"
    );
    status.gateways[0].why = Some("no direct path answers".to_owned());
    let text = render(&status);
    assert!(
        text.contains("relayed by fra-1 in 8.2 ms: no direct path answers  192"),
        "{text}"
    );
    status.gateways[0].by_tls = true;
    let text = render(&status);
    let expected = "  office-1  through relay fra-1 by TLS in 8.2 ms: UDP gets no answer  192";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn relays_are_told_nearest_first() {
    let mut status = status();
    let relay = |name: &str, round_trip_us| RelayStatus {
        id: culvert_ids::RelayId::from_bytes([1; 16]),
        name: name.to_owned(),
        addresses: vec!["203.0.113.7:3478".parse().unwrap()],
        tls_port: None,
        tls_pin: None,
        round_trip_us,
        registered: false,
        by_tls: name == "far",
    };
    status.relays = vec![
        relay("silent", None),
        relay("far", Some(80_000)),
        relay("near", Some(8_250)),
    ];
    let text = render(&status);
    let expected = "
RELAYS
  near    203.0.113.7:3478  answers in 8.2 ms
  far     203.0.113.7:3478  answers in 80.0 ms by TLS: UDP gets no answer
  silent  203.0.113.7:3478  does not answer: `culvert netcheck` looks for the reason
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn resources_that_may_begin_something_are_listed_with_what_is_open_to_them() {
    let mut status = status();
    assert!(!render(&status).contains("INBOUND"));
    for resource in &mut status.resources {
        resource.inbound = vec!["tcp:22,8000-8100".to_owned(), "icmp".to_owned()];
    }
    status.service.state = ServiceState::Up;
    let text = render(&status);
    let (_, listed) = text.split_once("\nINBOUND\n").unwrap();
    let lines: Vec<_> = listed.lines().take(2).collect();
    let services = "may use tcp:22,8000-8100, icmp of this machine";
    assert_eq!(
        lines,
        [
            format!("  web       10.0.0.0/8       {services}  open"),
            format!("  database  db.corp.example  {services}  closed: this machine has no grant"),
        ]
    );
}
