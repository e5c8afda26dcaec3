//! Search domains, and domains with servers of their own, as an administrator sets them. Every way in which
//! the system asks the client applies them, and gives them up again.

use crate::common::{SOON, access};
use crate::resolver_scene::{OTHER_DNS, PUBLIC_ADDRESS, PUBLIC_DNS, PUBLIC_NAME, Scene, before};
use culvert_lab::product::{Names, PRIVATE_NAME, PRIVATE_V4, PRIVATE_V6};
use culvert_lab::{Family, wait_until};
use serde_json::json;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::time::Instant;

/// Servers of the office, inside a resource that the client may use.
const OFFICE_DNS: [&str; 2] = ["10.50.0.60", "10.50.0.61"];

/// A name that the office's servers alone know.
const OFFICE_NAME: &str = "intranet.office.example";

/// One with so many addresses that no datagram holds them.
const LONG_NAME: &str = "many.office.example";
const LONG_COUNT: u8 = 60;

/// The answer of servers that should not have been asked, or that are asked for everything.
const OTHER_ADDRESS: &str = "203.0.113.99";

/// [`PRIVATE_NAME`] without the domain that completes it.
const SHORT_NAME: &str = "web";

/// The administrator's declaration of names.
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
    scene.names[0].set(OFFICE_NAME, &[OTHER_ADDRESS.parse().unwrap()]);
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

/// True if programs resolve the name to this address and no other; they get it once for each kind of
/// socket.
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

/// Aliases that the resolver of the client's network knows, and what they stand for: the number of aliases on the way to
/// the resource's name, and its letters.
const ALIASES: [(&str, usize, &str); 6] = [
    ("alias.test", 1, "web.corp.example"),
    ("other-case.test", 1, "WEB.Corp.Example"),
    ("chain.test", 2, "web.corp.example"),
    ("long.example.org", 5, "web.corp.example"),
    ("longest.test", 12, "web.corp.example"),
    ("alias.elsewhere.example", 3, "Web.corp.EXAMPLE"),
];

/// Ways in which that resolver may know, or not know, the resource's name itself.
const KNOWN_OUTSIDE: [&[&str]; 4] = [
    &[],
    &[PRIVATE_V4],
    &[PRIVATE_V4, PRIVATE_V6],
    &[OTHER_ADDRESS],
];

/// Programs that ask for an alias of a resource's name get the tunnel's addresses, whatever other resolvers know.
fn aliases_lead_into_the_tunnel(scene: &Scene) {
    let public = &scene.names[0];
    let own = scene.addresses(PRIVATE_NAME);
    assert!(!own.is_empty());
    for (round, known) in KNOWN_OUTSIDE.into_iter().enumerate() {
        let known: Vec<IpAddr> = known.iter().map(|text| text.parse().unwrap()).collect();
        // First it does not exist there, then it has these addresses, or none.
        public.remove(PRIVATE_NAME);
        if round > 0 {
            public.set(PRIVATE_NAME, &known);
        }
        for (alias, links, target) in ALIASES {
            // A new name each time: programs and resolvers remember.
            let alias = format!("r{round}-{alias}");
            let step = |number: usize| match number {
                0 => alias.clone(),
                number => format!("s{number}-{alias}"),
            };
            for number in 0..links {
                match number + 1 == links {
                    true => public.set_alias(&step(number), target),
                    false => public.set_alias(&step(number), &step(number + 1)),
                }
            }
            let found = scene.addresses(&alias);
            assert_eq!(found, own, "{alias} in {known:?}");
        }
    }
    let line = format!("curl -fsS -m 8 http://r0-{}/", ALIASES[0].0);
    let said = scene.product.client.run(&line).unwrap();
    assert!(said.starts_with("you come from"), "{said}");
    public.remove(PRIVATE_NAME);
}

