//! How the system's resolver comes to ask the client, and is put back.

use crate::common::{SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{Names, PRIVATE_NAME, PRIVATE_V4, PRIVATE_V6, Product, Server};
use culvert_lab::{Process, peer_program, wait_until};
use serde_json::Value;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
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
    names: [Names; 2],
    _servers: [Server; 2],
}

impl Scene {
    fn new(arguments: &str) -> Self {
        Self::try_new(arguments).unwrap()
    }

    /// A product on whose client's machine a system bus runs, but nobody is on it yet.
    fn with_bus(arguments: &str) -> (Self, Process) {
        let mut scene = Self::new(arguments);
        let dir = scene.product.dir();
        // Whoever is on the bus has given up being root, and watches for it.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        let (bus, configuration) = (dir.join("bus"), dir.join("bus.conf"));
        fs::write(&configuration, bus_configuration(&bus)).unwrap();
        // It asks the machine who connects.
        add_line(&scene.etc, "passwd", RESOLVED_USER);
        add_line(&scene.etc, "group", RESOLVED_GROUP);
        let client = &scene.product.client;
        let process = client.namespace.spawn_script(&format!(
            "{}\nexec dbus-daemon --nofork --nopidfile --config-file={}",
            client.machine,
            configuration.display()
        ));
        wait_until("the bus", SOON, || bus.exists()).unwrap();
        let machine = &mut scene.product.client.machine;
        machine.push_str(&format!(
            "\nexport DBUS_SYSTEM_BUS_ADDRESS=unix:path={}",
            bus.display()
        ));
        scene.write("nameserver 127.0.0.53\n");
        fs::create_dir_all(scene.etc.join("systemd")).unwrap();
        let configuration = format!("[Resolve]\nDNS={PUBLIC_DNS}\nFallbackDNS=\n");
        fs::write(scene.etc.join("systemd/resolved.conf"), configuration).unwrap();
        (scene, process.unwrap())
    }

    /// Starts systemd-resolved, and waits until programs are answered by it.
    fn start_resolved(&self) -> Process {
        let program = peer_program("systemd-resolved").unwrap();
        let client = &self.product.client;
        let script = format!(
            "{}\nmkdir -p /run/systemd; mount -t tmpfs tmpfs /run/systemd; \
             mkdir /run/systemd/resolve; chown systemd-resolve:systemd-resolve /run/systemd/resolve; exec {}",
            client.machine,
            program.display()
        );
        let process = client.namespace.spawn_script(&script).unwrap();
        wait_until("systemd-resolved", SOON, || {
            !self.addresses(PUBLIC_NAME).is_empty()
        })
        .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
        process
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
            names: [public?, other?],
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

/// Whom systemd-resolved becomes, where the machine does not know it.
const RESOLVED_USER: &str = "systemd-resolve:x:979:979::/:/usr/sbin/nologin\n";
const RESOLVED_GROUP: &str = "systemd-resolve:x:979:\n";

/// Adds an entry to a file of a machine, unless there is one of that name.
fn add_line(etc: &Path, file: &str, line: &str) {
    let path = etc.join(file);
    let mut text = fs::read_to_string(&path).unwrap();
    if !text.contains("systemd-resolve:") {
        text.push_str(line);
        fs::write(&path, text).unwrap();
    }
}

/// A bus on which everybody may do everything.
fn bus_configuration(bus: &Path) -> String {
    format!(
        r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
  </policy>
</busconfig>
"#,
        bus.display()
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

#[test]
fn resolved_asks_the_client_for_names_of_resources_alone_and_is_told_again_when_it_restarts() {
    let (mut scene, _bus) = Scene::with_bus("--dns auto");
    let mut resolved = scene.start_resolved();
    scene.begin();
    scene.comes_to_be_applied();
    let control = scene.control();
    assert_eq!(control["mode"], "resolved");
    assert_eq!(control["domains"], serde_json::json!([PRIVATE_NAME]));
    scene.finds_names(PUBLIC_ADDRESS);
    let status = scene.product.client.status().unwrap();
    let upstream = format!("{PUBLIC_DNS}:53");
    assert_eq!(status["dns"]["upstreams"], serde_json::json!([upstream]));

    // Whoever resolves other names does not notice the client at all.
    let other = "other.example.org";
    scene.names[0].set(other, &[PUBLIC_ADDRESS.parse().unwrap()]);
    scene.product.client.process().unwrap().pause().unwrap();
    let found = scene.addresses(other);
    scene.product.client.process().unwrap().resume().unwrap();
    assert!(!found.is_empty());

    resolved.kill().unwrap();
    resolved = scene.start_resolved();
    scene.finds_names(PUBLIC_ADDRESS);

    // A crash leaves nothing, and neither does an end.
    scene.product.client.kill().unwrap();
    wait_until("the name to be asked elsewhere", SOON, || {
        scene.addresses(PRIVATE_NAME).is_empty()
    })
    .unwrap();
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert!(scene.addresses(PRIVATE_NAME).is_empty());
    assert!(!scene.addresses(PUBLIC_NAME).is_empty());
    assert_eq!(scene.now(), "nameserver 127.0.0.53\n");

    // Who asks for it and nothing else hears that it is not there.
    resolved.kill().unwrap();
    "--dns resolved".clone_into(&mut scene.product.client.arguments);
    scene.product.client.launch().unwrap();
    let ended = scene.product.client.process().unwrap().wait(SOON).unwrap();
    assert_eq!(ended.code(), Some(1));
    let output = scene.product.client.output();
    assert!(
        output.contains("systemd-resolved does not answer"),
        "{output}"
    );
}

#[test]
fn resolvconf_names_the_client_and_forgets_it_even_after_a_crash() {
    let mut scene = Scene::new("--dns auto");
    let program = peer_program("resolvconf").unwrap();
    // What lies in the directory of programs is a link into the package.
    let package = fs::canonicalize(&program).unwrap();
    let package = package.ancestors().nth(2).unwrap();
    let configuration = format!(
        "resolv_conf=/etc/resolv.conf\nstate_dir={}\nLIBEXECDIR={}/lib/resolvconf\n",
        scene.product.dir().join("resolvconf").display(),
        package.display()
    );
    fs::write(scene.etc.join("resolvconf.conf"), configuration).unwrap();
    let path = format!(
        "\nexport PATH={}:$PATH",
        program.parent().unwrap().display()
    );
    scene.product.client.machine.push_str(&path);
    fs::remove_file(scene.path()).unwrap();
    let lease = scene.etc.join("lease");
    fs::write(&lease, format!("nameserver {PUBLIC_DNS}\n")).unwrap();
    let told = scene
        .product
        .client
        .run("resolvconf -a veth14 < /etc/lease");
    told.unwrap();
    let before = scene.now();
    assert!(before.contains(PUBLIC_DNS), "{before}");

    scene.begin();
    scene.comes_to_be_applied();
    assert_eq!(scene.control()["mode"], "resolvconf");
    let address = scene.product.client.address().unwrap();
    assert!(scene.now().contains(&format!("nameserver {address}\n")));
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.kill().unwrap();
    assert_ne!(scene.now(), before);
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.finds_names(PUBLIC_ADDRESS);
    scene.product.client.stop().unwrap();
    assert_eq!(scene.now(), before);

    // What a crash leaves behind is undone, whatever way is taken then.
    scene.product.client.start().unwrap();
    scene.comes_to_be_applied();
    scene.product.client.kill().unwrap();
    "--dns off".clone_into(&mut scene.product.client.arguments);
    scene.product.client.start().unwrap();
    assert_eq!(scene.now(), before);
}
