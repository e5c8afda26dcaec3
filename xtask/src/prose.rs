//! The language of documents and comments: long sentences, clauses in the place of nouns, tables that fell apart.
//!
//! It reads the Markdown of documents and of the comments in Rust source. Three things count:
//!
//! - a sentence of more than [`sentences::LONGEST`] words, where a code span is one word;
//! - a sentence that begins with a clause in the place of a noun, as in "What waits in the queue is dropped";
//! - a row of a table below a blank line, which Markdown takes for a paragraph.
//!
//! [`baseline`] has the numbers of those that there are, by file. They may only go down.

mod baseline;
mod sentences;

use crate::source::{self, comments};
use anyhow::{Context, Result};
use baseline::{Baseline, Counts};
use sentences::{Place, Prose, Sentence};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The sentences that [`Texts::longest`] lists.
const LISTED: usize = 50;

/// The text of all files of the repository, by their paths from its root.
#[derive(Debug, Default)]
pub(crate) struct Texts(BTreeMap<String, Prose>);

/// The means of a document.
#[derive(Debug, Default)]
struct Means {
    sentences: usize,
    words: usize,
    long: usize,
}

impl Texts {
    /// Reads all documents and all Rust source.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut texts = Self::default();
        for extension in ["md", "rs"] {
            for path in source::files(root, extension)? {
                let shown = path
                    .strip_prefix(root)
                    .unwrap_or(&path)
                    .display()
                    .to_string();
                let text = fs::read_to_string(&path).with_context(|| shown.clone())?;
                let prose = match extension {
                    "md" => Prose::of(&text, 1),
                    _ => of_comments(&text).with_context(|| shown.clone())?,
                };
                texts.0.insert(shown, prose);
            }
        }
        Ok(texts)
    }

    /// Lists files that have more or fewer findings than the baseline says.
    pub(crate) fn check(&self, root: &Path) -> Result<Vec<String>> {
        Ok(Baseline::load(root)?.compare(&self.counts(), |file, kind| self.lines(file, kind)))
    }

    /// Lowers the numbers of the baseline to what there is.
    pub(crate) fn lower(&self, root: &Path) -> Result<()> {
        Baseline::load(root)?.lowered(&self.counts()).write(root)
    }

    fn counts(&self) -> BTreeMap<&str, Counts> {
        let files = self.0.iter();
        files
            .map(|(file, prose)| (file.as_str(), Counts::of(prose)))
            .collect()
    }

    /// The lines of a file with findings of a kind.
    fn lines(&self, file: &str, kind: baseline::Kind) -> Vec<usize> {
        let prose = self.0.get(file);
        prose.map(|prose| kind.lines(prose)).unwrap_or_default()
    }

    /// The mean length of the sentences of each document, without those in tables.
    pub(crate) fn means(&self) -> String {
        let mut text = String::from("words a sentence, sentences, above 35 words:\n");
        let mut means: BTreeMap<&str, Means> = BTreeMap::new();
        for (file, prose) in &self.0 {
            let shown = match file.as_str() {
                decision if decision.starts_with("docs/adr/") => "docs/adr",
                file if file.starts_with("docs/") && file.ends_with(".md") => file,
                file @ ("README.md" | "ARCHITECTURE.md") => file,
                _ => continue,
            };
            let means = means.entry(shown).or_default();
            for sentence in prose.sentences.iter().filter(|it| it.place != Place::Table) {
                means.sentences += 1;
                means.words += sentence.len();
            }
            means.long += prose.sentences.iter().filter(|it| it.is_long()).count();
        }
        for (file, it) in means {
            // In tenths, rounded.
            let tenths = (it.words * 10 + it.sentences / 2) / it.sentences.max(1);
            let _infallible = writeln!(
                text,
                "{:>3}.{} {:>5} {:>4}  {file}",
                tenths / 10,
                tenths % 10,
                it.sentences,
                it.long
            );
        }
        text
    }

    /// The longest sentences; with `words`, all findings in files that have one of them in their path.
    pub(crate) fn longest(&self, words: &[String]) -> String {
        let is_meant = |file: &str| words.iter().any(|word| file.contains(word.as_str()));
        let mut found: Vec<(usize, &str, &Sentence)> = Vec::new();
        for (file, prose) in &self.0 {
            for sentence in &prose.sentences {
                let is_finding = sentence.is_long() || sentence.begins_with_noun_clause();
                if words.is_empty() || (is_meant(file) && is_finding) {
                    found.push((sentence.len(), file, sentence));
                }
            }
        }
        found.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        if words.is_empty() {
            found.truncate(LISTED);
        }
        let mut text = String::new();
        for (len, file, sentence) in found {
            let said = sentence.words.join(" ");
            let _infallible = writeln!(text, "{len:>3} {file}:{}: {said}", sentence.line);
        }
        text
    }
}

fn of_comments(text: &str) -> Result<Prose> {
    let mut prose = Prose::default();
    for comment in comments::comments(text)? {
        let said = Prose::of(&comment.text, comment.line);
        prose.sentences.extend(said.sentences);
        prose.stray_rows.extend(said.stray_rows);
    }
    Ok(prose)
}
