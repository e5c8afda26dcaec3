//! Lines of tests beside lines of source, in crates that no device tests.

use super::rules::TESTED;
use crate::metadata::Member;
use crate::source;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The attribute of a module of tests.
const TEST_ONLY: &str = "#[cfg(test)]";

/// The problem of a crate that has fewer lines of tests than its row in the table asks for.
pub(super) fn shortage(member: &Member) -> Result<Option<String>> {
    let Some((_, least)) = TESTED.iter().find(|(name, _)| *name == member.name) else {
        return Ok(None);
    };
    let mut files = Vec::new();
    for folder in ["src", "tests"].map(|folder| member.folder.join(folder)) {
        if folder.is_dir() {
            for path in source::files(&folder, "rs")? {
                let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let path = path.strip_prefix(&member.folder).unwrap_or(&path);
                files.push((path.to_owned(), text));
            }
        }
    }
    let lines = Lines::of(&files);
    Ok((!lines.suffice(*least)).then(|| {
        let (name, Lines { tests, source }) = (&member.name, lines);
        format!(
            "{name} has {tests} lines of tests for {source} of source: {least} for each 100 are the least"
        )
    }))
}

/// Lines of a crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lines {
    tests: usize,
    source: usize,
}

impl Lines {
    /// Counts files of a crate by their paths in it. Tests are its folder `tests`, modules that are compiled for tests
    /// alone, and the module of tests at the end of a file.
    fn of(files: &[(PathBuf, String)]) -> Self {
        let test_modules: BTreeSet<PathBuf> = files
            .iter()
            .flat_map(|(path, text)| test_modules(path, text))
            .collect();
        let mut lines = Self {
            tests: 0,
            source: 0,
        };
        for (path, text) in files {
            let all = text.lines().count();
            let is_test = |part: &Path| test_modules.contains(&part.with_extension("rs"));
            let tests = if path.starts_with("tests") || path.ancestors().any(is_test) {
                all
            } else {
                all - lines_of_source(text)
            };
            lines.tests += tests;
            lines.source += all - tests;
        }
        lines
    }

    fn suffice(self, least: usize) -> bool {
        self.tests * 100 >= self.source * least
    }
}

/// Lines before the module of tests at the end of a file.
fn lines_of_source(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| {
        pair[0] == TEST_ONLY && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(begins).unwrap_or(lines.len())
}

/// Files of modules that `text`, the file at `path`, has compiled for tests alone.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let lines: Vec<&str> = text.lines().collect();
    let names = lines.windows(2).filter_map(|pair| {
        let module = pair[1].strip_prefix("mod ")?.strip_suffix(';')?;
        (pair[0] == TEST_ONLY).then_some(module)
    });
    let is_folder = matches!(
        path.file_stem().and_then(|stem| stem.to_str()),
        Some("lib" | "main" | "mod")
    );
    let folder = match is_folder {
        true => path.parent().unwrap_or(path).to_owned(),
        false => path.with_extension(""),
    };
    names
        .map(|name| folder.join(name).with_extension("rs"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(files: &[(&str, &str)]) -> Lines {
        let files = files
            .iter()
            .map(|(path, text)| (path.into(), (*text).to_owned()));
        Lines::of(&files.collect::<Vec<_>>())
    }

    #[test]
    fn tests_are_the_folder_of_them_the_end_of_a_file_and_modules_for_tests_alone() {
        let lines = lines_of(&[
            ("src/lib.rs", "mod queues;\n#[cfg(test)]\nmod testing;\n"),
            ("src/testing.rs", "a\nb\n"),
            ("src/queues.rs", "a\n#[cfg(test)]\nmod tests;\n"),
            ("src/queues/tests.rs", "a\nb\nc\n"),
            ("src/queues/tests/model.rs", "a\n"),
            (
                "src/queues/other.rs",
                "a\n\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\n",
            ),
            ("tests/road/main.rs", "a\n"),
        ]);
        assert_eq!(
            lines,
            Lines {
                tests: 2 + 3 + 1 + 4 + 1,
                source: 3 + 3 + 2
            }
        );
    }

    #[test]
    fn what_looks_like_tests_and_is_compiled_always_is_source() {
        let lines = lines_of(&[
            (
                "src/lib.rs",
                "mod testing;\n#[cfg(test)]\nuse a::b;\nfn f() {}\n",
            ),
            ("src/testing.rs", "a\n"),
        ]);
        assert_eq!(
            lines,
            Lines {
                tests: 0,
                source: 5
            }
        );
    }

    #[test]
    fn a_crate_with_fewer_lines_of_tests_than_its_least_share_is_a_problem() {
        let lines = |tests| Lines {
            tests,
            source: 1_000,
        };
        assert!(lines(600).suffice(60));
        assert!(!lines(599).suffice(60));
        let nowhere = Member {
            name: "culvert-datapath".to_owned(),
            folder: "/nowhere".into(),
            roots: Vec::new(),
        };
        // Nothing is no shortage, and a crate that the table lacks is not counted.
        assert_eq!(shortage(&nowhere).unwrap(), None);
    }
}
