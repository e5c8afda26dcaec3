//! The results as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::effort::Effort;
use crate::machine::{Machine, version};
use crate::statistics::Samples;
use crate::subject::Subject;
use crate::targets::Verdict;

/// Grows when a field changes its meaning or goes away.
const SCHEMA_VERSION: u32 = 1;

/// All of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Record {
    schema_version: u32,
    /// Seconds since 1970.
    finished_at_s: u64,
    /// The command line of this program.
    command: Vec<String>,
    quick: bool,
    rounds: u32,
    machine: Machine,
    subjects: Vec<SubjectRecord>,
    targets: Vec<TargetRecord>,
    failures: Vec<FailureRecord>,
}

#[derive(Debug, Serialize)]
struct SubjectRecord {
    name: &'static str,
    version: Option<String>,
    /// The command of each end, with INTERFACE for its name.
    command: Option<String>,
    /// Keys name their unit.
    results: BTreeMap<String, ResultRecord>,
}

#[derive(Debug, Serialize)]
struct ResultRecord {
    median: f64,
    /// One a round.
    samples: Vec<f64>,
    /// To the best peer, if there is one.
    ratio_to_best_peer: Option<f64>,
}

#[derive(Debug, Serialize)]
struct TargetRecord {
    target: String,
    value: f64,
    bound: f64,
    reached: bool,
}

#[derive(Debug, Serialize)]
struct FailureRecord {
    subject: &'static str,
    message: String,
}

impl Record {
    pub(crate) fn new(
        effort: &Effort,
        subjects: &[Subject],
        samples: &Samples,
        verdicts: &[Verdict],
    ) -> Self {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            schema_version: SCHEMA_VERSION,
            finished_at_s: now.as_secs(),
            command: std::env::args().collect(),
            quick: effort.quick,
            rounds: effort.rounds,
            machine: Machine::this(),
            subjects: subjects
                .iter()
                .map(|subject| of_subject(subject, samples))
                .collect(),
            targets: verdicts.iter().map(of_verdict).collect(),
            failures: samples
                .failures()
                .iter()
                .map(|failure| FailureRecord {
                    subject: failure.subject,
                    message: failure.message.clone(),
                })
                .collect(),
        }
    }

    /// Writes the results to `path`, or to a new file in bench/results, and returns where.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn write(&self, path: Option<PathBuf>) -> Result<PathBuf> {
        let path = path.unwrap_or_else(|| {
            let dir = culvert_lab::workspace_dir().join("bench/results");
            dir.join(format!("{}.json", self.finished_at_s))
        });
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&path, text + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

fn of_subject(subject: &Subject, samples: &Samples) -> SubjectRecord {
    let results = samples.metrics().into_iter().filter_map(|metric| {
        let median = samples.median(subject.name, metric)?;
        let best = samples.best_peer(metric).map(|(_, best)| best);
        let result = ResultRecord {
            median,
            samples: samples.values(subject.name, metric).to_vec(),
            ratio_to_best_peer: best.filter(|best| *best > 0.0).map(|best| median / best),
        };
        Some((metric.key(), result))
    });
    let command = subject.implementation();
    SubjectRecord {
        name: subject.name,
        version: version(subject),
        command: command.and_then(|known| known.command_line("INTERFACE").ok()),
        results: results.collect(),
    }
}

fn of_verdict(verdict: &Verdict) -> TargetRecord {
    TargetRecord {
        target: verdict.target.clone(),
        value: verdict.value,
        bound: verdict.bound,
        reached: verdict.reached,
    }
}
