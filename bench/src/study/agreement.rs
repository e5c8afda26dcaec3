//! Whether two runs of the study say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Part;
use super::page::{cell, digits, when_and_of_what};
use super::sheet::{At, Sheet};
use super::{limits, links};
use crate::statistics::{median, range};

/// What is said of two runs, beside the results of the one.
pub(crate) const FILE: &str = "agreement.md";

/// How likely two runs that say the same are to be called different, for a figure: one in twenty. Standard normal
/// deviates that leave as much outside.
const DEVIATES: f64 = 1.96;

/// What the spread of all figures of a part in one unit weighs beside a figure's own, in degrees of freedom: as much as
/// that of two runs of two rounds.
const SHARED_DEGREES: f64 = 2.0;

/// From how many figures on what they have in common may be told from what each of them has.
const ENOUGH_FOR_DRIFT: usize = 3;

/// What a figure is in, as the last word of its column, row or table says; where none does, it is a count.
const UNITS: [&str; 13] = [
    "Gbit/s",
    "Mbit/s",
    "MB/s",
    "GB/s",
    "MB",
    "GHz",
    "ms",
    "µs",
    "s/GB",
    "thousands/GB",
    "%",
    "nanoseconds a byte",
    "cycles a byte",
];

/// One figure that both runs have measured several times.
#[derive(Debug)]
struct Figure {
    part: &'static str,
    table: String,
    row: String,
    column: String,
    here: Vec<f64>,
    there: Vec<f64>,
}

/// How much measurements of one kind, which are all figures of a part in one unit, vary within a run, and by how much all of
/// them differ between two. Two or three rounds say little of the spread of one figure; all of a kind, such as ping in ms,
/// say much of the spread that they share.
#[derive(Debug, Default)]
struct Kind {
    spread: Variance,
    /// Logarithm of the ratio of this run to the other that half of the figures are above: how much faster or slower
    /// the machine was, which the host's other guests decide, and which ratios within a run know nothing of.
    drift: f64,
    figures: usize,
    agreeing: usize,
}

/// Of logarithms of samples around that of their geometric mean: a spread as a share.
#[derive(Clone, Copy, Debug, Default)]
struct Variance {
    squares: f64,
    /// Samples, less one of each figure and run.
    degrees: f64,
}

impl Variance {
    fn note(&mut self, samples: &[f64]) {
        let logarithms: Vec<_> = samples.iter().map(|sample| sample.ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / count(samples);
        self.squares += logarithms
            .iter()
            .map(|logarithm| (logarithm - mean).powi(2))
            .sum::<f64>();
        self.degrees += count(samples) - 1.0;
    }

    fn value(self) -> f64 {
        self.squares / self.degrees
    }

    /// Of one measurement, as a share of it.
    fn standard_deviation(self) -> f64 {
        self.value().sqrt()
    }
}

/// How many standard errors away chance leads one time in twenty, where the error itself is known by so many `degrees`:
/// Student's distribution, by the expansion of Abramowitz and Stegun 26.7.5, within 1 % from three degrees on.
fn standard_errors(degrees: f64) -> f64 {
    let x = DEVIATES;
    let first = (x.powi(3) + x) / 4.0;
    let second = (5.0 * x.powi(5) + 16.0 * x.powi(3) + 3.0 * x) / 96.0;
    let third = (3.0 * x.powi(7) + 19.0 * x.powi(5) + 17.0 * x.powi(3) - 15.0 * x) / 384.0;
    x + first / degrees + second / degrees.powi(2) + third / degrees.powi(3)
}

#[expect(clippy::cast_precision_loss, reason = "a few")]
fn count(samples: &[f64]) -> f64 {
    samples.len() as f64
}

impl Figure {
    /// What shares its spread: its part and its unit.
    fn kind(&self) -> (&'static str, String) {
        let names = [&self.column, &self.row, &self.table];
        let unit = names.iter().find_map(|name| {
            let last = name.rsplit(", ").next()?;
            UNITS.contains(&last).then(|| last.to_owned())
        });
        (self.part, unit.unwrap_or_else(|| "a count".to_owned()))
    }

    /// Ratios mean something.
    fn is_positive(&self) -> bool {
        self.here
            .iter()
            .chain(&self.there)
            .all(|&sample| sample > 0.0)
    }

