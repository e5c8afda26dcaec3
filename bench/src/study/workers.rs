//! The best number of workers, and the gain from more cores (R11).

use anyhow::Result;
use culvert_lab::measure::{TcpCounters, TcpLoad, busy_of_machine};

use super::counted::gigabytes;
use super::lab::{Lab, Scope, in_turn};
use super::sheet::{At, Sheet};
use crate::bed::Bed;
use crate::tcp::float;

const WORKERS: [u32; 4] = [1, 2, 3, 4];
const FLOWS: [u8; 5] = [1, 2, 4, 8, 16];

/// The number of flows with which other machines are thought of.
const MOST_FLOWS: u8 = 16;

const THROUGHPUT: &str = "TCP by workers, Gbit/s";
const ENDS_CPU: &str = "CPU of both ends by workers, s/GB";
const MACHINE_CPU: &str = "CPU of the machine by workers, s/GB";
const MODEL_ERROR: &str = "model against measured, %";
const MORE_CORES: &str = "more cores, Gbit/s";
const DEFAULT: &str = "default against best";

/// For a first impression: one flow, a few, many.
const FLOWS_QUICK: [u8; 3] = [1, 4, 16];

/// Cores of machines that the model speaks of.
const CORES: [u32; 4] = [2, 4, 8, 16];

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let flows = flows(lab);
    let round = lab.round();
    for workers in in_turn(&WORKERS, round) {
        let what = counted(workers, "worker");
        lab.progress(&what);
        let result = measure(lab, sheet, workers, flows);
        sheet.note(&what, result);
        lab.keep(sheet)?;
    }
    Ok(())
}

fn flows(lab: &Lab) -> &'static [u8] {
    match lab.scope() {
        Scope::Quick => &FLOWS_QUICK,
        Scope::Full => &FLOWS,
    }
}

/// Says what all rounds tell of the default, and of machines with more cores.
pub(crate) fn conclude(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let flows = flows(lab);
    let cores = sheet.machine.cores;
    let default = u32::try_from(culvert_engine::default_workers(cores))?;
    justify(sheet, flows, default);
    predict(sheet, flows, u32::try_from(cores)?);
    Ok(())
}

fn measure(lab: &Lab, sheet: &mut Sheet, workers: u32, flows: &[u8]) -> Result<()> {
    let subject = lab.culvert(&format!("--workers {workers}"));
    let bed = Bed::new(&subject)?;
    // Reordering by a veth is no fault of the tunnel.
    bed.link.keep_order()?;
    let row = counted(workers, "worker");
    let counters = TcpCounters::of(&bed.client)?;
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
        add(THROUGHPUT, tcp.bits_per_second / 1e9);
        add(ENDS_CPU, ends / bytes);
        add(MACHINE_CPU, all / bytes);
        add(
            "segments sent again by workers, a GB",
            float(tcp.retransmissions) / bytes,
        );
    }
    let counters = TcpCounters::of(&bed.client)?.since(&counters);
    let at = At {
        table: "reordering by workers",
        row: &row,
        column: "segments that the sender took for reordered",
    };
    sheet.add(at, float(counters.reordering_seen_by_sender()));
    Ok(())
}

/// A number with its word.
fn counted(number: u32, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

/// The numbers of workers that the model knows the cost of: as many threads at both ends as there are cores where this
/// was measured, and more.
const ALONE: u32 = 1;
const CROWDED: u32 = 2;

/// A model from the measured rows of one and two workers, for more workers, flows and cores.
///
/// Each of these needs processor time for a gigabyte, and shares the cores. It needs more if both ends have more
/// workers than there are cores: batches are smaller then, and threads are in each other's way. A worker is one thread,
/// of which an end's half of what both ends need is the time; and a flow stays at one worker.
struct Model<'sheet> {
    sheet: &'sheet Sheet,
}

impl Model<'_> {
    /// Processor seconds a gigabyte.
    fn cost(&self, table: &str, workers: u32, flows: u8) -> Option<f64> {
        self.sheet.median(At {
            table,
            row: &counted(workers, "worker"),
            column: &counted(flows.into(), "flow"),
        })
    }

    /// Gbit/s.
    fn predict(&self, workers: u32, flows: u8, cores: u32) -> Option<f64> {
        let known = if 2 * workers > cores { CROWDED } else { ALONE };
        let by_cores = f64::from(cores) / self.cost(MACHINE_CPU, known, flows)?;
        let busy_workers = f64::from(workers.min(flows.into()));
        let by_workers = 2.0 * busy_workers / self.cost(ENDS_CPU, ALONE, flows)?;
        Some(8.0 * by_cores.min(by_workers))
    }
}

