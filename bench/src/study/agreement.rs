//! Whether two runs of the study say the same.

use std::io::{self, Write};

use anyhow::Result;

use super::Part;
use super::page::{cell, digits};
use super::sheet::{At, Sheet};
use crate::statistics::{median, spread};

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
}

/// Prints on what two runs do not agree, and on how much they do.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(here: &[(Part, Sheet)], there: &[(Part, Sheet)]) -> Result<()> {
    let figures = common(here, there);
    let strange: Vec<_> = figures.iter().filter(|figure| !figure.agrees()).collect();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\n{} of {} figures that both runs measured several times agree: their medians are no further \
         apart than the larger spread",
        figures.len() - strange.len(),
        figures.len()
    )?;
    for figure in strange {
        let ratio =
            median(&figure.here).unwrap_or(f64::NAN) / median(&figure.there).unwrap_or(f64::NAN);
        writeln!(
            out,
            "{}, {}: {}, {}: {} here, {} there, {} ×",
            figure.part,
            figure.table,
            figure.row,
            figure.column,
            cell(&figure.here),
            cell(&figure.there),
            digits(ratio)
        )?;
    }
    Ok(())
}

fn common(here: &[(Part, Sheet)], there: &[(Part, Sheet)]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (part, sheet) in here {
        let Some((_, other)) = there.iter().find(|(other, _)| other == part) else {
            continue;
        };
        for table in sheet.tables() {
            for row in sheet.rows(table) {
                for column in sheet.columns(table) {
                    let at = At { table, row, column };
                    let (here, there) = (sheet.samples(at), other.samples(at));
                    if here.len() < 2 || there.len() < 2 {
                        continue;
                    }
                    figures.push(Figure {
                        part: part.name(),
                        table: table.to_owned(),
                        row: row.to_owned(),
                        column: column.to_owned(),
                        here: here.to_vec(),
                        there: there.to_vec(),
                    });
                }
            }
        }
    }
    figures
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
        vec![(Part::Links, sheet)]
    }

    #[test]
    fn runs_agree_when_their_medians_are_within_the_larger_spread() {
        let agrees = |one: &[f64], other: &[f64]| {
            let figures = common(&run(one), &run(other));
            figures.iter().map(Figure::agrees).collect::<Vec<_>>()
        };
        assert_eq!(agrees(&[9.0, 10.0, 12.0], &[12.5, 13.0, 14.0]), [true]);
        assert_eq!(agrees(&[9.0, 10.0, 12.0], &[13.0, 13.5, 14.0]), [false]);
        // Measured once, a figure has no spread.
        assert!(agrees(&[9.0], &[13.0, 13.5]).is_empty());
    }
}
