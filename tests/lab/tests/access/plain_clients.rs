//! Devices without Culvert: wireguard-go, boringtun and gotatun with the files that the portal made, through two gateways at
//! two sites.

use crate::common::{OTHER_PORT, SECOND, SOON, WEB_PORT, access_with};
use crate::plain_device::{Device, GATEWAY_PORT, PROGRAMS};
use anyhow::Result;
use culvert_lab::product::{PRIVATE_OTHER_V4, PRIVATE_V4, Product, Server};
use culvert_lab::{Family, Implementation};
use std::fs;
use std::time::{Duration, Instant};

/// A device that has lost its session to another one with its key begins a new one after 15 s without an answer (WireGuard,
/// section 6.2).
const NEW_SESSION: Duration = Duration::from_secs(90);

/// A portal, a gateway at each of two sites, and servers behind both. No client of Culvert runs.
pub(crate) struct Scene {
    pub(crate) product: Product,
    _servers: Vec<Server>,
}

impl Scene {
    pub(crate) fn new() -> Result<Self> {
        let mut product = Product::networks(2)?;
        product.declare(&two_sites())?;
        for (gateway, site) in product.gateways.iter_mut().zip(["lab", "depot"]) {
            let token = gateway.token_file();
            product
                .portal
                .token(&format!("gateway --site {site}"), &token)?;
            gateway.start()?;
        }
        let mut servers = Vec::new();
        for port in [WEB_PORT, OTHER_PORT] {
            for address in [PRIVATE_V4, PRIVATE_OTHER_V4] {
                servers.push(Server::start(&product.private, address.parse()?, port)?);
            }
        }
        Ok(Self {
            product,
            _servers: servers,
        })
    }

    /// A device of each program.
    fn devices(&self) -> Result<Vec<Device>> {
        let numbered = (0..).zip(&PROGRAMS);
        numbered
            .map(|(number, program)| self.add(number, program))
            .collect()
    }

    /// Adds a device of the actor `laptop` with a key pair of the command's, and starts it with the file.
    pub(crate) fn add(
        &self,
        number: u8,
        (name, program): &(&str, Implementation),
    ) -> Result<Device> {
        let product = &self.product;
        let file = product.dir().join(format!("{name}.conf"));
        let mut line = format!(
            "plain-client add {name} --actor laptop --out {}",
            file.display()
        );
        for gateway in &product.gateways {
            let address = gateway.public_address(Family::V4);
            let named = &gateway.name;
            line += &format!(" --gateway {named} --endpoint {named}={address}:{GATEWAY_PORT}");
        }
        product.portal.admin(&line)?;
        Device::start(product, number, name, program, &file)
    }

    pub(crate) fn admin(&self, line: &str) -> Result<String> {
        self.product.portal.admin(line)
    }
}

/// The access of the other labs, and a second site with the second address.
fn two_sites() -> String {
    two_sites_with("")
}

/// The same, and the policy for the web server has further keys.
pub(crate) fn two_sites_with(policy_keys: &str) -> String {
    format!(
        r#"{}
[[site]]
name = "depot"

[[resource]]
name = "depot web"
site = "depot"
kind = "address"
address = "{PRIVATE_OTHER_V4}"
filters = [{{ protocol = "tcp", ports = [{WEB_PORT}] }}]

[[policy]]
name = "staff-depot"
group = "staff"
resource = "depot web"
"#,
        access_with(policy_keys)
    )
}

#[test]
fn devices_with_the_portal_s_file_reach_what_a_policy_allows_at_both_sites_and_nothing_else() {
    let scene = Scene::new().unwrap();
    let devices = scene.devices().unwrap();
    let gateways = &scene.product.gateways;
    for device in &devices {
        let name = &device.name;
        device.reaches_by(PRIVATE_V4, &gateways[0]).unwrap();
        device.reaches_by(PRIVATE_OTHER_V4, &gateways[1]).unwrap();
        for address in [PRIVATE_V4, PRIVATE_OTHER_V4] {
            assert_eq!(
                device.answer(address, OTHER_PORT),
                None,
                "{name}: {address}"
            );
        }
        let shown = scene.admin(&format!("client show {name}")).unwrap();
        assert!(
            shown.contains("gateway-1, gateway-2 (plain WireGuard)"),
            "{shown}"
        );
        scene
            .admin(&format!("explain --client {name} --resource web"))
            .unwrap();
    }
    // A route to the other site by the wrong gateway opens nothing.
    let device = &devices[0];
    let peers = device.end.show("allowed-ips").unwrap();
    let first = peers
        .lines()
        .find(|line| line.contains(PRIVATE_V4))
        .unwrap();
    let key = first.split_whitespace().next().unwrap();
    let both = format!("peer {key} allowed-ips {PRIVATE_V4}/32,{PRIVATE_OTHER_V4}/32");
    device.end.set(&both).unwrap();
    assert!(device.answer(PRIVATE_V4, WEB_PORT).is_some());
    assert_eq!(device.answer(PRIVATE_OTHER_V4, WEB_PORT), None);
    let log = scene
        .admin("log access --client wireguard-go --json")
        .unwrap();
    assert!(log.contains("\"granted\""), "{log}");
}

