//! The findings that each file had when they were last counted.

use super::sentences::{Prose, Sentence};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

/// From the root of the repository.
const FILE: &str = "xtask/prose.toml";

const INTRODUCTION: &str = "\
# Findings of `cargo xtask docs` in each file: sentences above 35 words, clauses in the place of nouns, rows of tables
# without a header. The numbers may only go down: `cargo xtask docs --lower` writes lower ones. A file that is not
# listed has none.
";

/// A kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Long,
    Clause,
    Row,
}

const KINDS: [Kind; 3] = [Kind::Long, Kind::Clause, Kind::Row];

impl Kind {
    /// The key in the file.
    fn key(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Clause => "clauses",
            Self::Row => "rows",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Long => "sentence(s) above 35 words",
            Self::Clause => "sentence(s) that begin with a clause in the place of a noun",
            Self::Row => "row(s) of tables below a blank line",
        }
    }

    /// The lines that have one.
    pub(super) fn lines(self, prose: &Prose) -> Vec<usize> {
        let of_sentences = |is_meant: &dyn Fn(&Sentence) -> bool| {
            let found = prose.sentences.iter().filter(|it| is_meant(it));
            found.map(|sentence| sentence.line).collect()
        };
        match self {
            Self::Long => of_sentences(&Sentence::is_long),
            Self::Clause => of_sentences(&Sentence::begins_with_noun_clause),
            Self::Row => prose.stray_rows.clone(),
        }
    }
}

/// The number of findings of each kind, if there are any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts(BTreeMap<Kind, usize>);

impl Counts {
    pub(super) fn of(prose: &Prose) -> Self {
        let counts = KINDS.map(|kind| (kind, kind.lines(prose).len()));
        Self(counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    fn get(&self, kind: Kind) -> usize {
        self.0.get(&kind).copied().unwrap_or(0)
    }

    fn lowered(&self, found: &Self) -> Self {
        let counts = KINDS.map(|kind| (kind, self.get(kind).min(found.get(kind))));
        Self(counts.into_iter().filter(|(_, count)| *count > 0).collect())
    }
}

/// The counts by file, from the root of the repository.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    files: BTreeMap<String, Counts>,
    /// There is no such file: the first one takes everything as it is.
    is_new: bool,
}

impl Baseline {
    pub(super) fn load(root: &Path) -> Result<Self> {
        match fs::read_to_string(root.join(FILE)) {
            Ok(text) => Self::parse(&text).context(FILE),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self {
                is_new: true,
                ..Self::default()
            }),
            Err(error) => Err(error).context(FILE),
        }
    }

