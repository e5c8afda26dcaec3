//! The cost of access: the product's client and gateway beside `culvert wg` that forwards the same
//! traffic between the same machines.
//!
//! Both tunnels exist at the same time on one bed (client, router with NAT, gateway, private network)
//! and take turns. Each leads to an address of its own on the same server. Both use the suite that
//! the portal picks on this machine, and both gateways masquerade.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use culvert_lab::measure::{IperfServer, PingReport, TcpLoad};
use culvert_lab::product::{PRIVATE_OTHER_V4, PRIVATE_V4, Product};
use culvert_lab::{Family, Implementation, Namespace, Subnet, WireGuardEnd, wait_until};

use crate::effort::Effort;
use crate::metric::{Flows, Metric};
use crate::record::Record;
use crate::report;
use crate::statistics::Samples;
use crate::subject::{Kind, Means, Subject};
use crate::targets;

/// Inner addresses of the two `culvert wg`.
const INNER: Subnet = Subnet(100);

/// Their UDP port: beside the product's 51820.
const PORT: u16 = 51830;

/// The MTU of both tunnels: the product's default.
const MTU_BYTES: u32 = 1420;

/// Turns of a second for each second that others are measured for: what is asked is within 5 %.
const TURNS_PER_S: u32 = 2;

/// The limit for the first access, on a machine that is busy with something else too.
const SOON: Duration = Duration::from_secs(20);

/// Everybody may reach the server through the product, by either family.
pub(crate) const ACCESS: &str = r#"
[[site]]
name = "lab"

[[actor]]
name = "laptop"
kind = "service_account"

[[group]]
name = "staff"
members = ["laptop"]

[[resource]]
name = "server"
site = "lab"
kind = "address"
address = "10.50.0.10"
allow = "any"

[[resource]]
name = "server by IPv6"
site = "lab"
kind = "address"
address = "fd50::10"
allow = "any"

[[policy]]
name = "staff-server"
group = "staff"
resource = "server"

[[policy]]
name = "staff-server-ipv6"
group = "staff"
resource = "server by IPv6"
"#;

/// Throughput through the product's gateway beside `culvert wg` forwarding the same traffic.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The number of rounds.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// The number of packet workers in each program.
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// The file for the results; a new file in bench/results by default.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Both tunnels between the same machines, side by side.
pub(crate) struct SideBySide {
    /// `culvert wg` that forwards, then the product's gateway.
    pub(crate) ways: [Way; 2],
    product: Product,
    _ends: [WireGuardEnd; 2],
}

/// One of the two ways to the server.
pub(crate) struct Way {
    pub(crate) subject: Subject,
    address: IpAddr,
    server: IperfServer,
}

/// Runs the comparison and prints it.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let effort = Effort::new(false, Some(arguments.rounds));
    eprintln!("starting a portal, a gateway and a client");
    let side_by_side = SideBySide::set_up(arguments.workers)?;
    let mut samples = Samples::default();
    for round in 1..=effort.rounds {
        eprintln!("round {round} of {}", effort.rounds);
        for (way, result) in side_by_side.measure(&effort, &mut samples) {
            samples.note(&way.subject, result);
        }
    }
    let subjects = side_by_side.ways.map(|way| way.subject);
    let verdicts = targets::judge_gateway(&samples);
    report::print(&subjects, &samples, &verdicts)?;
    let record = Record::new(&effort, &subjects, &samples, &verdicts);
    let path = record
        .write(arguments.json)
        .context("cannot write the results")?;
    eprintln!("results in {}", path.display());
    Ok(())
}

impl SideBySide {
    /// Starts a product and both `culvert wg`, each program with so many packet workers.
    pub(crate) fn set_up(workers: u32) -> Result<Self> {
        let workers = format!("--workers {workers}");
        let mut product = Product::networks(1)?;
        product.client.arguments.clone_from(&workers);
        for gateway in &mut product.gateways {
            gateway.arguments.clone_from(&workers);
        }
        product.begin(ACCESS)?;
        let cipher = cipher_of(&product)?;
        eprintln!("both tunnels use {cipher}, {workers}");
        let forwarding = Implementation::culvert_with(&format!("--cipher {cipher} {workers}"));
        let ends = forward(&product, &forwarding)?;
        let way = |name, kind, means, address: &str| -> Result<Way> {
            let address = address.parse()?;
            Ok(Way {
                subject: Subject { name, kind, means },
                address,
                server: IperfServer::start(&product.private, address)?,
            })
        };
        // The baseline for the product takes the place of a peer.
        let means = Means::WireGuard(forwarding);
        let ways = [
            way(targets::FORWARDING, Kind::Peer, means, PRIVATE_OTHER_V4)?,
            way(targets::GATEWAY, Kind::Product, Means::Link, PRIVATE_V4)?,
        ];
        Ok(Self {
            ways,
            product,
            _ends: ends,
        })
    }

