//! The mutants of a crate, as cargo-mutants lists them.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) type MutantId = u32;

/// The kind of change that a mutant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Genre {
    BinaryOperator,
    FnValue,
    MatchArm,
    MatchArmGuard,
    StructField,
    UnaryOperator,
}

#[derive(Clone, Debug)]
pub(super) struct Mutant {
    pub(super) id: MutantId,
    /// With the file, line and column.
    pub(super) name: String,
    pub(super) package: String,
    /// Of the repository.
    pub(super) file: String,
    pub(super) genre: Genre,
    /// The bytes of the file that `replacement` stands for.
    pub(super) at: Range<usize>,
    pub(super) replacement: String,
}

impl Mutant {
    /// Without line and column, which every change moves.
    pub(super) fn nameless(&self) -> String {
        let mut parts = self.name.splitn(4, ':');
        let file = parts.next().unwrap_or_default();
        format!("{file}:{}", parts.nth(2).unwrap_or_default())
    }

    /// The file with the mutant in the place of what it replaces.
    pub(super) fn applied(&self, text: &str) -> String {
        let (before, after) = (&text[..self.at.start], &text[self.at.end..]);
        format!("{before}{}{after}", self.replacement)
    }
}

/// Lists the mutants that `chosen`, arguments of cargo-mutants, name in the repository at `root`.
pub(super) fn list(program: &Path, root: &Path, chosen: &[&str]) -> Result<Vec<Mutant>> {
    let listed = Command::new(program)
        .args(["mutants", "--list", "--json"])
        .args(chosen)
        .current_dir(root)
        .output()
        .context("cargo-mutants")?;
    ensure!(
        listed.status.success(),
        "cargo-mutants: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
    let mut texts = HashMap::new();
    let mut mutants = Vec::with_capacity(listed.len());
    for (id, it) in listed.iter().enumerate() {
        let file = text_of(it, "file")?;
        if !texts.contains_key(&file) {
            texts.insert(file.clone(), fs::read_to_string(root.join(&file))?);
        }
        mutants.push(parse(u32::try_from(id)?, it, &texts[&file])?);
    }
    Ok(mutants)
}

fn parse(id: MutantId, it: &Value, text: &str) -> Result<Mutant> {
    let genre = match text_of(it, "genre")?.as_str() {
        "BinaryOperator" => Genre::BinaryOperator,
        "FnValue" => Genre::FnValue,
        "MatchArm" => Genre::MatchArm,
        "MatchArmGuard" => Genre::MatchArmGuard,
        "StructField" => Genre::StructField,
        "UnaryOperator" => Genre::UnaryOperator,
        other => bail!("cargo-mutants has mutants of another kind: {other}"),
    };
    let at = offset(text, &it["span"]["start"])?..offset(text, &it["span"]["end"])?;
    Ok(Mutant {
        id,
        name: text_of(it, "name")?,
        package: text_of(it, "package")?,
        file: text_of(it, "file")?,
        genre,
        at,
        replacement: text_of(it, "replacement")?,
    })
}

/// Lines and columns count from 1, columns in characters.
fn offset(text: &str, place: &Value) -> Result<usize> {
    let number = |key: &str| -> Result<usize> {
        let number = place[key].as_u64().context("a place has line and column")?;
        Ok(usize::try_from(number)?.saturating_sub(1))
    };
    let line = text
        .split_inclusive('\n')
        .nth(number("line")?)
        .context("no such line")?;
    let start = line.as_ptr().addr() - text.as_ptr().addr();
    let column = line.char_indices().nth(number("column")?);
    Ok(start + column.map_or(line.len(), |(index, _)| index))
}

fn text_of(it: &Value, key: &str) -> Result<String> {
    let text = it[key].as_str();
    Ok(text.with_context(|| format!("no `{key}`"))?.to_owned())
}

/// The program that lists mutants; builds it where it is missing.
pub(super) fn program(root: &Path) -> Result<PathBuf> {
    const VERSION: &str = "27.1.0";
    let at = root.join(format!("target/tools/cargo-mutants-{VERSION}"));
    let program = at.join("bin/cargo-mutants");
    if program.is_file() {
        return Ok(program);
    }
    eprintln!("building cargo-mutants {VERSION} (a minute, once) …");
    let built = Command::new("cargo")
        .args(["install", "--quiet", "--locked", "--no-track", "--root"])
        .arg(&at)
        .args(["--version", VERSION, "cargo-mutants"])
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_TARGET_DIR", at.join("build"))
        .status()
        .context("cargo install")?;
    ensure!(
        built.success(),
        "cargo-mutants can't be built: is the crate registry reachable?"
    );
    fs::remove_dir_all(at.join("build"))?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_count_characters() {
        let text = "one\ntwö < three\n";
        let at = |line: u32, column: u32| offset(text, &json!({"line": line, "column": column}));
        assert_eq!(at(1, 1).ok(), Some(0));
        assert_eq!(at(2, 5).ok(), text.find('<'));
        assert_eq!(at(2, 12).ok(), Some(text.len() - 1));
        assert!(at(3, 1).is_err());
    }

    #[test]
    fn a_mutant_is_known_by_its_file_and_what_it_changes() {
        let mutant = Mutant {
            id: 0,
            name: "crates/a/src/b.rs:4:26: replace < with <= in a::b".to_owned(),
            package: String::new(),
            file: String::new(),
            genre: Genre::BinaryOperator,
            at: 2..3,
            replacement: "<=".to_owned(),
        };
        assert_eq!(
            mutant.nameless(),
            "crates/a/src/b.rs: replace < with <= in a::b"
        );
        assert_eq!(mutant.applied("a < b"), "a <= b");
    }
}
