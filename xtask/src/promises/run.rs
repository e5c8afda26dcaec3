//! Breaks the code and runs the tests that must fail.

use super::{Breakage, Promises};
use crate::tree;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Longer than any of these tests takes on a busy machine. A test that hangs because the code is broken costs
/// this much, and has noticed.
const LONGEST_TESTS_S: u32 = 600;

/// Longer than any test of scripts takes. One that does not come to its end has noticed nothing.
const LONGEST_SCRIPT_S: u32 = 3600;

/// Breaks those whose file or tests have one of `words` in their name, all without words. Lists breakages that no
/// test noticed.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<Vec<String>> {
    let mut promises = Promises::load(root)?;
    promises.breakages.retain(|breakage| {
        let is_meant = |word: &String| {
            breakage.file.contains(word) || breakage.fails.iter().any(|name| name.contains(word))
        };
        words.is_empty() || words.iter().any(is_meant)
    });
    ensure!(
        !promises.breakages.is_empty(),
        "no breakage has such a name"
    );
    let tree = Tree::copy(root)?;
    let mut problems = Vec::new();
    let count = promises.breakages.len();
    for (index, breakage) in promises.breakages.iter().enumerate() {
        let begun = Instant::now();
        let found = tree.try_one(breakage)?;
        let outcome = if found.is_empty() {
            "noticed"
        } else {
            "NOT NOTICED"
        };
        eprintln!(
            "{}/{count} {outcome} after {} s: {}: {}",
            index + 1,
            begun.elapsed().as_secs(),
            breakage.file,
            breakage.fails.join(", ")
        );
        problems.extend(found);
    }
    Ok(problems)
}

/// A copy of the repository, so that an interrupted run leaves nothing broken behind.
struct Tree {
    root: PathBuf,
    target: PathBuf,
}

impl Tree {
    fn copy(root: &Path) -> Result<Self> {
        let folder = root.join("target/promises");
        let tree = folder.join("tree");
        tree::copy(root, &tree)?;
        let target = folder.join("build");
        prepare_for_scripts(root, &tree, &target)?;
        Ok(Self { root: tree, target })
    }

    /// The problems of `breakage`: none if each of its tests failed.
    fn try_one(&self, breakage: &Breakage) -> Result<Vec<String>> {
        let path = self.root.join(&breakage.file);
        let sound = fs::read_to_string(&path).with_context(|| breakage.file.clone())?;
        let broken = match breakage.applied(&sound) {
            Ok(broken) => broken,
            Err(problem) => return Ok(vec![format!("{}: {problem}", breakage.file)]),
        };
        fs::write(&path, broken)?;
        let found = self.unnoticed(breakage);
        fs::write(&path, sound)?;
        found
    }

    fn unnoticed(&self, breakage: &Breakage) -> Result<Vec<String>> {
        match breakage.suite.as_str() {
            "script" => self.unnoticed_by_script(breakage),
            suite => self.unnoticed_by_tests(breakage, suite),
        }
    }

    fn unnoticed_by_script(&self, breakage: &Breakage) -> Result<Vec<String>> {
        let script = self.root.join(&breakage.package);
        let ran = self.limited(LONGEST_SCRIPT_S).arg(&script).output();
        let ran = ran.with_context(|| breakage.package.clone())?;
        let said = String::from_utf8_lossy(&ran.stdout);
        ensure!(
            said.contains("test result:"),
            "{} does not come to its end: {}",
            breakage.package,
            String::from_utf8_lossy(&ran.stderr)
        );
        let passing = breakage
            .fails
            .iter()
            .filter(|sentence| !has_failed(&said, sentence));
        let problem = |sentence| {
            let script = &breakage.package;
            format!(
                "{}: `{sentence}` of {script} passes, or is none of it",
                breakage.file
            )
        };
        Ok(passing.map(problem).collect())
    }

