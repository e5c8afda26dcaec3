//! `culvert netcheck` names what is in the way, and what to do.

use crate::common::{Bed, SOON, WEB_PORT};
use culvert_lab::nat::NatKind;
use culvert_lab::product::{BehindNats, Client, PRIVATE_V4, Product};
use culvert_lab::{Namespace, culvert_program, wait_until};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

/// Exit statuses (docs/exit-status.md).
const FAILED: i32 = 1;
const UNREACHABLE: i32 = 4;

/// The report at the client's machine, and the exit status.
fn netcheck(product: &Product, arguments: &str) -> (i32, Vec<Value>) {
    netcheck_at(product, &product.client.socket(), arguments)
}

/// The same, where the client is to be asked there.
fn netcheck_at(product: &Product, socket: &Path, arguments: &str) -> (i32, Vec<Value>) {
    let line = format!(
        "{} netcheck --json --socket {} {arguments}",
        culvert_program().unwrap().display(),
        socket.display()
    );
    let outcome = product.client.namespace.outcome(&line).unwrap();
    let said: Value = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    assert_eq!(said["schema_version"], 1);
    let findings = said["findings"].as_array().unwrap().clone();
    (outcome.status.code().unwrap(), findings)
}

/// The whole report of `culvert netcheck --json` at a client's machine, and the exit status.
pub(crate) fn netcheck_of(client: &Client, arguments: &str) -> (i32, Value) {
    let program = culvert_program().unwrap();
    let line = format!(
        "{} netcheck --json --socket {} {arguments}",
        program.display(),
        client.socket().display()
    );
    let outcome = client
        .namespace
        .outcome_of_script(&format!("{}\n{line}", client.machine))
        .unwrap();
    let said = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    (outcome.status.code().unwrap(), said)
}

/// The mapping that netcheck is to name (docs/client.md). The routers differ in what they let in as well, which questions to
/// relays can't show. None where no question comes through.
const fn mapping(kind: NatKind) -> Option<&'static str> {
    Some(match kind {
        NatKind::UdpBlocked => return None,
        NatKind::None => "none",
        NatKind::Symmetric => "address_and_port_dependent",
        NatKind::EndpointIndependent
        | NatKind::AddressDependent
        | NatKind::PortDependent
        | NatKind::Double
        | NatKind::CarrierGrade => "endpoint_independent",
    })
}

#[test]
fn it_names_the_kind_of_nat_behind_every_router_and_says_when_udp_is_blocked() {
    let kinds = NatKind::ALL;
    let mut scene = BehindNats::new(2, &[], &kinds).unwrap();
    scene.start().unwrap();
    for (client, kind) in scene.clients.iter().zip(kinds) {
        let Some(mapping) = mapping(kind) else {
            wait_until("both relays by TLS alone", SOON, || {
                let (_, report) = netcheck_of(client, "");
                let relays = report["relays"].as_array().unwrap();
                let by_tls = |relay: &&Value| relay["udp"] == "silent" && relay["tls"] == "works";
                relays.iter().filter(by_tls).count() == 2
            })
            .unwrap_or_else(|error| panic!("{error}: {:#}", netcheck_of(client, "").1));
            continue;
        };
        let mut last = Value::Null;
        // The client may not know the relays yet.
        wait_until("both relays in the report", SOON, || {
            let (_, report) = netcheck_of(client, "");
            let relays = report["relays"].as_array().unwrap();
            let answers = relays.iter().filter(|relay| relay["udp"] == "answers");
            let is_whole = answers.count() == 2;
            last = report;
            is_whole
        })
        .unwrap_or_else(|error| panic!("{error}: {}: {last:#}", kind.name()));
        let ipv4 = &last["network"]["ipv4"];
        assert_eq!(ipv4["nat"], mapping, "{}: {last:#}", kind.name());
        assert_eq!(ipv4["state"], "works", "{}: {last:#}", kind.name());
        let relays = last["relays"].as_array().unwrap();
        let round_trips: Vec<u64> = relays
            .iter()
            .map(|relay| relay["round_trip_us"].as_u64().unwrap())
            .collect();
        assert!(round_trips.is_sorted(), "the nearest first: {last:#}");
    }

    // One relay, by hand and without a client: there is a NAT, and no more is known.
    let home = kinds
        .iter()
        .position(|kind| *kind == NatKind::PortDependent);
    let home = home.unwrap();
    scene.clients[home].kill().unwrap();
    let (_, report) = netcheck_of(&scene.clients[home], "--relay 10.200.60.2");
    assert_eq!(report["network"]["ipv4"]["nat"], "unknown", "{report:#}");
    let findings = report["findings"].as_array().unwrap();
    says(
        findings,
        "nat",
        "skipped",
        "a single relay can't tell its kind",
    );
    // And none at all: a router drops UDP without a word, and then the machine itself does.
    let block = |namespace: &Namespace, hook: &str| {
        let rules = format!(
            "nft 'add table inet blocked; add chain inet blocked chosen {{ type filter hook {hook} priority 0; }}; \
             add rule inet blocked chosen meta l4proto udp drop'"
        );
        namespace.shell(&rules).unwrap();
    };
    for (namespace, hook, udp, holds) in [
        (
            &scene.client_routers[home].inner,
            "forward",
            "silent",
            "no UDP comes back from 10.200.60.2:3478",
        ),
        (
            &scene.clients[home].namespace,
            "output",
            "blocked_here",
            "own firewall drops UDP to 10.200.60.2:3478",
        ),
    ] {
        block(namespace, hook);
        let (code, report) = netcheck_of(&scene.clients[home], "--relay 10.200.60.2");
        assert_eq!(report["relays"][0]["udp"], udp, "{report:#}");
        let findings = report["findings"].as_array().unwrap();
        says(findings, "relay", "failed", holds);
        assert_eq!(code, FAILED, "{report:#}");
    }
}

