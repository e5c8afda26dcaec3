//! Small writes, with batches of what is queued and without (R13).

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use culvert_lab::Namespace;
use serde_json::Value;

use super::lab::{Lab, Scope, in_turn};
use super::sheet::{At, Sheet};
use crate::bed::Bed;

/// Bytes of each write; the originating document measured 128.
const WRITE_BYTES: [u32; 3] = [64, 128, 512];

/// The port of the echo server that measures latency.
const ECHO_PORT: u16 = 7007;

/// The time between two questions: seldom enough that they do not become the load.
const ASK_EVERY: Duration = Duration::from_millis(2);

/// An answer that takes longer counts as none.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let round = lab.round();
    for bytes in in_turn(&WRITE_BYTES, round) {
        for (how, arguments) in in_turn(&[("on", ""), ("off", "--without batching")], round) {
            let row = format!("{bytes} bytes, batching {how}");
            lab.progress(&row);
            let result = measure(lab, sheet, &row, bytes, arguments);
            sheet.note(&row, result);
            lab.keep(sheet)?;
        }
    }
    Ok(())
}

fn measure(lab: &Lab, sheet: &mut Sheet, row: &str, bytes: u32, arguments: &str) -> Result<()> {
    let subject = lab.culvert(arguments);
    let bed = Bed::new(&subject)?;
    // Ten seconds of questions: five lie above the highest percentile.
    let seconds = match lab.scope() {
        Scope::Quick => lab.effort().load_s,
        Scope::Full => 13,
    };
    let before = bed.cpu()?.unwrap_or_default();
    let line = format!(
        "iperf3 -J -c {} -t {seconds} -l {bytes} -N -C cubic",
        bed.server_address
    );
    let load = bed.client.spawn(&line)?;
    let (latencies, unanswered) =
        round_trips(&bed, Duration::from_secs(seconds.into()).mul_f64(0.8))?;
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
    add("questions without an answer", unanswered as f64);
    Ok(())
}

/// Asks every [`ASK_EVERY`] for `duration`, whether answers have come or not; how long each answer took, and how
/// many questions had none.
///
/// A question counts from when it was due: one that waits for the one before it would make the slow ones rare.
fn round_trips(bed: &Bed<'_>, duration: Duration) -> Result<(Vec<Duration>, usize)> {
    let over = AtomicBool::new(false);
    let socket = bed.client.inside(|| {
        let socket = UdpSocket::bind((address_of_any(bed.server_address), 0))?;
        socket.connect(SocketAddr::new(bed.server_address, ECHO_PORT))?;
        socket.set_read_timeout(Some(ANSWER_WITHIN))?;
        Ok(socket)
    });
    let socket = socket.context("cannot ask")?;
    let began = Instant::now();
    thread::scope(|scope| {
        let echo = scope.spawn(|| echo(&bed.server, bed.server_address, &over));
        let answers = scope.spawn(|| answers(&socket, began));
        let asked = ask(&socket, began, duration);
        let mut took = answers
            .join()
            .map_err(|_| anyhow::anyhow!("waiting for answers panicked"))?;
        over.store(true, Ordering::Relaxed);
        echo.join()
            .map_err(|_| anyhow::anyhow!("the echo panicked"))??;
        anyhow::ensure!(!took.is_empty(), "no question was answered");
        took.sort();
        let unanswered = asked.saturating_sub(took.len());
        Ok((took, unanswered))
    })
}

/// Sends the questions; how many.
fn ask(socket: &UdpSocket, began: Instant, duration: Duration) -> usize {
    let count = (duration.as_nanos() / ASK_EVERY.as_nanos()) as u32;
    for number in 0..count {
        let due = began + ASK_EVERY * number;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        // Refused while the other side does not listen yet: a question without an answer.
        let _refused = socket.send(&number.to_be_bytes());
    }
    count as usize
}

/// Takes answers until none has come for [`ANSWER_WITHIN`].
fn answers(socket: &UdpSocket, began: Instant) -> Vec<Duration> {
    let mut took = Vec::new();
    let mut answer = [0; 4];
    loop {
        match socket.recv(&mut answer) {
            Ok(_) => {
                let due = began + ASK_EVERY * u32::from_be_bytes(answer);
                took.push(due.elapsed());
            }
            // Nobody listens yet.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_) => return took,
        }
    }
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