    fn parse(text: &str) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (file, row) in text.parse::<toml::Table>()? {
            let row = row.as_table().with_context(|| file.clone())?;
            let mut counts = Counts::default();
            for (key, count) in row {
                let kind = KINDS.into_iter().find(|kind| kind.key() == key);
                let kind = kind.with_context(|| format!("{file}: {key}"))?;
                let count = count.as_integer().context("no number")?;
                counts.0.insert(kind, count.try_into()?);
            }
            files.insert(file, counts);
        }
        Ok(Self {
            files,
            is_new: false,
        })
    }

    pub(super) fn write(&self, root: &Path) -> Result<()> {
        fs::write(root.join(FILE), self.text()).context(FILE)
    }

    fn text(&self) -> String {
        let mut text = INTRODUCTION.to_owned();
        for (file, counts) in &self.files {
            let counts = counts.0.iter();
            let counts: Vec<_> = counts
                .map(|(kind, count)| format!("{} = {count}", kind.key()))
                .collect();
            let _infallible = writeln!(text, "{file:?} = {{ {} }}", counts.join(", "));
        }
        text
    }

    /// With numbers that are no higher than what was found.
    pub(super) fn lowered(&self, found: &BTreeMap<&str, Counts>) -> Self {
        let files = found.iter().filter_map(|(file, found)| {
            let counts = match self.is_new {
                true => found.clone(),
                false => self.files.get(*file)?.lowered(found),
            };
            (!counts.0.is_empty()).then(|| ((*file).to_owned(), counts))
        });
        Self {
            files: files.collect(),
            is_new: false,
        }
    }

    /// Lists what is not as the baseline says. `lines` says where the findings of a file are.
    pub(super) fn compare(
        &self,
        found: &BTreeMap<&str, Counts>,
        lines: impl Fn(&str, Kind) -> Vec<usize>,
    ) -> Vec<String> {
        let none = Counts::default();
        let mut problems = Vec::new();
        for (file, found) in found {
            let known = self.files.get(*file).unwrap_or(&none);
            for kind in KINDS {
                let (found, known, name) = (found.get(kind), known.get(kind), kind.name());
                if found > known {
                    let lines: Vec<_> = lines(file, kind).iter().map(ToString::to_string).collect();
                    let lines = lines.join(", ");
                    problems.push(format!(
                        "{file}: {found} {name}, {known} may be there: lines {lines} (cargo xtask docs --sentences {file})"
                    ));
                } else if found < known {
                    problems.push(format!(
                        "{file}: only {found} {name}, but {FILE} says {known}: cargo xtask docs --lower"
                    ));
                }
            }
        }
        let gone = self
            .files
            .keys()
            .filter(|file| !found.contains_key(file.as_str()));
        problems
            .extend(gone.map(|file| format!("{FILE}: {file} is gone: cargo xtask docs --lower")));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(baseline: &str, found: &[(&str, &[(Kind, usize)])]) -> Vec<String> {
        let found = counts(found);
        let baseline = Baseline::parse(baseline).expect("a baseline");
        baseline.compare(&found, |_, _| vec![3, 7])
    }

    fn counts<'a>(found: &[(&'a str, &[(Kind, usize)])]) -> BTreeMap<&'a str, Counts> {
        let found = found.iter();
        found
            .map(|(file, counts)| (*file, Counts(counts.iter().copied().collect())))
            .collect()
    }

    const BASELINE: &str = "\"a.md\" = { long = 2, clauses = 1 }\n";

    #[test]
    fn as_many_as_before_are_no_problem() {
        let same = [("a.md", &[(Kind::Long, 2), (Kind::Clause, 1)][..])];
        assert!(problems(BASELINE, &same).is_empty());
    }

    #[test]
    fn more_than_before_and_any_in_a_new_file_are_problems() {
        let more: [(&str, &[(Kind, usize)]); 2] = [
            ("a.md", &[(Kind::Long, 3), (Kind::Clause, 1)]),
            ("b.rs", &[(Kind::Row, 1)]),
        ];
        assert_eq!(
            problems(BASELINE, &more),
            [
                "a.md: 3 sentence(s) above 35 words, 2 may be there: lines 3, 7 (cargo xtask docs --sentences a.md)",
                "b.rs: 1 row(s) of tables below a blank line, 0 may be there: lines 3, 7 (cargo xtask docs --sentences b.rs)",
            ]
        );
    }

    #[test]
    fn fewer_than_before_must_be_written_down() {
        let fewer = [("a.md", &[(Kind::Long, 2)][..])];
        assert_eq!(problems(BASELINE, &fewer).len(), 1);
        assert_eq!(
            problems(BASELINE, &[]),
            ["xtask/prose.toml: a.md is gone: cargo xtask docs --lower"]
        );
    }

    #[test]
    fn numbers_are_lowered_and_never_raised() {
        let found = counts(&[
            ("a.md", &[(Kind::Long, 1), (Kind::Clause, 5)]),
            ("b.rs", &[(Kind::Row, 1)]),
        ]);
        let baseline = Baseline::parse(BASELINE).expect("a baseline");
        let lowered = baseline.lowered(&found).text();
        assert_eq!(
            lowered.strip_prefix(INTRODUCTION),
            Some("\"a.md\" = { long = 1, clauses = 1 }\n")
        );
        let reread = Baseline::parse(&lowered).expect("a baseline");
        assert_eq!(reread.files["a.md"].get(Kind::Clause), 1);
    }
}
