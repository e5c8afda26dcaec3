//! The table of circles that there are.

use anyhow::{Context, Result};
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// From the root of the repository.
pub(super) const TABLE: &str = "xtask/circles.toml";

const INTRODUCTION: &str = "\
# Circles between files of one crate, by their paths in its folder `src` (`cargo xtask circles`). The table may only
# become shorter: `cargo xtask circles --lower` removes files that left their circle.
";

/// The files of one circle of the crate `package`, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) package: String,
    pub(super) files: Vec<String>,
}

/// Reads the table; nothing where there is none.
pub(super) fn load(root: &Path) -> Result<Option<Vec<Entry>>> {
    match fs::read_to_string(root.join(TABLE)) {
        Ok(text) => Ok(Some(parse(&text).context(TABLE)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(TABLE),
    }
}

fn parse(text: &str) -> Result<Vec<Entry>> {
    let table: toml::Table = text.parse()?;
    let rows = table.get("circle").and_then(toml::Value::as_array);
    let entry = |row: &toml::Value| {
        let files = row.get("files")?.as_array()?.iter();
        Some(Entry {
            package: row.get("package")?.as_str()?.to_owned(),
            files: files
                .map(|file| Some(file.as_str()?.to_owned()))
                .collect::<Option<_>>()?,
        })
    };
    let entries: Option<_> = rows.into_iter().flatten().map(entry).collect();
    entries.context("a circle has a `package` and `files`")
}

pub(super) fn write(root: &Path, entries: &[Entry]) -> Result<()> {
    fs::write(root.join(TABLE), text(entries)).context(TABLE)
}

fn text(entries: &[Entry]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for Entry { package, files } in entries {
        let _infallible = write!(text, "\n[[circle]]\npackage = {package:?}\nfiles = [\n");
        for file in files {
            let _infallible = writeln!(text, "    {file:?},");
        }
        text.push_str("]\n");
    }
    text
}

/// The circles that are found now, as far as each lies within one entry.
pub(super) fn lowered(known: &[Entry], found: impl Iterator<Item = Entry>) -> Vec<Entry> {
    let is_within = |entry: &Entry, circle: &Entry| {
        let mut files = circle.files.iter();
        entry.package == circle.package && files.all(|file| entry.files.contains(file))
    };
    found
        .filter(|circle| known.iter().any(|entry| is_within(entry, circle)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(package: &str, files: &[&str]) -> Entry {
        Entry {
            package: package.to_owned(),
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let entries = [
            entry("a", &["b.rs", "c/d.rs"]),
            entry("e", &["f.rs", "g.rs"]),
        ];
        assert_eq!(parse(&text(&entries)).expect("a table"), entries);
        assert!(parse("[[circle]]\npackage = \"a\"\n").is_err());
    }

    #[test]
    fn a_table_is_lowered_and_never_raised() {
        let known = [entry("a", &["b.rs", "c.rs", "d.rs"])];
        let found = [
            entry("a", &["b.rs", "c.rs"]),
            entry("a", &["d.rs", "e.rs"]),
            entry("f", &["b.rs", "c.rs"]),
        ];
        assert_eq!(lowered(&known, found.clone().into_iter()), found[..1]);
    }
}
