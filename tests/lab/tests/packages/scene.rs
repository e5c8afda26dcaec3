//! A portal, a gateway and a client, each on a Debian machine of its own.

use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, Product, Server};
use culvert_lab::{Machine, wait_until, workspace_dir};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Something on this machine that should happen at once may take this long when others compile.
pub(crate) const SOON: Duration = Duration::from_secs(30);

const WEB_PORT: u16 = 80;

const ACCESS: &str = r#"
[[site]]
name = "lab"

[[actor]]
name = "laptop"
kind = "service_account"

[[group]]
name = "staff"
members = ["laptop"]

[[resource]]
name = "web"
site = "lab"
address = "WEB"
allow = "tcp:80"

[[resource]]
name = "web by name"
site = "lab"
address = "NAME"
allow = "tcp:80"

[[policy]]
group = "staff"
resource = "web"

[[policy]]
group = "staff"
resource = "web by name"
"#;

/// One of the two sets of packages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    Old,
    New,
}

/// The machines, with nothing of Culvert on them.
pub(crate) struct Scene {
    pub(crate) portal: Machine,
    pub(crate) gateway: Machine,
    pub(crate) client: Machine,
    /// Its namespaces are what the machines are in.
    product: Product,
    _server: Server,
}

impl Scene {
    pub(crate) fn boot() -> Self {
        let product = Product::networks(1).unwrap();
        let server = Server::start(&product.private, PRIVATE_V4.parse().unwrap(), WEB_PORT);
        let packages = packages_dir();
        let boot = |namespace, name| Machine::boot(namespace, name, &packages).unwrap();
        let gateway = boot(&product.gateways[0].namespace, "gateway-1");
        // It asks the private network's DNS, as every program of that machine does.
        gateway
            .shell("rm /etc/resolv.conf; echo nameserver 10.50.0.53 >/etc/resolv.conf")
            .unwrap();
        Self {
            portal: boot(&product.portal.namespace, "portal"),
            gateway,
            client: boot(&product.client.namespace, "laptop"),
            _server: server.unwrap(),
            product,
        }
    }

    /// The machines, each with its role.
    pub(crate) fn machines(&self) -> [(&Machine, &'static str); 3] {
        [
            (&self.portal, "portal"),
            (&self.gateway, "gateway"),
            (&self.client, "client"),
        ]
    }

    /// Makes the administrator, declares access, and starts all three services with tokens, as
    /// docs/install.md says.
    pub(crate) fn begin(&self) {
        let url = self.product.portal.url();
        let options = format!("CULVERT_PORTAL_URL={url}\nCULVERT_PORTAL_RELAY=true\n");
        self.portal
            .write("/etc/culvert/portal.env", "644", &options)
            .unwrap();
        enable(&self.portal, "portal");
        self.portal
            .write("/root/access.toml", "600", &access())
            .unwrap();
        self.portal
            .shell(
                "runuser -u culvert-portal -- culvert portal setup-token | \
                 grep -o 'cv_setup_[^'\"'\"' ]*' | culvert admin setup --token-file -
                 culvert admin apply --yes -f /root/access.toml
                 culvert admin token create --kind gateway --site lab --out /root/gateway.token
                 culvert admin token create --kind client --actor laptop --out /root/client.token",
            )
            .unwrap();
        for (machine, role, file) in [
            (&self.gateway, "gateway", "/etc/culvert/gateway-token"),
            (&self.client, "client", "/etc/culvert/token"),
        ] {
            let token = self.portal.run(&format!("cat /root/{role}.token")).unwrap();
            machine.write(file, "600", &token).unwrap();
            enable(machine, role);
        }
        self.is_connected();
    }

    /// Client and gateway come to be connected.
    pub(crate) fn is_connected(&self) {
        for (machine, role, command) in [
            (&self.gateway, "gateway", "culvert gateway status --check"),
            (&self.client, "client", "culvert status --check"),
        ] {
            wait_until(&format!("the {role} to be connected"), SOON, || {
                machine.run(command).is_ok()
            })
            .unwrap_or_else(|error| panic!("{error}\n{}", machine.journal("culvert-*")));
        }
    }

    /// True if the client's machine gets the page, by address or by name.
    pub(crate) fn reaches(&self, host: &str) -> bool {
        self.client
            .run(&format!("curl -fsS -m 4 http://{host}/"))
            .is_ok_and(|said| said.contains("you come from"))
    }

    /// It comes to get the page both ways.
    pub(crate) fn comes_to_reach_everything(&self) {
        for host in [PRIVATE_V4, PRIVATE_NAME] {
            wait_until(&format!("{host} to be reached"), SOON, || {
                self.reaches(host)
            })
            .unwrap_or_else(|error| {
                let status = self.client.run("culvert status").unwrap_or_default();
                let [client, gateway] =
                    [&self.client, &self.gateway].map(|machine| machine.journal("culvert-*"));
                panic!("{error}\n{status}\n{client}\n{gateway}")
            });
        }
    }

    pub(crate) fn client_status(&self) -> Value {
        let status = self.client.run("culvert status --json").unwrap();
        serde_json::from_str(&status).unwrap()
    }
}

/// The policies: the client may use both resources.
pub(crate) fn access() -> String {
    ACCESS
        .replace("WEB", PRIVATE_V4)
        .replace("NAME", PRIVATE_NAME)
}

/// Starts a service now and at each boot.
pub(crate) fn enable(machine: &Machine, role: &str) {
    let enabled = machine.run(&format!("systemctl enable --now culvert-{role}"));
    enabled.unwrap_or_else(|error| panic!("{error:#}\n{}", machine.journal("culvert-*")));
}

/// Installs the packages of a role, or upgrades to them.
pub(crate) fn install(machine: &Machine, role: &str, version: Version) {
    let set = match version {
        Version::Old => "old",
        Version::New => "new",
    };
    let files = format!("/packages/{set}/culvert_*.deb /packages/{set}/culvert-{role}_*.deb");
    machine.shell(&format!("dpkg --install {files}")).unwrap();
}

/// The directory in which `make test` puts the packages.
pub(crate) fn packages_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| workspace_dir().join("target"), PathBuf::from);
    let dir = target.join("packages-under-test");
    assert!(
        dir.join("new").is_dir(),
        "there are no packages to test: run make test-packages"
    );
    dir
}
