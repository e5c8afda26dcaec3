//! Small writes, with batches of what is queued and without (R13).

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use culvert_lab::Namespace;
use serde_json::Value;

use super::Lab;
use super::sheet::{At, Sheet};
use crate::bed::Bed;

/// Bytes of each write; the originating document measured 128.
const WRITE_BYTES: [u32; 3] = [64, 128, 512];

/// Where the echo of the latency measurement listens.
const ECHO_PORT: u16 = 7007;

/// The time between two questions: far above a round trip, so that they do not become the load.
const ASK_EVERY: Duration = Duration::from_millis(2);

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    for round in 1..=lab.rounds() {
        for bytes in WRITE_BYTES {
            for (how, arguments) in [("on", ""), ("off", "--without batching")] {
                let row = format!("{bytes} bytes, batching {how}");
                lab.progress(round, &row);
                let result = measure(lab, sheet, &row, bytes, arguments);
                sheet.note(&row, result);
                lab.keep(sheet)?;
            }
        }
    }
    Ok(())
}

fn measure(lab: &Lab, sheet: &mut Sheet, row: &str, bytes: u32, arguments: &str) -> Result<()> {
    let subject = lab.culvert(arguments);
    let bed = Bed::new(&subject)?;
    let seconds = lab.effort().load_s;
    let before = bed.cpu()?.unwrap_or_default();
    let line = format!(
        "iperf3 -J -c {} -t {seconds} -l {bytes} -N -C cubic",
        bed.server_address
    );
    let load = bed.client.spawn(&line)?;
    let latencies = round_trips(&bed, Duration::from_secs(seconds.into()).mul_f64(0.8))?;
    let mut load = load;
    let said = load.succeed(Duration::from_secs(u64::from(seconds) + 15))?;
    let said: Value = serde_json::from_str(&said).context("iperf3 wrote no JSON")?;
    let received = said
        .pointer("/end/sum_received/bits_per_second")
        .and_then(Value::as_f64)
        .context("iperf3 tells no rate")?;
    let cpu = bed.cpu()?.unwrap_or_default() - before;
    let gigabytes = received * f64::from(seconds) / 8e9;
    let left = bed.culvert_status()?;
    let sum = |name: &str| -> f64 {
        let workers = left["workers"].as_array().into_iter().flatten();
        workers.filter_map(|worker| worker[name].as_f64()).sum()
    };
    let packets: f64 = left["workers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|worker| worker["sealed"]["packets"].as_f64())
        .sum();
    let mut add = |column, value| {
        let table = "small writes";
        sheet.add(At { table, row, column }, value);
    };
    add("TCP, Gbit/s", received / 1e9);
    add("CPU of both ends, s/GB", cpu.as_secs_f64() / gigabytes);
    add("packets a send", packets / sum("udp_sends").max(1.0));
    add(
        "frames joined, %",
        100.0 * sum("frames_joined") / sum("tun_frames_received").max(1.0),
    );
    for (column, share) in [
        ("latency p50, µs", 0.5),
        ("latency p99, µs", 0.99),
        ("latency p99.9, µs", 0.999),
    ] {
        add(column, percentile(&latencies, share).as_secs_f64() * 1e6);
    }
    Ok(())
}

/// Asks and waits for the answer, again and again for `duration`; how long each took.
fn round_trips(bed: &Bed<'_>, duration: Duration) -> Result<Vec<Duration>> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&bed.server, bed.server_address, &over));
        let asked = bed.client.inside(|| ask(bed.server_address, duration));
        over.store(true, Ordering::Relaxed);
        echo.join()
            .map_err(|_| anyhow::anyhow!("the echo panicked"))??;
        asked
    })
}

fn echo(namespace: &Namespace, address: IpAddr, over: &AtomicBool) -> Result<()> {
    namespace.inside(|| {
        let socket =
            UdpSocket::bind((address, ECHO_PORT)).context("cannot listen for questions")?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let mut buffer = [0; 64];
        while !over.load(Ordering::Relaxed) {
            if let Ok((len, from)) = socket.recv_from(&mut buffer) {
                socket.send_to(&buffer[..len], from)?;
            }
        }
        Ok(())
    })
}

fn ask(address: IpAddr, duration: Duration) -> Result<Vec<Duration>> {
    let socket = UdpSocket::bind((address_of_any(address), 0)).context("cannot ask")?;
    socket.connect(SocketAddr::new(address, ECHO_PORT))?;
    socket.set_read_timeout(Some(Duration::from_millis(500)))?;
    let end = Instant::now() + duration;
    let mut took = Vec::new();
    let mut number = 0_u64;
    while Instant::now() < end {
        number += 1;
        let asked = Instant::now();
        // Refused while the other side does not listen yet.
        if socket.send(&number.to_be_bytes()).is_err() {
            continue;
        }
        let mut answer = [0; 8];
        // An answer that comes late belongs to an earlier question.
        while socket.recv(&mut answer).is_ok() {
            if answer == number.to_be_bytes() {
                took.push(asked.elapsed());
                break;
            }
        }
        thread::sleep(ASK_EVERY);
    }
    anyhow::ensure!(!took.is_empty(), "no question was answered");
    took.sort();
    Ok(took)
}

fn address_of_any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// The value that `share` of the sorted values do not exceed.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position in a list of thousands"
)]
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let index = (sorted.len() as f64 * share) as usize;
    sorted[index.min(sorted.len() - 1)]
}
