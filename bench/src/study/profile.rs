//! A profile (R22): samples of both ends while they carry TCP at full rate.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use culvert_lab::measure::TcpLoad;

use super::counted::{gigabytes, perf_is_there};
use super::flame;
use super::lab::Lab;
use super::sheet::{At, Sheet};
use super::stacks::{Stack, Stacks};
use crate::bed::Bed;

/// Samples a second of processor time: a prime, so that nothing periodic hides between them.
const FREQUENCY_HZ: u32 = 1999;

/// Of the stack, so many bytes a sample, to find the callers in it: with half of it most stacks end in a cipher.
const STACK_BYTES: u32 = 16 << 10;

/// The buffer in which `perf record` keeps samples before it writes them: a quarter of a second.
const BUFFER: &str = "8M";

/// A connection is at its full rate by then.
const RAMP: Duration = Duration::from_millis(700);

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    if !perf_is_there() {
        sheet
            .failures
            .push("no profile: perf is missing (Debian: apt-get install linux-perf)".to_owned());
        return Ok(());
    }
    for (suite, arguments) in [
        ("ChaCha20-Poly1305", ""),
        ("AES-256-GCM", "--cipher aes256gcm"),
    ] {
        lab.progress(suite);
        let result = measure(lab, sheet, suite, arguments);
        sheet.note(suite, result);
        lab.keep(sheet)?;
    }
    Ok(())
}

fn measure(lab: &Lab, sheet: &mut Sheet, suite: &str, arguments: &str) -> Result<()> {
    let subject = lab.culvert(arguments);
    let bed = Bed::new(&subject)?;
    let load = TcpLoad::forward(lab.effort().load_s + 1);
    let tcp = bed.iperf.start_tcp(&bed.client, &load)?;
    thread::sleep(RAMP);
    let [sender, receiver] = bed.processes()[..] else {
        anyhow::bail!("a tunnel has two ends");
    };
    let files = tempfile::tempdir_in(culvert_lab::process_dir()?)?;
    let record = |end: &str, process: u32| {
        let path = files.path().join(end);
        let line = format!(
            "perf record -q -F {FREQUENCY_HZ} -m {BUFFER} --call-graph dwarf,{STACK_BYTES} \
             -p {process} -o {} -- sleep {}",
            path.display(),
            lab.effort().load_s,
        );
        bed.client.spawn(&line).map(|perf| (path, perf))
    };
    let ends = [
        ("sender", record("sender", sender)?),
        ("receiver", record("receiver", receiver)?),
    ];
    let report = bed.iperf.finish_tcp(tcp, &load)?;
    let bytes = gigabytes(report.received_bytes);
    let rate_gb_per_s = report.bits_per_second / 8e9;
    for (end, (path, mut perf)) in ends {
        perf.succeed(Duration::from_secs(60))?;
        let script = culvert_lab::run(&format!(
            "perf script -i {} -F ip,sym --no-inline",
            path.display()
        ))?;
        let stacks = Stacks::parse(&script);
        anyhow::ensure!(stacks.count() > 0, "perf took no sample of the {end}");
        let seconds_per_gb =
            seconds(stacks.count()) / f64::from(lab.effort().load_s) / rate_gb_per_s;
        note_shares(sheet, &format!("{suite}, {end}"), &stacks, seconds_per_gb);
        let name = format!("flame-{}-{end}.svg", suite.to_lowercase().replace('-', ""));
        flame::draw(
            &lab.results().join(&name),
            &format!("{suite}, the {end}"),
            &stacks,
        )
        .with_context(|| format!("cannot draw {name}"))?;
    }
    let row = suite;
    let table = "profiled run";
    let mut add = |column, value| sheet.add(At { table, row, column }, value);
    add("TCP, Gbit/s", report.bits_per_second / 1e9);
    add("gigabytes", bytes);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "thousands of samples")]
fn seconds(samples: usize) -> f64 {
    samples as f64 / f64::from(FREQUENCY_HZ)
}

fn note_shares(sheet: &mut Sheet, row: &str, stacks: &Stacks, seconds_per_gb: f64) {
    let mut samples: BTreeMap<Stage, usize> = BTreeMap::new();
    for (stack, count) in stacks.iter() {
        *samples.entry(Stage::of(stack)).or_default() += count;
    }
    for stage in Stage::ALL {
        let count = samples.get(&stage).copied().unwrap_or_default();
        let share = seconds(count) / seconds(stacks.count());
        let column = stage.name();
        let at = |table| At { table, row, column };
        sheet.add(at("share of time, %"), 100.0 * share);
        sheet.add(at("nanoseconds a byte"), share * seconds_per_gb);
    }
}

