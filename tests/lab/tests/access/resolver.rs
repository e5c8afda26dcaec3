//! How the system's resolver comes to ask the client, and is put back.

use crate::common::{SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{Names, PRIVATE_NAME, PRIVATE_V4, PRIVATE_V6, Product, Server};
use culvert_lab::wait_until;
use serde_json::Value;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

/// Where the resolver of the client's network answers, which knows [`PUBLIC_NAME`] alone.
const PUBLIC_DNS: &str = "198.51.100.53";
/// A resolver that is named first, and is not there.
const DEAD_DNS: &str = "198.51.100.54";
/// Another one of the client's network, for a change of it.
const OTHER_DNS: &str = "198.51.100.55";

const PUBLIC_NAME: &str = "www.example.org";
const PUBLIC_ADDRESS: &str = "203.0.113.80";
/// What the other resolver says of the same name.
const OTHER_ADDRESS: &str = "203.0.113.81";

/// An upstream that is silent is given up after 1.5 s, and the file is looked at every five.
const NOTICED: Duration = Duration::from_secs(30);

/// A product whose client has a directory `/etc` of its own and is not started yet.
struct Scene {
    product: Product,
    etc: PathBuf,
    _names: [Names; 2],
    _servers: [Server; 2],
}

impl Scene {
    fn new(arguments: &str) -> Self {
        Self::try_new(arguments).unwrap()
    }

    fn try_new(arguments: &str) -> Result<Self> {
        let mut product = Product::networks(1)?;
        let names = [(PUBLIC_DNS, PUBLIC_ADDRESS), (OTHER_DNS, OTHER_ADDRESS)];
        let names = names.map(|(server, address)| -> Result<Names> {
            let internet = &product.internet;
            internet.run(&format!("ip address add {server} dev lo"))?;
            let names = Names::start(internet, server.parse()?)?;
            names.set(PUBLIC_NAME, &[address.parse()?]);
            Ok(names)
        });
        let [public, other] = names;
        let serve = |address: &str| Server::start(&product.private, address.parse()?, WEB_PORT);
        let servers = [serve(PRIVATE_V4)?, serve(PRIVATE_V6)?];
        let etc = product.dir().join("etc");
        culvert_lab::run(&format!("cp -a /etc {}", etc.display()))?;
        fs::write(etc.join("nsswitch.conf"), "hosts: files dns\n")?;
        let client = &mut product.client;
        client.machine = format!("mount --bind {} /etc", etc.display());
        arguments.clone_into(&mut client.arguments);
        let scene = Self {
            product,
            etc,
            _names: [public?, other?],
            _servers: servers,
        };
        scene.write(&before());
        Ok(scene)
    }

    /// Starts everything.
    fn begin(&mut self) {
        self.product.begin(&access()).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.etc.join("resolv.conf")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn now(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// What the status says of the system's resolver.
    fn control(&self) -> Value {
        let status = self.product.client.status();
        status.unwrap()["dns"]["control"].clone()
    }

    fn comes_to_be_applied(&self) {
        wait_until("names to be asked of the client", SOON, || {
            self.control()["applied"] == true
        })
        .unwrap_or_else(|error| panic!("{error}: {}", self.product.client.output()));
    }

    /// The addresses of a name, as a program of the machine gets them.
    fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = self.product.client.run(&format!("getent ahosts {name}"));
        let lines = found.unwrap_or_default();
        let addresses = lines.lines().filter_map(|line| line.split(' ').next());
        addresses.map(|address| address.parse().unwrap()).collect()
    }

    /// Names of resources and all others are found.
    fn finds_names(&self, public: &str) {
        wait_until("names of both kinds", NOTICED, || {
            let own = self.addresses(PRIVATE_NAME);
            let public: IpAddr = public.parse().unwrap();
            own.iter().any(is_of_names) && self.addresses(PUBLIC_NAME).contains(&public)
        })
        .unwrap_or_else(|error| panic!("{error}: {}", self.product.client.output()));
        let line = format!("curl -fsS -m 8 http://{PRIVATE_NAME}/");
        let said = self.product.client.run(&line).unwrap();
        assert!(said.starts_with("you come from"), "{said}");
    }
}

/// What a network hands out: a resolver that is not there, and one that is.
fn before() -> String {
    format!(
        "# by hand\nsearch lan\nnameserver {DEAD_DNS}\nnameserver {PUBLIC_DNS}\noptions edns0\n"
    )
}

/// Whether an address stands for a name of a resource.
fn is_of_names(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 100 && address.octets()[1] & 0xe0 == 0x60,
        IpAddr::V6(address) => address.segments()[..4] == [0xfd00, 0x2021, 0x1111, 0x8000],
    }
}

#[test]
fn the_file_asks_the_client_for_every_name_and_is_put_back_even_after_a_crash() {
    let mut scene = Scene::new("--dns auto");
    scene.begin();
    scene.comes_to_be_applied();
    let address = scene.product.client.address().unwrap();
    let now = scene.now();
    assert!(
        now.starts_with("# Written by the culvert client")
            && now.ends_with(&format!(
                "\nnameserver {address}\nsearch lan\noptions edns0\n"
            )),
        "{now}"
    );
    scene.finds_names(PUBLIC_ADDRESS);
    let text = scene.product.client.status_text().unwrap();
    assert!(
        text.contains("dns        file: asks here for every name"),
        "{text}"
    );

    // The end puts it back, and so does the next start where there was none.
    scene.product.client.kill().unwrap();
    assert_eq!(scene.now(), now);
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.kill().unwrap();
    "--dns off".clone_into(&mut scene.product.client.arguments);
    scene.product.client.start().unwrap();
    assert_eq!(scene.now(), before());
    wait_until("the mode to be told", SOON, || {
        scene.control()["mode"] == "off"
    })
    .unwrap();
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
}

#[test]
fn a_file_that_is_mounted_by_itself_is_written_in_place() {
    let mut scene = Scene::new("--dns file");
    // As containers have it: nothing else can take its place.
    let mounted = scene.product.dir().join("mounted");
    fs::write(&mounted, before()).unwrap();
    let mount = format!("\nmount --bind {} /etc/resolv.conf", mounted.display());
    scene.product.client.machine.push_str(&mount);
    scene.begin();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.kill().unwrap();
    assert!(
        fs::read_to_string(&mounted)
            .unwrap()
            .starts_with("# Written by")
    );
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert_eq!(fs::read_to_string(&mounted).unwrap(), before());
    assert_eq!(scene.now(), before(), "what lies below was never touched");
}

#[test]
fn what_others_write_into_the_file_stays_and_says_who_is_asked_for_other_names() {
    let mut scene = Scene::new("--dns file");
    scene.begin();
    scene.comes_to_be_applied();
    let written = scene.now();
    // A lease of another network.
    let theirs = format!("nameserver {OTHER_DNS}\n");
    scene.write(&theirs);
    scene.finds_names(OTHER_ADDRESS);
    assert!(scene.now().starts_with("# Written by"), "{}", scene.now());
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), theirs);

    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.kill().unwrap();
    assert_ne!(scene.now(), written);
    scene.write(&before());
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before());
}

