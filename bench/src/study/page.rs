//! The page, from the results that are kept beside it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;

use super::chart;
use super::part::Part;
use super::sheet::{At, Sheet};
use crate::machine::Machine;
use crate::statistics::{digits, median};

/// The text of the page around tables and charts. `{{part:table}}` stands for a table, `{{part}}`
/// for where the figures of a part come from, `{{machine}}` for what they were measured on, and
/// `{{bars:part:table:title:column|column}}` and `{{lines:part:table:title}}` for charts.
const TEMPLATE: &str = include_str!("page.md");

/// Prints all tables, as they are on the page.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(sheets: &[(Part, Sheet)]) -> Result<()> {
    let mut out = io::stdout().lock();
    for (part, sheet) in sheets {
        for name in sheet.tables() {
            writeln!(out, "\n{}: {name}\n\n{}", part.name(), table(sheet, name))?;
        }
        writeln!(out, "\n{}", origin(sheet, sheets))?;
    }
    Ok(())
}

/// Writes the page and its charts.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write(page: &Path, results: &Path, sheets: &[(Part, Sheet)]) -> Result<()> {
    let mut text = String::new();
    let mut rest = TEMPLATE;
    while let Some((before, after)) = rest.split_once("{{") {
        let (order, after) = after.split_once("}}").context("an order without an end")?;
        text.push_str(before);
        text.push_str(&forward_out(order, page, results, sheets)?);
        rest = after;
    }
    text.push_str(rest);
    fs::write(page, text).with_context(|| format!("cannot write {}", page.display()))
}

fn forward_out(
    order: &str,
    page: &Path,
    results: &Path,
    sheets: &[(Part, Sheet)],
) -> Result<String> {
    let words: Vec<_> = order.split(':').collect();
    let find = |name: &str| {
        let found = sheets.iter().find(|(part, _)| part.name() == name);
        found.map(|(_, sheet)| sheet)
    };
    let picture = |name: &str, title: &str| {
        let path = results.join(name);
        let from = page.parent().unwrap_or(Path::new(""));
        let shown = path.strip_prefix(from).unwrap_or(&path);
        if path.exists() {
            format!("![{title}]({})", shown.display())
        } else {
            String::new()
        }
    };
    Ok(match words[..] {
        ["machine"] => sheets
            .first()
            .map(|(_, sheet)| machine(&sheet.machine))
            .unwrap_or_default(),
        ["flame", name, title] => picture(&format!("flame-{name}.svg"), title),
        ["bars", part, name, title, columns] => {
            let file = file_name(part, &format!("{name} {columns}"));
            if let Some(sheet) = find(part) {
                let columns: Vec<_> = columns.split('|').collect();
                chart::bars(&results.join(&file), sheet, name, &columns, title)?;
            }
            picture(&file, title)
        }
        ["lines", part, name, title] => {
            let file = file_name(part, name);
            if let Some(sheet) = find(part) {
                chart::lines(&results.join(&file), sheet, name, title)?;
            }
            picture(&file, title)
        }
        [part] => find(part).map_or_else(|| missing(part), |sheet| origin(sheet, sheets)),
        [part, name] => find(part).map_or_else(|| missing(part), |sheet| table(sheet, name)),
        _ => bail!("the page has an order that nobody knows: {order}"),
    })
}

fn file_name(part: &str, table: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = table.chars().map(plain).collect();
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
    format!("{part}-{}.svg", words.join("-"))
}

fn missing(part: &str) -> String {
    format!("*Not measured yet: `make study STUDY=\"--only {part}\"`.*")
}

/// When it was measured, and of which commit, each behind a comma.
fn when_and_of_what(sheet: &Sheet) -> String {
    let mut text = String::new();
    let written = i64::try_from(sheet.written_at_s).ok();
    if let Some(time) = written.and_then(|seconds| Timestamp::from_second(seconds).ok()) {
        let _infallible = write!(text, ", {}", time.strftime("%Y-%m-%d %H:%M UTC"));
    }
    if !sheet.commit.is_empty() {
        let _infallible = write!(text, ", commit {}", sheet.commit);
    }
    text
}

/// The origin of a part's figures, and the failures of its run.
fn origin(sheet: &Sheet, sheets: &[(Part, Sheet)]) -> String {
    let mut text = format!("`{}`{}", sheet.command, when_and_of_what(sheet));
    if sheets
        .first()
        .is_some_and(|(_, first)| !first.machine.is_like(&sheet.machine))
    {
        let _infallible = write!(text, ", on another machine: {}", machine(&sheet.machine));
    }
    if sheet.quick {
        text.push_str(", short measurements");
    }
    if !sheet.complete {
        text.push_str(", **interrupted: not all of it was measured**");
    }
    for failure in &sheet.failures {
        let line = failure.lines().next().unwrap_or_default();
        let _infallible = write!(text, "; not measured: {line}");
    }
    text
}

fn machine(machine: &Machine) -> String {
    format!(
        "{} processors ({}), {} of memory, Linux {}",
        machine.cores, machine.processor, machine.memory, machine.kernel
    )
}

/// A table in Markdown: medians, and in brackets the least and the most of several rounds.
fn table(sheet: &Sheet, name: &str) -> String {
    let (rows, columns) = (sheet.rows(name), sheet.columns(name));
    if rows.is_empty() {
        return "*Not measured.*".to_owned();
    }
    let mut text = format!("| | {} |\n|---|", columns.join(" | "));
    text.push_str(&"---|".repeat(columns.len()));
    for row in rows {
        let _infallible = write!(text, "\n| {row} |");
        for column in &columns {
            let at = At {
                table: name,
                row,
                column,
            };
            let shown = match sheet.words(at) {
                Some(words) => words.to_owned(),
                None => cell(sheet.samples(at)),
            };
            let _infallible = write!(text, " {shown} |");
        }
    }
    text
}

/// The median, and in brackets the least and the most where there are several.
fn cell(samples: &[f64]) -> String {
    let Some(median) = median(samples) else {
        return "–".to_owned();
    };
    let least = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let most = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match samples.len() {
        1 => digits(median),
        _ => format!("{} ({}–{})", digits(median), digits(least), digits(most)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_of_the_template_is_known_and_names_a_part() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("performance.md");
        write(&page, dir.path(), &[]).unwrap();
        let text = fs::read_to_string(&page).unwrap();
        assert!(!text.contains("{{"), "{text}");
        for order in TEMPLATE.split("{{").skip(1) {
            let order = order.split("}}").next().unwrap();
            let mut words = order.split(':');
            let named = match words.next().unwrap() {
                "bars" | "lines" => words.next().unwrap(),
                "machine" | "flame" => continue,
                part => part,
            };
            use clap::ValueEnum;
            assert!(
                Part::value_variants()
                    .iter()
                    .any(|part| part.name() == named),
                "{order}"
            );
        }
    }

    #[test]
    fn a_table_shows_the_median_and_the_spread_and_says_what_is_missing() {
        let mut sheet = Sheet::new("culvert-bench study --only links".to_owned(), false);
        for value in [9.0, 10.0, 12.5] {
            let at = At {
                table: "rates",
                row: "1 Gbit/s",
                column: "culvert",
            };
            sheet.add(at, value);
        }
        let other = At {
            table: "rates",
            row: "none",
            column: "direct",
        };
        sheet.add(other, 0.25);
        assert_eq!(
            table(&sheet, "rates"),
            "| | culvert | direct |\n|---|---|---|\n| 1 Gbit/s | 10.0 (9.00–12.5) | – |\n| none | – | 0.250 |"
        );
        assert!(origin(&sheet, &[]).contains("interrupted"));
    }
}
