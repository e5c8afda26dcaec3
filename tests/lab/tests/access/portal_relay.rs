//! The relay beside a portal (`culvert portal run --relay`): one machine with a public address is enough.

use crate::common::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::{BehindNats, Front, Portal, Product};
use culvert_lab::wait_until;
use std::fs;
use std::net::UdpSocket;
use std::time::Instant;

/// The main port of the relay.
const RELAY_PORT: u16 = 3_478;

/// A gateway behind a router as most homes have it, a client behind another one, and one to which no direct path is
/// possible.
const GATEWAY: NatKind = NatKind::PortDependent;
const CLIENTS: [NatKind; 2] = [NatKind::PortDependent, NatKind::Symmetric];
const DIRECT: usize = 0;
const RELAYED: usize = 1;

/// The three commands of the README. No token of a relay is made by anybody.
fn three_commands() -> BehindNats {
    let mut scene = BehindNats::new(0, &[GATEWAY], &CLIENTS).unwrap();
    "--relay".clone_into(&mut scene.portal.arguments);
    let access = scene.access();
    scene.portal.start_set_up(&access).unwrap();
    let home = scene.portal.home();
    let gateway = &mut scene.gateways[0];
    fs::rename(home.join("gateway-site-0.token"), gateway.token_file()).unwrap();
    gateway.start().unwrap();
    for client in &mut scene.clients {
        let token = home.join(format!("client-{}.token", client.name));
        fs::rename(token, client.token_file()).unwrap();
        client.start().unwrap();
    }
    scene
}

