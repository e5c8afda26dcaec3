//! Machines behind NAT: by a relay at first, and directly where their routers allow it.

use crate::common::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::BehindNats;
use culvert_lab::{wait_until, workspace_dir};
use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::Instant;

#[test]
fn every_pair_of_routers_connects_and_directly_wherever_rfc_4787_says_that_it_can() {
    let kinds = NatKind::ALL;
    let mut scene = BehindNats::new(1, &kinds, &kinds).unwrap();
    scene.start().unwrap();
    let scene = &scene;
    thread::scope(|scope| {
        for client in 0..kinds.len() {
            scope.spawn(move || {
                for gateway in 0..kinds.len() {
                    let number = u8::try_from(gateway).unwrap();
                    wait_until("an answer", SOON, || scene.reaches(client, number)).unwrap_or_else(
                        |error| {
                            let (client, gateway) =
                                (&scene.clients[client], &scene.gateways[gateway]);
                            panic!("{error}\n{}\n{}", client.output(), gateway.output())
                        },
                    );
                }
            });
        }
    });
    for (client, at_client) in kinds.into_iter().enumerate() {
        for (gateway, at_gateway) in kinds.into_iter().enumerate() {
            if at_client.is_direct_with(at_gateway) {
                let is_direct = || scene.path(client, gateway) == "direct";
                let (one, other) = (at_client.name(), at_gateway.name());
                wait_until("a direct path", SOON, is_direct)
                    .unwrap_or_else(|error| panic!("{one} to {other}: {error}"));
            }
        }
    }
    // All that can be direct is, so the others have had their time.
    for (number, kind) in kinds.into_iter().enumerate() {
        let blocks = kind == NatKind::UdpBlocked;
        assert_eq!(
            scene.is_client_by_tls(number, 0),
            blocks,
            "client: {}",
            kind.name()
        );
        assert_eq!(
            scene.is_gateway_by_tls(number),
            blocks,
            "gateway: {}",
            kind.name()
        );
    }
    let mut table = "| client, gateway |".to_owned();
    for kind in kinds {
        write!(table, " {} |", kind.name()).unwrap();
    }
    table += "\n|---|---|---|---|---|---|---|---|---|\n";
    for (client, kind) in kinds.into_iter().enumerate() {
        write!(table, "| {} |", kind.name()).unwrap();
        for gateway in 0..kinds.len() {
            write!(table, " {} |", scene.path(client, gateway)).unwrap();
        }
        table.push('\n');
    }
    let page = fs::read_to_string(workspace_dir().join("docs/relay.md")).unwrap();
    assert!(page.contains(&table), "docs/relay.md is to have\n{table}");
}

#[test]
fn an_account_without_relays_has_direct_paths_through_the_same_routers() {
    let clients = [NatKind::PortDependent, NatKind::EndpointIndependent];
    let mut scene = BehindNats::new(0, &[NatKind::PortDependent], &clients).unwrap();
    scene.start().unwrap();
    scene.portal.admin("account set --paths direct").unwrap();
    for client in 0..clients.len() {
        let began = Instant::now();
        wait_until("an answer", SOON, || scene.reaches(client, 0)).unwrap_or_else(|error| {
            let (client, gateway) = (scene.clients[client].output(), scene.gateways[0].output());
            panic!("{error}\n{client}\n{gateway}")
        });
        println!("reached after {:.1} s", began.elapsed().as_secs_f32());
        wait_until("a direct path", SOON, || scene.path(client, 0) == "direct").unwrap();
    }
}

#[test]
fn a_connection_outlives_the_end_of_its_direct_path_which_comes_back() {
    let home = NatKind::PortDependent;
    let mut scene = BehindNats::new(1, &[home], &[home]).unwrap();
    scene.start().unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    let path = || scene.path(0, 0);
    wait_until("a direct path", SOON, || path() == "direct").unwrap();
    let download = scene.download(0, 0).unwrap();
    scene.cut(0, 0).unwrap();
    let cut = Instant::now();
    wait_until("the relay", SOON, || path() == "relayed").unwrap();
    println!("relayed {:.1} s after the cut", cut.elapsed().as_secs_f32());
    download.goes_on(SOON).unwrap();
    println!("at most {:?} without a byte", download.longest_gap());
    scene.heal().unwrap();
    let healed = Instant::now();
    wait_until("a direct path", SOON, || path() == "direct").unwrap();
    println!(
        "direct {:.1} s after it healed",
        healed.elapsed().as_secs_f32()
    );
    download.goes_on(SOON).unwrap();
}

#[test]
fn a_connection_outlives_the_relay_that_carries_it() {
    // No direct path is possible between the two.
    let (gateway, client) = (NatKind::PortDependent, NatKind::Symmetric);
    let mut scene = BehindNats::new(2, &[gateway], &[client]).unwrap();
    scene.start().unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    let download = scene.download(0, 0).unwrap();
    let used = || scene.relay_between(0, 0);
    wait_until("a relay", SOON, || used().is_some()).unwrap();
    let first = used().unwrap();
    let relay = scene.relays.iter().position(|it| it.name == first).unwrap();
    scene.relays[relay].kill().unwrap();
    let killed = Instant::now();
    let used = || scene.relay_between(0, 0);
    wait_until("the other relay", SOON, || {
        used().is_some_and(|name| name != first)
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.clients[0].output()));
    println!(
        "the other {:.1} s after the kill",
        killed.elapsed().as_secs_f32()
    );
    download.goes_on(SOON).unwrap();
    println!("at most {:?} without a byte", download.longest_gap());
}

#[test]
fn the_flow_log_and_the_status_have_the_path_its_relay_and_the_reason() {
    // No direct path is possible between the two.
    let (gateway, client) = (NatKind::PortDependent, NatKind::Symmetric);
    let mut scene = BehindNats::new(2, &[gateway], &[client]).unwrap();
    scene.start().unwrap();
    scene.portal.admin("retention set --flow-log on").unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    let why = "no direct path answers: the client's NAT is symmetric";
    wait_until("the reason", SOON, || {
        scene.gateway_status(0, 0)["why"] == why
    })
    .unwrap_or_else(|error| panic!("{error}: {:#}", scene.gateway_status(0, 0)));
    let text = scene.clients[0].status_text().unwrap();
    assert!(text.contains(why) && text.contains("RELAYS"), "{text}");
    // A gateway that ends tells of its flows before it is gone.
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    scene.gateways[0].stop().unwrap();
    let relayed = "log flows --json";
    let mut said = String::new();
    wait_until("the flow", SOON, || {
        said = scene.portal.admin(relayed).unwrap();
        said.contains("\"path\":\"relayed\"")
    })
    .unwrap_or_else(|error| panic!("{error}: {said}"));
    assert!(said.contains("\"relay\":\"rly_"), "{said}");
    let csv = scene.portal.admin("log flows --csv").unwrap();
    assert!(csv.contains(",relayed,rly_"), "{csv}");
}
