//! Times for which somebody waited.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;

/// A wait of this length counts as no answer.
pub(super) const GIVEN_UP: Duration = Duration::from_secs(30);

/// Prints the median and the longest of some times, and returns the longest.
pub(super) fn report(
    out: &mut impl Write,
    name: &str,
    mut times: Vec<Duration>,
) -> Result<Duration> {
    times.sort_unstable();
    let at = |index: usize| times.get(index).copied().unwrap_or_default();
    let (median, most) = (at(times.len() / 2), at(times.len().saturating_sub(1)));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    writeln!(
        out,
        "  {name:20} median {:>7.1} ms, longest {:>7.1} ms, of {}",
        ms(median),
        ms(most),
        times.len()
    )?;
    Ok(most)
}
