//! The results as tables.

use std::io::{self, Write};

use anyhow::Result;

use crate::metric::Metric;
use crate::statistics::Samples;
use crate::subject::{Kind, Subject};
use crate::targets::Verdict;

/// The width of the column of names, and of each column of values.
const NAME_WIDTH: usize = 26;
const VALUE_WIDTH: usize = 13;

/// Prints the medians, the ratios to the best peer, and which targets are reached.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(subjects: &[Subject], samples: &Samples, verdicts: &[Verdict]) -> Result<()> {
    let mut out = io::stdout().lock();
    let products: Vec<_> = subjects
        .iter()
        .filter(|subject| matches!(subject.kind, Kind::Product | Kind::ProductAes))
        .collect();

    writeln!(out)?;
    write!(out, "{:NAME_WIDTH$}", "median")?;
    for subject in subjects {
        write!(out, "{:>VALUE_WIDTH$}", subject.name)?;
    }
    for product in &products {
        write!(out, "{:>VALUE_WIDTH$}", format!("{}/best", short(product)))?;
    }
    writeln!(out)?;
    for metric in samples.metrics() {
        let (unit, _) = metric.shown_unit();
        write!(out, "{:NAME_WIDTH$}", format!("{metric} {unit}"))?;
        for subject in subjects {
            let value = samples.median(subject.name, metric);
            write!(
                out,
                "{:>VALUE_WIDTH$}",
                value.map_or("–".to_owned(), |v| shown(metric, v))
            )?;
        }
        for product in &products {
            write!(
                out,
                "{:>VALUE_WIDTH$}",
                ratio_to_best(samples, product, metric)
            )?;
        }
        writeln!(out)?;
    }
    writeln!(
        out,
        "less is better, and a ratio below 1, for ping, CPU, memory and TCP's troubles"
    )?;
    print_verdicts(&mut out, verdicts)
}

fn print_verdicts(out: &mut impl Write, verdicts: &[Verdict]) -> Result<()> {
    if verdicts.is_empty() {
        return Ok(());
    }
    writeln!(out, "\ntargets")?;
    for verdict in verdicts {
        let word = if verdict.reached { "reached" } else { "MISSED" };
        let Verdict {
            target,
            value,
            bound,
            ..
        } = verdict;
        writeln!(out, "{word:8} {value:8.2}   {target} {bound:.2}")?;
    }
    let reached = verdicts.iter().filter(|verdict| verdict.reached).count();
    writeln!(out, "{reached} of {} targets reached", verdicts.len())?;
    Ok(())
}

/// The name of a product in the narrow columns of ratios.
fn short(subject: &Subject) -> &'static str {
    match subject.name {
        "culvert" => "plain",
        "culvert-aes" => "aes",
        name => name,
    }
}

fn ratio_to_best(samples: &Samples, product: &Subject, metric: Metric) -> String {
    let own = samples.median(product.name, metric);
    match own.zip(samples.best_peer(metric)) {
        Some((own, (_, best))) if best > 0.0 => format!("{:.2}", own / best),
        _ => "–".to_owned(),
    }
}

/// A value in the unit that tables show, with about three digits that mean something.
fn shown(metric: Metric, value: f64) -> String {
    let (unit, one) = metric.shown_unit();
    let value = value / one;
    match value {
        _ if unit.is_empty() => format!("{value:.0}"),
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_with_three_digits() {
        assert_eq!(shown(Metric::LoadedTcp, 8.8123e9), "8.81");
        assert_eq!(shown(Metric::LoadedTcp, 0.4712e9), "0.471");
        assert_eq!(shown(Metric::PeakMemory, 836.4e6), "836");
        assert_eq!(shown(Metric::Reordered, 3.0), "3");
    }
}
