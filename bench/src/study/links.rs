//! Links of a rate, and links with a delay and loss: what a tunnel leaves of them.

use std::time::Duration;

use anyhow::Result;
use culvert_io_models::Weather;
use culvert_lab::{LinkShape, Namespace, Subnet};

use super::lab::{Lab, Scope, in_turn};
use super::sheet::{At, Sheet};
use super::wire::Wire;
use crate::bed::Bed;
use crate::effort::Effort;
use crate::metric::Metric;
use crate::statistics::Samples;
use crate::subject::Subject;
use crate::targets;
use crate::tcp::loaded;

/// Rates in Mbit/s; `None` is as fast as the machine copies.
const RATES_MBIT: [Option<u32>; 6] = [
    Some(100),
    Some(1_000),
    Some(2_500),
    Some(5_000),
    Some(10_000),
    None,
];

/// The table's name for the last link.
const NOT_SHAPED: &str = "not shaped";

const ROUND_TRIPS_MS: [u64; 3] = [0, 10, 50];
const LOST_SHARES: [f64; 3] = [0.0, 0.001, 0.01];

/// The most that a TCP connection over delay and loss may buffer.
const TCP_BUFFER_MAX_BYTES: u32 = 128 << 20;

/// The subnet of the link underneath.
const OUTER: Subnet = Subnet(1);

/// Tables of the part.
const BY_RATE: &str = "TCP by rate of the link, Gbit/s";
const SHARE_BY_RATE: &str = "share of the bare link, %";
const PING_BY_RATE: &str = "ping under load by rate of the link, ms";
const BY_WEATHER: &str = "TCP over delay and loss, Mbit/s";
const SHARE_BY_WEATHER: &str = "share of the bare link over delay and loss, %";
const PING_BY_WEATHER: &str = "ping under load over delay and loss, ms";

/// The name of the link itself.
const DIRECT: &str = "direct";

/// Culvert without the mechanism that links of a rate are for, and without the one for links with a delay.
const NO_SEND_LIMIT: (&str, &str) = ("culvert, no send limit", "--without send-limit");
const NO_QUEUE_BOUND: (&str, &str) = ("culvert, no queue-bound", "--without queue-bound");

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet, all: &mut Samples) -> Result<()> {
    let subjects = lab.tunnels_and_link(sheet)?;
    let [no_send_limit, no_queue_bound] = [NO_SEND_LIMIT, NO_QUEUE_BOUND].map(|pair| {
        // A first impression has no time for them.
        (lab.scope() == Scope::Full).then(|| lacking(lab, pair))
    });
    let round = lab.round();
    let on_rates: Vec<_> = subjects.iter().chain(&no_send_limit).collect();
    for subject in in_turn(&on_rates, round) {
        if !lab.measures_throughput_of(subject, round) {
            continue;
        }
        lab.progress(&format!("rates: {}", subject.name));
        let result = rates(lab, sheet, subject, all);
        sheet.note(&format!("rates, {}", subject.name), result);
        lab.keep(sheet)?;
    }
    shares(sheet, BY_RATE, SHARE_BY_RATE);
    let in_weather: Vec<_> = subjects.iter().chain(&no_queue_bound).collect();
    for subject in in_turn(&in_weather, round) {
        if lab.crosses_weather(subject, round) {
            all_weathers(lab, sheet, subject)?;
        }
    }
    shares(sheet, BY_WEATHER, SHARE_BY_WEATHER);
    Ok(())
}