/// The stages that copy.
pub(crate) const COPY: &str = "copy";
pub(crate) const COPY_AND_SUM: &str = "copy and sum";

/// The processing stage in which a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    TunRead,
    TunWrite,
    UdpSend,
    UdpReceive,
    Cipher,
    Checksum,
    CopyAndSum,
    Copy,
    Segments,
    Waiting,
    Rest,
}

impl Stage {
    const ALL: [Self; 11] = [
        Self::TunRead,
        Self::TunWrite,
        Self::UdpSend,
        Self::UdpReceive,
        Self::Cipher,
        Self::Checksum,
        Self::CopyAndSum,
        Self::Copy,
        Self::Segments,
        Self::Waiting,
        Self::Rest,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::TunRead => "TUN read",
            Self::TunWrite => "TUN write",
            Self::UdpSend => "UDP send",
            Self::UdpReceive => "UDP receive",
            Self::Cipher => "cipher",
            Self::Checksum => "checksum",
            Self::CopyAndSum => COPY_AND_SUM,
            Self::Copy => COPY,
            Self::Segments => "cut and coalesce",
            Self::Waiting => "wait and wake",
            Self::Rest => "rest",
        }
    }

    /// The innermost function tells what is done, the outer ones for whom: a copy is a copy whoever
    /// asked for it, anything else belongs to the system call.
    fn of(stack: &Stack) -> Self {
        let leaf = stack.leaf();
        let has = |names: &[&str]| stack.any(|frame| names.iter().any(|name| frame.contains(name)));
        let is = |names: &[&str]| names.iter().any(|name| leaf.contains(name));
        if is(&["copy_and_sum", "copy_and_csum"]) {
            Self::CopyAndSum
        } else if is(&["csum", "checksum"]) {
            Self::Checksum
        } else if is(&["copy", "memcpy", "memmove", "rep_movs", "_iov_iter"]) {
            Self::Copy
        } else if is(&[
            "chacha",
            "poly1305",
            "aes",
            "gcm",
            "ghash",
            "seal",
            "open_batch",
        ]) {
            Self::Cipher
        } else if has(&[
            "__schedule",
            "schedule",
            "ep_poll",
            "epoll",
            "futex",
            "try_to_wake_up",
        ]) {
            Self::Waiting
        } else if has(&["tun_chr_write", "tun_get_user"]) {
            Self::TunWrite
        } else if has(&["tun_chr_read", "tun_do_read"]) {
            Self::TunRead
        } else if has(&["udp_sendmsg", "udpv6_sendmsg", "sys_sendmsg", "sys_sendto"]) {
            Self::UdpSend
        } else if has(&[
            "udp_recvmsg",
            "udpv6_recvmsg",
            "sys_recvmsg",
            "sys_recvmmsg",
        ]) {
            Self::UdpReceive
        } else if is(&["culvert_packet", "Coalescer", "write_segment", "Cut"]) {
            Self::Segments
        } else {
            Self::Rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(frames: &str) -> Stage {
        let stacks = Stacks::parse(frames);
        let (stack, _) = stacks.iter().next().unwrap();
        Stage::of(stack)
    }

    #[test]
    fn a_sample_belongs_to_what_is_done_and_then_to_the_call_that_does_it() {
        assert_eq!(
            stage("  ff _copy_from_iter\n  ff tun_get_user\n"),
            Stage::Copy
        );
        assert_eq!(
            stage("  ff culvert_packet::checksum::wide::copy_and_sum_run\n"),
            Stage::CopyAndSum
        );
        assert_eq!(
            stage("  ff dev_hard_start\n  ff udp_sendmsg\n"),
            Stage::UdpSend
        );
        assert_eq!(
            stage("  ff __netif_receive\n  ff tun_chr_write_iter\n"),
            Stage::TunWrite
        );
        assert_eq!(
            stage("  ff finish_task\n  ff __schedule\n  ff ep_poll\n"),
            Stage::Waiting
        );
        assert_eq!(
            stage("  1 culvert_aead::vector::chacha20_poly1305::seal\n"),
            Stage::Cipher
        );
        assert_eq!(stage("  1 main\n"), Stage::Rest);
    }
}
