//! The results of one part of the study, as they are kept beside the page.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::machine::{self, Machine};
use crate::statistics::{Samples, median};
use crate::subject::Subject;
use crate::targets::Verdict;

/// Grows when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// The results of one part.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sheet {
    schema_version: u32,
    /// The command that measures this part again.
    pub(crate) command: String,
    pub(crate) machine: Machine,
    /// The commit that was measured; with a plus where files were changed since.
    #[serde(default)]
    pub(crate) commit: String,
    /// Seconds since 1970 at which the last value was written.
    pub(crate) written_at_s: u64,
    /// Short measurements, which say less.
    pub(crate) quick: bool,
    /// The number of rounds; 0 if that was not written down.
    #[serde(default)]
    pub(crate) rounds: u32,
    /// False while it is measured, and for good where that was interrupted.
    pub(crate) complete: bool,
    cells: Vec<Cell>,
    /// Failed measurements, each with its reason.
    pub(crate) failures: Vec<String>,
}

/// All values of one place in one table.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    pub(crate) table: String,
    pub(crate) row: String,
    pub(crate) column: String,
    /// Of each round one or as many turns as it has, in the unit that `column` names.
    pub(crate) samples: Vec<f64>,
    /// Text in the place of a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    words: Option<String>,
}

/// The position of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) table: &'a str,
    pub(crate) row: &'a str,
    pub(crate) column: &'a str,
}

impl Cell {
    fn is_at(&self, at: At<'_>) -> bool {
        (self.table.as_str(), self.row.as_str(), self.column.as_str())
            == (at.table, at.row, at.column)
    }
}

impl Sheet {
    /// Nothing yet.
    pub(crate) fn new(command: String, quick: bool) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            command,
            machine: Machine::this(),
            commit: machine::commit(),
            written_at_s: 0,
            quick,
            rounds: 0,
            complete: false,
            cells: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// True if nothing has been measured yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Adds one value of one round.
    pub(crate) fn add(&mut self, at: At<'_>, value: f64) {
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.is_at(at)) {
            cell.samples.push(value);
            return;
        }
        self.cells.push(Cell {
            table: at.table.to_owned(),
            row: at.row.to_owned(),
            column: at.column.to_owned(),
            samples: vec![value],
            words: None,
        });
    }

    /// Adds what was measured of one subject in one turn: a row for each metric.
    pub(crate) fn add_samples(&mut self, table: &str, samples: &Samples, subject: &Subject) {
        for metric in samples.metrics() {
            let (unit, one) = metric.shown_unit();
            let row = format!("{metric}, {unit}");
            let at = At {
                table,
                row: row.trim_end_matches(", "),
                column: subject.name,
            };
            for &value in samples.values(subject.name, metric) {
                self.add(at, value / one);
            }
        }
    }

    /// Adds what was reached of one target.
    pub(crate) fn add_verdict(&mut self, verdict: &Verdict) {
        let at = |column| At {
            table: "targets",
            row: &verdict.target,
            column,
        };
        self.add(at("measured"), verdict.value);
        self.add(at("target"), verdict.bound);
        let reached = if verdict.reached { "yes" } else { "**no**" };
        self.say(at("reached"), reached.to_owned());
    }

    /// Writes words where a number would stand.
    pub(crate) fn say(&mut self, at: At<'_>, words: String) {
        self.cells.push(Cell {
            table: at.table.to_owned(),
            row: at.row.to_owned(),
            column: at.column.to_owned(),
            samples: Vec::new(),
            words: Some(words),
        });
    }

    /// The text that is at a place instead of a number.
    pub(crate) fn words(&self, at: At<'_>) -> Option<&str> {
        let cell = self.cells.iter().find(|cell| cell.is_at(at))?;
        cell.words.as_deref()
    }

    /// Removes a table, which is worked out anew.
    pub(crate) fn clear(&mut self, table: &str) {
        self.cells.retain(|cell| cell.table != table);
    }

    /// Notes what came to nothing, and says so at once; the rest of the part goes on.
    pub(crate) fn note(&mut self, what: &str, result: Result<()>) {
        let Err(error) = result else { return };
        let line = format!("{what}: {error:#}");
        eprintln!("         failed: {line}");
        self.failures.push(line);
    }

    /// The cells of a table, in the order of measurement.
    pub(crate) fn cells<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.cells.iter().filter(move |cell| cell.table == table)
    }

    /// The rows of a table, in the order of measurement.
    pub(crate) fn rows<'a>(&'a self, table: &'a str) -> Vec<&'a str> {
        distinct(self.cells(table).map(|cell| cell.row.as_str()))
    }

    /// The columns of a table, in the order of measurement.
    pub(crate) fn columns<'a>(&'a self, table: &'a str) -> Vec<&'a str> {
        distinct(self.cells(table).map(|cell| cell.column.as_str()))
    }

    /// The tables, in the order of measurement.
    pub(crate) fn tables(&self) -> Vec<&str> {
        distinct(self.cells.iter().map(|cell| cell.table.as_str()))
    }

    /// All values of a place.
    pub(crate) fn samples(&self, at: At<'_>) -> &[f64] {
        let cell = self.cells.iter().find(|cell| cell.is_at(at));
        cell.map_or(&[], |cell| &cell.samples)
    }

    /// The median of a place.
    pub(crate) fn median(&self, at: At<'_>) -> Option<f64> {
        median(self.samples(at))
    }

    /// Writes the sheet, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&mut self, path: &Path) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.written_at_s = now.unwrap_or_default().as_secs();
        let text = serde_json::to_string_pretty(self)? + "\n";
        let beside = path.with_extension("new");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Reads a sheet that was written before; `None` where there is none.
    ///
    /// # Errors
    /// When it is not what this program writes.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let Ok(text) = fs::read_to_string(path) else {
            return Ok(None);
        };
        let sheet: Self = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is no result of this program: remove it and measure again",
                path.display()
            )
        })?;
        Ok((sheet.schema_version == SCHEMA_VERSION).then_some(sheet))
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found = Vec::new();
    for name in names {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_rounds_share_a_place_and_survive_the_file() {
        let at = At {
            table: "tcp",
            row: "culvert",
            column: "Gbit/s",
        };
        let mut sheet = Sheet::new("culvert-bench study".to_owned(), true);
        for value in [10.0, 30.0, 11.0] {
            sheet.add(at, value);
        }
        sheet.add(
            At {
                row: "direct",
                ..at
            },
            60.0,
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tcp.json");
        sheet.write(&path).unwrap();
        let sheet = Sheet::read(&path).unwrap().unwrap();
        assert_eq!(sheet.median(at), Some(11.0));
        assert_eq!(sheet.rows("tcp"), ["culvert", "direct"]);
        assert!(!sheet.complete);
        assert!(
            Sheet::read(&dir.path().join("none.json"))
                .unwrap()
                .is_none()
        );
        fs::write(&path, "{}").unwrap();
        assert!(Sheet::read(&path).is_err());
    }
}
