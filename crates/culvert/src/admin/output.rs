//! What commands print: tables for people, JSON for programs.

use crate::exit::{Failure, Status, print, print_once};
use crate::visible::visible;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, TableStyle};
use culvert_wire::Timestamp;
use serde::Serialize;
use std::fmt::{self, Display};
use std::io::{IsTerminal, Write};
use zeroize::Zeroizing;

/// Counts changes of the JSON that programs must know of: within one, fields are added alone.
const SCHEMA_VERSION: u32 = 1;

/// Columns of a table where no terminal says how many there are, and the fewest.
const MIN_WIDTH: u16 = 80;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs: one line, with a schema_version
    Json,
}

#[derive(Serialize)]
struct Versioned<T> {
    schema_version: u32,
    #[serde(flatten)]
    content: T,
}

#[derive(Serialize)]
struct Items<'a, T> {
    items: &'a [T],
}

#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
}

impl Format {
    /// A list.
    pub(super) fn list<T: Serialize>(
        self,
        items: &[T],
        columns: &[&str],
        row: impl Fn(&T) -> Vec<String>,
    ) -> Result<(), Failure> {
        match self {
            Self::Json => print_json(Items { items }),
            Self::Table => print(table(columns, items.iter().map(row)).as_bytes()),
        }
    }

    /// One thing, field by field.
    pub(super) fn record<T: Serialize>(
        self,
        item: &T,
        fields: impl FnOnce() -> Vec<(&'static str, String)>,
    ) -> Result<(), Failure> {
        match self {
            Self::Json => print_json(item),
            Self::Table => print(record(&fields()).as_bytes()),
        }
    }

    /// What was done, in a sentence, to a thing as it is now.
    pub(super) fn done<T: Serialize>(
        self,
        item: &T,
        sentence: impl Display,
    ) -> Result<(), Failure> {
        match self {
            Self::Json => print_json(item),
            Self::Table => print_line(sentence),
        }
    }

    /// What was done to several things, in a sentence for each.
    pub(super) fn done_to_each<T: Serialize>(
        self,
        items: &[T],
        sentence: impl Fn(&T) -> String,
    ) -> Result<(), Failure> {
        match self {
            Self::Json => print_json(Items { items }),
            Self::Table => {
                let lines = items.iter().map(|item| sentence(item) + "\n");
                print(lines.collect::<String>().as_bytes())
            }
        }
    }

    /// That something is gone.
    pub(super) fn deleted(self, id: impl Display, sentence: impl Display) -> Result<(), Failure> {
        let deleted = &id.to_string();
        self.done(&Deleted { deleted }, sentence)
    }
}

/// One line of JSON.
pub(super) fn print_json(content: impl Serialize) -> Result<(), Failure> {
    print(json(content)?.as_bytes())
}

/// One line of JSON that is shown this once.
pub(super) fn print_secret_json(content: impl Serialize) -> Result<(), Failure> {
    let line = Zeroizing::new(json(content)?);
    print_once(line.as_bytes())
}

fn json(content: impl Serialize) -> Result<String, Failure> {
    let schema_version = SCHEMA_VERSION;
    let versioned = Versioned {
        schema_version,
        content,
    };
    let text = serde_json::to_string(&versioned);
    let text =
        text.map_err(|error| Failure::new(Status::Failed, format_args!("writing JSON: {error}")))?;
    Ok(text + "\n")
}

pub(super) fn print_line(line: impl Display) -> Result<(), Failure> {
    print(format!("{line}\n").as_bytes())
}

/// Says something to whoever sits there, which is no result.
pub(super) fn note(line: impl Display) {
    // Standard error may be closed; then nobody sits there.
    let _ = writeln!(std::io::stderr(), "{}", visible(&line.to_string()));
}

/// Writes the portal's warnings to standard error, beside the answer.
pub(super) fn warn(text: &str) {
    note(format_args!("warning: {text}"));
}

/// Rows under headings. The first column, which holds ids or times, is never wrapped.
pub(super) fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = plain_table();
    table.set_header(columns.to_vec());
    for row in rows {
        table.add_row(Row::from(
            row.iter()
                .map(|cell| visible_lines(cell))
                .collect::<Vec<_>>(),
        ));
    }
    finished(table)
}

