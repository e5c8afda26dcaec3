//! One client's port scan beside another client's connections and pings, at one gateway: the whole product in namespaces.
//!
//! All of it shares this machine's processors. So the scan is compared with a stream of as many packets in one flow: the
//! difference is what new flows cost others.

mod connections;
mod syns;

use super::pings::{Pings, RoundTrips};
use anyhow::{Context, Result, ensure};
use clap::Args;
use connections::{ConnectionTimes, Connections, Echo};
use culvert_lab::Namespace;
use culvert_lab::product::{PRIVATE_V4, Product};
use culvert_lab::wait_until;
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;
use syns::{FIRST_HOST, Pattern, Syns};

/// The port of the server that the other client talks to.
const PORT: u16 = 7_777;

/// Beside a scan, 99 % of connections and of pings take at most so many times as long as beside a stream of as many
/// packets, or not longer than this.
const MOST_TIMES: f64 = 2.0;
const ALWAYS_GOOD_MS: f64 = 10.0;

/// The limit for the first access.
const SOON: Duration = Duration::from_secs(20);

/// Everybody may use the whole private network.
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
name = "network"
site = "lab"
kind = "cidr"
address = "10.50.0.0/24"
allow = "any"

[[policy]]
name = "staff-network"
group = "staff"
resource = "network"
"#;

/// A port scan of one client beside another client's connections and pings.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Packets a second of the scan.
    #[arg(long, default_value_t = 100_000)]
    packets_per_s: u64,
    /// Seconds of each part.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Fail if a target is missed.
    #[arg(long)]
    check: bool,
}

/// One part.
struct Part {
    connections: ConnectionTimes,
    pings: RoundTrips,
    /// Packets a second that were sent, and that arrived behind the gateway.
    sent_per_s: f64,
    arrived_per_s: f64,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut product = Product::networks(1)?;
    product.begin(ACCESS)?;
    let mut scanner = product.other_client()?;
    scanner.name = "scanner".to_owned();
    product
        .portal
        .token("client --actor laptop", &scanner.token_file())?;
    scanner.start()?;
    let target: IpAddr = PRIVATE_V4.parse()?;
    for client in [&product.client.namespace, &scanner.namespace] {
        let line = format!("ping -c 1 -W 0.5 {target}");
        wait_until(&format!("an answer to {line}"), SOON, || {
            client.run(&line).is_ok()
        })?;
    }
    let echo = Echo::start(&product.private, SocketAddr::new(target, PORT))?;
    let mut syns = Syns::new(&scanner.namespace)?;
    let mut measure = |pattern: Option<Pattern>| -> Result<Part> {
        let part = measure(&product, &mut syns, &echo, pattern, arguments)?;
        let name = match pattern {
            None => "nothing",
            Some(Pattern::Stream) => "a stream",
            Some(Pattern::Scan) => "a port scan",
        };
        part.print(name)?;
        Ok(part)
    };
    measure(None)?;
    let stream = measure(Some(Pattern::Stream))?;
    let scan = measure(Some(Pattern::Scan))?;
    writeln!(std::io::stdout(), "{}", tables(&product)?)?;
    let missed = judge(&stream, &scan);
    for line in &missed {
        writeln!(std::io::stdout(), "missed: {line}")?;
    }
    ensure!(!arguments.check || missed.is_empty(), "a target is missed");
    Ok(())
}

fn measure(
    product: &Product,
    syns: &mut Syns,
    echo: &Echo,
    pattern: Option<Pattern>,
    arguments: &Arguments,
) -> Result<Part> {
    let span = Duration::from_secs(arguments.seconds);
    let client = &product.client.namespace;
    let before = arrived(&product.private)?;
    let connections = Connections::start(client, echo.address);
    let pings = Pings::start(client, echo.address.ip())?;
    let sent = match pattern {
        None => {
            thread::sleep(span);
            0
        }
        Some(pattern) => syns.send(pattern, arguments.packets_per_s, span)?,
    };
    let connections = connections.stop()?;
    let after = arrived(&product.private)?;
    let per_s = |count: u64| count as f64 / span.as_secs_f64();
    Ok(Part {
        connections,
        pings: pings.stop()?,
        sent_per_s: per_s(sent),
        arrived_per_s: per_s(after.saturating_sub(before)),
    })
}

/// Packets that came to the private network so far.
fn arrived(private: &Namespace) -> Result<u64> {
    let table = private.run("cat /proc/net/dev")?;
    let mut count = 0;
    for line in table.lines().filter(|line| line.trim().starts_with("veth")) {
        let (_, fields) = line
            .split_once(':')
            .context("unknown form of /proc/net/dev")?;
        let packets = fields.split_whitespace().nth(1).context("no packets")?;
        count += packets.parse::<u64>()?;
    }
    Ok(count)
}

/// Entries of the gateway's tables that made room for others, and the kernel's beside them.
fn tables(product: &Product) -> Result<String> {
    let gateway = product.gateways.first().context("there is no gateway")?;
    let status = gateway.status()?;
    let counters = status["counters"].as_array().context("no counters")?;
    let counter = |name: &str| {
        let mut found = counters.iter().filter(|counter| counter["name"] == name);
        found.next().and_then(|counter| counter["count"].as_u64())
    };
    let tracked = gateway
        .namespace
        .run("cat /proc/sys/net/netfilter/nf_conntrack_count")?;
    Ok(format!(
        "flows at the gateway: {} known, {} made room for others of the same client, {} for others' ones; {} tracked by its kernel",
        status["load"]["flows"],
        counter("flows_evicted_by_own_client").context("no counter")?,
        counter("flows_evicted_when_full").context("no counter")?,
        tracked.trim()
    ))
}

impl Part {
    fn print(&self, name: &str) -> Result<()> {
        Ok(writeln!(
            std::io::stdout(),
            "beside {name:<11} ({:.0} packets/s sent, {:.0} arrived): {}; {}",
            self.sent_per_s,
            self.arrived_per_s,
            self.connections,
            self.pings
        )?)
    }
}

fn judge(stream: &Part, scan: &Part) -> Vec<String> {
    let mut missed = Vec::new();
    if scan.connections.failed > 0 || scan.pings.lost > 0 {
        missed.push(format!(
            "{} connections failed and {} pings were lost beside a scan of {FIRST_HOST} and others",
            scan.connections.failed, scan.pings.lost
        ));
    }
    let pairs = [
        (
            "connections",
            stream.connections.p99_ms,
            scan.connections.p99_ms,
        ),
        ("pings", stream.pings.p99_ms, scan.pings.p99_ms),
    ];
    for (what, beside_stream, beside_scan) in pairs {
        if beside_scan > ALWAYS_GOOD_MS && beside_scan > MOST_TIMES * beside_stream {
            missed.push(format!(
                "99 % of {what} take {beside_scan:.1} ms beside a scan, and {beside_stream:.1} ms beside a stream"
            ));
        }
    }
    missed
}
