//! Links of a rate, and links with a delay and loss: what a tunnel leaves of them.

use std::time::Duration;

use anyhow::Result;
use culvert_io_models::Weather;
use culvert_lab::measure::TcpLoad;
use culvert_lab::{LinkShape, Namespace, Subnet};

use super::sheet::{At, Sheet};
use super::wire::Wire;
use super::{Lab, Scope};
use crate::bed::Bed;
use crate::subject::Subject;
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

/// How the table calls the last.
const NOT_SHAPED: &str = "not shaped";

const ROUND_TRIPS_MS: [u64; 3] = [0, 10, 50];
const LOST_SHARES: [f64; 3] = [0.0, 0.001, 0.01];

/// The subnet of the link underneath.
const OUTER: Subnet = Subnet(1);

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let subjects = lab.tunnels_and_link();
    for round in 1..=lab.rounds() {
        for subject in subjects
            .iter()
            .filter(|subject| lab.takes_part(subject, round))
        {
            lab.progress(round, &format!("rates: {}", subject.name));
            let result = rates(lab, sheet, subject);
            sheet.note(&format!("rates, {}", subject.name), result);
            lab.keep(sheet)?;
        }
        share_of_the_link(sheet);
        for subject in subjects
            .iter()
            .filter(|subject| lab.crosses_weather(subject, round))
        {
            for round_trip_ms in ROUND_TRIPS_MS {
                for lost_share in LOST_SHARES {
                    let weather = Weather {
                        round_trip: Duration::from_millis(round_trip_ms),
                        lost_share,
                    };
                    let row = format!("{round_trip_ms} ms, {} % lost", 100.0 * lost_share);
                    lab.progress(round, &format!("{row}: {}", subject.name));
                    let result = through(lab, sheet, subject, weather, &row);
                    sheet.note(&format!("{row}, {}", subject.name), result);
                    lab.keep(sheet)?;
                }
            }
        }
    }
    Ok(())
}

/// What each tunnel leaves of a shaped link, by the medians so far.
fn share_of_the_link(sheet: &mut Sheet) {
    let table = "TCP by rate of the link, Gbit/s";
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let (rows, columns) = (owned(sheet.rows(table)), owned(sheet.columns(table)));
    let shares: Vec<_> = rows
        .iter()
        .filter(|row| *row != NOT_SHAPED)
        .flat_map(|row| columns.iter().map(move |column| (row, column)))
        .filter(|(_, column)| *column != "direct")
        .filter_map(|(row, column)| {
            let median = |column| sheet.median(At { table, row, column });
            Some((row, column, 100.0 * median(column)? / median("direct")?))
        })
        .collect();
    let table = "share of the bare link, %";
    sheet.clear(table);
    for (row, column, share) in shares {
        sheet.add(At { table, row, column }, share);
    }
}

fn rates(lab: &Lab, sheet: &mut Sheet, subject: &Subject) -> Result<()> {
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
        sheet.add(
            at("TCP by rate of the link, Gbit/s"),
            tcp.bits_per_second / 1e9,
        );
        sheet.add(
            at("ping under load by rate of the link, ms"),
            ping.average_ms,
        );
    }
    Ok(())
}

fn through(
    lab: &Lab,
    sheet: &mut Sheet,
    subject: &Subject,
    weather: Weather,
    row: &str,
) -> Result<()> {
    let (client, server) = (Namespace::new()?, Namespace::new()?);
    let wire = Wire::between(&client, &server, OUTER, weather)?;
    let bed = Bed::over(subject, wire.link.clone())?;
    // Slow start over 50 ms takes a second to get anywhere.
    let seconds = match lab.scope() {
        Scope::Quick => 2,
        Scope::Full => 5,
    };
    let tcp = bed.iperf.tcp(&bed.client, &TcpLoad::forward(seconds))?;
    let at = At {
        table: "TCP over delay and loss, Mbit/s",
        row,
        column: subject.name,
    };
    sheet.add(at, tcp.bits_per_second / 1e6);
    Ok(())
}
