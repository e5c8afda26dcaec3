//! Machines behind NAT that get another address, change to a second uplink, or sleep: connections go on, and directly.

use crate::common::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::{BehindNats, Download, Echo, NumberedStream};
use culvert_lab::wait_until;
use std::time::Duration;

const HOME: NatKind = NatKind::PortDependent;

/// TCP itself sends rarely after a long silence (RFC 6298 §5.5), so that this is more than twice the sleep.
const AFTER_SLEEP: Duration = Duration::from_secs(240);

/// The port of the resource, at which datagrams come back.
const ECHO_PORT: u16 = 80;

/// Datagrams that are sent at once, and may overtake each other while the path changes: a relay is the longer way.
const BURST: u32 = 20;

/// A download by a direct path between two homes.
fn direct() -> (BehindNats, Download) {
    let mut scene = BehindNats::new(1, &[HOME], &[HOME]).unwrap();
    scene.start().unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    wait_until("a direct path", SOON, || scene.path(0, 0) == "direct").unwrap();
    let download = scene.download(0, 0).unwrap();
    (scene, download)
}

fn goes_on_directly(scene: &BehindNats, download: &Download, deadline: Duration) {
    let logs = || {
        format!(
            "{}\n{}",
            scene.clients[0].output(),
            scene.gateways[0].output()
        )
    };
    download
        .goes_on(deadline)
        .unwrap_or_else(|error| panic!("{error}\n{}", logs()));
    wait_until("a direct path", SOON, || scene.path(0, 0) == "direct")
        .unwrap_or_else(|error| panic!("{error}\n{}", logs()));
    download.goes_on(deadline).unwrap();
}

#[test]
fn a_connection_outlives_another_address_of_either_ends_router() {
    let (scene, download) = direct();
    for routers in [&scene.client_routers[0], &scene.gateway_routers[0]] {
        routers.renumber().unwrap();
        goes_on_directly(&scene, &download, SOON);
    }
    println!("at most {:?} without a byte", download.longest_gap());
    // The gateway is at the new address.
    let status = scene.gateway_status(0, 0);
    let endpoint = status["endpoint"].as_str().unwrap();
    let router = scene.gateway_routers[0].address();
    assert!(endpoint.starts_with(&format!("{router}:")), "{status}");
}

#[test]
fn a_connection_outlives_the_change_to_a_second_uplink_and_back() {
    let (scene, download) = direct();
    let second = scene.add_uplink(0, HOME).unwrap();
    second.take().unwrap();
    goes_on_directly(&scene, &download, SOON);
    assert!(
        second.has_carried().unwrap(),
        "nothing went by the second uplink"
    );
    second.leave().unwrap();
    goes_on_directly(&scene, &download, SOON);
    println!("at most {:?} without a byte", download.longest_gap());
}

#[test]
fn a_client_that_slept_is_back_also_behind_another_address() {
    let (mut scene, download) = direct();
    scene.clients[0].process().unwrap().pause().unwrap();
    // The relay forgets it after a minute, and the router has another address when it wakes up.
    let clients = |scene: &BehindNats| scene.relays[0].status().unwrap()["client_count"].clone();
    wait_until("no client at the relay", Duration::from_secs(120), || {
        clients(&scene) == 0
    })
    .unwrap();
    scene.client_routers[0].renumber().unwrap();
    scene.clients[0].process().unwrap().resume().unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0))
        .unwrap_or_else(|error| panic!("{error}\n{}", scene.clients[0].output()));
    goes_on_directly(&scene, &download, AFTER_SLEEP);
    assert_eq!(clients(&scene), 1);
}

#[test]
fn the_change_from_a_relay_to_a_direct_path_loses_nothing() {
    let mut scene = BehindNats::new(1, &[HOME], &[HOME]).unwrap();
    scene.cut(0, 0).unwrap();
    scene.start().unwrap();
    let resource = BehindNats::resource(0);
    let _echo = Echo::start(&scene.private, resource, ECHO_PORT).unwrap();
    let client = scene.clients[0].namespace.clone();
    let stream = NumberedStream::start_bursts(&client, resource, ECHO_PORT, BURST).unwrap();
    let path = || scene.path(0, 0);
    wait_until("the relay", SOON, || path() == "relayed").unwrap();
    stream.goes_on(SOON).unwrap();
    scene.heal().unwrap();
    wait_until("a direct path", SOON, || path() == "direct").unwrap();
    stream.goes_on(SOON).unwrap();
    let tally = stream.finish();
    println!("{} of {} were overtaken", tally.overtaken, tally.sent);
    assert_eq!(tally.missing, [0_u64; 0]);
    // Datagrams that were on their way when the path changed, in either direction.
    assert!(
        tally.overtaken <= u64::from(4 * BURST),
        "{}",
        tally.overtaken
    );
}
