//! Runs by their seeds, on all processors, and what to do with one that fails.

use culvert_sim::access::Tally;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Histories in an ordinary run of the tests: under a minute on two busy cores, without optimisation.
pub(crate) const HISTORIES: u64 = 2_000;

/// Days in an ordinary run of the tests: a minute each, without optimisation.
pub(crate) const DAYS: u64 = 1;

/// Seeds whose failures are shown.
const MAX_SHOWN: usize = 20;

/// Runs `runs` seeds, in proportion more or less where the environment says how many histories there
/// are to be. Returns what all of them counted, and how many there were.
///
/// # Panics
/// If a run does, with its seed.
pub(crate) fn run(runs: u64, one: impl Fn(u64, bool) -> Tally + Sync) -> (Tally, u64) {
    if let Some(seed) = setting("CULVERT_SIM_SEED") {
        let tally = one(seed, true);
        eprintln!("{tally:#?}");
        return (tally, 1);
    }
    let first = setting("CULVERT_SIM_FIRST").unwrap_or(0);
    let histories = setting("CULVERT_SIM_RUNS").unwrap_or(HISTORIES);
    let runs = (runs * histories).div_ceil(HISTORIES);
    let end = first + runs;
    let next = AtomicU64::new(first);
    let failures = Mutex::new(BTreeMap::new());
    let total = Mutex::new(Tally::default());
    let work = || {
        while failures.lock().unwrap().len() < MAX_SHOWN {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            match catch_unwind(AssertUnwindSafe(|| one(seed, false))) {
                Ok(tally) => total.lock().unwrap().add(&tally),
                Err(panic) => {
                    failures.lock().unwrap().insert(seed, text_of(&*panic));
                }
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap();
    let test = thread::current().name().unwrap_or("").to_owned();
    let shown = failures.iter().map(|(seed, text)| {
        format!(
            "\n  seed {seed}: {text}\n    replay it: CULVERT_SIM_SEED={seed} \
             cargo test -p culvert-sim --test product -- --nocapture --exact {test}"
        )
    });
    assert!(failures.is_empty(), "{}", shown.collect::<String>());
    (total.into_inner().unwrap(), runs)
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("a number"))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let literal = || panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(literal)
        .unwrap_or_else(|| "it panicked".to_owned())
}
