//! Paths that lose long packets and say nothing of it: how soon data pass, and how fast from then on.
//!
//! Routers drop what exceeds the path's MTU without ICMP, and fragments are lost. Each path is one that the ends have not met
//! before: programs, namespaces and links are new. The first transfer begins when small packets pass already.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use culvert_lab::product::{PRIVATE_V4, PRIVATE_V6, Product};
use culvert_lab::{
    Family, Implementation, Namespace, RoutedTunnel, Transfer, TunnelPlan, narrow_in_silence,
    wait_until,
};

/// The longest that the first data may take.
const TARGET: Duration = Duration::from_secs(3);

/// The MTU of a path that nothing is wrong with.
const WIDE_MTU_BYTES: u16 = 1500;

/// The first data: more than a connection's first flight, so that full packets are among them.
const FIRST_BYTES: u64 = 64 << 10;

/// The port that files are sent to.
const FILE_PORT: u16 = 9001;

/// The time limit for the first packet of a path on a machine that does something else too.
const SOON: Duration = Duration::from_secs(20);

/// Times of the first data, and rates after them, on paths that lose long packets in silence.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Lengths of the paths in bytes.
    #[arg(long, value_delimiter = ',', default_values_t = [1480, 1460, 1420, 1400, 1350, 1300, 1280])]
    mtu: Vec<u16>,
    /// Size of the file that the rate is measured with, in MiB.
    #[arg(long, default_value_t = 256)]
    size_mib: u64,
}

/// Figures of one direction and one family.
#[derive(Clone, Copy, Debug)]
struct Measured {
    first: Duration,
    rate_bytes_per_s: f64,
}

/// Two places that a file goes between.
struct Way<'a> {
    name: &'static str,
    from: &'a Namespace,
    to: &'a Namespace,
    target: IpAddr,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut slowest = Duration::ZERO;
    for outer in [Family::V4, Family::V6] {
        let title = format!("culvert wg, datagrams of {outer:?}");
        slowest = slowest.max(table(&title, arguments, |mtu_bytes| {
            by_wireguard(outer, mtu_bytes, arguments)
        })?);
    }
    let title = "client and gateway";
    slowest = slowest.max(table(title, arguments, |mtu_bytes| {
        by_gateway(mtu_bytes, arguments)
    })?);
    ensure!(
        slowest <= TARGET,
        "the first data took {} ms: more than {} s",
        slowest.as_millis(),
        TARGET.as_secs()
    );
    Ok(())
}

/// Prints a line for each path, beside one that is wide, and returns the longest wait for first data.
fn table(
    title: &str,
    arguments: &Arguments,
    measure: impl Fn(u16) -> Result<Vec<(&'static str, Measured)>>,
) -> Result<Duration> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{title}")?;
    let wide = measure(WIDE_MTU_BYTES)?;
    let mut longest = Duration::ZERO;
    for (name, measured) in &wide {
        line(&mut out, WIDE_MTU_BYTES, name, *measured, *measured)?;
    }
    for &mtu_bytes in &arguments.mtu {
        for ((name, measured), (_, wide)) in measure(mtu_bytes)?.into_iter().zip(&wide) {
            longest = longest.max(measured.first);
            line(&mut out, mtu_bytes, name, measured, *wide)?;
        }
    }
    Ok(longest)
}

fn line(
    out: &mut impl Write,
    mtu_bytes: u16,
    name: &str,
    measured: Measured,
    wide: Measured,
) -> Result<()> {
    writeln!(
        out,
        "  path of {mtu_bytes} bytes, {name}: first data after {:>5} ms, then {:.2} of the rate of a wide path",
        measured.first.as_millis(),
        measured.rate_bytes_per_s / wide.rate_bytes_per_s,
    )?;
    Ok(())
}

/// One path between two `culvert wg`: up and down, by each family inside.
fn by_wireguard(
    outer: Family,
    mtu_bytes: u16,
    arguments: &Arguments,
) -> Result<Vec<(&'static str, Measured)>> {
    let culvert = Implementation::culvert();
    let routed = RoutedTunnel::build(&TunnelPlan::between(&culvert, &culvert), outer)?;
    if mtu_bytes < WIDE_MTU_BYTES {
        routed.narrow_in_silence(mtu_bytes)?;
    }
    let tunnel = &routed.tunnel;
    let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
    let way = |name, from, to, target| Way {
        name,
        from,
        to,
        target,
    };
    let ways = [
        way("IPv4, there", left, right, tunnel.right_address(Family::V4)),
        way("IPv4, back", right, left, tunnel.left_address(Family::V4)),
        way("IPv6, there", left, right, tunnel.right_address(Family::V6)),
        way("IPv6, back", right, left, tunnel.left_address(Family::V6)),
    ];
    measure(&ways, arguments)
}

/// One path between a client and its gateway, to a server behind that.
fn by_gateway(mtu_bytes: u16, arguments: &Arguments) -> Result<Vec<(&'static str, Measured)>> {
    let product = Product::start(1, crate::gateway::ACCESS)?;
    let client = &product.client.namespace;
    for target in [PRIVATE_V4, PRIVATE_V6] {
        let ping = format!("ping -c 1 -W 0.5 {target}");
        wait_until("an answer of the server", SOON, || {
            client.run(&ping).is_ok()
        })?;
    }
    if mtu_bytes < WIDE_MTU_BYTES {
        let ends = [client, &product.gateways[0].namespace];
        narrow_in_silence(&product.internet, ends, mtu_bytes)?;
    }
    let way = |name, target: &str| -> Result<Way<'_>> {
        Ok(Way {
            name,
            from: client,
            to: &product.private,
            target: target.parse()?,
        })
    };
    let ways = [way("IPv4", PRIVATE_V4)?, way("IPv6", PRIVATE_V6)?];
    measure(&ways, arguments)
}

fn measure(ways: &[Way<'_>], arguments: &Arguments) -> Result<Vec<(&'static str, Measured)>> {
    let size_bytes = arguments.size_mib << 20;
    let each = ways.iter().map(|way| {
        let target = SocketAddr::new(way.target, FILE_PORT);
        let send = |size_bytes| Transfer::run(way.from, way.to, target, size_bytes);
        let first = send(FIRST_BYTES)?.elapsed;
        let bulk = send(size_bytes)?.elapsed;
        let rate_bytes_per_s = size_bytes as f64 / bulk.as_secs_f64();
        Ok((
            way.name,
            Measured {
                first,
                rate_bytes_per_s,
            },
        ))
    });
    each.collect()
}