#[test]
fn access_that_is_taken_from_a_device_ends_within_a_second() {
    let scene = Scene::new().unwrap();
    let devices = scene.devices().unwrap();
    let cuts = [
        (
            "policy delete staff-web --yes",
            "policy create --group staff --resource web",
        ),
        (
            "group remove-member staff laptop",
            "group add-member staff laptop",
        ),
        ("actor set laptop --disable", "actor set laptop --enable"),
    ];
    for (cut, open) in cuts {
        for device in &devices {
            device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
        }
        let downloads = devices.iter().map(Device::download);
        let downloads: Vec<_> = downloads.collect::<Result<_>>().unwrap();
        scene.admin(cut).unwrap();
        // The change was committed before the command ended.
        let event = Instant::now();
        for (device, download) in devices.iter().zip(downloads) {
            let gap = download.cut_after(event).unwrap();
            let name = &device.name;
            assert!(
                gap <= SECOND,
                "{cut}: bytes came to {name} for another {gap:?}, limit {SECOND:?}"
            );
            assert_eq!(device.answer(PRIVATE_V4, WEB_PORT), None, "{cut}: {name}");
        }
        scene.admin(open).unwrap();
    }
    for device in &devices {
        let name = &device.name;
        device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
        let download = device.download().unwrap();
        scene.admin(&format!("client revoke {name}")).unwrap();
        let gap = download.cut_after(Instant::now()).unwrap();
        assert!(
            gap <= SECOND,
            "bytes came to {name} for another {gap:?}, limit {SECOND:?}"
        );
        assert_eq!(device.answer(PRIVATE_OTHER_V4, WEB_PORT), None, "{name}");
    }
}

#[test]
fn a_gateway_that_restarts_or_has_lost_all_gets_its_standing_grants_back() {
    let mut scene = Scene::new().unwrap();
    let devices = scene.devices().unwrap();
    let reach = |scene: &Scene| {
        for device in &devices {
            // Its session is gone with the gateway.
            device.comes_to_reach(PRIVATE_V4, NEW_SESSION).unwrap();
            assert!(
                device.answer(PRIVATE_OTHER_V4, WEB_PORT).is_some(),
                "{}",
                device.name
            );
            assert_eq!(device.answer(PRIVATE_V4, OTHER_PORT), None);
        }
        assert!(!scene.product.gateways[0].output().contains("panicked"));
    };
    reach(&scene);
    scene.product.gateways[0].restart().unwrap();
    reach(&scene);
    let gateway = &mut scene.product.gateways[0];
    gateway.kill().unwrap();
    // Its key and its id stay, or the file would lead to nobody.
    let mut removed = 0;
    for entry in fs::read_dir(gateway.state_dir()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("grant") {
            fs::remove_file(&path).unwrap();
            removed += 1;
        }
    }
    assert!(removed > 0, "no file has grants");
    gateway.start().unwrap();
    reach(&scene);
}

#[test]
fn of_two_devices_with_one_file_the_one_that_sent_last_has_the_answers() {
    let scene = Scene::new().unwrap();
    let first = scene.add(0, &PROGRAMS[0]).unwrap();
    let other = scene.add(1, &PROGRAMS[1]).unwrap();
    first.comes_to_reach(PRIVATE_V4, SOON).unwrap();
    other.comes_to_reach(PRIVATE_V4, SOON).unwrap();
    let download = other.download().unwrap();
    let twin = Device::start(&scene.product, 2, "twin", &PROGRAMS[0].1, &first.file).unwrap();
    for device in [&twin, &first, &twin, &first] {
        device.comes_to_reach(PRIVATE_V4, NEW_SESSION).unwrap();
        device
            .comes_to_reach(PRIVATE_OTHER_V4, NEW_SESSION)
            .unwrap();
        // Another device is none of it.
        download.goes_on(SOON).unwrap();
    }
    let gap = download.longest_gap();
    assert!(gap <= SOON, "the other device had nothing for {gap:?}");
    for gateway in &scene.product.gateways {
        gateway.status().unwrap();
        assert!(
            !gateway.output().contains("panicked"),
            "{}",
            gateway.output()
        );
    }
}

#[test]
fn a_key_of_low_order_or_of_another_machine_is_refused() {
    let scene = Scene::new().unwrap();
    let device = scene.add(0, &PROGRAMS[0]).unwrap();
    let taken = device.end.show("public-key").unwrap();
    let gateways = scene.admin("gateway show gateway-1 --json").unwrap();
    let gateway: serde_json::Value = serde_json::from_str(&gateways).unwrap();
    let zero = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let order_eight = "4Ot6fDtBuK4WVuP68Z/EatoJjeucMrH9hmIFFl9JuAA=";
    for (key, words) in [
        (zero, "nobody has the private key"),
        (order_eight, "nobody has the private key"),
        (taken.trim(), "key"),
        (gateway["public_key"].as_str().unwrap(), "key"),
    ] {
        let line = format!(
            "plain-client add tablet --actor laptop --gateway gateway-1 --public-key {key}"
        );
        let refused = scene.product.portal.admin_outcome(&line).unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{key}: {said}");
        assert!(said.contains(words), "{key}: {said}");
    }
    device.comes_to_reach(PRIVATE_V4, SOON).unwrap();
}
