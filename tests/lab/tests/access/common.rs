//! Helpers of several tests.

use anyhow::Result;
use culvert_lab::product::{
    Client, Download, Echo, NumberedStream, PRIVATE_NAME, PRIVATE_NET, PRIVATE_OTHER_V4,
    PRIVATE_V4, PRIVATE_V6, Product, Server,
};
use culvert_lab::{Family, Namespace, wait_until};
use std::net::IpAddr;
use std::time::Duration;

/// Something on this machine that should happen at once may take this long when others compile.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// "the live flow stops ≤ 1 s after the change is committed"
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The ports of the web server, and of the server that streams.
pub(crate) const WEB_PORT: u16 = 80;
/// A port of the same machine that the filters do not name.
pub(crate) const OTHER_PORT: u16 = 81;

/// The port at which the same machine sends datagrams back.
pub(crate) const ECHO_PORT: u16 = 7;

/// A product whose client may use the private network's web server by address and by name, and nothing
/// else.
pub(crate) struct Bed {
    pub(crate) product: Product,
    _servers: Vec<Server>,
    _echo: Echo,
}

/// The access file of [`Bed`].
pub(crate) fn access() -> String {
    format!(
        r#"
[[site]]
name = "lab"

[[actor]]
name = "laptop"
kind = "service_account"

[[group]]
name = "staff"
members = ["laptop"]

[[group]]
name = "others"
members = []

[[resource]]
name = "web"
site = "lab"
kind = "address"
address = "{PRIVATE_V4}"
filters = [{{ protocol = "tcp", ports = [80, 5201] }}, {{ protocol = "udp", ports = [7] }}, {{ protocol = "icmp" }}]

[[resource]]
name = "web by name"
site = "lab"
kind = "dns"
address = "{PRIVATE_NAME}"
filters = [{{ protocol = "tcp", ports = [80] }}]

[[resource]]
name = "everything"
site = "lab"
kind = "cidr"
address = "{PRIVATE_NET}"
filters = [{{ protocol = "any" }}]

[[policy]]
name = "staff-web"
group = "staff"
resource = "web"

[[policy]]
name = "staff-names"
group = "staff"
resource = "web by name"

[[policy]]
name = "others-all"
group = "others"
resource = "everything"
"#
    )
}

/// The same, and the web server over IPv6.
pub(crate) fn further_access() -> String {
    format!(
        r#"{}
[[resource]]
name = "web over IPv6"
site = "lab"
kind = "address"
address = "{PRIVATE_V6}"
filters = [{{ protocol = "tcp", ports = [{WEB_PORT}] }}]

[[policy]]
name = "staff-web-over-ipv6"
group = "staff"
resource = "web over IPv6"
"#,
        access()
    )
}

impl Bed {
    pub(crate) fn new(gateways: u8) -> Result<Self> {
        Self::with_access(gateways, &access())
    }

    pub(crate) fn with_access(gateways: u8, access: &str) -> Result<Self> {
        Self::around(Product::start(gateways, access)?)
    }

    /// Servers in the private network of a product.
    pub(crate) fn around(product: Product) -> Result<Self> {
        let mut servers = Vec::new();
        for port in [WEB_PORT, OTHER_PORT] {
            for address in [PRIVATE_V4, PRIVATE_OTHER_V4, PRIVATE_V6] {
                servers.push(Server::start(&product.private, address.parse()?, port)?);
            }
        }
        let echo = Echo::start(&product.private, PRIVATE_V4.parse()?, ECHO_PORT)?;
        Ok(Self {
            product,
            _servers: servers,
            _echo: echo,
        })
    }

    /// Numbered datagrams of the client, which the private network sends back.
    pub(crate) fn numbered_stream(&self) -> Result<NumberedStream> {
        let address: IpAddr = PRIVATE_V4.parse()?;
        NumberedStream::start(&self.product.client.namespace, address, ECHO_PORT)
    }

    /// A running download of the client from the web server.
    pub(crate) fn download(&self) -> Result<Download> {
        let address: IpAddr = PRIVATE_V4.parse()?;
        Download::start(&self.product.client.namespace, address, WEB_PORT)
    }

    /// Waits until the client gets an answer from there: a "no" stands for some seconds.
    pub(crate) fn comes_to_reach(&self, address: &str, port: u16) -> Result<()> {
        let what = format!("an answer of {address} port {port}");
        wait_until(&what, SOON, || self.reaches(address, port))
    }

    /// True if the client gets an answer from the address within a moment.
    pub(crate) fn reaches(&self, address: &str, port: u16) -> bool {
        let host = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        let line = format!("curl -gfsS -m 4 http://{host}:{port}/");
        let outcome = self.product.client.namespace.outcome(&line);
        outcome.is_ok_and(|outcome| outcome.status.success())
    }

    /// The index of the gateway that serves the client.
    pub(crate) fn serving(&self) -> usize {
        self.serves_now().expect("a gateway serves the client")
    }

    /// The index of the gateway that serves the client; none between two gateways.
    pub(crate) fn serves_now(&self) -> Option<usize> {
        let status = self.product.client.status().unwrap();
        let name = status["gateways"][0]["name"].as_str()?;
        let gateways = &self.product.gateways;
        gateways.iter().position(|gateway| gateway.name == name)
    }

    /// Waits until one of two gateways says that it is much busier than the other one. It reports
    /// the same to the portal at the same time.
    pub(crate) fn comes_to_be_busy(&self, busy: usize) -> Result<()> {
        let load = |gateway: usize| {
            let status = self.product.gateways[gateway].status().unwrap();
            status["load"]["processor_permille"].as_u64().unwrap()
        };
        wait_until("a gateway to be busy", SOON, || {
            load(busy) >= 20 && load(1 - busy) * 4 < load(busy)
        })
    }

    /// The index of the gateway through which a new connection of a client reaches the web server, as
    /// that sees it; `None` where it does not get there within `limit`.
    pub(crate) fn way_of(&self, client: &Client, limit: Duration) -> Option<usize> {
        let limit_s = limit.as_secs_f32();
        let line = format!("curl -fsS -m {limit_s} http://{PRIVATE_V4}:{WEB_PORT}/");
        let outcome = client.namespace.outcome(&line).ok()?;
        let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
        let from = said.strip_prefix("you come from ")?.split(' ').next()?;
        let from: IpAddr = from.parse().ok()?;
        let gateways = &self.product.gateways;
        gateways
            .iter()
            .position(|gateway| gateway.private_address(Family::V4) == from)
    }
}

/// The usual access, of which the policy for the web server has further keys.
pub(crate) fn access_with(policy_keys: &str) -> String {
    const POLICY: &str = "group = \"staff\"\nresource = \"web\"\n";
    access().replace(POLICY, &format!("{POLICY}{policy_keys}\n"))
}

/// All that a program has made at its host: interfaces, addresses, rules, routes, and firewall tables. Rules name the port of
/// the tunnel's sockets, which is another one in each life.
pub(crate) fn host(namespace: &Namespace) -> String {
    let script = "ip -o link show type tun | cut -d ' ' -f 2; \
                  ip -o address show scope global | cut -d '\\' -f 1 | cut -d ' ' -f 2-; (ip rule; ip -6 rule) | sed 's/sport [0-9]* /sport PORT /'; \
                  (ip route show table all; ip -6 route show table all) | { grep -E 'culvert|table 1723' || true; }; \
                  nft -s list ruleset";
    namespace.shell(script).unwrap()
}
