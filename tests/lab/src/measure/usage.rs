//! Processor time and memory of a process.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// The resources that a process has used since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Processor time of all its threads, in user code and in system calls. The kernel's work for
    /// it in interrupts is not included.
    pub cpu: Duration,
    /// The most memory it has had resident, in bytes.
    pub peak_rss_bytes: u64,
}

impl Usage {
    /// Reads /proc.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn of(process_id: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{process_id}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let ticks = cpu_ticks(&read("stat")?).context("unknown form of /proc/PID/stat")?;
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let peak_kib = peak_rss_kib(&read("status")?).context("the process has ended: no VmHWM")?;
        Ok(Self {
            cpu: Duration::from_millis(ticks * 1000 / ticks_per_second),
            peak_rss_bytes: peak_kib * 1024,
        })
    }
}

impl Usage {
    /// The processor time of a process and of all below it, those that have ended and were waited for included.
    ///
    /// # Errors
    /// When /proc can't be read.
    pub fn cpu_of_family(process_id: u32) -> Result<Duration> {
        let mut parents = BTreeMap::new();
        let mut times = BTreeMap::new();
        for entry in fs::read_dir("/proc").context("cannot read /proc")? {
            let name = entry?.file_name();
            let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            // It may have ended since.
            let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
                continue;
            };
            let (parent, ticks) = family_ticks(&stat).context("unknown form of /proc/PID/stat")?;
            parents.insert(id, parent);
            times.insert(id, ticks);
        }
        let is_below = |id: u32| {
            let line = std::iter::successors(Some(id), |id| parents.get(id).copied());
            // Processes that began meanwhile can't make the line longer than there are processes.
            line.take(parents.len()).any(|id| id == process_id)
        };
        let ticks = times.iter().filter(|(id, _)| is_below(**id));
        let ticks: u64 = ticks.map(|(_, ticks)| ticks).sum();
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        Ok(Duration::from_millis(ticks * 1000 / ticks_per_second))
    }
}

/// Processor time that the whole machine has used, interrupts included.
///
/// # Errors
/// When /proc/stat has another form than proc(5) says.
pub fn busy_of_machine() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    // user, nice, system, idle, iowait, irq, softirq, steal.
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    anyhow::ensure!(ticks.len() >= 7, "unknown form of /proc/stat");
    let busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(busy * 1000 / ticks_per_second))
}

/// User and system time in clock ticks, from /proc/PID/stat.
fn cpu_ticks(stat: &str) -> Option<u64> {
    // The second field, the name in parentheses, may hold spaces and parentheses itself.
    let (_, after_name) = stat.rsplit_once(')')?;
    // proc(5): utime is field 14, stime 15; the first after the name is field 3.
    let mut fields = after_name.split_whitespace().skip(14 - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The parent, and the time in clock ticks with that of children that were waited for.
fn family_ticks(stat: &str) -> Option<(u32, u64)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(1);
    let parent = fields.next()?.parse().ok()?;
    // proc(5): utime, stime, cutime and cstime are fields 14 to 17; the parent is field 4.
    let times = fields.skip(14 - 5).take(4);
    let ticks = times.map(str::parse::<u64>).sum::<Result<u64, _>>().ok()?;
    Some((parent, ticks))
}

/// The line `VmHWM: 1234 kB` of /proc/PID/status.
fn peak_rss_kib(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_a_name_with_parentheses() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 1 0 9 0 0";
        assert_eq!(cpu_ticks(stat), Some(12));
    }

    #[test]
    fn a_family_has_the_time_of_children_that_have_ended() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 7 5 3 2 20 0 1 0 9 0 0";
        assert_eq!(family_ticks(stat), Some((1, 17)));
        assert!(Usage::cpu_of_family(std::process::id()).is_ok());
    }

    #[test]
    fn peak_memory_is_the_high_water_mark() {
        let status = "VmPeak:\t  900 kB\nVmHWM:\t    512 kB\nVmRSS:\t    300 kB\n";
        assert_eq!(peak_rss_kib(status), Some(512));
    }

    #[test]
    fn this_process_uses_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.peak_rss_bytes > 100_000);
    }
}
