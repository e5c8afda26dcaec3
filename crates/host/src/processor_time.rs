//! Processor time of this process.

/// Clock ticks of `/proc` in a second (`USER_HZ`), which Linux has fixed for programs.
const TICKS_PER_S: u64 = 100;

/// Processor time that this process has used, in milliseconds (`proc_pid_stat(5)`, fields 14 and 15).
#[must_use]
pub fn processor_time_ms() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the program's name, may hold anything, and ends with the last bracket.
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) * 1_000 / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_process_has_used_processor_time() {
        assert!(super::processor_time_ms().is_some());
    }
}
