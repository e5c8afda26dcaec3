//! A device without Culvert whose second gateway is found by a DNS name, names of resources at its second site, and two files for
//! the two gateways of one site.

use crate::common::{SECOND, SOON, WEB_PORT, access};
use crate::plain_device::{Device, GATEWAY_PORT, PROGRAMS, host_name};
use anyhow::{Context, Result, ensure};
use culvert_base::Prefix;
use culvert_lab::product::{
    Answer, Download, PRIVATE_OTHER_V4, PRIVATE_V4, Product, RecordKind, Server, ask_at,
};
use culvert_lab::{Implementation, wait_until};
use std::net::IpAddr;
use std::time::Instant;

const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// A name at the second site, and another one that nobody knows there.
const DEPOT_NAME: &str = "db.depot.example";
const NO_NAME: &str = "nothing.depot.example";

const PUBLIC_NAME: &str = "www.example.com";
const PUBLIC_V4: &str = "203.0.113.7";

/// A portal, two gateways, and servers behind them. No client of Culvert runs.
struct Scene {
    product: Product,
    _servers: Vec<Server>,
}

impl Scene {
    /// The gateways are of these sites.
    fn new(access: &str, sites: [&str; 2]) -> Result<Self> {
        let mut product = Product::networks(2)?;
        product.declare(access)?;
        for (gateway, site) in product.gateways.iter_mut().zip(sites) {
            let token = gateway.token_file();
            let of_site = format!("gateway --site {site}");
            product.portal.token(&of_site, &token)?;
            gateway.start()?;
        }
        product.names.set(DEPOT_NAME, &[PRIVATE_OTHER_V4.parse()?]);
        let mut servers = Vec::new();
        for address in [PRIVATE_V4, PRIVATE_OTHER_V4] {
            servers.push(Server::start(&product.private, address.parse()?, WEB_PORT)?);
        }
        Ok(Self {
            product,
            _servers: servers,
        })
    }

    /// Adds a device whose file has these gateways by their names in the DNS, and starts it.
    fn add(
        &self,
        number: u8,
        (name, program): (&str, &Implementation),
        gateways: &[usize],
    ) -> Result<Device> {
        let product = &self.product;
        let file = product.dir().join(format!("{name}.conf"));
        let mut line = format!(
            "plain-client add {name} --actor laptop --out {}",
            file.display()
        );
        for gateway in gateways.iter().map(|at| &product.gateways[*at]) {
            let (named, host) = (&gateway.name, host_name(gateway));
            line += &format!(" --gateway {named} --endpoint {named}={host}:{GATEWAY_PORT}");
        }
        product.portal.admin(&line)?;
        Device::start(product, number, name, program, &file)
    }
}

/// The access of the other labs, and a second site with the second address: by address, and by name.
fn two_sites() -> String {
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

[[resource]]
name = "depot-names"
site = "depot"
kind = "dns"
address = "*.depot.example"
filters = [{{ protocol = "tcp", ports = [{WEB_PORT}] }}]

[[policy]]
name = "staff-depot"
group = "staff"
resource = "depot web"

[[policy]]
name = "staff-depot-names"
group = "staff"
resource = "depot-names"
"#,
        access()
    )
}

/// The DNS server of a device's file.
fn server(device: &Device) -> Result<IpAddr> {
    let servers = device.values("DNS")?;
    let server = servers.first().context("the file has no DNS server")?;
    Ok(server.parse()?)
}

fn ask(device: &Device, name: &str) -> Result<Answer> {
    let server = (server(device)?, 53).into();
    ask_at(&device.namespace, server, name, RecordKind::A)
}

/// Waits until the name has an address, and returns it.
fn comes_to_resolve(device: &Device, name: &str) -> Result<IpAddr> {
    let resolve = || Some(*ask(device, name).ok()?.addresses.first()?);
    let what = format!("{name} at {}", device.name);
    wait_until(&what, SOON, || resolve().is_some())?;
    resolve().context("it had an address")
}

