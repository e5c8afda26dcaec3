//! TCP throughput and round-trip times.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use culvert_lab::measure::{PingReport, TcpCounters, TcpLoad, TcpReport, start_ping};

use crate::bed::Bed;
use crate::effort::Effort;
use crate::metric::{Flows, Metric};
use crate::statistics::Samples;

/// A connection needs this long to reach its full rate; pings before that see no load yet.
const RAMP: Duration = Duration::from_millis(500);

/// A `ping` ends about when the load does, but a full queue may delay its last replies.
const PING_GRACE: Duration = Duration::from_secs(10);

/// The share of a TCP load during which pings are sent: the rest is its ramp and its end. `ping` takes
/// up to a fifth longer than asked, for it sleeps in ticks of the kernel.
const PINGED_SHARE: f64 = 0.65;

/// Measures one connection, one in reverse, and four; with them the processor time and what TCP saw
/// out of order.
pub(crate) fn throughput(
    bed: &Bed<'_>,
    effort: &Effort,
    congestion_control: &'static str,
    samples: &mut Samples,
) -> Result<()> {
    let cpu_before = bed.cpu()?;
    let counters_before = [TcpCounters::of(&bed.client)?, TcpCounters::of(&bed.server)?];
    let mut bytes = 0;
    for flows in Flows::ALL {
        let load = TcpLoad {
            connections: if flows == Flows::Four { 4 } else { 1 },
            reverse: flows == Flows::OneReverse,
            congestion_control: congestion_control.to_owned(),
            ..TcpLoad::forward(effort.tcp_s)
        };
        let report = bed.iperf.tcp(&bed.client, &load)?;
        bytes += report.received_bytes;
        samples.add(
            bed.subject,
            Metric::Tcp(flows, congestion_control),
            report.bits_per_second,
        );
    }
    if congestion_control != effort.congestion_controls[0] {
        return Ok(());
    }
    if let (Some(before), Some(after)) = (cpu_before, bed.cpu()?) {
        let per_gigabyte = (after - before).as_secs_f64() / (float(bytes) / 1e9);
        samples.add(bed.subject, Metric::CpuPerGigabyte, per_gigabyte);
    }
    let [client, server] = &counters_before;
    let client = TcpCounters::of(&bed.client)?.since(client);
    let server = TcpCounters::of(&bed.server)?.since(server);
    let reordered = client.reordering_seen_by_sender() + server.reordering_seen_by_sender();
    let out_of_order = client.out_of_order_queued() + server.out_of_order_queued();
    samples.add(bed.subject, Metric::Reordered, float(reordered));
    samples.add(bed.subject, Metric::OutOfOrder, float(out_of_order));
    Ok(())
}

/// Measures the round-trip time while nothing else passes.
pub(crate) fn idle_ping(bed: &Bed<'_>, effort: &Effort, samples: &mut Samples) -> Result<()> {
    let report = PingReport::measure(
        &bed.client,
        bed.server_address,
        Effort::PING_INTERVAL,
        effort.idle_pings,
    )?;
    samples.add(bed.subject, Metric::IdlePing, report.average_ms);
    if let Some(median_ms) = report.median_ms {
        samples.add(bed.subject, Metric::IdlePingMedian, median_ms);
    }
    Ok(())
}

/// Measures the round-trip time beside one TCP connection at full rate.
pub(crate) fn ping_under_load(bed: &Bed<'_>, effort: &Effort, samples: &mut Samples) -> Result<()> {
    let (tcp, ping) = loaded(bed, effort)?;
    samples.add(bed.subject, Metric::LoadedPing, ping.average_ms);
    if let Some(median_ms) = ping.median_ms {
        samples.add(bed.subject, Metric::LoadedPingMedian, median_ms);
    }
    samples.add(bed.subject, Metric::LoadedPingMax, ping.max_ms);
    let lost = 100.0 * f64::from(ping.sent.saturating_sub(ping.received)) / f64::from(ping.sent);
    samples.add(bed.subject, Metric::LoadedPingLost, lost);
    samples.add(bed.subject, Metric::LoadedTcp, tcp.bits_per_second);
    samples.add(
        bed.subject,
        Metric::LoadedRetransmissions,
        float(tcp.retransmissions),
    );
    Ok(())
}

/// Runs one TCP connection and pings beside it.
pub(crate) fn loaded(bed: &Bed<'_>, effort: &Effort) -> Result<(TcpReport, PingReport)> {
    let load = TcpLoad::forward(effort.load_s);
    let tcp = bed.iperf.start_tcp(&bed.client, &load)?;
    thread::sleep(RAMP);
    let duration = Duration::from_secs(effort.load_s.into()).mul_f64(PINGED_SHARE);
    let interval = Effort::PING_INTERVAL;
    let count = u32::try_from(duration.as_millis() / interval.as_millis())?;
    let ping = start_ping(&bed.client, bed.server_address, interval, count)?;
    let tcp = bed.iperf.finish_tcp(tcp, &load)?;
    Ok((tcp, PingReport::of(ping, PING_GRACE)?))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of bytes and packets are far below 2^53"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}