#[test]
fn a_file_that_can_not_be_written_is_a_problem_that_leaves_the_tunnel_alone() {
    let mut scene = Scene::new("--dns auto");
    let target = scene.etc.join("elsewhere");
    fs::rename(scene.path(), &target).unwrap();
    symlink("elsewhere", scene.path()).unwrap();
    scene.begin();
    let problem = |scene: &Scene| {
        let status = scene.product.client.status().unwrap();
        status["problems"].to_string()
    };
    wait_until("the problem to be told", SOON, || {
        problem(&scene).contains("/etc/resolv.conf is a symbolic link to elsewhere")
    })
    .unwrap();
    assert_eq!(scene.control()["applied"], false);
    assert_eq!(fs::read_to_string(&target).unwrap(), before());
    let line = format!("curl -fsS -m 8 http://{PRIVATE_V4}/");
    scene.product.client.run(&line).unwrap();
    let product = &mut scene.product;
    product.client.stop().unwrap();

    // Who asks for the file and nothing else hears it at once.
    "--dns file".clone_into(&mut product.client.arguments);
    product.client.launch().unwrap();
    let ended = product.client.process().unwrap().wait(SOON).unwrap();
    assert_eq!(ended.code(), Some(1));
    let output = product.client.output();
    assert!(
        output.contains("is a symbolic link to elsewhere"),
        "{output}"
    );

    // One that nobody may write.
    fs::remove_file(scene.etc.join("resolv.conf")).unwrap();
    fs::write(scene.etc.join("resolv.conf"), before()).unwrap();
    product
        .client
        .machine
        .push_str("\nmount -o remount,bind,ro /etc");
    product.client.start().unwrap();
    wait_until("the problem to be told", SOON, || {
        let problems = product.client.status().unwrap()["problems"].to_string();
        problems.contains("cannot write /etc/resolv.conf") && problems.contains("--dns off")
    })
    .unwrap();
    product.client.stop().unwrap();
    let now = fs::read_to_string(scene.etc.join("resolv.conf")).unwrap();
    assert_eq!(now, before());
}