/// The networks of the file's section in this place.
fn networks(device: &Device, place: usize) -> Result<Vec<Prefix>> {
    let text = std::fs::read_to_string(&device.file)?;
    let section = text.split("[Peer]").nth(place + 1);
    let mut lines = section.context("a section")?.lines();
    let line = lines.find_map(|line| line.strip_prefix("AllowedIPs = "));
    let networks = line.context("networks")?.split(", ");
    Ok(networks.map(str::parse).collect::<Result<_, _>>()?)
}

#[test]
fn a_device_reaches_its_second_gateway_by_its_name_once_the_first_one_is_gone() {
    let mut scene = Scene::new(&two_sites(), ["lab", "depot"]).unwrap();
    let devices: Vec<Device> = (0..)
        .zip(&PROGRAMS)
        .map(|(number, (name, program))| scene.add(number, (name, program), &[0, 1]).unwrap())
        .collect();
    let mut known = Vec::new();
    for device in &devices {
        let gateways = &scene.product.gateways;
        device.reaches_by(PRIVATE_V4, &gateways[0]).unwrap();
        device.reaches_by(PRIVATE_OTHER_V4, &gateways[1]).unwrap();
        // A name of the second site, found by the first gateway, leads to the second one.
        let address = comes_to_resolve(device, DEPOT_NAME).unwrap();
        let is_in = |place| {
            let networks = networks(device, place).unwrap();
            networks.iter().any(|network| network.contains(address))
        };
        assert!(is_in(1) && !is_in(0), "{}: {address}", device.name);
        device
            .reaches_by(&address.to_string(), &gateways[1])
            .unwrap();
        let line = format!("curl -fsS -m 10 http://{DEPOT_NAME}:{WEB_PORT}/");
        let by_name = device.run_with_dns(server(device).unwrap(), &line);
        assert!(by_name.is_ok(), "{}: {by_name:?}", device.name);
        let forbidden = device.answer(&address.to_string(), WEB_PORT + 1);
        assert_eq!(forbidden, None, "{}", device.name);
        let nothing = ask(device, NO_NAME).unwrap();
        assert_eq!((nothing.code, nothing.addresses), (NO_SUCH_NAME, vec![]));
        known.push(address.to_string());
    }
    scene.product.gateways[0].kill().unwrap();
    for (device, address) in devices.iter().zip(&known) {
        let second = &scene.product.gateways[1];
        assert_eq!(device.answer(PRIVATE_V4, WEB_PORT), None, "{}", device.name);
        device.reaches_by(PRIVATE_OTHER_V4, second).unwrap();
        device.reaches_by(address, second).unwrap();
    }
}

#[test]
fn names_at_the_second_site_end_with_the_policy_and_fail_while_its_gateway_is_away() {
    let mut scene = Scene::new(&two_sites(), ["lab", "depot"]).unwrap();
    let (name, program) = &PROGRAMS[0];
    let device = scene.add(0, (name, program), &[0, 1]).unwrap();
    device
        .reaches_by(PRIVATE_V4, &scene.product.gateways[0])
        .unwrap();
    let address = comes_to_resolve(&device, DEPOT_NAME).unwrap();
    let portal = &scene.product.portal;
    let explain = "explain --client wireguard-go --resource";
    portal.admin(&format!("{explain} depot-names")).unwrap();

    let download = Download::start(&device.namespace, address, WEB_PORT).unwrap();
    portal
        .admin("policy delete staff-depot-names --yes")
        .unwrap();
    let cut = download.cut_after(Instant::now()).unwrap();
    assert!(cut <= SECOND, "bytes came for another {cut:?}");
    // It is a name as any other now, with an address of a private network.
    wait_until("the end of the name", SOON, || {
        let answer = ask(&device, DEPOT_NAME);
        answer.is_ok_and(|it| (it.code, it.addresses) == (NO_SUCH_NAME, vec![]))
    })
    .unwrap();

    portal
        .admin("policy create --group staff --resource depot-names")
        .unwrap();
    let address = comes_to_resolve(&device, DEPOT_NAME).unwrap();
    device
        .reaches_by(&address.to_string(), &scene.product.gateways[1])
        .unwrap();
    scene.product.gateways[1].kill().unwrap();
    wait_until("a failure for a new name", SOON, || {
        ask(&device, "new.depot.example").is_ok_and(|it| it.code == SERVER_FAILURE)
    })
    .unwrap();
    // Names of the first site go on.
    let own = ask(&device, culvert_lab::product::PRIVATE_NAME).unwrap();
    assert_eq!((own.code, own.addresses.len()), (NO_ERROR, 1));
    scene.product.gateways[1].start().unwrap();
    wait_until("a connection by name after the return", SOON, || {
        let found = ask(&device, DEPOT_NAME).ok();
        let address = found.and_then(|it| it.addresses.first().copied());
        address.is_some_and(|it| device.answer(&it.to_string(), WEB_PORT).is_some())
    })
    .unwrap();
}

