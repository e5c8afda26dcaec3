//! The value of each mechanism: the packet path without it, and the packet path with it and the earlier
//! ones alone.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use culvert_datapath::Mechanism;
use culvert_lab::measure::TcpLoad;

use super::counted::{SystemCalls, gigabytes};
use super::lab::{Lab, Scope, in_turn};
use super::sheet::{At, Sheet};
use crate::bed::Bed;
use crate::effort::Effort;
use crate::tcp::loaded;
use crate::udp;

/// Both directions of the question, and the cipher that leaves the road the most to do.
const SUITE: &str = "--cipher aes256gcm";

/// The table in which one mechanism is left out at a time. It alone tells of UDP too, which takes the longest.
const WITHOUT: &str = "without";

/// The table in which there is one more in each row.
const ADDED: &str = "added";

/// The load beside which system calls are counted, when that begins, and how long it takes.
const COUNTED_LOAD_S: u32 = 2;
const RAMP: Duration = Duration::from_millis(500);
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let all: Vec<Mechanism> = Mechanism::ALL.to_vec();
    let mut turns = vec![(WITHOUT, "nothing left out", Vec::new())];
    turns.extend(
        all.iter()
            .map(|&mechanism| (WITHOUT, mechanism.name(), vec![mechanism])),
    );
    turns.push((ADDED, "none", all.clone()));
    turns
        .extend((1..=all.len()).map(|count| (ADDED, all[count - 1].name(), all[count..].to_vec())));
    let round = lab.round();
    for (table, row, without) in in_turn(&turns.iter().collect::<Vec<_>>(), round) {
        lab.progress(&format!("{table}: {row}"));
        let result = measure(lab, sheet, table, row, without);
        sheet.note(&format!("{table}, {row}"), result);
        lab.keep(sheet)?;
    }
    Ok(())
}

/// One tunnel whose ends lack `without`.
fn measure(
    lab: &Lab,
    sheet: &mut Sheet,
    table: &str,
    row: &str,
    without: &[Mechanism],
) -> Result<()> {
    let names: Vec<_> = without.iter().map(|mechanism| mechanism.name()).collect();
    let arguments = match names.is_empty() {
        true => SUITE.to_owned(),
        false => format!("{SUITE} --without {}", names.join(",")),
    };
    let subject = lab.culvert(&arguments);
    let bed = Bed::new(&subject)?;
    let effort = lab.effort();
    let before = bed.cpu()?.unwrap_or_default();
    let (tcp, ping) = loaded(&bed, &effort)?;
    let bytes = gigabytes(tcp.received_bytes);
    let cpu = bed.cpu()?.unwrap_or_default() - before;
    let mut add = |column, value| sheet.add(At { table, row, column }, value);
    add("TCP, Gbit/s", tcp.bits_per_second / 1e9);
    add("CPU of both ends, s/GB", cpu.as_secs_f64() / bytes);
    add("ping meanwhile, ms", ping.average_ms);
    // A first impression has no time for what takes loads of its own.
    if lab.scope() == Scope::Quick {
        return Ok(());
    }
    let calls = system_calls(&bed);
    if let Ok(Some(calls)) = calls {
        add("system calls, thousands/GB", calls / 1e3);
    }
    let row_of_calls = format!("{table}, {row}: system calls");
    sheet.note(&row_of_calls, calls.map(|_| ()));
    let mut add = |column, value| sheet.add(At { table, row, column }, value);
    if table == WITHOUT {
        // A moment for what the load left behind.
        thread::sleep(Duration::from_millis(200));
        let idle = culvert_lab::measure::PingReport::measure(
            &bed.client,
            bed.server_address,
            Effort::PING_INTERVAL,
            effort.idle_pings,
        )?;
        add("ping, idle, ms", idle.average_ms);
        add(
            "UDP 1350 B, Gbit/s",
            udp::loss_free_rate_of_datagrams(&bed, &effort) / 1e9,
        );
    }
    Ok(())
}

/// System calls of both ends for a gigabyte, beside a load of their own: to count them takes time at each.
fn system_calls(bed: &Bed<'_>) -> Result<Option<f64>> {
    let load = TcpLoad::forward(COUNTED_LOAD_S);
    let tcp = bed.iperf.start_tcp(&bed.client, &load)?;
    thread::sleep(RAMP);
    let calls = SystemCalls::count(&bed.processes(), COUNTED_FOR)?.finish();
    let report = bed.iperf.finish_tcp(tcp, &load)?;
    let gigabytes = report.bits_per_second / 8e9 * COUNTED_FOR.as_secs_f64();
    Ok(calls?.map(|calls| calls / gigabytes))
}
