//! The licence texts of everything that the program is linked with, as one text for its packages.
//!
//! Crates that share a text stand together above it: nine tenths of the texts are the same few.

use crate::metadata;
use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::{Metadata, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The beginnings of names of files that hold a licence, or a notice that it asks to pass on.
const NAMES: [&str; 5] = ["licen", "copying", "notice", "copyright", "unlicense"];

/// The longest such file, in bytes: AWS-LC's, which has those of all that went into it, is 60 KiB.
const MAX_TEXT_BYTES: u64 = 512 * 1024;

const INTRODUCTION: &str = "\
Culvert is licensed under the Apache License, Version 2.0. Its program is linked with the crates below.
Where a crate may be used under one of several licences, each text that comes with it is given.
";

/// Writes it. `metadata` is what `cargo metadata` says, `program` the package that is shipped.
///
/// # Errors
/// If a crate comes without any text and is not of a licence in `texts`, a directory with a file for
/// each, called as SPDX does.
pub(crate) fn write(metadata: &Metadata, program: &str, texts: &Path) -> Result<String> {
    let crates = linked(metadata, program).with_context(|| format!("no package {program}"))?;
    ensure!(!crates.is_empty(), "{program} is linked with nothing");
    let mut by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for linked in &crates {
        for text in texts_of(linked, texts)? {
            by_text
                .entry(text)
                .or_default()
                .insert(linked.title.clone());
        }
    }
    for (title, text) in of_assets(metadata, program)? {
        by_text.entry(text).or_default().insert(title);
    }
    let mut sections: Vec<_> = by_text.into_iter().collect();
    // By the first crate of each: a reader looks for a crate.
    sections.sort_by(|(_, a), (_, b)| a.cmp(b));
    let mut out = INTRODUCTION.to_owned();
    for (text, titles) in sections {
        out.push_str(&format!("\n{}\n", "=".repeat(80)));
        for title in titles {
            out.push_str(&title);
            out.push('\n');
        }
        out.push_str(&format!("{}\n{text}\n", "-".repeat(80)));
    }
    Ok(out)
}

/// The licences of files of others that are in the program, such as a typeface: each stands beside its files, in a folder
/// `assets` of a crate of ours, and its name ends so.
const ASSET_LICENCE: &str = "-OFL.txt";

fn of_assets(metadata: &Metadata, program: &str) -> Result<Vec<(String, String)>> {
    let linked = metadata::Linked::of(metadata, program).map(|linked| linked.packages);
    let mut found = Vec::new();
    for package in linked.unwrap_or_default().values() {
        let folder = package.manifest_path.as_std_path().with_file_name("assets");
        if package.source.is_some() || !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(of) = name.strip_suffix(ASSET_LICENCE) {
                let text = fs::read_to_string(entry.path())?;
                found.push((format!("typeface {of} (OFL-1.1)"), normalised(&text)));
            }
        }
    }
    Ok(found)
}

/// A crate of others that is linked.
struct Linked {
    /// Name, version and licence.
    title: String,
    licence: String,
    authors: String,
    folder: PathBuf,
}

/// `None` where there is no such program.
fn linked(metadata: &Metadata, program: &str) -> Option<Vec<Linked>> {
    let packages = metadata::Linked::of(metadata, program)?.packages;
    // A package without a source is ours.
    let foreign = packages.values().filter(|one| one.source.is_some());
    Some(foreign.map(|package| Linked::of(package)).collect())
}

impl Linked {
    fn of(package: &Package) -> Self {
        let licence = package.license.as_deref().unwrap_or("see its text");
        let manifest = package.manifest_path.as_std_path();
        Self {
            title: format!("{} {} ({licence})", package.name, package.version),
            licence: licence.to_owned(),
            authors: package.authors.join(", "),
            folder: manifest.parent().unwrap_or(manifest).to_owned(),
        }
    }
}

