//! How many workers are best, and what more cores would bring (R11).

use anyhow::Result;
use culvert_lab::measure::{TcpCounters, TcpLoad, busy_of_machine};

use super::counted::gigabytes;
use super::sheet::{At, Sheet};
use super::{Lab, Scope};
use crate::bed::Bed;
use crate::tcp::float;

const WORKERS: [u32; 4] = [1, 2, 3, 4];
const FLOWS: [u8; 5] = [1, 2, 4, 8, 16];

/// For a first impression: one flow, a few, many.
const FLOWS_QUICK: [u8; 3] = [1, 4, 16];

/// Cores of machines that the model speaks of.
const CORES: [u32; 4] = [2, 4, 8, 16];

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let flows = match lab.scope() {
        Scope::Quick => &FLOWS_QUICK[..],
        Scope::Full => &FLOWS[..],
    };
    for round in 1..=lab.rounds() {
        for workers in WORKERS {
            let what = counted(workers, "worker");
            lab.progress(round, &what);
            let result = measure(lab, sheet, workers, flows);
            sheet.note(&what, result);
            lab.keep(sheet)?;
        }
    }
    predict(sheet);
    Ok(())
}

fn measure(lab: &Lab, sheet: &mut Sheet, workers: u32, flows: &[u8]) -> Result<()> {
    let subject = lab.culvert(&format!("--workers {workers}"));
    let bed = Bed::new(&subject)?;
    // What a veth reorders is not the tunnel's doing.
    bed.link.keep_order()?;
    let row = counted(workers, "worker");
    let counters = TcpCounters::of(&bed.server)?;
    for &connections in flows {
        let load = TcpLoad {
            connections,
            ..TcpLoad::forward(lab.effort().tcp_s)
        };
        let (ends, all) = (bed.cpu()?.unwrap_or_default(), busy_of_machine()?);
        let tcp = bed.iperf.tcp(&bed.client, &load)?;
        let ends = (bed.cpu()?.unwrap_or_default() - ends).as_secs_f64();
        let all = (busy_of_machine()? - all).as_secs_f64();
        let bytes = gigabytes(tcp.received_bytes);
        let column = counted(connections.into(), "flow");
        let mut add = |table, value| {
            sheet.add(
                At {
                    table,
                    row: &row,
                    column: &column,
                },
                value,
            );
        };
        add("TCP by workers, Gbit/s", tcp.bits_per_second / 1e9);
        add("CPU of both ends by workers, s/GB", ends / bytes);
        add("CPU of the machine by workers, s/GB", all / bytes);
        add(
            "segments sent again by workers, a GB",
            float(tcp.retransmissions) / bytes,
        );
    }
    let reordered = TcpCounters::of(&bed.server)?.since(&counters);
    let at = At {
        table: "reordering by workers",
        row: &row,
        column: "out of order",
    };
    sheet.add(at, float(reordered.out_of_order_queued()));
    Ok(())
}

/// A number with its word.
fn counted(number: u32, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// A model of two limits: all of it needs `machine` seconds of processor time a gigabyte, which the
/// cores share; and one worker of an end needs half of `ends`, which is one thread's time.
///
/// It is held against what was measured with two cores; beyond that it says what would be, if memory
/// and locks did not stand in the way.
fn predict(sheet: &mut Sheet) {
    let mut predicted = Vec::new();
    for workers in WORKERS {
        let row = counted(workers, "worker");
        let cost = |table| {
            sheet.median(At {
                table,
                row: &row,
                column: "16 flows",
            })
        };
        let (Some(ends), Some(machine), Some(measured)) = (
            cost("CPU of both ends by workers, s/GB"),
            cost("CPU of the machine by workers, s/GB"),
            cost("TCP by workers, Gbit/s"),
        ) else {
            continue;
        };
        predicted.push((row.clone(), "measured on 2".to_owned(), measured));
        for cores in CORES {
            let by_cores = f64::from(cores) / machine;
            let by_workers = 2.0 * f64::from(workers) / ends;
            let gbit_per_s = 8.0 * by_cores.min(by_workers);
            predicted.push((row.clone(), format!("model, {cores} cores"), gbit_per_s));
        }
    }
    for (row, column, value) in predicted {
        let table = "more cores, Gbit/s";
        sheet.add(
            At {
                table,
                row: &row,
                column: &column,
            },
            value,
        );
    }
}
