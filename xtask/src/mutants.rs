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

use anyhow::{Context, Result, anyhow, bail};
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
    /// Into how many samples they are divided, and which one is tried.
    samples: u64,
    sample: u64,
    /// The most that may survive, of a hundred.
    limit_percent: usize,
}

impl Choice {
    fn parse(words: &[String]) -> Result<Self> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (what, sample) = match *words.as_slice() {
            [what] => (what, 0),
            [what, sample] => (what, sample.parse().context("K is a number")?),
            _ => bail!("session, policy or sample [K]?"),
        };
        const SAMPLES: u64 = 6;
        let whole = |package| Self {
            arguments: vec!["--package", package],
            samples: 1,
            sample: 0,
            limit_percent: 3,
        };
        match what {
            "session" => Ok(whole("culvert-session")),
            "policy" => Ok(whole("culvert-policy")),
            "sample" if sample < SAMPLES => Ok(Self {
                arguments: vec![
                    "--package",
                    "culvert-store",
                    "--package",
                    "culvert-store-sql",
                    "--package",
                    "culvert-portal-service",
                    "--file",
                    "crates/store/src/**",
                    "--file",
                    "crates/store-sql/src/**",
                    "--file",
                    "crates/portal-service/src/**",
                ],
                samples: SAMPLES,
                sample,
                limit_percent: 10,
            }),
            _ => bail!("session, policy, or sample with a number below {SAMPLES}?"),
        }
    }
}

impl Choice {
    /// By a digest of what it changes, but not of the line: a sample stays the same one when other code changes.
    fn has(&self, mutant: &Mutant) -> bool {
        sample_of(&mutant.nameless(), self.samples) == self.sample
    }
}

/// FNV-1a, and the high half folded in: its low bits alone are not even enough.
fn sample_of(name: &str, samples: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let digest = name.bytes().fold(OFFSET_BASIS, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    (digest ^ digest >> 32) % samples
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
        .filter(|mutant| choice.has(mutant))
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
    let suites = suites.map_err(|error| {
        anyhow!("the tests don't compile with the mutants in the code: {error}")
    })?;
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
    let Ok(suites) = built? else {
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

#[cfg(test)]
mod choice_tests {
    use super::sample_of;

    #[test]
    fn each_sample_has_about_as_many_mutants_as_the_others() {
        let mut counts = [0_u32; 6];
        for number in 0..6_000 {
            let name = format!("crates/a/src/b.rs: replace f{number} with ()");
            counts[usize::try_from(sample_of(&name, 6)).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (900..1_100).contains(count)),
            "{counts:?}"
        );
    }
}
