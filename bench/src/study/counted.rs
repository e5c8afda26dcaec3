//! Counting what processes do while they carry packets.

use std::time::Duration;

use anyhow::{Context, Result};
use culvert_lab::{Namespace, Process};

/// Counts the system calls of some processes, where `perf` can.
#[derive(Debug)]
pub(crate) struct SystemCalls(Option<Process>);

impl SystemCalls {
    /// Counts for `duration` from now on.
    ///
    /// # Errors
    /// When there is no namespace to run `perf` in.
    pub(crate) fn count(processes: &[u32], duration: Duration) -> Result<Self> {
        if processes.is_empty() || !perf_is_there() {
            return Ok(Self(None));
        }
        let list: Vec<_> = processes.iter().map(u32::to_string).collect();
        let anywhere = Namespace::new()?;
        let line = format!(
            "perf stat -x , -e raw_syscalls:sys_enter -p {} -- sleep {}",
            list.join(","),
            duration.as_secs_f64(),
        );
        Ok(Self(Some(anywhere.spawn(&line)?)))
    }

    /// Waits for the end; `None` where they could not be counted.
    ///
    /// # Errors
    /// When `perf` fails.
    pub(crate) fn finish(self) -> Result<Option<f64>> {
        let Some(mut perf) = self.0 else {
            return Ok(None);
        };
        let said = perf.succeed(Duration::from_secs(60))?;
        let count = calls(&said).with_context(|| format!("perf counted nothing: {said}"))?;
        Ok(Some(count))
    }
}

/// The number before the event in a line of `perf stat -x ,`.
fn calls(said: &str) -> Option<f64> {
    let line = said.lines().find(|line| line.contains("raw_syscalls"))?;
    line.split(',').next()?.trim().parse().ok()
}

/// True if `perf` may be used; if not, says once what to install.
pub(crate) fn perf_is_there() -> bool {
    static FOUND: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        let found = culvert_lab::find("perf").is_some();
        if !found {
            eprintln!("without perf (Debian: apt-get install linux-perf) no profile and no counts");
        }
        found
    });
    *FOUND
}

/// Bytes in units of 10⁹.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53 bytes")]
pub(crate) fn gigabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_perf_is_its_first_field() {
        let said = "\n144,,raw_syscalls:sys_enter,1580098,100.00,91.134,K/sec\n";
        assert_eq!(calls(said), Some(144.0));
        assert_eq!(
            calls("<not counted>,,raw_syscalls:sys_enter,0,0.00,,"),
            None
        );
    }
}
