//! The start time of a process: with its number, it names the process for good.

use std::fs;
use std::io;

/// The index of the start time after the command's name in `/proc/PID/stat` (field 22 of
/// proc_pid_stat(5); field 3 is the first after the name).
const START_TIME_AFTER_NAME: usize = 22 - 3;

/// The start time of the process with that number, in ticks since boot. A service asks its helper for it:
/// other processes are closed to a sandbox.
pub(crate) fn start_time(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_start_time(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// The name is in parentheses and may hold anything, parentheses and blanks too.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(START_TIME_AFTER_NAME)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_read_behind_any_name() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) S 9 (b) S {}", numbers.join(" "));
        assert_eq!(parse_start_time(&stat), Some(22));
        assert_eq!(parse_start_time("7 (a) S 4"), None);
    }
}