/// The relay's id, once the portal has welcomed it.
fn relay_of(portal: &Portal) -> String {
    let mut relay = None;
    wait_until("the relay to be connected", SOON, || {
        let status = portal.relay_status().unwrap_or_default();
        let is_connected = status["portal"]["state"] == "connected";
        relay = status["relay"].as_str().map(str::to_owned);
        is_connected && relay.is_some()
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", portal.output()));
    relay.unwrap()
}

/// The ids of the relays that the portal knows.
fn relays(portal: &Portal) -> Vec<String> {
    let listed = portal.admin("relay list --json").unwrap();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let items = listed.as_array().or_else(|| listed["items"].as_array());
    let ids = items.unwrap().iter().map(|it| it["id"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

fn comes_to_reach(scene: &BehindNats, client: usize) {
    wait_until("an answer", SOON, || scene.reaches(client, 0)).unwrap_or_else(|error| {
        let (portal, client) = (scene.portal.output(), scene.clients[client].output());
        panic!("{error}\n{portal}\n{client}")
    });
}

fn comes_to_be(scene: &BehindNats, client: usize, path: &str) {
    wait_until(&format!("a {path} path"), SOON, || {
        scene.path(client, 0) == path
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", scene.clients[client].output()));
}

/// The process of the relay.
fn relay_process(portal: &mut Portal) -> u32 {
    let id = portal.process().unwrap().id();
    let mut children = String::new();
    wait_until("the relay's process", SOON, || {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap();
        let of_task = |task: std::io::Result<fs::DirEntry>| {
            let path = task.unwrap().path().join("children");
            fs::read_to_string(path).unwrap_or_default()
        };
        children = tasks.map(of_task).collect();
        !children.is_empty()
    })
    .unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn three_commands_reach_a_gateway_behind_nat_also_after_a_restart_of_the_portal() {
    let mut scene = three_commands();
    let relay = relay_of(&scene.portal);
    comes_to_reach(&scene, DIRECT);
    comes_to_reach(&scene, RELAYED);
    comes_to_be(&scene, DIRECT, "direct");
    comes_to_be(&scene, RELAYED, "relayed");
    let said = scene.portal.output();
    assert!(said.contains("UDP ports 3478 and 3479-3542"), "{said}");
    let told = scene.portal.admin("status").unwrap();
    assert!(
        told.contains("ready, ") && told.contains("UDP ports 3478"),
        "{told}"
    );

    for is_killed in [false, true] {
        match is_killed {
            true => scene.portal.kill().unwrap(),
            false => scene.portal.stop().unwrap(),
        }
        scene.portal.start().unwrap();
        let began = Instant::now();
        assert_eq!(relay_of(&scene.portal), relay);
        assert_eq!(relays(&scene.portal), [relay.as_str()]);
        wait_until("the ends to be registered", SOON, || {
            let status = scene.portal.relay_status().unwrap_or_default();
            status["gateway_count"] == 1 && status["client_count"].as_u64() >= Some(1)
        })
        .unwrap_or_else(|error| panic!("{error}\n{}", scene.portal.output()));
        println!(
            "registered again {:.1} s after the portal was ready",
            began.elapsed().as_secs_f32()
        );
        comes_to_reach(&scene, RELAYED);
        comes_to_reach(&scene, DIRECT);
    }
    // One that is in use, and none of the starts before.
    let tokens = scene.portal.admin("token list").unwrap();
    assert_eq!(tokens.matches("relay beside").count(), 1, "{tokens}");
}

#[test]
fn a_relay_that_ends_or_does_not_start_is_told_and_started_again_and_the_portal_goes_on() {
    let mut scene = three_commands();
    let relay = relay_of(&scene.portal);
    comes_to_reach(&scene, RELAYED);
    let before = relay_process(&mut scene.portal);
    let namespace = scene.portal.namespace.clone();
    namespace.run(&format!("kill -KILL {before}")).unwrap();
    wait_until("another process", SOON, || {
        relay_process(&mut scene.portal) != before
    })
    .unwrap();
    assert_eq!(relay_of(&scene.portal), relay);
    let said = scene.portal.output();
    assert!(said.contains("the relay beside the portal has ended"));
    comes_to_reach(&scene, RELAYED);

    scene.portal.stop().unwrap();
    let taken = namespace.inside(|| Ok(UdpSocket::bind(("0.0.0.0", RELAY_PORT))?));
    scene.portal.start().unwrap();
    let problem = format!("UDP port {RELAY_PORT}");
    wait_until("the problem to be told", SOON, || {
        let (is_ready, told) = scene.portal.readiness().unwrap();
        is_ready && told.contains("relay: ") && told.contains(&problem)
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", scene.portal.output()));
    let told = scene.portal.admin("status").unwrap();
    assert!(
        told.contains("not ready") && told.contains(&problem),
        "{told}"
    );
    drop(taken.unwrap());
    assert_eq!(relay_of(&scene.portal), relay);
    comes_to_reach(&scene, RELAYED);
}

#[test]
fn the_relay_beside_a_portal_has_nothing_of_the_portals() {
    let mut scene = BehindNats::new(0, &[], &[]).unwrap();
    "--relay".clone_into(&mut scene.portal.arguments);
    "env CULVERT_OF_SOMEBODY=secret PGPASSWORD=secret".clone_into(&mut scene.portal.wrapper);
    scene.portal.start().unwrap();
    scene.portal.set_up().unwrap();
    relay_of(&scene.portal);
    let process = relay_process(&mut scene.portal);
    let of_process = |name: &str| {
        let read = fs::read(format!("/proc/{process}/{name}")).unwrap();
        String::from_utf8_lossy(&read).into_owned()
    };
    for name in ["environ", "cmdline"] {
        let text = of_process(name);
        assert!(!text.contains("secret") && !text.contains("cv_"), "{text}");
    }
    // Nothing that it has open is of the portal.
    let state_dir = scene.portal.state_dir();
    let relay_dir = state_dir.join("relay");
    for open in fs::read_dir(format!("/proc/{process}/fd")).unwrap() {
        let path = fs::read_link(open.unwrap().path()).unwrap_or_default();
        let is_the_portals = path.starts_with(&state_dir) && !path.starts_with(&relay_dir);
        assert!(!is_the_portals, "{}", path.display());
    }
    // The token is on no disk.
    let found = format!("grep -rlE 'cv_relay' {}", state_dir.display());
    let found = scene.portal.namespace.outcome(&found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    let status = scene.portal.relay_status().unwrap();
    assert_eq!(status["sandbox"]["files"]["state"], "closed", "{status}");
}

#[test]
fn portals_of_one_database_each_have_a_relay_of_their_own() {
    let mut product = Product::networks(1).unwrap();
    product.with_portals(2, Front::Urls).unwrap();
    for portal in product.portals_mut() {
        portal.arguments += " --relay";
    }
    product.portal.start().unwrap();
    product.portal.set_up().unwrap();
    product.portal_mut(1).unwrap().start().unwrap();
    let ids: Vec<_> = product.portals().map(relay_of).collect();
    assert_ne!(ids[0], ids[1]);
    let connected = |product: &Product, count: usize| {
        let told = product.portal.admin("status").unwrap_or_default();
        told.contains(&format!("{count} relays"))
    };
    wait_until("both relays", SOON, || connected(&product, 2)).unwrap();
    product.portal_mut(1).unwrap().stop().unwrap();
    wait_until("one relay", SOON, || connected(&product, 1)).unwrap();
    product.portal_mut(1).unwrap().start().unwrap();
    wait_until("both relays", SOON, || connected(&product, 2)).unwrap();
    let again: Vec<_> = product.portals().map(relay_of).collect();
    assert_eq!(again, ids);
    let mut known = relays(&product.portal);
    known.sort_unstable();
    let mut expected = ids;
    expected.sort_unstable();
    assert_eq!(known, expected);
}
