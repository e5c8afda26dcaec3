//! Resources begin nothing at a client, until an administrator opens a port of its host, and then that port alone.

use crate::common::{Bed, SECOND, SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{Client, Download, PRIVATE_V4, Server};
use culvert_lab::{Family, wait_until};
use serde_json::Value;
use std::net::IpAddr;
use std::time::Instant;

/// Ports of the client's host: the opened one, and another.
const OPENED: u16 = 8080;
const CLOSED: u16 = 8081;

/// The range of clients' addresses.
const CLIENTS: &str = "100.64.0.0/10";

/// The usual access, where the web server's machine may use a port of its clients.
fn opened() -> String {
    let head = "name = \"web\"\nsite = \"lab\"\n";
    let inbound = format!("{head}inbound = \"tcp:{OPENED}\"\n");
    let text = access();
    assert!(text.contains(head));
    text.replacen(head, &inbound, 1)
}

/// A bed whose private network routes clients' addresses to its gateway, and whose client serves both ports.
struct Scene {
    bed: Bed,
    _servers: Vec<Server>,
    address: IpAddr,
}

impl Scene {
    fn new(access: &str) -> Result<Self> {
        let bed = Bed::with_access(1, access)?;
        let gateway = bed.product.gateways[0].private_address(Family::V4);
        let route = format!("ip route add {CLIENTS} via {gateway} src {PRIVATE_V4}");
        bed.product.private.run(&route)?;
        let address = bed.product.client.address()?;
        let namespace = &bed.product.client.namespace;
        let servers = [OPENED, CLOSED].map(|port| Server::start(namespace, address, port));
        Ok(Self {
            bed,
            _servers: servers.into_iter().collect::<Result<_>>()?,
            address,
        })
    }

    /// True if the web server's machine gets an answer of the client.
    fn is_reached(&self, port: u16) -> bool {
        let line = format!("curl -fsS -m 2 http://{}:{port}/", self.address);
        let outcome = self.bed.product.private.outcome(&line);
        outcome.is_ok_and(|outcome| outcome.status.success())
    }

    fn comes_to_be_reached(&self) -> Result<()> {
        wait_until("the client to be reached", SOON, || self.is_reached(OPENED))
    }

    fn download(&self) -> Result<Download> {
        Download::start(&self.bed.product.private, self.address, OPENED)
    }

    fn admin(&self, line: &str) {
        self.bed.product.portal.admin(line).unwrap();
    }
}

/// The packets that were dropped for a reason.
fn drops(status: &Value, reason: &str) -> u64 {
    let drops = status["drops"].as_array().unwrap();
    let of_reason = drops.iter().filter(|it| it["reason"] == reason);
    of_reason.map(|it| it["count"].as_u64().unwrap()).sum()
}

fn at_gateway(scene: &Scene, reason: &str) -> u64 {
    drops(&scene.bed.product.gateways[0].status().unwrap(), reason)
}

fn at_client(client: &Client, reason: &str) -> u64 {
    drops(&client.status().unwrap(), reason)
}

#[test]
fn a_resource_reaches_the_port_that_is_opened_as_long_as_it_is_and_no_other() {
    let scene = Scene::new(&access()).unwrap();
    assert!(scene.bed.reaches(PRIVATE_V4, WEB_PORT));
    assert!(!scene.is_reached(OPENED));
    assert_eq!(
        at_client(&scene.bed.product.client, "not_opened"),
        0,
        "the gateway lets none through"
    );

    scene.admin("retention set --flow-log on");
    scene.admin(&format!("resource set web --inbound tcp:{OPENED}"));
    scene.comes_to_be_reached().unwrap();
    let client = &scene.bed.product.client;
    let status = client.status().unwrap();
    let resources = status["resources"].as_array().unwrap();
    let services = |it: &Value| (it["name"] == "web").then(|| it["inbound"].clone());
    let services: Vec<_> = resources.iter().filter_map(services).collect();
    assert_eq!(services, [serde_json::json!([format!("tcp:{OPENED}")])]);
    let text = client.tell("status").unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains(&format!("may use tcp:{OPENED} of this machine  open")),
        "{text}"
    );
    let before = at_gateway(&scene, "not_opened");
    assert!(!scene.is_reached(CLOSED));
    assert!(at_gateway(&scene, "not_opened") > before);
    assert!(scene.bed.reaches(PRIVATE_V4, WEB_PORT));

    // Taken away alone, it ends what goes on, and what the client uses does not end.
    let mine = scene.bed.download().unwrap();
    for close in [
        "resource set web --inbound none",
        "policy delete staff-web --yes",
    ] {
        scene.admin(&format!("resource set web --inbound tcp:{OPENED}"));
        scene.comes_to_be_reached().unwrap();
        let download = scene.download().unwrap();
        scene.admin(close);
        let cut = download.cut_after(Instant::now()).unwrap();
        assert!(cut <= SECOND, "{close}: bytes came for another {cut:?}");
        assert!(!scene.is_reached(OPENED));
        if close.starts_with("resource") {
            mine.goes_on(SOON).unwrap();
        }
    }
    let logged = || {
        let text = scene.bed.product.portal.admin("log flows --json").unwrap();
        let flows = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let inbound = |flow: &Value| flow["inbound"] == true;
        flows
            .filter(|flow| inbound(flow) && flow["port"] == OPENED)
            .count()
    };
    wait_until("the flow log", SOON, || logged() >= 1).unwrap();
}

#[test]
fn a_client_that_sends_nothing_is_reached_and_again_after_a_restart_of_either_end() {
    let mut scene = Scene::new(&opened()).unwrap();
    scene.comes_to_be_reached().unwrap();
    scene.bed.product.gateways[0].restart().unwrap();
    scene.comes_to_be_reached().unwrap();
    let download = scene.download().unwrap();
    scene.bed.product.client.restart().unwrap();
    scene.comes_to_be_reached().unwrap();
    drop(download);
    assert!(!scene.is_reached(CLOSED));
}
