//! A host with a tunnel's interface, for the tests of routes.

use std::time::Duration;

use culvert_host::{Applied, HostError, Network, Routing, Wanted};
use culvert_lab::{Link, LinkShape, Namespace, Subnet, wait_until};
use culvert_tun::{Device, Options};

use crate::support::{inside, namespace, run};

/// Long enough for anything that does come.
const DEADLINE: Duration = Duration::from_secs(60);

/// A host whose whole world is behind one link, and a tunnel's interface.
pub(crate) struct Host {
    pub(crate) namespace: Namespace,
    tunnel: Option<Device>,
    _neighbour: Namespace,
    _link: Link,
}

impl Host {
    pub(crate) fn new() -> Self {
        let (namespace, neighbour) = (namespace(), namespace());
        let link = Link::new(&namespace, &neighbour, Subnet(1), LinkShape::default());
        let link = link.expect("a link is made");
        run(&namespace, "ip route add default via 10.200.1.2");
        run(&namespace, "ip -6 route add default via fd00:200:1::2");
        // The kernel adds it once it has noticed that the link is up, which nothing waits for.
        wait_until("the link's own route", DEADLINE, || {
            run(&namespace, "ip -6 route").contains("fe80::/64 dev veth1")
        })
        .expect("it comes");
        let mut host = Self {
            namespace,
            tunnel: None,
            _neighbour: neighbour,
            _link: link,
        };
        host.start();
        host
    }

    /// Makes the interface, as a program does that starts.
    pub(crate) fn start(&mut self) {
        self.tunnel = Some(self.tunnel("cv0"));
    }

    /// A tunnel's interface, which is there as long as it is held.
    pub(crate) fn tunnel(&self, name: &str) -> Device {
        let options = Options {
            name: name.to_owned(),
            mtu: 1500,
            offload: false,
            steering: None,
            bound: false,
        };
        let tunnel = self.namespace.inside(|| Ok(Device::create(&options)?));
        tunnel.expect("the interface is made")
    }

    /// Takes the interface away, as the kernel does from a program that dies.
    pub(crate) fn crash(&mut self) {
        self.tunnel = None;
        // A process that another test starts holds a copy of the descriptor until it is on its way.
        wait_until("the end of the interface", DEADLINE, || {
            !run(&self.namespace, "ip link").contains("cv0")
        })
        .expect("it is gone");
    }

    pub(crate) fn apply(&self, wanted: &Wanted) -> Applied {
        inside(&self.namespace, async || {
            Ok(Network::open()?.apply(wanted).await?)
        })
    }

    pub(crate) fn try_apply(&self, wanted: &Wanted) -> Result<Applied, HostError> {
        inside(&self.namespace, async || {
            Ok(Network::open()?.apply(wanted).await)
        })
    }

    pub(crate) fn remove(&self, wanted: &Wanted) {
        inside(&self.namespace, async || {
            Ok(Network::open()?.remove(wanted).await?)
        });
    }

    /// The answer of `ip route get` for an address, in one line; an error text if it has no route.
    pub(crate) fn route(&self, to: &str) -> String {
        let output = self
            .namespace
            .outcome(&format!("ip route get {to}"))
            .expect("ip starts");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).replace('\n', " ")
    }

    /// All rules and routes, but the ones that the kernel makes for addresses.
    pub(crate) fn everything(&self) -> String {
        let mut text = String::new();
        for family in ["-4", "-6"] {
            text += &run(&self.namespace, &format!("ip {family} rule"));
            text += &run(
                &self.namespace,
                &format!("ip {family} route show table all"),
            );
        }
        text.lines()
            .filter(|line| !line.contains("table local"))
            .map(|line| format!("{line}\n"))
            .collect()
    }
}

/// The state that a client wants with these resources.
pub(crate) fn wanted(prefixes: &[&str]) -> Wanted {
    Wanted {
        interface: "cv0".parse().expect("a name"),
        mtu_bytes: 1420,
        addresses: ["100.64.0.5", "fd00:2021:1111::5"]
            .map(|address| address.parse().expect("an address"))
            .to_vec(),
        prefixes: prefixes
            .iter()
            .map(|prefix| prefix.parse().expect("a prefix"))
            .collect(),
        exemptions: Vec::new(),
        routing: Routing::CLIENT,
    }
}

/// Resources of both families.
pub(crate) const RESOURCES: [&str; 2] = ["10.1.0.0/16", "fd00:77::/64"];
