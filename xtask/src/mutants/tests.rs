//! Runs the tests that reach a mutant, until one notices it.

use super::build::Suite;
use super::list::{Mutant, MutantId};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any of these tests takes on a busy machine.
const LONGEST_TEST_S: u64 = 300;

/// With a mutant, a test has this many times as long as without, and a while more. One that hangs costs this much.
const TIMEOUT_FACTOR: u32 = 20;
const TIMEOUT_MORE: Duration = Duration::from_secs(10);

/// The same for all tests of a suite, one after the other.
const LONGEST_SUITE_S: u64 = 900;

/// More than any of these tests takes. A mutant that asks for memory without end takes no more than this. Address space
/// that is only reserved does not count: the identity provider of tests reserves more.
const MOST_MEMORY_BYTES: u64 = 4 << 30;

/// Tests of the portal wait more than they compute.
const TESTS_PER_PROCESSOR: usize = 2;

/// Mutants for each line of progress.
const PROGRESS: usize = 50;

/// One test, and which mutants it reaches.
#[derive(Debug)]
struct Test {
    suite: Suite,
    name: String,
    passes: bool,
    took: Duration,
    reached: Vec<MutantId>,
}

impl Test {
    /// Runs it without any mutant. `report` is a file for what it reaches.
    fn run(suite: &Suite, name: &str, report: &Path) -> Self {
        let _missing = fs::remove_file(report);
        let begun = Instant::now();
        let status = command(suite, LONGEST_TEST_S)
            .args(["--exact", name])
            .env("CULVERT_MUTANTS_REACHED", report)
            .status();
        let reached = fs::read_to_string(report).unwrap_or_default();
        let reached = reached.lines().filter_map(|line| line.parse().ok());
        // A program that the test starts reports as well.
        let reached: BTreeSet<MutantId> = reached.collect();
        Self {
            suite: suite.clone(),
            name: name.to_owned(),
            passes: status.is_ok_and(|status| status.success()),
            took: begun.elapsed(),
            reached: reached.into_iter().collect(),
        }
    }
}

/// The tests that reach each mutant, the quickest first.
pub(super) struct Reach {
    tests: Vec<Test>,
    by_mutant: HashMap<MutantId, Vec<usize>>,
}

/// The outcome of one mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Noticed {
        by: String,
    },
    /// No test failed that reaches it.
    Missed,
    /// No test reaches it.
    Unreached,
}

impl Reach {
    /// Runs every test on the sound code. One that fails there, such as one whose peer is not installed, is left
    /// out.
    pub(super) fn find(suites: &[Suite], folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut names = Vec::new();
        for suite in suites {
            names.extend(tests_of(suite)?.into_iter().map(|name| (suite, name)));
        }
        eprintln!("which of {} tests reach which mutants …", names.len());
        let mut tests = in_parallel(&names, |index, (suite, name)| {
            Test::run(suite, name, &folder.join(index.to_string()))
        });
        let is_sound = |test: &Test| {
            if !test.passes {
                eprintln!("left out, since it fails without any mutant: {}", test.name);
            }
            test.passes
        };
        tests.retain(is_sound);
        ensure!(
            !tests.is_empty(),
            "no test passes without a mutant: as root, they need a mount namespace of their own (unshare --mount)"
        );
        tests.sort_by_key(|test| test.took);
        let mut by_mutant: HashMap<_, Vec<usize>> = HashMap::new();
        for (index, test) in tests.iter().enumerate() {
            for mutant in &test.reached {
                by_mutant.entry(*mutant).or_default().push(index);
            }
        }
        Ok(Self { tests, by_mutant })
    }

    /// Tries each of `mutants`, which stand in the code that the tests were built of.
    pub(super) fn outcomes(&self, mutants: &[&Mutant]) -> BTreeMap<MutantId, Outcome> {
        let done = AtomicUsize::new(0);
        let outcomes = in_parallel(mutants, |_, mutant| {
            let outcome = self.outcome(mutant);
            if outcome == Outcome::Missed {
                eprintln!("survives: {}", mutant.name);
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(PROGRESS) {
                eprintln!("{done} of {} mutants tried", mutants.len());
            }
            (mutant.id, outcome)
        });
        outcomes.into_iter().collect()
    }

    fn outcome(&self, mutant: &Mutant) -> Outcome {
        let Some(tests) = self.by_mutant.get(&mutant.id) else {
            return Outcome::Unreached;
        };
        // Tests of another package may reach it; they are not there to notice it.
        let notices = tests.iter().map(|index| &self.tests[*index]).find(|test| {
            let longest = test.took * TIMEOUT_FACTOR + TIMEOUT_MORE;
            let status = command(&test.suite, longest.as_secs())
                .args(["--exact", &test.name])
                .env("CULVERT_MUTANT", mutant.id.to_string())
                .status();
            !status.is_ok_and(|status| status.success())
        });
        notices.map_or(Outcome::Missed, |test| Outcome::Noticed {
            by: test.name.clone(),
        })
    }
}

/// True if one of `suites` fails as a whole.
pub(super) fn fails(suites: &[Suite]) -> bool {
    suites.iter().any(|suite| {
        let status = command(suite, LONGEST_SUITE_S).status();
        !status.is_ok_and(|status| status.success())
    })
}

fn tests_of(suite: &Suite) -> Result<Vec<String>> {
    let listed = Command::new(&suite.program)
        .args(["--list", "--format", "terse"])
        .current_dir(&suite.folder)
        .output()
        .with_context(|| suite.program.display().to_string())?;
    let ignored = Command::new(&suite.program)
        .args(["--list", "--format", "terse", "--ignored"])
        .current_dir(&suite.folder)
        .output()?;
    let names = |said: Vec<u8>| -> Result<Vec<String>> {
        let said = String::from_utf8(said)?;
        let names = said.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    };
    let ignored = names(ignored.stdout)?;
    let mut names = names(listed.stdout)?;
    names.retain(|name| !ignored.contains(name));
    Ok(names)
}

/// Runs a program with its arguments where devices cannot be changed: a mutant of the database's checks closed
/// /dev/null to everybody but root. Nobody but root can do that, or has to be kept from it.
const KEEP_DEVICES: &str = r#"
[ "$(id -u)" != 0 ] || exec unshare --mount sh -c 'mount -o remount,bind,ro /dev && exec "$@"' sh "$@"
exec "$@""#;

fn command(suite: &Suite, longest_s: u64) -> Command {
    // It ends what the test started, too.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &longest_s.to_string()])
        .args(["sh", "-c", KEEP_DEVICES, "sh"])
        .args(["prlimit", &format!("--data={MOST_MEMORY_BYTES}")])
        .arg(&suite.program)
        .current_dir(&suite.folder)
        .env("CARGO_MANIFEST_DIR", &suite.folder)
        // The same random cases each time, so that a mutant that survived is the test's doing and not chance.
        .env("PROPTEST_RNG_SEED", "1")
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Calls `work` for each of `items` with its index. The order of what it gives is any.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, usize::from) * TESTS_PER_PROCESSOR;
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(index, item);
                    done.lock().expect("no thread panics").push(result);
                }
            });
        }
    });
    done.into_inner().expect("no thread panics")
}