    /// One round; and what of either way failed.
    ///
    /// The ways take turns of a second: how fast the machine is drifts by more in some seconds than what is between them.
    pub(crate) fn measure(
        &self,
        effort: &Effort,
        samples: &mut Samples,
    ) -> [(&Way, Result<()>); 2] {
        let mut results = self.ways.each_ref().map(|way| (way, Ok(())));
        let mut once = |turn: u32, measure: &mut dyn FnMut(&Way) -> Result<()>| {
            // There and back: neither is always the first of the two.
            let first = (turn % 2) as usize;
            for number in [first, 1 - first] {
                let (way, result) = &mut results[number];
                if result.is_ok() {
                    *result = measure(way);
                }
            }
        };
        for flows in Flows::ALL {
            for turn in 0..TURNS_PER_S * effort.tcp_s {
                once(turn, &mut |way| {
                    self.throughput(way, flows, effort, samples)
                });
            }
        }
        once(0, &mut |way| self.idle_ping(way, effort, samples));
        results
    }

    fn throughput(
        &self,
        way: &Way,
        flows: Flows,
        effort: &Effort,
        samples: &mut Samples,
    ) -> Result<()> {
        let load = TcpLoad {
            connections: if flows == Flows::Four { 4 } else { 1 },
            reverse: flows == Flows::OneReverse,
            ..TcpLoad::forward(1)
        };
        let report = way.server.tcp(&self.product.client.namespace, &load)?;
        let metric = Metric::Tcp(flows, effort.congestion_controls[0]);
        samples.add(&way.subject, metric, report.bits_per_second);
        Ok(())
    }

    fn idle_ping(&self, way: &Way, effort: &Effort, samples: &mut Samples) -> Result<()> {
        let client = &self.product.client.namespace;
        let interval = Effort::PING_INTERVAL;
        let ping = PingReport::measure(client, way.address, interval, effort.idle_pings)?;
        samples.add(&way.subject, Metric::IdlePing, ping.average_ms);
        Ok(())
    }
}

/// Asks for access by the first packet, and says which suite the portal picked for it, as
/// `--cipher` names it.
fn cipher_of(product: &Product) -> Result<String> {
    reach(&product.client.namespace, PRIVATE_V4)?;
    let status = product.client.status()?;
    let suite = &status["gateways"][0]["cipher"];
    Ok(suite
        .as_str()
        .with_context(|| format!("no suite in {status}"))?
        .to_owned())
}

fn reach(client: &Namespace, address: &str) -> Result<()> {
    let line = format!("ping -c 1 -W 0.5 {address}");
    wait_until(&format!("an answer to {line}"), SOON, || {
        client.run(&line).is_ok()
    })
}

/// Starts `culvert wg` on the client's machine and the gateway's, the latter forwarding as the
/// product does.
fn forward(product: &Product, implementation: &Implementation) -> Result<[WireGuardEnd; 2]> {
    let gateway = product.gateways.first().context("there is no gateway")?;
    let left = WireGuardEnd::start(implementation, &product.client.namespace)?;
    let right = WireGuardEnd::start(implementation, &gateway.namespace)?;
    let address = |host| [format!("{}/24", INNER.host(Family::V4, host))];
    left.configure(PORT, &address(1), MTU_BYTES)?;
    right.configure(PORT, &address(2), MTU_BYTES)?;
    let endpoint = SocketAddr::new(gateway.public_address(Family::V4), PORT);
    let server = format!("{PRIVATE_OTHER_V4}/32");
    let client = format!("{}/32", INNER.host(Family::V4, 1));
    left.set_peer(&right.keys.public_key, Some(endpoint), &server, None)?;
    right.set_peer(&left.keys.public_key, None, &client, None)?;
    left.namespace
        .run(&format!("ip route add {server} dev {}", left.interface))?;
    right.namespace.shell(&format!(
        "nft 'add table ip bench; add chain ip bench post {{ type nat hook postrouting priority \
         srcnat; }}; add rule ip bench post ip saddr {client} masquerade'"
    ))?;
    reach(&product.client.namespace, PRIVATE_OTHER_V4)?;
    Ok([left, right])
}
