//! A client whose machine has a resolver of its own: systemd-resolved, openresolv, or a plain file.

use crate::common::{SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{Names, PRIVATE_NAME, PRIVATE_V4, PRIVATE_V6, Product, Server};
use culvert_lab::{Process, peer_program, wait_until};
use serde_json::Value;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The resolver of the client's network, which knows [`PUBLIC_NAME`] alone.
pub(crate) const PUBLIC_DNS: &str = "198.51.100.53";
/// A resolver that is named first, and is not there.
const DEAD_DNS: &str = "198.51.100.54";
/// Another one of the client's network, for a change of it.
pub(crate) const OTHER_DNS: &str = "198.51.100.55";

pub(crate) const PUBLIC_NAME: &str = "www.example.org";
pub(crate) const PUBLIC_ADDRESS: &str = "203.0.113.80";
/// The other resolver's address for the same name.
pub(crate) const OTHER_ADDRESS: &str = "203.0.113.81";

/// An upstream that is silent is given up after 1.5 s, and the file is looked at every five.
const NOTICED: Duration = Duration::from_secs(30);

/// A product whose client has a directory `/etc` of its own and is not started yet.
pub(crate) struct Scene {
    pub(crate) product: Product,
    pub(crate) etc: PathBuf,
    /// The resolvers of the client's network.
    pub(crate) names: [Names; 2],
    _servers: [Server; 2],
}

impl Scene {
    pub(crate) fn new(arguments: &str) -> Self {
        Self::try_new(arguments).unwrap()
    }

    /// A product on whose client's machine a system bus runs, but nobody is on it yet.
    pub(crate) fn with_bus(arguments: &str) -> (Self, Process) {
        let mut scene = Self::new(arguments);
        let dir = scene.product.dir();
        // Programs on the bus run without root's rights, and watch the directory for it.
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
        let run = dir_of_resolved(scene.product.dir());
        fs::create_dir(&run).unwrap();
        let mount = format!(
            "\nmkdir -p /run/systemd; mount --bind {} /run/systemd",
            run.display()
        );
        scene.product.client.machine.push_str(&mount);
        scene.write("nameserver 127.0.0.53\n");
        fs::create_dir_all(scene.etc.join("systemd")).unwrap();
        let configuration = format!("[Resolve]\nDNS={PUBLIC_DNS}\nFallbackDNS=\n");
        fs::write(scene.etc.join("systemd/resolved.conf"), configuration).unwrap();
        (scene, process.unwrap())
    }

    /// Starts systemd-resolved, and waits until programs are answered by it.
    pub(crate) fn start_resolved(&self) -> Process {
        let process = self.launch_resolved();
        wait_until("systemd-resolved", SOON, || {
            !self.addresses(PUBLIC_NAME).is_empty()
        })
        .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
        process
    }

    /// Starts systemd-resolved, and waits for nothing.
    pub(crate) fn launch_resolved(&self) -> Process {
        let program = peer_program("systemd-resolved").unwrap();
        let client = &self.product.client;
        let script = format!(
            "{}\nmkdir -p /run/systemd/resolve; \
             chown systemd-resolve:systemd-resolve /run/systemd/resolve; exec {}",
            client.machine,
            program.display()
        );
        client.namespace.spawn_script(&script).unwrap()
    }

    /// A product whose client's machine has openresolv, which was told what `lease` says.
    pub(crate) fn with_openresolv(arguments: &str, lease: &str) -> Self {
        let mut scene = Self::new(arguments);
        let program = peer_program("resolvconf").unwrap();
        // The entry in the directory of programs is a link into the package.
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
        fs::write(scene.etc.join("lease"), lease).unwrap();
        let client = &scene.product.client;
        client.run("resolvconf -a veth14 < /etc/lease").unwrap();
        scene
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
    pub(crate) fn begin(&mut self) {
        self.begin_with(&access());
    }

    /// Starts everything, with that access.
    pub(crate) fn begin_with(&mut self, access: &str) {
        self.product.begin(access).unwrap();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.etc.join("resolv.conf")
    }

    pub(crate) fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    pub(crate) fn now(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// The part of the status about the system's resolver.
    pub(crate) fn control(&self) -> Value {
        let status = self.product.client.status();
        status.unwrap()["dns"]["control"].clone()
    }

    pub(crate) fn comes_to_be_applied(&self) {
        wait_until("names to be asked of the client", SOON, || {
            self.control()["applied"] == true
        })
        .unwrap_or_else(|error| panic!("{error}: {}", self.product.client.output()));
    }

    /// The addresses of a name, as a program of the machine gets them.
    pub(crate) fn addresses(&self, name: &str) -> Vec<IpAddr> {
        let found = self.product.client.run(&format!("getent ahosts {name}"));
        let lines = found.unwrap_or_default();
        let addresses = lines.lines().filter_map(|line| line.split(' ').next());
        addresses.map(|address| address.parse().unwrap()).collect()
    }

    /// Names of resources and all others are found.
    pub(crate) fn finds_names(&self, public: &str) {
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

/// The directory `/run/systemd` as it is with systemd-resolved.
fn dir_of_resolved(dir: &Path) -> PathBuf {
    dir.join("run-systemd")
}

/// The DNS settings that a network hands out: a resolver that is not there, and one that is.
pub(crate) fn before() -> String {
    format!(
        "# by hand\nsearch lan\nnameserver {DEAD_DNS}\nnameserver {PUBLIC_DNS}\noptions edns0\n"
    )
}

/// The user of systemd-resolved, for a machine that does not have it.
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

/// True if an address stands for a name of a resource.
fn is_of_names(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[0] == 100 && address.octets()[1] & 0xe0 == 0x60,
        IpAddr::V6(address) => address.segments()[..4] == [0xfd00, 0x2021, 0x1111, 0x8000],
    }
}