/// The administrator takes everything back, and the client follows.
fn is_taken_back(scene: &Scene) {
    let portal = &scene.product.portal;
    portal.admin("dns remove office.example").unwrap();
    portal.admin("dns search --none").unwrap();
    wait_until("the rules to be taken back", SOON, || {
        is_at(scene, OFFICE_NAME, OTHER_ADDRESS) && scene.addresses(SHORT_NAME).is_empty()
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

    aliases_lead_into_the_tunnel(&scene);
    // The office's own aliases of the resource's name as well, though its servers know the address.
    for server in [&first, &second] {
        server.set(PRIVATE_NAME, &[PRIVATE_V4.parse().unwrap()]);
        server.set_alias("portal.office.example", PRIVATE_NAME);
    }
    assert_eq!(
        scene.addresses("portal.office.example"),
        scene.addresses(PRIVATE_NAME)
    );

    // A name whose answer does not fit a datagram is queried again over TCP.
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
    aliases_lead_into_the_tunnel(&scene);

    // With servers for every name, nobody else is asked for any.
    let portal = &scene.product.portal;
    let every = format!("dns set . --server {}", OFFICE_DNS[1]);
    portal.admin(&every).unwrap();
    servers[1].set("three.example.org", &[OTHER_ADDRESS.parse().unwrap()]);
    wait_until("the office to be asked for every name", SOON, || {
        is_at(&scene, "three.example.org", OTHER_ADDRESS)
    })
    .unwrap();
    scene.product.client.stop().unwrap();
    wait_until("other names to be asked as before", SOON, || {
        !scene.addresses(PUBLIC_NAME).is_empty()
    })
    .unwrap();
}

/// The ways in which a server does not answer a question that the next one answers: by codes, by referring to others, or
/// with what can't be read.
type Fault = (&'static str, fn(&Names, &str));

const FAULTS: [Fault; 9] = [
    ("servfail", |names, name| names.set_fault(name, 2)),
    ("notimp", |names, name| names.set_fault(name, 4)),
    ("refused", |names, name| names.set_fault(name, 5)),
    ("formerr", |names, name| names.set_fault(name, 1)),
    ("yxdomain", |names, name| names.set_fault(name, 6)),
    ("notauth", |names, name| names.set_fault(name, 9)),
    ("notzone", |names, name| names.set_fault(name, 10)),
    ("unassigned", |names, name| names.set_fault(name, 13)),
    ("referral", |names, name| names.set_referral(name)),
];

/// Far above a round trip, far below the wait for a server that is silent.
const AT_ONCE_MS: u128 = 1_000;

#[test]
fn a_server_that_does_not_answer_a_question_gives_way_to_the_next_at_once_every_time() {
    let mut scene = Scene::new("--dns file");
    scene.write(&format!(
        "nameserver {PUBLIC_DNS}\nnameserver {OTHER_DNS}\n"
    ));
    let servers = office_servers(&scene);
    let [first, second] = &servers;
    let found: IpAddr = "192.0.2.44".parse().unwrap();
    for (fault, fail) in FAULTS {
        for number in 0..10 {
            for (domain, servers) in [
                ("example.test", [&scene.names[0], &scene.names[1]]),
                ("office.example", [first, second]),
            ] {
                // By turns, since the one that has answered is asked first.
                let [refuses, knows] = match number % 2 {
                    0 => servers,
                    _ => [servers[1], servers[0]],
                };
                let name = format!("{fault}{number}.{domain}");
                fail(refuses, &name);
                knows.set(&name, &[found]);
            }
        }
    }
    scene.begin_with(&office_access());
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    finds_office_names(&scene, &servers);
    for (fault, _) in FAULTS {
        for domain in ["example.test", "office.example"] {
            for number in 0..10 {
                let name = format!("{fault}{number}.{domain}");
                let begun = Instant::now();
                assert!(is_at(&scene, &name, "192.0.2.44"), "{name}");
                let took = begun.elapsed().as_millis();
                assert!(took < AT_ONCE_MS, "{name}: {took} ms");
            }
        }
    }
}

/// The number of queries that the client gets when a program resolves one more name.
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
    aliases_lead_into_the_tunnel(&scene);
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
