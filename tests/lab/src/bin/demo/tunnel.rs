//! The data plane alone: `culvert wg`.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use culvert_lab::measure::{IperfServer, PingReport, TcpLoad};
use culvert_lab::{Family, Implementation, Transfer, Tunnel, TunnelPlan};

/// Large enough to take a moment, small enough for any machine's disk.
const FILE_BYTES: u64 = 256 << 20;

/// The length of each measurement.
const MEASURED_S: u32 = 5;

/// The port on which the file is received.
const FILE_PORT: u16 = 9000;

/// Shows two machines with a tunnel between them.
pub(crate) fn demonstrate() -> Result<()> {
    println!("\n== The data plane alone: a userspace WireGuard\n");
    println!("Two network namespaces stand for two machines; one cable joins them.");
    let culvert = Implementation::culvert();
    let tunnel = TunnelPlan::between(&culvert, &culvert).build()?;
    println!(
        "Each runs `culvert wg`, configured with the ordinary `wg` tool.\n\
         Left is {} inside the tunnel, right is {}.",
        tunnel.left_address(Family::V4),
        tunnel.right_address(Family::V4)
    );

    let start = Instant::now();
    tunnel.wait_until_up()?;
    println!(
        "\nThe first packet started the handshake, and the answer came after {} ms.",
        start.elapsed().as_millis()
    );
    for family in [Family::V4, Family::V6] {
        let address = tunnel.right_address(family);
        let interval = Duration::from_millis(20);
        let ping = PingReport::measure(&tunnel.left.namespace, address, interval, 20)?;
        let PingReport {
            sent,
            received,
            average_ms,
            ..
        } = ping;
        println!("ping {address}: {received} of {sent} answered, {average_ms:.2} ms on average");
    }

    send_file(&tunnel)?;
    measure(&tunnel)?;

    println!("\nWhat `wg show` says on the left, as of any WireGuard:\n");
    let shown = tunnel
        .left
        .namespace
        .run(&format!("wg show {}", tunnel.left.interface))?;
    for line in shown.lines() {
        println!("    {line}");
    }
    Ok(())
}

/// Sends a file of random bytes through the tunnel and compares the checksums.
fn send_file(tunnel: &Tunnel) -> Result<()> {
    let target = (tunnel.right_address(Family::V6), FILE_PORT).into();
    let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
    let transfer = Transfer::run(left, right, target, FILE_BYTES)?;
    println!(
        "\nA file of {} MiB went through the tunnel, over IPv6, in {:.1} s. Its SHA-256 is the same \
         on both sides:\n    {}",
        FILE_BYTES >> 20,
        transfer.elapsed.as_secs_f64(),
        transfer.sha256
    );
    Ok(())
}

/// Measures both ways through the tunnel, and the bare link for comparison.
fn measure(tunnel: &Tunnel) -> Result<()> {
    println!("\nAs much as possible for {MEASURED_S} s each, one TCP connection:");
    let through = measure_at(tunnel, tunnel.right_address(Family::V4))?;
    let beside = measure_at(tunnel, tunnel.link.subnet.host(Family::V4, 2))?;
    println!("                      left to right      right to left");
    for (name, [forward, reverse]) in [("through the tunnel", through), ("the bare link", beside)] {
        println!("    {name:18}{forward:8.2} Gbit/s    {reverse:8.2} Gbit/s");
    }
    println!(
        "Both ends, both iperf3 and the link share the processors of this one machine, and the bare\n\
         link only copies memory: on a real network the tunnel is rarely what limits."
    );
    Ok(())
}

/// Gbit/s to `address` on the right and back.
fn measure_at(tunnel: &Tunnel, address: IpAddr) -> Result<[f64; 2]> {
    let server = IperfServer::start(&tunnel.right.namespace, address)?;
    let gbit = |reverse| -> Result<f64> {
        let load = TcpLoad {
            reverse,
            ..TcpLoad::forward(MEASURED_S)
        };
        Ok(server.tcp(&tunnel.left.namespace, &load)?.bits_per_second / 1e9)
    };
    Ok([gbit(false)?, gbit(true)?])
}