/// The verdicts of one check, each with what was found.
fn of(check: &str, findings: &[Value]) -> Vec<(String, String)> {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let of_check = findings.iter().filter(|finding| finding["check"] == check);
    of_check
        .map(|finding| (text(finding, "verdict"), text(finding, "found")))
        .collect()
}

/// Checks that a finding of this check has this verdict and holds this text.
fn says(findings: &[Value], check: &str, verdict: &str, holds: &str) {
    let found = of(check, findings);
    let is_it = |it: &&(String, String)| it.0 == verdict && it.1.contains(holds);
    assert!(found.iter().find(is_it).is_some(), "{check}: {findings:#?}");
}

#[test]
fn it_says_how_far_the_way_goes_with_a_client_and_without_one() {
    let mut bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let product = &bed.product;
    let (status, findings) = netcheck(product, "");
    for (check, holds) in [
        ("client", "is connected and forwards"),
        ("ipv4", "leads out, from "),
        ("portal-dns", "10.200.10.2"),
        ("portal-tcp", "takes connections"),
        ("portal-tls", "right one"),
        ("portal-http", "sessions are opened there"),
        ("portal-form", "get there"),
        ("clock", " s off the portal's"),
        ("gateway", "answers at "),
        ("mtu", "whole to "),
        ("tun", "has made culvert0"),
        ("nft", "nft is /"),
    ] {
        says(&findings, check, "ok", holds);
    }
    assert_eq!(status, 0, "{findings:#?}");

    // A client that does not answer is in the way.
    bed.product.client.process().unwrap().pause().unwrap();
    let (status, findings) = netcheck(&bed.product, "");
    assert_eq!(status, FAILED, "{findings:#?}");
    says(&findings, "client", "failed", "does not answer");
    bed.product.client.process().unwrap().resume().unwrap();
    // So is whoever says something else in its place, or breaks off.
    let token = bed.product.client.token_file();
    let with_token = format!("--token-file {}", token.display());
    for (number, said) in [
        None,
        Some(&b""[..]),
        Some(b"\n"),
        Some(b"{}\n"),
        Some(b"{\"schema_version\": 1, \"state\""),
        Some(b"HTTP/1.1 404 Not Found\r\n\r\n"),
        Some(b"\xff\xfe\0"),
    ]
    .into_iter()
    .enumerate()
    {
        let socket = bed.product.dir().join(format!("other{number}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        let answering = thread::spawn(move || {
            let Some(said) = said else {
                return Some(listener);
            };
            let (mut stream, _) = listener.accept().unwrap();
            let _asked = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(said).unwrap();
            None
        });
        // One that never accepts is kept until the end.
        let listener = match said {
            None => answering.join().unwrap(),
            Some(_) => None,
        };
        let (status, findings) = netcheck_at(&bed.product, &socket, &with_token);
        assert_eq!(status, FAILED, "{said:?}: {findings:#?}");
        says(&findings, "client", "failed", "");
        drop(listener);
    }

    // A gateway that is not heard any more.
    bed.product.gateways[0].kill().unwrap();
    bed.product.client.kill().unwrap();
    let (status, findings) = netcheck(&bed.product, &with_token);
    assert_eq!(status, 0, "{findings:#?}");
    says(&findings, "client", "warning", "no client was asked");
    says(&findings, "portal-http", "ok", "sessions are opened there");
    says(&findings, "tun", "ok", "/dev/net/tun can be used");

    // Somebody else answers where the portal was, and then nobody does.
    bed.product.portal.kill().unwrap();
    let certificate = bed.product.portal.state_dir().join("certificate.pem");
    std::fs::remove_file(certificate).unwrap();
    bed.product.portal.start().unwrap();
    let (status, findings) = netcheck(&bed.product, &with_token);
    assert_eq!(status, UNREACHABLE, "{findings:#?}");
    says(&findings, "portal-tls", "failed", "another certificate");
    let tls = findings
        .iter()
        .find(|it| it["check"] == "portal-tls")
        .unwrap();
    assert!(
        tls["fix"].as_str().unwrap().contains("page to log in at"),
        "{tls}"
    );
    bed.product.portal.kill().unwrap();
    let (status, findings) = netcheck(&bed.product, &with_token);
    assert_eq!(status, UNREACHABLE, "{findings:#?}");
    says(&findings, "portal-tcp", "failed", "does not: ");
    assert_eq!(of("portal-tls", &findings), [], "nobody is there to ask");

    // Without a way out nothing else can be.
    let client = &bed.product.client.namespace;
    client
        .shell("ip route flush all; ip -6 route flush all")
        .unwrap();
    let (_, findings) = netcheck(&bed.product, &with_token);
    says(&findings, "ipv4", "failed", "no default route");
}