/// The texts that come with a crate, or else that of its licence.
fn texts_of(linked: &Linked, texts: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(&linked.folder)
        .with_context(|| format!("{}: run cargo fetch", linked.folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if NAMES.iter().any(|begin| name.starts_with(begin)) && entry.file_type()?.is_file() {
            ensure!(
                entry.metadata()?.len() <= MAX_TEXT_BYTES,
                "{} is too long for a licence",
                entry.path().display()
            );
            found.push(normalised(&fs::read_to_string(entry.path())?));
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let words = linked
        .licence
        .split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c)));
    for word in words {
        let path = texts.join(format!("{word}.txt"));
        if !word.is_empty() && path.is_file() {
            let text = fs::read_to_string(path)?;
            let authors = match linked.authors.as_str() {
                "" => "its authors",
                authors => authors,
            };
            return Ok(vec![normalised(&format!("Copyright {authors}\n\n{text}"))]);
        }
    }
    bail!(
        "{} comes without the text of its licence: put it into {}",
        linked.title,
        texts.display()
    )
}

/// Texts that differ in line ends alone are one.
fn normalised(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::example::{Example, metadata};

    /// A program linked with `a` and `b`, and built with `c`, whose folders are in `dir`.
    fn program(dir: &Path) -> Metadata {
        let foreign = |name: &'static str| {
            let folder = dir.join(name);
            fs::create_dir_all(&folder).expect("a directory");
            Example {
                folder,
                ..Example::foreign(name, "1.0.0", &[])
            }
        };
        let on = [("a", None), ("b", None), ("c", Some("build"))];
        metadata(&[
            Example::ours("program", &on),
            foreign("a"),
            foreign("b"),
            foreign("c"),
        ])
    }

    fn scratch(name: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("culvert-licences-{}-{name}", std::process::id()));
        fs::create_dir_all(dir.join("texts")).expect("a directory");
        dir
    }

    #[test]
    fn a_text_stands_once_below_all_crates_that_have_it() {
        let dir = scratch("once");
        let metadata = program(&dir);
        fs::write(dir.join("a/LICENSE-MIT"), "Permission\r\n").expect("a file");
        fs::write(dir.join("b/License.txt"), "Permission").expect("a file");
        fs::write(dir.join("b/NOTICE"), "Made by Ada").expect("a file");
        let text = write(&metadata, "program", &dir.join("texts")).expect("a text");
        fs::remove_dir_all(&dir).expect("gone");
        assert_eq!(text.matches("Permission").count(), 1, "{text}");
        assert!(text.contains("a 1.0.0 (MIT/Apache-2.0)\nb 1.0.0 (MIT/Apache-2.0)\n---"));
        assert!(text.contains("Made by Ada"));
        assert!(!text.contains("c 1.0.0"), "it is not linked: {text}");
    }

    #[test]
    fn a_typeface_in_the_program_has_its_licence_there() {
        let dir = scratch("typeface");
        let console = dir.join("console");
        fs::create_dir_all(console.join("assets")).expect("a directory");
        fs::write(console.join("assets/inter-OFL.txt"), "Font Licence").expect("a file");
        let metadata = metadata(&[
            Example::ours("program", &[("console", None), ("a", None)]),
            Example {
                folder: console,
                ..Example::ours("console", &[])
            },
            Example {
                folder: dir.join("a"),
                ..Example::foreign("a", "1.0.0", &[])
            },
        ]);
        fs::create_dir_all(dir.join("a")).expect("a directory");
        fs::write(dir.join("a/LICENSE"), "Permission").expect("a file");
        let text = write(&metadata, "program", &dir.join("texts")).expect("a text");
        fs::remove_dir_all(&dir).expect("gone");
        assert!(text.contains("typeface inter (OFL-1.1)\n"), "{text}");
        assert!(text.contains("Font Licence"), "{text}");
    }

    #[test]
    fn a_crate_without_a_text_gets_that_of_its_licence_or_is_an_error() {
        let dir = scratch("none");
        let metadata = program(&dir);
        fs::write(dir.join("a/LICENSE"), "Permission").expect("a file");
        let texts = dir.join("texts");
        let error = write(&metadata, "program", &texts).expect_err("b has none");
        assert!(
            error
                .to_string()
                .starts_with("b 1.0.0 (MIT/Apache-2.0) comes without")
        );
        fs::write(texts.join("MIT.txt"), "The MIT License").expect("a file");
        let text = write(&metadata, "program", &texts).expect("a text");
        fs::remove_dir_all(&dir).expect("gone");
        assert!(text.contains("Copyright Ada\n\nThe MIT License"), "{text}");
    }
}
