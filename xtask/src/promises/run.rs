//! Breaks the code and runs the tests that must fail.

use super::{Breakage, Promises};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Longer than any of these tests takes on a busy machine. A test that hangs because the code is broken costs
/// this much, and has noticed.
const LONGEST_TESTS_S: u32 = 600;

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
        let listed = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .context("git ls-files")?;
        ensure!(listed.status.success(), "git ls-files failed");
        let mut kept = BTreeSet::new();
        for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
            // It is listed until its deletion is committed.
            if root.join(name).is_file() {
                copy_if_changed(&root.join(name), &tree.join(name))
                    .with_context(|| name.to_owned())?;
                kept.insert(tree.join(name));
            }
        }
        remove_others(&tree, &kept)?;
        Ok(Self {
            root: tree,
            target: folder.join("build"),
        })
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
        let mut tests = match breakage.suite.as_str() {
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

    fn cargo(&self, arguments: &[&str]) -> Result<std::process::Output> {
        let Some((command, rest)) = arguments.split_first() else {
            bail!("no command")
        };
        Command::new("timeout")
            .arg("--kill-after=10")
            .arg((LONGEST_TESTS_S * if rest.contains(&"--") { 1 } else { 6 }).to_string())
            .args(["cargo", command])
            .args(rest)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "none")
            .env("CULVERT_BIN", self.target.join("debug/culvert"))
            // As in scripts/mutants.sh.
            .env("PROPTEST_RNG_SEED", "1")
            .stdin(Stdio::null())
            .output()
            .context("cargo")
    }
}

/// The outcome of the test `name`, as libtest prints it.
fn outcome<'a>(said: &'a str, name: &str) -> Option<&'a str> {
    said.lines().find_map(|line| {
        let (path, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
        let path = path.split(' ').next()?;
        (path.rsplit("::").next()? == name).then_some(outcome)
    })
}

/// Leaves the time of a file that is the same, so that cargo builds no more than it must.
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let content = fs::read(from)?;
    if fs::read(to).is_ok_and(|there| there == content) {
        return Ok(());
    }
    fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
    fs::write(to, content)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    Ok(())
}

/// Removes the files in `folder` that are not among `kept`: cargo would find tests in them.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_others(&entry.path(), kept)?;
        } else if !kept.contains(&entry.path()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::outcome;

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
}