#[test]
fn a_device_that_may_use_nothing_finds_a_name_that_is_granted_later_with_the_same_file() {
    let scene = Scene::new(&two_sites(), ["lab", "depot"]).unwrap();
    let portal = &scene.product.portal;
    for policy in [
        "staff-web",
        "staff-names",
        "staff-depot",
        "staff-depot-names",
    ] {
        let line = format!("policy delete {policy} --yes");
        portal.admin(&line).unwrap();
    }
    let names = &scene.product.names;
    names.set(PUBLIC_NAME, &[PUBLIC_V4.parse().unwrap()]);
    let (name, program) = &PROGRAMS[0];
    let device = scene.add(0, (name, program), &[0, 1]).unwrap();
    let public = comes_to_resolve(&device, PUBLIC_NAME).unwrap();
    assert_eq!(public.to_string(), PUBLIC_V4);
    let private = ask(&device, DEPOT_NAME).unwrap();
    assert_eq!((private.code, private.addresses), (NO_SUCH_NAME, vec![]));
    assert_eq!(device.answer(PRIVATE_V4, WEB_PORT), None);
    portal
        .admin("policy create --group staff --resource depot-names")
        .unwrap();
    let address = comes_to_resolve(&device, DEPOT_NAME).unwrap();
    let depot = &scene.product.gateways[1];
    device.reaches_by(&address.to_string(), depot).unwrap();
    assert_eq!(device.answer(PRIVATE_V4, WEB_PORT), None);
}

#[test]
fn a_second_file_leads_to_the_second_gateway_of_a_site_once_the_first_one_is_gone() {
    let check = || -> Result<()> {
        let mut scene = Scene::new(&access(), ["lab", "lab"])?;
        for (number, (name, program)) in (0..).step_by(2).zip(&PROGRAMS) {
            let first = scene.add(number, (name, program), &[0])?;
            let spare = format!("{name}-2");
            let second = scene.add(number + 1, (&spare, program), &[1])?;
            first.reaches_by(PRIVATE_V4, &scene.product.gateways[0])?;
            second.reaches_by(PRIVATE_V4, &scene.product.gateways[1])?;
            let download = second.download()?;
            scene.product.gateways[0].kill()?;
            ensure!(first.answer(PRIVATE_V4, WEB_PORT).is_none(), "{name}");
            second.reaches_by(PRIVATE_V4, &scene.product.gateways[1])?;
            download.goes_on(SOON)?;
            let gap = download.longest_gap();
            ensure!(gap <= SOON, "{name}: nothing came for {gap:?}");
            // It answers for names as well.
            let address = comes_to_resolve(&second, culvert_lab::product::PRIVATE_NAME)?;
            let own = &scene.product.gateways[1];
            second.reaches_by(&address.to_string(), own)?;
            scene.product.gateways[0].start()?;
        }
        Ok(())
    };
    check().unwrap();
}