/// Compares the model with every point: those of one and two workers, from which its costs are, and those of more
/// workers, which it has not seen. Then predicts other machines, as if memory and locks set no limit.
fn predict(sheet: &mut Sheet, flows: &[u8], cores_here: u32) {
    let model = Model { sheet };
    let mut found = Vec::new();
    for workers in WORKERS {
        let row = counted(workers, "worker");
        for &flows in flows {
            let column = counted(flows.into(), "flow");
            let at = At {
                table: THROUGHPUT,
                row: &row,
                column: &column,
            };
            let predicted = model.predict(workers, flows, cores_here);
            if let (Some(predicted), Some(measured)) = (predicted, sheet.median(at)) {
                found.push((
                    MODEL_ERROR,
                    row.clone(),
                    column,
                    100.0 * (predicted / measured - 1.0),
                ));
            }
        }
        for cores in CORES {
            if let Some(predicted) = model.predict(workers, MOST_FLOWS, cores) {
                found.push((MORE_CORES, row.clone(), format!("{cores} cores"), predicted));
            }
        }
    }
    for (table, row, column, value) in found {
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

/// The distance of the default from the best number of workers, for each number of flows.
fn justify(sheet: &mut Sheet, flows: &[u8], default: u32) {
    for &flows in flows {
        let flows_row = counted(flows.into(), "flow");
        let of = |workers| {
            let at = At {
                table: THROUGHPUT,
                row: &counted(workers, "worker"),
                column: &flows_row,
            };
            sheet.median(at)
        };
        let measured = WORKERS
            .iter()
            .filter_map(|&workers| Some((workers, of(workers)?)));
        let best = measured.max_by(|(_, one), (_, other)| one.total_cmp(other));
        let (Some((best, most)), Some(by_default)) = (best, of(default)) else {
            continue;
        };
        let at = |column| At {
            table: DEFAULT,
            row: &flows_row,
            column,
        };
        sheet.say(at("best number of workers"), best.to_string());
        sheet.say(at("default"), default.to_string());
        sheet.add(at("default, % of the best"), 100.0 * by_default / most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_knows_cores_workers_and_flows() {
        let mut sheet = Sheet::new("a command".to_owned(), false);
        let costs = [
            (MACHINE_CPU, "1 worker", 1.5),
            (MACHINE_CPU, "2 workers", 2.0),
            (ENDS_CPU, "1 worker", 1.0),
        ];
        for (table, row, value) in costs {
            for flows in [1, 16] {
                let column = &counted(flows, "flow");
                sheet.add(At { table, row, column }, value);
            }
        }
        let model = Model { sheet: &sheet };
        assert_eq!(
            model.predict(1, 16, 3),
            Some(16.0),
            "three cores share the work"
        );
        assert_eq!(
            model.predict(1, 16, 16),
            Some(16.0),
            "a worker is one thread"
        );
        assert_eq!(model.predict(3, 16, 6), Some(32.0));
        assert_eq!(model.predict(4, 16, 6), Some(24.0), "crowded");
        assert_eq!(model.predict(4, 1, 16), Some(16.0), "a flow has one worker");
        assert_eq!(model.predict(1, 2, 2), None, "not measured");
    }

    #[test]
    fn the_default_is_held_against_the_best() {
        let mut sheet = Sheet::new("a command".to_owned(), false);
        for (workers, gbit_per_s) in [(1, 9.0), (2, 10.0)] {
            let at = At {
                table: THROUGHPUT,
                row: &counted(workers, "worker"),
                column: "4 flows",
            };
            sheet.add(at, gbit_per_s);
        }
        justify(&mut sheet, &[4], 1);
        let at = |column| At {
            table: DEFAULT,
            row: "4 flows",
            column,
        };
        assert_eq!(sheet.words(at("best number of workers")), Some("2"));
        assert_eq!(sheet.median(at("default, % of the best")), Some(90.0));
    }
}
