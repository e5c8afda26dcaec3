//! A plain WireGuard device whose access depends on its address: it has it where it is allowed, and loses it as it moves.

use crate::common::{SECOND, SOON, WEB_PORT};
use crate::plain_clients::{Scene, two_sites_with};
use crate::plain_device::{Device, FIRST_NET};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::{Family, Implementation, Process, Subnet, wait_until};
use std::time::Instant;

/// The device's number, and with it its network.
const NUMBER: u8 = 3;

const NET: Subnet = Subnet(FIRST_NET + NUMBER);

/// The address that the condition allows, and another one of the same network.
fn places() -> [String; 2] {
    [2, 3].map(|host| NET.host(Family::V4, host).to_string())
}

/// The web server may be used from this address alone.
fn allow_from(scene: &Scene, address: &str) {
    let declared = two_sites_with(&format!("from_address = [\"{address}/32\"]"));
    scene.product.portal.apply(&declared).unwrap();
}

/// The exit status of `culvert admin explain`, and its text.
fn explained(scene: &Scene) -> (Option<i32>, String) {
    let explain = "explain --client phone --resource web";
    let outcome = scene.product.portal.admin_outcome(explain).unwrap();
    let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
    (outcome.status.code(), text)
}

fn move_device(device: &Device, from: &str, to: &str) {
    let veth = format!("veth{}", NET.0);
    let script = format!(
        "ip address del {from}/24 dev {veth} && ip address add {to}/24 dev {veth} && \
         ip route replace default via {} dev {veth}",
        NET.host(Family::V4, 1)
    );
    device.namespace.shell(&script).unwrap();
}

/// Has the device send through the tunnel all the time, so that its gateway hears of a move at once. Nobody answers.
fn chatter(device: &Device) -> Process {
    let line = format!("ping -n -i 0.2 {PRIVATE_V4}");
    device.namespace.spawn(&line).unwrap()
}

#[test]
fn a_device_has_access_where_a_condition_allows_it_and_loses_it_within_a_second_of_a_move() {
    let scene = Scene::new().unwrap();
    let [home, road] = places();
    allow_from(&scene, &home);
    let wireguard_go = ("phone", Implementation::WireguardGo);
    let device = scene.add(NUMBER, &wireguard_go).unwrap();

    // Its first handshake is its only way to be seen.
    device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
    let (status, text) = explained(&scene);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains(&format!("address: {home}")), "{text}");
    wait_until("the place of the device", SOON, || {
        let shown = scene.admin("client show phone").unwrap_or_default();
        shown.contains(&format!("gateway-1 at {home}"))
    })
    .unwrap();

    let _chatter = chatter(&device);
    for _ in 0..2 {
        device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
        let download = device.download().unwrap();
        move_device(&device, &home, &road);
        let gap = download.cut_after(Instant::now()).unwrap();
        assert!(
            gap <= SECOND,
            "bytes came for another {gap:?}, limit {SECOND:?}"
        );
        wait_until("a denial that names the address", SOON, || {
            let (status, text) = explained(&scene);
            status == Some(5) && text.contains(&format!("address: {road}"))
        })
        .unwrap();
        assert_eq!(device.answer(PRIVATE_V4, WEB_PORT), None);
        move_device(&device, &road, &home);
        device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
    }
    let log = scene.admin("log access --client phone --json").unwrap();
    assert!(log.contains("\"revoked\"") && log.contains(&road), "{log}");
}

#[test]
fn a_device_at_another_address_reaches_nothing_and_the_gateway_still_hears_it() {
    let scene = Scene::new().unwrap();
    let [home, road] = places();
    allow_from(&scene, &road);
    let wireguard_go = ("phone", Implementation::WireguardGo);
    let device = scene.add(NUMBER, &wireguard_go).unwrap();
    let _chatter = chatter(&device);
    wait_until("a denial that names the address", SOON, || {
        let (status, text) = explained(&scene);
        status == Some(5) && text.contains(&format!("address: {home}"))
    })
    .unwrap();
    assert_eq!(device.answer(PRIVATE_V4, WEB_PORT), None);
    allow_from(&scene, &home);
    device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
}
