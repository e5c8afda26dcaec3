//! Whether two runs of the study say the same.

use std::fmt::Write as _;

use super::Part;
use super::page::{cell, digits};
use super::sheet::Sheet;
use crate::statistics::{median, spread};

/// What is said of two runs, beside the results of the one.
pub(crate) const FILE: &str = "agreement.md";

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

impl Figure {
    /// Two runs agree on a figure whose medians are no further apart than the larger of the two spreads.
    fn agrees(&self) -> bool {
        let (Some(here), Some(there)) = (median(&self.here), median(&self.there)) else {
            return true;
        };
        (here - there).abs() <= spread(&self.here).max(spread(&self.there))
    }

    /// The median here as a share of that of the other run.
    fn ratio(&self) -> f64 {
        median(&self.here).unwrap_or(f64::NAN) / median(&self.there).unwrap_or(f64::NAN)
    }
}

/// On how much two runs agree, and on what they do not, in Markdown.
pub(crate) fn compare(here: &[(Part, Sheet)], there: &[(Part, Sheet)]) -> String {
    let (figures, notes) = common(here, there);
    let mut strange: Vec<_> = figures.iter().filter(|figure| !figure.agrees()).collect();
    let distance = |figure: &Figure| figure.ratio().ln().abs();
    strange.sort_by(|one, other| distance(other).total_cmp(&distance(one)));
    let mut text = format!(
        "{} of {} figures that two runs measured several times agree: their medians are no further apart than \
         the larger of the two spreads.",
        figures.len() - strange.len(),
        figures.len()
    );
    for note in notes {
        let _infallible = write!(text, " {note}");
    }
    if strange.is_empty() {
        return text + "\n";
    }
    text.push_str(
        " These do not, the furthest apart first:\n\n| part | figure | this run | the other | ratio |\n\
         |---|---|---|---|---|\n",
    );
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
    fn runs_agree_when_their_medians_are_within_the_larger_spread() {
        let agrees = |one: &[f64], other: &[f64]| {
            let (figures, _) = common(&run(one), &run(other));
            figures.iter().map(Figure::agrees).collect::<Vec<_>>()
        };
        assert_eq!(agrees(&[9.0, 10.0, 12.0], &[12.5, 13.0, 14.0]), [true]);
        assert_eq!(agrees(&[9.0, 10.0, 12.0], &[13.0, 13.5, 14.0]), [false]);
        // Measured once, a figure has no spread.
        assert!(agrees(&[9.0], &[13.0, 13.5]).is_empty());
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
    fn runs_of_which_one_is_not_whole_are_not_compared() {
        let mut part = run(&[9.0, 10.0]);
        part[0].1.complete = false;
        let said = compare(&part, &run(&[9.0, 10.0]));
        assert!(said.contains("one was interrupted"), "{said}");
    }
}