/// Fields, each with its name before it.
pub(super) fn record(fields: &[(&'static str, String)]) -> String {
    let mut table = plain_table();
    for (name, value) in fields {
        table.add_row(vec![format!("{name}:"), visible_lines(value)]);
    }
    finished(table)
}

fn plain_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(TableStyle::new())
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width());
    table
}

fn finished(mut table: Table) -> String {
    table.discover_columns();
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    text
}

fn width() -> u16 {
    let columns = match std::io::stdout().is_terminal() {
        true => rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| size.ws_col),
        false => Ok(MIN_WIDTH),
    };
    columns.unwrap_or(MIN_WIDTH).max(MIN_WIDTH)
}

/// The lines of a cell, without what would control the terminal.
fn visible_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

/// An instant to the second, or a dash where there is none.
pub(super) fn instant(at: Option<Timestamp>) -> String {
    at.map_or_else(
        || "-".to_owned(),
        |at| Timestamp::from_unix_ms(at.unix_ms() / 1_000 * 1_000).to_string(),
    )
}

/// The day of an instant, for narrow columns.
pub(super) fn day(at: Option<Timestamp>) -> String {
    let text = instant(at);
    text.split('T').next().unwrap_or_default().to_owned()
}

/// What of a text is coloured, where a terminal shows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colours {
    on: bool,
}

impl Colours {
    /// As the terminal and the environment want it (<https://no-color.org>).
    pub(super) fn detect() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let on = std::io::stdout().is_terminal() && !unwanted;
        Self { on }
    }

    #[cfg(test)]
    pub(super) const fn new(on: bool) -> Self {
        Self { on }
    }

    pub(super) fn paint(self, colour: AnsiColor, text: impl Display) -> impl Display {
        Painted {
            style: self.on.then(|| colour.on_default()),
            text,
        }
    }
}

struct Painted<T> {
    style: Option<Style>,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Some(style) => write!(out, "{style}{}{style:#}", self.text),
            None => self.text.fmt(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "pol_01jd7m2v9q8k4x0c5t3w6y1z2a";

    #[test]
    fn a_long_row_is_wrapped_within_80_columns_and_its_id_is_whole() {
        let long = "everybody who develops the new warehouse and its many scanners".to_owned();
        let row = vec![ID.to_owned(), long.clone(), long.clone(), long];
        let text = table(&["ID", "NAME", "GROUP", "RESOURCE"], [row].into_iter());
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(text.contains(ID), "{text}");
    }

    #[test]
    fn names_of_others_cannot_control_the_terminal() {
        let row = vec![ID.to_owned(), "\u{1b}[2Jcleared\u{7}".to_owned()];
        let text = table(&["ID", "NAME"], [row].into_iter());
        assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        let text = record(&[("name", "a\u{1b}]0;x\nb\r".to_owned())]);
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
    }

    #[test]
    fn json_has_its_schema_version_first() {
        let schema_version = SCHEMA_VERSION;
        let content = Items { items: &[1, 2] };
        let versioned = Versioned {
            schema_version,
            content,
        };
        let text = serde_json::to_string(&versioned).unwrap();
        assert_eq!(text, r#"{"schema_version":1,"items":[1,2]}"#);
    }

    #[test]
    fn only_a_terminal_gets_colours() {
        let red = |on| Colours::new(on).paint(AnsiColor::Red, "gone").to_string();
        assert_eq!(red(false), "gone");
        assert_eq!(red(true), "\u{1b}[31mgone\u{1b}[0m");
    }

    proptest! {
        #[test]
        fn no_table_is_wider_than_80_columns(
            rows in prop::collection::vec(prop::collection::vec("[a-zäß世 ]{0,90}", 4), 0..5)
        ) {
            let rows = rows.into_iter().map(|mut row| {
                row[0] = ID.to_owned();
                row
            });
            let text = table(&["ID", "NAME", "GROUP", "RESOURCE"], rows);
            for line in text.lines() {
                // A letter of another script may take two columns.
                let columns: usize = line.chars().map(|c| if c == '世' { 2 } else { 1 }).sum();
                prop_assert!(columns <= 80, "{line:?}");
            }
        }
    }
}
