//! Output of commands: tables for people, JSON for programs.

use super::api::Entity;
use crate::exit::{Failure, print, print_once};
use crate::json;
use crate::visible::visible;
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use culvert_wire::Timestamp;
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::io::{IsTerminal, Write};
use unicode_width::UnicodeWidthStr;
use zeroize::Zeroizing;

/// The fewest columns of a terminal that tables are laid out for.
const MIN_WIDTH: usize = 80;

/// The format in which results are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs: one line, with a schema_version
    Json,
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

    /// Prints what was done to an object, as a sentence, with the object as it is now.
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

    /// Prints what was done to several objects, a sentence for each.
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
    print(json::line(&content)?.as_bytes())
}

/// One line of JSON that is shown this once.
pub(super) fn print_secret_json(content: impl Serialize) -> Result<(), Failure> {
    let line = Zeroizing::new(json::line(&content)?);
    print_once(line.as_bytes())
}

pub(super) fn print_line(line: impl Display) -> Result<(), Failure> {
    print(format!("{line}\n").as_bytes())
}

/// Prints a message for the person at the terminal, which is no result.
pub(super) fn note(line: impl Display) {
    // Standard error may be closed; then nobody sits there.
    let _ = writeln!(std::io::stderr(), "{}", visible(&line.to_string()));
}

/// Writes the portal's warnings to standard error, beside the answer.
pub(super) fn warn(text: &str) {
    note(format_args!("warning: {text}"));
}

/// Rows under headings. No cell is broken, so that text to copy or to search for is whole. Without a
/// terminal a row is one line; at a terminal, cells that do not fit go below, indented.
pub(super) fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    table_within(width(), columns, rows)
}

/// The same for a terminal of that many columns, or for none.
fn table_within(
    width: Option<usize>,
    columns: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) -> String {
    let heading = columns.iter().map(|&column| column.to_owned()).collect();
    let lines = std::iter::once(heading).chain(rows.map(|row| {
        let cells = row.iter().map(|cell| visible(&cell.replace('\n', "; ")));
        cells.collect::<Vec<_>>()
    }));
    let lines: Vec<Vec<String>> = lines.collect();
    let widths = column_widths(&lines);
    let lines = lines.iter().map(|cells| line(width, &widths, cells));
    lines.collect()
}

/// Spaces between columns.
const GAP: usize = 2;

/// Spaces before what did not fit into the line above.
const INDENT: usize = 4;