/// Culvert without one mechanism.
fn lacking(lab: &Lab, (name, arguments): (&'static str, &str)) -> Subject {
    Subject {
        name,
        ..lab.culvert(arguments)
    }
}

/// Says what was reached in all rounds.
pub(crate) fn judge(sheet: &mut Sheet, all: &Samples) {
    for verdict in targets::judge(all) {
        sheet.add_verdict(&verdict);
    }
}

/// The share of the bare link's rate that each tunnel reaches; rounds of the bare link hardly
/// differ.
fn shares(sheet: &mut Sheet, table: &str, shares: &str) {
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let (rows, columns) = (owned(sheet.rows(table)), owned(sheet.columns(table)));
    sheet.clear(shares);
    for row in rows.iter().filter(|row| *row != NOT_SHAPED) {
        let column = DIRECT;
        let Some(link) = sheet.median(At { table, row, column }) else {
            continue;
        };
        for column in columns.iter().filter(|column| *column != DIRECT) {
            for tunnel in sheet.samples(At { table, row, column }).to_vec() {
                let at = At {
                    table: shares,
                    row,
                    column,
                };
                sheet.add(at, 100.0 * tunnel / link);
            }
        }
    }
}

fn rates(lab: &Lab, sheet: &mut Sheet, subject: &Subject, all: &mut Samples) -> Result<()> {
    let bed = Bed::new(subject)?;
    for rate_mbit in RATES_MBIT {
        let row = rate_mbit.map_or(NOT_SHAPED.to_owned(), |rate| match rate {
            0..1_000 => format!("{rate} Mbit/s"),
            _ => format!("{} Gbit/s", f64::from(rate) / 1e3),
        });
        if rate_mbit.is_none() {
            bed.link.unshape()?;
        }
        bed.link.shape(LinkShape {
            rate_mbit,
            mtu_bytes: None,
        })?;
        let (tcp, ping) = loaded(&bed, &lab.effort())?;
        let at = |table| At {
            table,
            row: &row,
            column: subject.name,
        };
        sheet.add(at(BY_RATE), tcp.bits_per_second / 1e9);
        sheet.add(at(PING_BY_RATE), ping.average_ms);
        if let Some(gbit) = rate_mbit
            .filter(|rate| rate % 1_000 == 0 && subject.name != NO_SEND_LIMIT.0)
            .map(|rate| rate / 1_000)
        {
            all.add(subject, Metric::LinkTcp { gbit }, tcp.bits_per_second);
            all.add(subject, Metric::LinkPing { gbit }, ping.average_ms);
        }
    }
    Ok(())
}

fn all_weathers(lab: &Lab, sheet: &mut Sheet, subject: &Subject) -> Result<()> {
    // The highest rate of the wire itself with loss, at which packets are single.
    let still = Weather {
        round_trip: Duration::ZERO,
        lost_share: 0.0,
    };
    let mut rows = vec![("0 ms, 0 % lost, single packets".to_owned(), still, false)];
    for round_trip_ms in ROUND_TRIPS_MS {
        for lost_share in LOST_SHARES {
            let weather = Weather {
                round_trip: Duration::from_millis(round_trip_ms),
                lost_share,
            };
            let row = format!("{round_trip_ms} ms, {} % lost", 100.0 * lost_share);
            rows.push((row, weather, lost_share == 0.0));
        }
    }
    // If packets are lost, queues are short.
    rows.retain(|(_, _, offload)| *offload || subject.name != NO_QUEUE_BOUND.0);
    for (row, weather, offload) in rows {
        lab.progress(&format!("{row}: {}", subject.name));
        let result = through(lab, sheet, subject, (weather, offload), &row);
        sheet.note(&format!("{row}, {}", subject.name), result);
        lab.keep(sheet)?;
    }
    Ok(())
}

fn through(
    lab: &Lab,
    sheet: &mut Sheet,
    subject: &Subject,
    (weather, offload): (Weather, bool),
    row: &str,
) -> Result<()> {
    let (client, server) = (Namespace::new()?, Namespace::new()?);
    for namespace in [&client, &server] {
        // 10 Gbit/s for 50 ms is 62 MB: the kernel's 4 MiB of send buffer would be what is measured.
        namespace.shell(&format!(
            "sysctl -qw net.ipv4.tcp_rmem='4096 131072 {TCP_BUFFER_MAX_BYTES}' \
             net.ipv4.tcp_wmem='4096 16384 {TCP_BUFFER_MAX_BYTES}'"
        ))?;
    }
    // In a round all lose the same of what they send, in the next one something else.
    let wire = Wire::between(&client, &server, OUTER, weather, offload, lab.round())?;
    let bed = Bed::over(subject, wire.link.clone())?;
    let effort = Effort {
        // Slow start over 50 ms takes a second to get anywhere.
        load_s: match lab.scope() {
            Scope::Quick => 2,
            Scope::Full => 6,
        },
        ..lab.effort()
    };
    let (tcp, ping) = loaded(&bed, &effort)?;
    let at = |table| At {
        table,
        row,
        column: subject.name,
    };
    sheet.add(at(BY_WEATHER), tcp.bits_per_second / 1e6);
    sheet.add(at(PING_BY_WEATHER), ping.average_ms);
    Ok(())
}
