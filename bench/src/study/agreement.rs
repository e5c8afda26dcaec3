//! Whether two runs of the study say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Part;
use super::page::{cell, digits, when_and_of_what};
use super::sheet::Sheet;
use crate::statistics::{median, range};

/// What is said of two runs, beside the results of the one.
pub(crate) const FILE: &str = "agreement.md";

/// How far apart two runs may be, in standard errors of their difference: by chance one figure in twenty is further.
const STANDARD_ERRORS: f64 = 2.0;

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

/// How much measurements of one kind vary within a run. Two or three rounds say little of the spread of one figure; all
/// figures of a part in one unit, such as ping in ms, say much of the spread that they share.
#[derive(Debug, Default)]
struct Spread {
    /// Sum of the squares of what lies between the logarithms of samples and that of their geometric mean.
    squares: f64,
    /// Samples, less one of each figure and run.
    degrees: f64,
    figures: usize,
    agreeing: usize,
}

impl Spread {
    fn note(&mut self, samples: &[f64]) {
        let logarithms: Vec<_> = samples.iter().map(|sample| sample.ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / count(samples);
        self.squares += logarithms
            .iter()
            .map(|logarithm| (logarithm - mean).powi(2))
            .sum::<f64>();
        self.degrees += count(samples) - 1.0;
    }

    /// Of one measurement, as a share of it.
    fn standard_deviation(&self) -> f64 {
        (self.squares / self.degrees).sqrt()
    }
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

    /// Whether two runs agree, where measurements of this kind have that `spread`. What may be zero has no ratio: its
    /// medians are no further apart than the larger of the two ranges.
    fn agrees(&self, spread: &Spread) -> bool {
        let (Some(here), Some(there)) = (median(&self.here), median(&self.there)) else {
            return true;
        };
        if !self.is_positive() {
            return (here - there).abs() <= range(&self.here).max(range(&self.there));
        }
        let error = (1.0 / count(&self.here) + 1.0 / count(&self.there)).sqrt();
        (here / there).ln().abs() <= STANDARD_ERRORS * spread.standard_deviation() * error
    }

    /// The median here as a share of that of the other run.
    fn ratio(&self) -> f64 {
        median(&self.here).unwrap_or(f64::NAN) / median(&self.there).unwrap_or(f64::NAN)
    }
}

/// On how much two runs agree, and on what they do not, in Markdown.
pub(crate) fn compare(here: &[(Part, Sheet)], there: &[(Part, Sheet)]) -> String {
    let (figures, notes) = common(here, there);
    let mut spreads = spreads(&figures);
    let mut strange = Vec::new();
    for figure in &figures {
        let spread = spreads.entry(figure.kind()).or_default();
        spread.figures += 1;
        if figure.agrees(spread) {
            spread.agreeing += 1;
        } else {
            strange.push(figure);
        }
    }
    let distance = |figure: &Figure| figure.ratio().ln().abs();
    strange.sort_by(|one, other| distance(other).total_cmp(&distance(one)));
    let mut text = format!(
        "{} of {} figures that two runs measured several times agree: their medians are no further apart than two \
         standard errors of that difference, which one in twenty is by chance. The spread is that of a single measurement, \
         of all figures of a part in one unit together.",
        figures.len() - strange.len(),
        figures.len()
    );
    if let (Some((_, here)), Some((_, there))) = (here.last(), there.last()) {
        let (here, there) = (when_and_of_what(here), when_and_of_what(there));
        let _infallible = write!(text, " This run{here}; the other{there}.");
    }
    for note in notes {
        let _infallible = write!(text, " {note}");
    }
    text.push_str("\n\n| part | unit | spread, % | figures | agree |\n|---|---|---|---|---|\n");
    for ((part, unit), spread) in &spreads {
        let percent = match spread.degrees > 0.0 {
            true => digits(100.0 * spread.standard_deviation()),
            false => "–".to_owned(),
        };
        let (figures, agreeing) = (spread.figures, spread.agreeing);
        let _infallible = writeln!(
            text,
            "| {part} | {unit} | {percent} | {figures} | {agreeing} |"
        );
    }
    if !strange.is_empty() {
        text.push_str(
            "\nThese do not, the furthest apart first:\n\n| part | figure | this run | the other | ratio |\n\
             |---|---|---|---|---|\n",
        );
    }
    for figure in strange {
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

/// How much measurements of each kind vary.
fn spreads(figures: &[Figure]) -> BTreeMap<(&'static str, String), Spread> {
    let mut spreads = BTreeMap::<_, Spread>::new();
    for figure in figures.iter().filter(|figure| figure.is_positive()) {
        let spread = spreads.entry(figure.kind()).or_default();
        spread.note(&figure.here);
        spread.note(&figure.there);
    }
    spreads
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
            let (here, there) = (sheet.samples(at), other.samples(at));
            if here.len() < 2 || there.len() < 2 {
                continue;
            }
            figures.push(Figure {
                part: name,
                table: at.table.to_owned(),
                row: at.row.to_owned(),
                column: at.column.to_owned(),
                here: here.to_vec(),
                there: there.to_vec(),
            });
        }
    }
    (figures, notes)
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
    use super::super::sheet::At;
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

    #[test]
    fn runs_agree_when_their_medians_are_within_two_standard_errors() {
        let agrees = |one: &[f64], other: &[f64]| {
            let (figures, _) = common(&run(one), &run(other));
            let spreads = spreads(&figures);
            let of = |figure: &Figure| {
                spreads
                    .get(&figure.kind())
                    .map(|spread| figure.agrees(spread))
            };
            figures.iter().filter_map(of).collect::<Vec<_>>()
        };
        // A standard deviation of 10 %: 2 × 10 % × √(1/2 + 1/2) is 20 %.
        let ten_percent = |around: f64| [around * 0.932, around * 1.073];
        assert_eq!(agrees(&ten_percent(100.0), &ten_percent(120.0)), [true]);
        assert_eq!(agrees(&ten_percent(100.0), &ten_percent(125.0)), [false]);
        // Measured once, a figure has no spread.
        assert!(agrees(&[9.0], &[13.0, 13.5]).is_empty());
    }

    #[test]
    fn counts_that_may_be_zero_agree_within_the_larger_range() {
        let (figures, _) = common(&run(&[0.0, 4.0]), &run(&[5.0, 7.0]));
        assert!(figures[0].agrees(&Spread::default()));
        let (figures, _) = common(&run(&[0.0, 4.0]), &run(&[8.0, 9.0]));
        assert!(!figures[0].agrees(&Spread::default()));
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
    fn runs_of_which_one_is_not_whole_are_not_compared() {
        let mut part = run(&[9.0, 10.0]);
        part[0].1.complete = false;
        let said = compare(&part, &run(&[9.0, 10.0]));
        assert!(said.contains("one was interrupted"), "{said}");
    }
}
