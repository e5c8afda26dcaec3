//! Names for plain WireGuard devices: wireguard-go by a file of the portal, whose only DNS server is the gateway.

use crate::common::{Bed, SECOND, SOON, WEB_PORT};
use culvert_lab::product::{
    Answer, Download, Names, PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, RecordKind, ask_at,
};
use culvert_lab::{Family, Implementation, Namespace, Subnet, WireGuardEnd, wait_until};
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

const NO_ERROR: u8 = 0;
const NO_SUCH_NAME: u8 = 3;

/// The network of the device, which nothing else of the product uses.
const DEVICE_NET: Subnet = Subnet(17);

/// Nothing of Culvert's: what wg-quick would do is done by `ip` and `wg`.
const MTU_BYTES: u32 = 1420;

const PUBLIC_NAME: &str = "www.example.com";
const PUBLIC_V4: &str = "203.0.113.7";

/// A host of the private network that nobody gives the device.
const SECRET_NAME: &str = "secret.corp.example";

/// A phone with the usual access of the client's owner, and no other DNS server than its file's.
struct Phone {
    end: WireGuardEnd,
    namespace: Namespace,
    dns: SocketAddr,
    file: Value,
}

impl Phone {
    fn start(bed: &Bed) -> Self {
        let namespace = bed.product.on_the_internet(DEVICE_NET).unwrap();
        let end = WireGuardEnd::start(&Implementation::WireguardGo, &namespace).unwrap();
        let file = add(bed, &end.keys.public_key);
        let texts = |field: &str| -> Vec<String> {
            let texts = file[field].as_array().unwrap().iter();
            texts
                .map(|text| text.as_str().unwrap().to_owned())
                .collect()
        };
        end.configure(0, &texts("addresses"), MTU_BYTES).unwrap();
        let peer = &file["peers"][0];
        let allowed = peer["allowed_ips"].as_array().unwrap().iter();
        let allowed: Vec<_> = allowed.map(|text| text.as_str().unwrap()).collect();
        let endpoint: SocketAddr = peer["endpoint"].as_str().unwrap().parse().unwrap();
        let key = peer["gateway_key"].as_str().unwrap();
        end.set_peer(key, Some(endpoint), &allowed.join(","), None)
            .unwrap();
        for network in &allowed {
            let interface = &end.interface;
            namespace
                .run(&format!("ip route add {network} dev {interface}"))
                .unwrap();
        }
        let server: IpAddr = texts("dns")[0].parse().unwrap();
        Self {
            end,
            namespace,
            dns: (server, 53).into(),
            file,
        }
    }

    /// The answer to a question by UDP, and by TCP if it is cut short.
    fn ask(&self, name: &str, kind: RecordKind) -> Answer {
        ask_at(&self.namespace, self.dns, name, kind).unwrap()
    }

    /// Runs a program that asks the device's only DNS server.
    fn run_with_dns(&self, bed: &Bed, line: &str) -> anyhow::Result<String> {
        let resolvers = bed.product.dir().join("phone.resolv.conf");
        std::fs::write(&resolvers, format!("nameserver {}\n", self.dns.ip()))?;
        self.namespace.shell(&format!(
            "mount --bind {} /etc/resolv.conf && exec {line}",
            resolvers.display()
        ))
    }
}

/// Adds the phone of the client's owner. Returns all that its file has.
fn add(bed: &Bed, public_key: &str) -> Value {
    let portal = &bed.product.portal;
    let actor = portal.admin("actor show laptop --output json").unwrap();
    let actor: Value = serde_json::from_str(&actor).unwrap();
    let endpoint = bed.product.gateways[0].public_address(Family::V4);
    let port = status_port(bed);
    let gateways = portal.admin("gateway list --output json").unwrap();
    let gateways: Value = serde_json::from_str(&gateways).unwrap();
    let gateway = gateways["items"][0]["id"].as_str().unwrap();
    let body = json!({
        "name": "phone", "public_key": public_key, "actor": actor["id"],
        "gateways": [gateway], "endpoints": {gateway: format!("{endpoint}:{port}")},
    });
    let answer = portal.namespace.shell(&format!(
        "curl -fsSk -m 20 -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' \
         -d '{body}' {}/api/v1/plain-clients",
        portal.owner_token().unwrap(),
        portal.url()
    ));
    serde_json::from_str(&answer.unwrap()).unwrap()
}

/// The port of the gateway's tunnel.
fn status_port(bed: &Bed) -> u16 {
    let status = bed.product.gateways[0].status().unwrap();
    let candidates = status["candidates"].as_array().unwrap();
    let first = candidates[0].as_str().unwrap();
    first.parse::<SocketAddr>().unwrap().port()
}