/// A row. All of a column stands below its heading, so only the last one depends on its own width.
fn line(width: Option<usize>, widths: &[usize], cells: &[String]) -> String {
    let mut text = String::new();
    let mut used = 0;
    for (at, cell) in cells.iter().enumerate() {
        let own = cell.width();
        let needed = match at + 1 == cells.len() {
            true => own,
            false => widths.get(at).copied().unwrap_or(own),
        };
        if at > 0 && width.is_some_and(|width| used + needed > width) {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', INDENT));
            used = INDENT;
        }
        text.push_str(cell);
        text.extend(std::iter::repeat_n(' ', needed - own + GAP));
        used += needed + GAP;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn column_widths(lines: &[Vec<String>]) -> Vec<usize> {
    let mut widths = Vec::new();
    for cells in lines {
        widths.resize(widths.len().max(cells.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.width().max(*width);
        }
    }
    widths
}

/// Fields, each with its name before it. Lines of a value stand one below the other.
pub(super) fn record(fields: &[(&'static str, String)]) -> String {
    let names = fields.iter().map(|(name, _)| name.len());
    let width = names.max().unwrap_or(0) + ":".len() + GAP;
    let mut text = String::new();
    for (name, value) in fields {
        let mut name = format!("{name}:");
        for part in value.split('\n') {
            let line = format!("{name:<width$}{}", visible(part));
            text.push_str(line.trim_end());
            text.push('\n');
            name.clear();
        }
    }
    text
}

/// Columns for a table; none where there is no terminal, or one that does not say.
fn width() -> Option<usize> {
    columns().map(|columns| columns.max(MIN_WIDTH))
}

/// Columns of the terminal; none where there is no terminal, or one that does not say.
pub(super) fn columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// An instant to the second, or a dash where there is none.
pub(super) fn instant(at: Option<Timestamp>) -> String {
    at.map_or_else(
        || "-".to_owned(),
        |at| Timestamp::from_unix_ms(at.unix_ms() / 1_000 * 1_000).to_string(),
    )
}

/// A machine with whether it is connected.
#[derive(Serialize)]
pub(super) struct Listed<T> {
    #[serde(flatten)]
    pub(super) thing: T,
    pub(super) connected: bool,
    /// Nothing where it is not connected.
    pub(super) connected_since: Option<Timestamp>,
    /// Of a connected gateway, how many clients it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clients: Option<u64>,
}

impl<T: Entity> Listed<T> {
    pub(super) fn of(thing: T, since: &HashMap<T::Id, Timestamp>) -> Self {
        let connected_since = since.get(&thing.id()).copied();
        Self {
            thing,
            connected: connected_since.is_some(),
            connected_since,
            clients: None,
        }
    }
}

/// The connection state of a machine, with the time of its last change.
pub(super) fn connected(since: Option<Timestamp>) -> String {
    match since {
        Some(since) => format!("since {}", instant(Some(since))),
        None => "no".to_owned(),
    }
}

/// The parts of a text that are coloured, if a terminal shows it.
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

    /// A table of one row.
    fn one_row(width: Option<usize>, cells: &[&str]) -> String {
        let columns = &["ID", "NAME", "GROUP", "RESOURCE"][..cells.len()];
        let row = cells.iter().map(|&cell| cell.to_owned()).collect();
        table_within(width, columns, std::iter::once(row))
    }

    #[test]
    fn a_row_is_one_line_where_no_terminal_is() {
        let long = "everybody who develops the new warehouse and its many scanners";
        let text = one_row(None, &[ID, long, long, long]);
        let line = format!("{ID}  {long}  {long}  {long}");
        assert_eq!(text.lines().nth(1), Some(line.as_str()));
        assert_eq!(text.lines().count(), 2, "{text}");
        let text = one_row(None, &[ID, "two\nlines"]);
        assert_eq!(
            text.lines().nth(1),
            Some(format!("{ID}  two; lines").as_str())
        );
    }

    #[test]
    fn on_a_terminal_a_cell_that_does_not_fit_goes_below_and_is_whole() {
        let long = "everybody who develops the new warehouse and its scanners";
        assert_eq!(
            one_row(Some(80), &[ID, "db", long]),
            format!("ID                              NAME  GROUP\n{ID}  db\n    {long}\n")
        );
        let names = ["a name of some twenty-five", "another name of that length"];
        assert_eq!(
            one_row(Some(80), &[ID, names[0], names[1], "last"]),
            format!(
                "ID                              NAME\n    GROUP                        RESOURCE\n\
                 {ID}  {}\n    {}  last\n",
                names[0], names[1]
            )
        );
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
    fn only_a_terminal_gets_colours() {
        let red = |on| Colours::new(on).paint(AnsiColor::Red, "gone").to_string();
        assert_eq!(red(false), "gone");
        assert_eq!(red(true), "\u{1b}[31mgone\u{1b}[0m");
    }

    proptest! {
        #[test]
        fn every_cell_is_whole_and_only_a_cell_alone_is_wider_than_the_terminal(
            rows in prop::collection::vec(prop::collection::vec("[a-zäß世][a-zäß世 ]{0,89}[a-z世]", 4), 0..5),
            width in 80_usize..200,
        ) {
            let text = table_within(Some(width), &["ID", "NAME", "GROUP", "RESOURCE"], rows.iter().cloned());
            for cell in rows.iter().flatten() {
                prop_assert!(text.contains(cell.as_str()), "{cell:?}\n{text}");
            }
            for line in text.lines() {
                let is_one_cell = rows.iter().flatten().any(|cell| line.trim_start() == cell);
                prop_assert!(line.width() <= width || is_one_cell, "{line:?}");
            }
        }
    }
}
