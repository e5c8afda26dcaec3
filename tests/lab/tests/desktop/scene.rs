//! A portal and a gateway in namespaces, and a desktop machine on which people work.

use culvert_lab::product::{PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, Product, Server};
use culvert_lab::{Machine, wait_until, workspace_dir};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Something on this machine that should happen at once may take this long when others compile.
pub(crate) const SOON: Duration = Duration::from_secs(60);

const WEB_PORT: u16 = 80;

/// Everybody may use the first two. A condition that no machine of this lab meets is on the third.
const ACCESS: &str = r#"
[[site]]
name = "berlin"

[[group]]
name = "staff"
members = []

[[resource]]
name = "Intranet"
site = "berlin"
address = "WEB"
allow = "tcp:80"

[[resource]]
name = "Wiki"
site = "berlin"
address = "NAME"
allow = "tcp:80"

[[resource]]
name = "Payroll"
site = "berlin"
address = "OTHER"
allow = "tcp:80"

[[policy]]
name = "intranet"
group = "staff"
resource = "Intranet"

[[policy]]
name = "wiki"
group = "staff"
resource = "Wiki"

[[policy]]
name = "payroll"
group = "staff"
resource = "Payroll"
verified = true
"#;

/// The machine, and all that it reaches.
pub(crate) struct Scene {
    pub(crate) machine: Rc<Machine>,
    pub(crate) product: Product,
    _servers: Vec<Server>,
}

impl Scene {
    /// Boots the machine with nothing of Culvert on it. The portal and the gateway run.
    pub(crate) fn boot() -> Self {
        let mut product = Product::networks(1).unwrap();
        let access = ACCESS
            .replace("WEB", PRIVATE_V4)
            .replace("NAME", PRIVATE_NAME)
            .replace("OTHER", PRIVATE_OTHER_V4);
        product.declare(&access).unwrap();
        let gateway = &mut product.gateways[0];
        let token = gateway.token_file();
        product
            .portal
            .token("gateway --site berlin", &token)
            .unwrap();
        gateway.start().unwrap();
        product.add_person("ada").unwrap();
        let servers = [PRIVATE_V4, PRIVATE_OTHER_V4]
            .map(|address| Server::start(&product.private, address.parse().unwrap(), WEB_PORT));
        let client = &product.client.namespace;
        let machine = Machine::boot_desktop(client, "laptop", &packages_dir()).unwrap();
        Self {
            machine: Rc::new(machine),
            product,
            _servers: servers.into_iter().map(Result::unwrap).collect(),
        }
    }

    /// Boots it, installs the packages, adds these people as members of the group `culvert`, and starts the service.
    pub(crate) fn with_members(people: &[&str]) -> Self {
        let scene = Self::boot();
        scene.install();
        for person in people {
            scene.add_user(person);
            scene.run(&format!("usermod -aG culvert {person}"));
        }
        scene.run("systemctl start culvert-client");
        scene
    }

    /// Installs the client's packages and the window's.
    pub(crate) fn install(&self) {
        self.machine
            .shell("dpkg --install /packages/culvert_*.deb /packages/culvert-client_*.deb /packages/culvert-desktop_*.deb")
            .unwrap();
    }

    pub(crate) fn add_user(&self, name: &str) {
        self.run(&format!("useradd --create-home {name}"));
    }

    /// Runs a command as root on the machine.
    pub(crate) fn run(&self, line: &str) -> String {
        let said = self.machine.run(line);
        said.unwrap_or_else(|error| panic!("{error:#}\n{}", self.machine.journal("culvert-client")))
    }

    /// Waits for a condition.
    pub(crate) fn wait(&self, what: &str, condition: impl FnMut() -> bool) {
        wait_until(what, SOON, condition).unwrap_or_else(|error| {
            panic!("{error:#}\n{}", self.machine.journal("culvert-client"))
        });
    }
}

/// The directory in which `scripts/desktop-under-test.sh` puts the packages.
fn packages_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| workspace_dir().join("target"), PathBuf::from);
    let dir = target.join("desktop-under-test");
    assert!(
        dir.is_dir(),
        "there are no packages to test: run make test-desktop-lab"
    );
    dir
}
