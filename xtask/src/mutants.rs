//! Breaks the code on purpose, one small change at a time, and tells which changes no test notices ("survivors").
//! Survivors that stay are in tests/mutants.txt, each with its reason.
//!
//! cargo-mutants lists the changes, and builds the tests anew for each of them, which takes days. Here they are
//! built once with all mutants in them, an environment variable chooses one, and only those tests run that
//! reach it. A mutant that cannot stand beside the sound code is built alone.

mod build;
mod list;
mod tests;
mod weave;

use anyhow::{Context, Result, bail};
use build::{Suite, Tree};
use list::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use tests::{Outcome, Reach};

const KNOWN: &str = "tests/mutants.txt";

/// A choice of mutants to try.
struct Choice {
    /// For cargo-mutants.
    arguments: Vec<&'static str>,
    /// Every how many mutants one is tried, and from which on.
    every: usize,
    from: usize,
    /// The most that may survive, of a hundred.
    limit_percent: usize,
}

impl Choice {
    fn parse(words: &[String]) -> Result<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (what, from) = match *words.as_slice() {
            [what] => (what, 0),
            [what, from] => (what, from.parse().context("K is a number")?),
            _ => bail!("session, policy or sample [K]?"),
        };
        const EVERY: usize = 6;
        let whole = |package| Self {
            arguments: vec!["--package", package],
            every: 1,
            from: 0,
            limit_percent: 3,
        };
        match what {
            "session" => Ok(whole("culvert-session")),
            "policy" => Ok(whole("culvert-policy")),
            "sample" if from < EVERY => Ok(Self {
                arguments: vec![
                    "--package",
                    "culvert-store",
                    "--package",
                    "culvert-portal",
                    "--file",
                    "crates/store/src/**",
                    "--file",
                    "crates/portal/src/service/**",
                ],
                every: EVERY,
                from,
                limit_percent: 10,
            }),
            _ => bail!("session, policy, or sample with a number below {EVERY}?"),
        }
    }
}

/// The outcome of each mutant.
#[derive(Default)]
struct Found<'a> {
    noticed: BTreeMap<&'a str, String>,
    missed: BTreeMap<&'a str, &'a Mutant>,
    unviable: BTreeSet<&'a str>,
}

/// Tries the mutants that `words` choose. Lists survivors without a reason, and says if there are too many.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<Vec<String>> {
    let choice = Choice::parse(words)?;
    let program = list::program(root)?;
    let mutants: Vec<Mutant> = list::list(&program, root, &choice.arguments)?
        .into_iter()
        .skip(choice.from)
        .step_by(choice.every)
        .collect();
    eprintln!("{} mutants", mutants.len());
    let tree = Tree::copy(root)?;
    let mut found = Found::default();
    let alone = try_together(&tree, &mutants, &mut found)?;
    tree.restore()?;
    for (index, mutant) in alone.iter().enumerate() {
        eprintln!("{} of {} alone: {}", index + 1, alone.len(), mutant.name);
        try_alone(&tree, mutant, &mut found)?;
    }
    let folder = root.join("target/mutants").join(words.join("-"));
    found.write(&folder)?;
    found.problems(root, choice.limit_percent)
}

/// Tries those that can stand beside the sound code. Returns the others.
fn try_together<'a>(
    tree: &Tree,
    mutants: &'a [Mutant],
    found: &mut Found<'a>,
) -> Result<Vec<&'a Mutant>> {
    let left_out = tree.weave(mutants)?;
    let suites = tree.tests(mutants)?;
    let suites = suites.context("the tests don't compile with the mutants in the code")?;
    let reach = Reach::find(&suites, &tree.root.with_file_name("reached"))?;
    let (mut together, mut alone) = (Vec::new(), Vec::new());
    for mutant in mutants {
        if left_out.unviable.contains(&mutant.id) {
            found.unviable.insert(&mutant.name);
        } else if left_out.alone.contains(&mutant.id) {
            alone.push(mutant);
        } else {
            together.push(mutant);
        }
    }
    eprintln!(
        "{} do not compile, {} must be built alone, {} are tried",
        found.unviable.len(),
        alone.len(),
        together.len()
    );
    let outcomes = reach.outcomes(&together);
    for mutant in together {
        match &outcomes[&mutant.id] {
            Outcome::Noticed { by } => {
                found.noticed.insert(&mutant.name, by.clone());
            }
            // No test chooses what a constant reaches when the tests are built.
            Outcome::Unreached if left_out.in_constants.contains(&mutant.id) => alone.push(mutant),
            Outcome::Missed | Outcome::Unreached => {
                found.missed.insert(&mutant.name, mutant);
            }
        }
    }
    Ok(alone)
}

/// Builds the code with `mutant` in the place of what it replaces.
fn try_alone<'a>(tree: &Tree, mutant: &'a Mutant, found: &mut Found<'a>) -> Result<()> {
    let path = tree.root.join(&mutant.file);
    let sound = fs::read_to_string(&path)?;
    fs::write(&path, mutant.applied(&sound))?;
    let built = tree.tests(std::slice::from_ref(mutant));
    fs::write(&path, sound)?;
    let Some(suites) = built? else {
        found.unviable.insert(&mutant.name);
        return Ok(());
    };
    let own: Vec<Suite> = suites
        .into_iter()
        .filter(|suite| suite.package == mutant.package)
        .collect();
    if tests::fails(&own) {
        let by = "the tests of the package".to_owned();
        found.noticed.insert(&mutant.name, by);
    } else {
        eprintln!("survives: {}", mutant.name);
        found.missed.insert(&mutant.name, mutant);
    }
    Ok(())
}

impl Found<'_> {
    fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        let noticed = self
            .noticed
            .iter()
            .map(|(name, by)| format!("{name} <- {by}\n"));
        fs::write(folder.join("noticed.txt"), noticed.collect::<String>())?;
        let missed = self.missed.keys().map(|name| format!("{name}\n"));
        fs::write(folder.join("missed.txt"), missed.collect::<String>())?;
        let unviable = self.unviable.iter().map(|name| format!("{name}\n"));
        fs::write(folder.join("unviable.txt"), unviable.collect::<String>())?;
        Ok(())
    }

    fn problems(&self, root: &Path, limit_percent: usize) -> Result<Vec<String>> {
        let known = fs::read_to_string(root.join(KNOWN)).context(KNOWN)?;
        let known: BTreeSet<&str> = known
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(" # "))
            .map(|(mutant, _)| mutant)
            .collect();
        let missed = self.missed.len();
        let tried = missed + self.noticed.len();
        eprintln!(
            "{tried} mutants compile, {missed} survive ({} in a thousand; {} may), {} do not compile",
            missed * 1_000 / tried.max(1),
            limit_percent * 10,
            self.unviable.len()
        );
        let has_reason = |mutant: &Mutant| known.contains(mutant.nameless().as_str());
        let mut problems: Vec<String> = self
            .missed
            .iter()
            .filter(|(_, mutant)| !has_reason(mutant))
            .map(|(name, _)| format!("without a reason in {KNOWN}: {name}"))
            .collect();
        if missed * 100 > limit_percent * tried {
            problems.push(format!("{missed} of {tried} mutants survive"));
        }
        Ok(problems)
    }
}