    fn unnoticed_by_tests(&self, breakage: &Breakage, suite: &str) -> Result<Vec<String>> {
        let mut tests = match suite {
            "lib" => vec!["test", "--package", &breakage.package, "--lib"],
            "bin" => vec!["test", "--package", &breakage.package, "--bins"],
            // With the features of the whole workspace, as `make test`: the dependencies are built once.
            suite => vec!["test", "--workspace", "--test", suite],
        };
        let to_test = [tests.as_slice(), &["--no-run"]].concat();
        let program = ["build", "--workspace", "--bin", "culvert"];
        let is_lab = breakage.package == "culvert-lab";
        let builds = is_lab.then_some(&program[..]);
        for build in builds.into_iter().chain([&to_test[..]]) {
            let built = self.cargo(build)?;
            if !built.status.success() {
                let said = String::from_utf8_lossy(&built.stderr).into_owned();
                return Ok(vec![format!(
                    "{}: does not build broken:\n{said}",
                    breakage.file
                )]);
            }
        }
        tests.push("--");
        tests.extend(breakage.fails.iter().map(String::as_str));
        let ran = self.cargo(&tests)?;
        let said = String::from_utf8_lossy(&ran.stdout);
        // timeout(1)
        let has_hung = ran.status.code() == Some(124);
        let unnoticed = breakage
            .fails
            .iter()
            .filter_map(|name| match outcome(&said, name) {
                Some(outcome) if outcome.starts_with("FAILED") => None,
                Some(outcome) if !outcome.starts_with("ok") && has_hung => None,
                Some(_) => Some(format!("{}: {name} passes", breakage.file)),
                None if has_hung => None,
                None => Some(format!("{}: no test is called {name}", breakage.file)),
            });
        Ok(unnoticed.collect())
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Output> {
        let Some((command, rest)) = arguments.split_first() else {
            bail!("no command")
        };
        let longest_s = LONGEST_TESTS_S * if rest.contains(&"--") { 1 } else { 6 };
        self.limited(longest_s)
            .args(["cargo", command])
            .args(rest)
            .output()
            .context("cargo")
    }

    /// `timeout` without the command that it is to run.
    fn limited(&self, longest_s: u32) -> Command {
        let mut timeout = Command::new("timeout");
        timeout
            .arg("--kill-after=10")
            .arg(longest_s.to_string())
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "none")
            .env("CULVERT_BIN", self.target.join("debug/culvert"))
            // As of the mutants.
            .env("PROPTEST_RNG_SEED", "1")
            .stdin(Stdio::null());
        timeout
    }
}

/// True if a test of scripts says that `sentence` failed (`expect` of tests/scripts/lib.sh). "…" in it stands
/// for anything.
fn has_failed(said: &str, sentence: &str) -> bool {
    let (begin, end) = sentence.split_once('…').unwrap_or((sentence, ""));
    said.lines()
        .filter_map(|line| line.strip_prefix("FAILED: "))
        .any(|failed| match sentence.contains('…') {
            true => failed.starts_with(begin) && failed.ends_with(end),
            false => failed == sentence,
        })
}

/// The outcome of the test `name`, as libtest prints it.
fn outcome<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| {
        let (path, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let path = path.split(' ').next()?;
        (path.rsplit("::").next()? == name).then_some(outcome)
    })
}

/// Tests of scripts ask git for the files of the repository, and take cargo-deny and cargo-vet from `target/tools`.
fn prepare_for_scripts(root: &Path, tree: &Path, target: &Path) -> Result<()> {
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(tree)
        .status()
        .context("git init")?;
    ensure!(made.success(), "git init failed");
    let tools = root.join("target/tools");
    for folder in [&tools, target] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for (link, to) in [
        (target.join("tools"), tools.as_path()),
        (tree.join("target"), target),
    ] {
        // It may be there from the run before.
        let _missing = fs::remove_file(&link);
        symlink(to, &link).with_context(|| link.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{has_failed, outcome};

    #[test]
    fn a_test_is_found_by_the_last_part_of_its_path() {
        let said = "\nrunning 2 tests\ntest a::it_holds ... FAILED\ntest it_holds_too ... ok\n";
        assert_eq!(outcome(said, "it_holds"), Some("FAILED"));
        assert_eq!(outcome(said, "it_holds_too"), Some("ok"));
        assert_eq!(outcome(said, "holds"), None);
    }

    #[test]
    fn a_test_that_should_panic_is_found_too() {
        let said = "test it_holds - should panic ... ok\n";
        assert_eq!(outcome(said, "it_holds"), Some("ok"));
    }

    #[test]
    fn a_sentence_of_a_script_is_found_as_a_whole_and_dots_stand_for_anything() {
        let said = "FAILED: a bit in b.txt is refused\n  wanted exit status 1 and: x\n";
        assert!(has_failed(said, "a bit in b.txt is refused"));
        assert!(has_failed(said, "a bit in … is refused"));
        assert!(!has_failed(said, "a bit in b.txt"));
        assert!(!has_failed(said, "a bit in … is taken"));
        assert!(!has_failed(
            "a bit in b.txt is refused\n",
            "a bit in b.txt is refused"
        ));
    }
}