#[test]
fn a_device_finds_its_resources_by_name_and_nothing_else_of_the_private_network() {
    let bed = Bed::new(1).unwrap();
    // Another program has the port at all addresses of the gateway's machine.
    let other = Names::start(
        &bed.product.gateways[0].namespace,
        "0.0.0.0".parse().unwrap(),
    );
    let other = other.unwrap();
    let names = &bed.product.names;
    names.set(PUBLIC_NAME, &[PUBLIC_V4.parse().unwrap()]);
    names.set(SECRET_NAME, &[PRIVATE_OTHER_V4.parse().unwrap()]);
    names.set_record(PRIVATE_NAME, RecordKind::Txt, b"\x05hello");
    let phone = Phone::start(&bed);
    assert!(phone.file["file"].as_str().unwrap().contains("\nDNS = "));
    // The grants come a moment after the device.
    wait_until("a handshake", SOON, || {
        let line = format!("curl -fsS -m 2 http://{PRIVATE_V4}:{WEB_PORT}/");
        let outcome = phone.namespace.outcome(&line);
        outcome.is_ok_and(|outcome| outcome.status.success())
    })
    .unwrap();

    let found = phone.ask(PRIVATE_NAME, RecordKind::A);
    assert_eq!((found.code, found.addresses.len()), (NO_ERROR, 1));
    let stands_for = found.addresses[0];
    assert_ne!(stands_for, PRIVATE_V4.parse::<IpAddr>().unwrap());
    let six = phone.ask(PRIVATE_NAME, RecordKind::Aaaa);
    assert_eq!((six.code, six.addresses.len()), (NO_ERROR, 1));
    for family in ["-4", "-6"] {
        let line = format!("curl {family} -fsS -m 10 http://{PRIVATE_NAME}:{WEB_PORT}/");
        phone.run_with_dns(&bed, &line).unwrap();
    }
    // The filters are those of the resource.
    let forbidden = format!("curl -fsS -m 3 http://{PRIVATE_NAME}:81/");
    assert!(phone.run_with_dns(&bed, &forbidden).is_err());
    let text = phone.ask(PRIVATE_NAME, RecordKind::Txt);
    assert_eq!(text.records, [b"\x05hello"]);

    let public = phone.ask(PUBLIC_NAME, RecordKind::A);
    let expected = vec![PUBLIC_V4.parse::<IpAddr>().unwrap()];
    assert_eq!((public.code, public.addresses), (NO_ERROR, expected));
    for name in [SECRET_NAME, "nothing.corp.example"] {
        let answer = phone.ask(name, RecordKind::A);
        assert_eq!(
            (answer.code, answer.addresses),
            (NO_SUCH_NAME, vec![]),
            "{name}"
        );
    }
    for name in [PRIVATE_NAME, PUBLIC_NAME, SECRET_NAME] {
        assert_eq!(other.asked(name), [] as [IpAddr; 0], "{name}");
        assert!(!names.asked(name).is_empty(), "{name}");
    }

    // Revoked, the name is one of a private network as any other, and its connections end.
    let download = Download::start(&phone.namespace, stands_for, WEB_PORT).unwrap();
    let portal = &bed.product.portal;
    portal.admin("policy delete staff-names --yes").unwrap();
    let cut = download.cut_after(Instant::now()).unwrap();
    assert!(cut <= SECOND, "bytes came for another {cut:?}");
    let answer = phone.ask(PRIVATE_NAME, RecordKind::A);
    assert_eq!((answer.code, answer.addresses), (NO_SUCH_NAME, vec![]));
    // Its other access goes on, and so do other names.
    let line = format!("curl -fsS -m 10 http://{PRIVATE_V4}:{WEB_PORT}/");
    phone.namespace.run(&line).unwrap();
    assert_eq!(phone.ask(PUBLIC_NAME, RecordKind::A).code, NO_ERROR);
    assert!(phone.end.show("transfer").unwrap().contains('\t'));
}

#[test]
fn a_device_finds_names_again_after_a_restart_of_its_gateway() {
    let mut bed = Bed::new(1).unwrap();
    let phone = Phone::start(&bed);
    let resolve = || {
        let answer = ask_at(&phone.namespace, phone.dns, PRIVATE_NAME, RecordKind::A);
        answer.ok().filter(|answer| answer.addresses.len() == 1)
    };
    wait_until("the name", SOON, || resolve().is_some()).unwrap();
    bed.product.gateways[0].restart().unwrap();
    // The portal may have ended its grants meanwhile, and gives others.
    wait_until("a connection by name after the restart", SOON, || {
        let Some(address) = resolve().map(|answer| answer.addresses[0]) else {
            return false;
        };
        let line = format!("curl -fsS -m 4 http://{address}:{WEB_PORT}/");
        let outcome = phone.namespace.outcome(&line);
        outcome.is_ok_and(|outcome| outcome.status.success())
    })
    .unwrap();
}
