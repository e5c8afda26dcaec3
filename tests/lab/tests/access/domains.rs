//! Search domains, and domains with servers of their own, as an administrator sets them: every way in which
//! the system asks the client applies them, and gives them up again.

use crate::common::{SOON, access};
use crate::resolver_scene::{PUBLIC_ADDRESS, PUBLIC_DNS, PUBLIC_NAME, Scene, before};
use culvert_lab::product::{Names, PRIVATE_NAME, PRIVATE_V4};
use culvert_lab::{Family, wait_until};
use serde_json::json;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;

/// Servers of the office, inside a resource that the client may use.
const OFFICE_DNS: [&str; 2] = ["10.50.0.60", "10.50.0.61"];

/// A name that the office's servers alone know.
const OFFICE_NAME: &str = "intranet.office.example";

/// One with so many addresses that no datagram holds them.
const LONG_NAME: &str = "many.office.example";
const LONG_COUNT: u8 = 60;

/// What servers say that should not have been asked, or that are asked for everything.
const ELSEWHERE: &str = "203.0.113.99";

/// [`PRIVATE_NAME`] without the domain that completes it.
const SHORT_NAME: &str = "web";

/// What the administrator says of names.
const DNS: &str = r#"
[dns]
search = ["corp.example"]

[[dns.domain]]
name = "office.example"
servers = ["10.50.0.60", "10.50.0.61"]
"#;

fn office_access() -> String {
    format!(
        r#"{DNS}
{}
[[resource]]
name = "office dns"
site = "lab"
kind = "cidr"
address = "10.50.0.60/30"
filters = [{{ protocol = "udp", ports = [53] }}, {{ protocol = "tcp", ports = [53] }}]

[[policy]]
name = "staff-office-dns"
group = "staff"
resource = "office dns"
"#,
        access()
    )
}

/// The office's servers, which know the same. Of the client's network, both resolvers know something else by
/// these names, so that a question there would be seen.
fn office_servers(scene: &Scene) -> [Names; 2] {
    let many = (1..=LONG_COUNT).map(|host| IpAddr::from([10, 50, 1, host]));
    let many: Vec<IpAddr> = many.collect();
    scene.names[0].set(OFFICE_NAME, &[ELSEWHERE.parse().unwrap()]);
    let private = &scene.product.private;
    OFFICE_DNS.map(|address| {
        private
            .run(&format!("ip address add {address} dev lo"))
            .unwrap();
        let names = Names::start(private, address.parse().unwrap()).unwrap();
        names.set(OFFICE_NAME, &[PRIVATE_V4.parse().unwrap()]);
        names.set(LONG_NAME, &many);
        names
    })
}

/// Whether programs find the name at this address and no other; they get it once for each kind of socket.
fn is_at(scene: &Scene, name: &str, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    let found = scene.addresses(name);
    !found.is_empty() && found.iter().all(|it| *it == address)
}

/// Short names are completed, and names of the office are asked of its servers through the tunnel.
fn finds_office_names(scene: &Scene, servers: &[Names]) {
    scene.finds_names(PUBLIC_ADDRESS);
    wait_until("names of the office", SOON, || {
        !scene.addresses(SHORT_NAME).is_empty() && is_at(scene, OFFICE_NAME, PRIVATE_V4)
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.product.client.output()));
    assert_eq!(
        scene.addresses(SHORT_NAME),
        scene.addresses(PRIVATE_NAME),
        "the short name is that of the resource"
    );
    let gateway = scene.product.gateways[0].private_address(Family::V4);
    let askers: Vec<IpAddr> = servers
        .iter()
        .flat_map(|server| server.asked(OFFICE_NAME))
        .collect();
    assert!(!askers.is_empty() && askers.iter().all(|it| *it == gateway));
    assert!(scene.names[0].asked(OFFICE_NAME).is_empty());
}

/// The administrator takes everything back, and the client follows.
fn is_taken_back(scene: &Scene) {
    let portal = &scene.product.portal;
    portal.admin("dns remove office.example").unwrap();
    portal.admin("dns search --none").unwrap();
    wait_until("the rules to be taken back", SOON, || {
        is_at(scene, OFFICE_NAME, ELSEWHERE) && scene.addresses(SHORT_NAME).is_empty()
    })
    .unwrap_or_else(|error| panic!("{error}: {}", scene.product.client.output()));
    let status = scene.product.client.status().unwrap();
    assert_eq!(status["dns"]["search"], json!([]));
    assert_eq!(status["dns"]["zones"], json!([]));
}