    /// Whether two runs agree, beside what all figures of its kind have in common. What may be zero has no ratio: its
    /// medians are no further apart than the larger of the two ranges.
    ///
    /// The spread that counts is a figure's own and that of its kind together, as a moderated t-statistic has it
    /// (Smyth 2004, doi:10.2202/1544-6115.1027).
    fn agrees(&self, kind: &Kind) -> bool {
        let (Some(here), Some(there)) = (median(&self.here), median(&self.there)) else {
            return true;
        };
        if !self.is_positive() {
            return (here - there).abs() <= range(&self.here).max(range(&self.there));
        }
        let mut own = Variance::default();
        own.note(&self.here);
        own.note(&self.there);
        let degrees = SHARED_DEGREES + own.degrees;
        let variance = (SHARED_DEGREES * kind.spread.value() + own.squares) / degrees;
        let error = (variance / count(&self.here) + variance / count(&self.there)).sqrt();
        ((here / there).ln() - kind.drift).abs() <= standard_errors(degrees) * error
    }

    /// The median here as a share of that of the other run.
    fn ratio(&self) -> f64 {
        median(&self.here).unwrap_or(f64::NAN) / median(&self.there).unwrap_or(f64::NAN)
    }
}

/// On how much two runs agree, and on what they do not, in Markdown.
pub(crate) fn compare(here: &[(Part, Sheet)], there: &[(Part, Sheet)]) -> String {
    let (figures, notes) = common(here, there);
    let mut kinds = kinds(&figures);
    let mut strange = Vec::new();
    for figure in &figures {
        let kind = kinds.entry(figure.kind()).or_default();
        kind.figures += 1;
        if figure.agrees(kind) {
            kind.agreeing += 1;
        } else {
            strange.push((figure, kind.drift));
        }
    }
    let distance = |(figure, drift): &(&Figure, f64)| (figure.ratio().ln() - drift).abs();
    strange.sort_by(|one, other| distance(other).total_cmp(&distance(one)));
    let mut text = format!(
        "{} of {} figures that two runs measured several times agree; by chance one in twenty does not. What all figures of a \
         part in one unit have in common is how much faster or slower the machine was: the drift, this run over the other. \
         Beside that, medians of a figure that agrees are no further apart than their spread allows: that of a single \
         measurement, a figure's own and the one of all in that part and unit, which the table has, together.",
        figures.len() - strange.len(),
        figures.len()
    );
    let (here, there) = (dates(here), dates(there));
    let _infallible = write!(text, " This run{here}; the other{there}.");
    for note in notes {
        let _infallible = write!(text, " {note}");
    }
    text.push_str(
        "\n\n| part | unit | spread, % | drift | figures | agree |\n|---|---|---|---|---|---|\n",
    );
    for ((part, unit), kind) in &kinds {
        let (percent, drift) = match kind.spread.degrees > 0.0 {
            true => (
                digits(100.0 * kind.spread.standard_deviation()),
                digits(kind.drift.exp()),
            ),
            false => ("–".to_owned(), "–".to_owned()),
        };
        let (figures, agreeing) = (kind.figures, kind.agreeing);
        let _infallible = writeln!(
            text,
            "| {part} | {unit} | {percent} | {drift} | {figures} | {agreeing} |"
        );
    }
    if !strange.is_empty() {
        text.push_str(
            "\nThese do not, the furthest apart first:\n\n| part | figure | this run | the other | ratio |\n\
             |---|---|---|---|---|\n",
        );
    }
    for (figure, _) in strange {
        let _infallible = writeln!(
            text,
            "| {} | {}: {}, {} | {} | {} | {} |",
            figure.part,
            figure.table,
            figure.row,
            figure.column,
            cell(&figure.here),
            cell(&figure.there),
            digits(figure.ratio())
        );
    }
    text
}

/// When a run was made and of what: of each part, where they are not of one run.
fn dates(run: &[(Part, Sheet)]) -> String {
    let mut commits: Vec<&str> = run.iter().map(|(_, sheet)| sheet.commit.as_str()).collect();
    commits.dedup();
    match (run.last(), commits.len()) {
        (None, _) => " has no results".to_owned(),
        (Some((_, last)), 1) => when_and_of_what(last),
        _ => {
            let part = |(part, sheet): &(Part, Sheet)| {
                format!("{}{}", part.name(), when_and_of_what(sheet))
            };
            let parts: Vec<_> = run.iter().map(part).collect();
            format!(" in parts ({})", parts.join("; "))
        }
    }
}

/// How much measurements of each kind vary, and what the two runs differ by.
fn kinds(figures: &[Figure]) -> BTreeMap<(&'static str, String), Kind> {
    let mut kinds = BTreeMap::<_, Kind>::new();
    let mut ratios = BTreeMap::<_, Vec<f64>>::new();
    for figure in figures.iter().filter(|figure| figure.is_positive()) {
        let kind = kinds.entry(figure.kind()).or_default();
        kind.spread.note(&figure.here);
        kind.spread.note(&figure.there);
        let of_kind = ratios.entry(figure.kind()).or_default();
        of_kind.push(figure.ratio().ln());
    }
    for (name, ratios) in ratios {
        if ratios.len() >= ENOUGH_FOR_DRIFT
            && let Some(kind) = kinds.get_mut(&name)
        {
            kind.drift = median(&ratios).unwrap_or_default();
        }
    }
    kinds
}

/// The figures of both runs, and why some are left out.
fn common(here: &[(Part, Sheet)], there: &[(Part, Sheet)]) -> (Vec<Figure>, Vec<String>) {
    let (mut figures, mut notes) = (Vec::new(), Vec::new());
    for (part, sheet) in here {
        let name = part.name();
        let Some((_, other)) = there.iter().find(|(other, _)| other == part) else {
            notes.push(format!("The other run has no {name}."));
            continue;
        };
        if let Some(why) = cannot_be_compared(sheet, other) {
            notes.push(format!("The {name} of the two can't be compared: {why}."));
            continue;
        }
        for at in sheet.places() {
            if is_derived(*part, at) {
                continue;
            }
            let here = by_round(sheet.samples(at), sheet.rounds);
            let there = by_round(other.samples(at), other.rounds);
            if here.len() < 2 || there.len() < 2 {
                continue;
            }
            figures.push(Figure {
                part: name,
                table: at.table.to_owned(),
                row: at.row.to_owned(),
                column: at.column.to_owned(),
                here,
                there,
            });
        }
    }
    (figures, notes)
}

/// Whether a figure says the same as another of its part, in another unit.
fn is_derived(part: Part, at: At<'_>) -> bool {
    match part {
        Part::Limits => matches!(at.column, limits::NS_PER_BYTE | limits::CYCLES_PER_BYTE),
        Part::Links => matches!(at.table, links::SHARE_BY_RATE | links::SHARE_BY_WEATHER),
        _ => false,
    }
}

/// The means of what each round has measured: turns of a round share its programs, and so what makes rounds differ. All
/// samples where rounds did not measure as many each.
fn by_round(samples: &[f64], rounds: u32) -> Vec<f64> {
    let rounds = rounds as usize;
    if rounds == 0 || samples.is_empty() || !samples.len().is_multiple_of(rounds) {
        return samples.to_vec();
    }
    let of_round = samples.chunks(samples.len() / rounds);
    of_round
        .map(|turns| turns.iter().sum::<f64>() / count(turns))
        .collect()
}

fn cannot_be_compared(one: &Sheet, other: &Sheet) -> Option<&'static str> {
    if one.quick != other.quick {
        return Some("one is a quick run");
    }
    if !(one.complete && other.complete) {
        return Some("one was interrupted");
    }
    (!one.machine.is_like(&other.machine)).then_some("they are of two machines")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[f64]) -> Vec<(Part, Sheet)> {
        let mut sheet = Sheet::new("a command".to_owned(), false);
        for &value in values {
            let at = At {
                table: "rates",
                row: "1 Gbit/s",
                column: "culvert",
            };
            sheet.add(at, value);
        }
        sheet.complete = true;
        vec![(Part::Links, sheet)]
    }

    /// Several figures of one kind, each of which was measured twice.
    fn run_of(figures: &[[f64; 2]]) -> Vec<(Part, Sheet)> {
        let mut sheet = Sheet::new("a command".to_owned(), false);
        for (number, values) in figures.iter().enumerate() {
            for &value in values {
                let at = At {
                    table: "rates",
                    row: &format!("{number} flows"),
                    column: "culvert, Gbit/s",
                };
                sheet.add(at, value);
            }
        }
        sheet.complete = true;
        vec![(Part::Links, sheet)]
    }

    /// Of each figure of two runs, whether they agree on it.
    fn agreement(one: &[(Part, Sheet)], other: &[(Part, Sheet)]) -> Vec<bool> {
        let (figures, _) = common(one, other);
        let kinds = kinds(&figures);
        let of = |figure: &Figure| kinds.get(&figure.kind()).map(|kind| figure.agrees(kind));
        figures.iter().filter_map(of).collect()
    }

    /// Two measurements with a standard deviation of 10 %.
    fn ten_percent(around: f64) -> [f64; 2] {
        [around * 0.932, around * 1.073]
    }

    #[test]
    fn runs_agree_when_their_medians_are_as_near_as_their_spread_allows() {
        let agrees = |one: &[f64], other: &[f64]| agreement(&run(one), &run(other));
        // With four degrees of freedom: 2.78 × 10 % × √(1/2 + 1/2) is 28 %.
        assert_eq!(agrees(&ten_percent(100.0), &ten_percent(127.0)), [true]);
        assert_eq!(agrees(&ten_percent(100.0), &ten_percent(137.0)), [false]);
        // Measured once, a figure has no spread.
        assert!(agrees(&[9.0], &[13.0, 13.5]).is_empty());
    }

    #[test]
    fn a_machine_that_was_faster_throughout_is_told_from_a_figure_that_differs() {
        let here = [50.0, 60.0, 70.0, 80.0, 20.0].map(ten_percent);
        let there = [100.0, 120.0, 140.0, 160.0, 100.0].map(ten_percent);
        let (here, there) = (run_of(&here), run_of(&there));
        assert_eq!(agreement(&here, &there), [true, true, true, true, false]);
        let said = compare(&here, &there);
        assert!(
            said.contains("| links | Gbit/s | 9.96 | 0.500 | 5 | 4 |"),
            "{said}"
        );
    }

    #[test]
    fn a_figure_that_varies_more_than_its_kind_may_differ_by_more() {
        let steady = |around: f64| [around, around * 1.001];
        let one = [
            steady(10.0),
            steady(11.0),
            steady(12.0),
            steady(13.0),
            [5.0, 20.0],
        ];
        let other = [
            steady(10.0),
            steady(11.0),
            steady(12.0),
            steady(14.0),
            [10.0, 25.0],
        ];
        let agrees = agreement(&run_of(&one), &run_of(&other));
        assert!(agrees[4], "{agrees:?}");
    }

    #[test]
    fn so_many_standard_errors_are_what_the_tables_of_students_distribution_have() {
        for (degrees, expected) in [(4.0, 2.776), (6.0, 2.447), (10.0, 2.228), (1e6, 1.960)] {
            let found = standard_errors(degrees);
            assert!((found / expected - 1.0).abs() < 0.01, "{degrees}: {found}");
        }
    }

    #[test]
    fn counts_that_may_be_zero_agree_within_the_larger_range() {
        let (figures, _) = common(&run(&[0.0, 4.0]), &run(&[5.0, 7.0]));
        assert!(figures[0].agrees(&Kind::default()));
        let (figures, _) = common(&run(&[0.0, 4.0]), &run(&[8.0, 9.0]));
        assert!(!figures[0].agrees(&Kind::default()));
    }

    #[test]
    fn what_runs_do_not_agree_on_is_said_with_both_figures() {
        let said = compare(&run(&[9.0, 10.0]), &run(&[20.0, 21.0]));
        assert!(said.starts_with("0 of 1 figures"), "{said}");
        assert!(
            said.contains(
                "| links | rates: 1 Gbit/s, culvert | 9.50 (9.00–10.0) | 20.5 (20.0–21.0) | 0.463 |"
            ),
            "{said}"
        );
    }

    #[test]
    fn it_is_said_which_two_runs_they_are() {
        let dated = |commit: &str, written_at_s| {
            let mut run = run(&[9.0, 10.0]);
            run[0].1.commit = commit.to_owned();
            run[0].1.written_at_s = written_at_s;
            run
        };
        let said = compare(&dated("here", 0), &dated("there", 86_400));
        let expected = "This run, 1970-01-01 00:00 UTC, commit here; the other, 1970-01-02 00:00 UTC, commit there.";
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn turns_of_a_round_count_as_one_measurement() {
        assert_eq!(by_round(&[1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0]);
        assert_eq!(by_round(&[1.0, 3.0, 5.0], 3), [1.0, 3.0, 5.0]);
        // A turn failed: nobody knows of which round the others are.
        assert_eq!(by_round(&[1.0, 3.0, 5.0], 2), [1.0, 3.0, 5.0]);
    }

    #[test]
    fn what_is_the_same_in_another_unit_is_not_compared_again() {
        let mut sheet = Sheet::new("a command".to_owned(), false);
        sheet.complete = true;
        for column in ["GB/s", "nanoseconds a byte", "cycles a byte"] {
            for value in [1.0, 1.1] {
                let (table, row) = ("speeds", "copy");
                sheet.add(At { table, row, column }, value);
            }
        }
        let run = [(Part::Limits, sheet)];
        let (figures, _) = common(&run, &run);
        assert_eq!(figures.len(), 1);
    }

    #[test]
    fn of_a_run_whose_parts_are_of_several_commits_each_is_named() {
        let mut parts = run(&[9.0, 10.0]);
        parts.extend(run(&[9.0, 10.0]));
        parts[0].1.commit = "first".to_owned();
        parts[1].1.commit = "second".to_owned();
        let said = dates(&parts);
        assert!(said.contains("first") && said.contains("second"), "{said}");
    }

    #[test]
    fn runs_of_which_one_is_not_whole_are_not_compared() {
        let mut part = run(&[9.0, 10.0]);
        part[0].1.complete = false;
        let said = compare(&part, &run(&[9.0, 10.0]));
        assert!(said.contains("one was interrupted"), "{said}");
    }
}