#[test]
fn by_the_file_names_of_the_office_are_asked_through_the_tunnel_and_nowhere_else() {
    let mut scene = Scene::new("--dns file");
    let [first, second] = office_servers(&scene);
    scene.begin_with(&office_access());
    scene.comes_to_be_applied();
    let servers = [first, second];
    finds_office_names(&scene, &servers);
    let [first, second] = servers;
    let address = scene.product.client.address().unwrap();
    let written = scene.now();
    assert!(
        written.ends_with(&format!(
            "\nnameserver {address}\nsearch corp.example lan\noptions edns0\n"
        )),
        "{written}"
    );
    let status = scene.product.client.status().unwrap();
    assert_eq!(status["dns"]["search"], json!(["corp.example"]));
    let zone = json!({"name": "office.example", "servers": OFFICE_DNS});
    assert_eq!(status["dns"]["zones"], json!([zone]));
    let text = scene.product.client.status_text().unwrap();
    assert!(text.contains("search     corp.example\n"), "{text}");
    let line = "office.example  asked of 10.50.0.60, 10.50.0.61\n";
    assert!(text.contains(line), "{text}");

    // What does not fit a datagram is asked for again over TCP.
    let long = scene.addresses(LONG_NAME).into_iter();
    let long: std::collections::BTreeSet<IpAddr> = long.collect();
    assert_eq!(long.len(), usize::from(LONG_COUNT));

    // The second server stands in for the first.
    assert!(second.asked(OFFICE_NAME).is_empty());
    drop(first);
    wait_until("the other server to be asked", SOON, || {
        is_at(&scene, OFFICE_NAME, PRIVATE_V4) && !second.asked(OFFICE_NAME).is_empty()
    })
    .unwrap();

    // A crash leaves nothing that the next start does not undo.
    scene.product.client.kill().unwrap();
    assert_eq!(scene.now(), written);
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    wait_until("the search domain", SOON, || {
        !scene.addresses(SHORT_NAME).is_empty()
    })
    .unwrap();
    is_taken_back(&scene);
    assert!(scene.now().contains("\nsearch lan\n"), "{}", scene.now());
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
}

#[test]
fn by_resolved_names_of_the_office_are_asked_here_and_all_names_where_that_is_wanted() {
    let (mut scene, _bus) = Scene::with_bus("--dns auto");
    let _resolved = scene.start_resolved();
    // As a machine has it: with the search domains of all interfaces.
    fs::remove_file(scene.path()).unwrap();
    symlink("/run/systemd/resolve/stub-resolv.conf", scene.path()).unwrap();
    let servers = office_servers(&scene);
    scene.begin_with(&office_access());
    scene.comes_to_be_applied();
    finds_office_names(&scene, &servers);
    let asked_here = ["corp.example", "office.example", PRIVATE_NAME];
    assert_eq!(scene.control()["mode"], "resolved");
    assert_eq!(scene.control()["domains"], json!(asked_here));
    // Other names are asked past the client.
    assert_eq!(asked_by_client(&scene, "one.example.org"), 0);
    is_taken_back(&scene);
    assert_eq!(scene.control()["domains"], json!([PRIVATE_NAME]));
    scene.product.client.stop().unwrap();

    "--dns auto --dns-scope all".clone_into(&mut scene.product.client.arguments);
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    assert!(scene.control()["domains"].is_null());
    scene.finds_names(PUBLIC_ADDRESS);
    assert!(asked_by_client(&scene, "two.example.org") > 0);

    // With servers for every name, nobody else is asked for any.
    let portal = &scene.product.portal;
    let every = format!("dns set . --server {}", OFFICE_DNS[1]);
    portal.admin(&every).unwrap();
    servers[1].set("three.example.org", &[ELSEWHERE.parse().unwrap()]);
    wait_until("the office to be asked for every name", SOON, || {
        is_at(&scene, "three.example.org", ELSEWHERE)
    })
    .unwrap();
    scene.product.client.stop().unwrap();
    wait_until("other names to be asked as before", SOON, || {
        !scene.addresses(PUBLIC_NAME).is_empty()
    })
    .unwrap();
}

/// How many queries the client gets where a program looks another name up.
fn asked_by_client(scene: &Scene, name: &str) -> u64 {
    scene.names[0].set(name, &[PUBLIC_ADDRESS.parse().unwrap()]);
    let queries = || {
        let status = scene.product.client.status().unwrap();
        let counters = status["counters"].as_array().unwrap().clone();
        let found = counters.iter().find(|it| it["name"] == "dns_queries");
        found.unwrap()["count"].as_u64().unwrap()
    };
    let before = queries();
    assert!(!scene.addresses(name).is_empty());
    queries() - before
}

#[test]
fn by_openresolv_names_of_the_office_are_asked_here_and_what_others_search_stays() {
    let lease = format!("search lan\nnameserver {PUBLIC_DNS}\noptions edns0\n");
    let mut scene = Scene::with_openresolv("--dns auto", &lease);
    let before = scene.now();
    let servers = office_servers(&scene);
    scene.begin_with(&office_access());
    scene.comes_to_be_applied();
    assert_eq!(scene.control()["mode"], "resolvconf");
    finds_office_names(&scene, &servers);
    is_as_reviewed(&scene, "openresolv_search");
    scene.product.client.kill().unwrap();
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    finds_office_names(&scene, &servers);
    is_as_reviewed(&scene, "openresolv_search");
    is_taken_back(&scene);
    is_as_reviewed(&scene, "openresolv");
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before);
}

/// Holds the file against a reviewed one, in which the client's address is a word. With `CULVERT_BLESS=1` in
/// the environment, what is there is written down as reviewed.
fn is_as_reviewed(scene: &Scene, name: &str) {
    let address = scene.product.client.address().unwrap().to_string();
    let now = scene.now().replace(&address, "CLIENT");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/access/golden");
    let path = format!("{golden}/{name}.resolv.conf");
    if std::env::var_os("CULVERT_BLESS").is_some() {
        fs::create_dir_all(golden).unwrap();
        fs::write(path, now).unwrap();
        return;
    }
    assert_eq!(now, fs::read_to_string(path).unwrap(), "{name}.resolv.conf");
}
