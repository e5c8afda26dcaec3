//! The study: where a tunnel loses its speed, measured part by part, with a page of tables and charts.
//!
//! Each part writes its results to a file of its own as it goes, so that a run that is interrupted keeps
//! what it has, and says that it is not whole. The page is made from the files alone.
//!
//! A round measures every part once, so that the rounds of a figure lie as far apart as the run is long: a machine that
//! others share drifts by the hour, and the spread of a figure is to tell of that.

mod ablation;
mod chart;
mod corking;
mod counted;
mod flame;
mod gateway;
mod limits;
mod links;
mod models;
mod page;
mod peers;
mod profile;
mod sheet;
mod stacks;
mod wire;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use culvert_lab::Implementation;

use crate::effort::Effort;
use crate::machine;
use crate::statistics::Samples;
use crate::subject::{self, Kind, Means, Subject};
use sheet::{At, Sheet};

/// Where the results of a quick run go.
const QUICK_RESULTS: &str = "target/study-quick";

/// Where a tunnel loses its speed: tables and charts in docs/performance.md, from results beside it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Short measurements, one round: under ten minutes, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Only these parts; the others keep the results that they have.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Part>>,
    /// How many rounds, instead of one (quick) or three.
    #[arg(long)]
    rounds: Option<u32>,
    /// Measure nothing: make the page and the charts anew from the results that are there.
    #[arg(long)]
    page_only: bool,
    /// Where results and charts go; otherwise docs/performance, and target/study-quick for a quick run.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Where the page goes; otherwise docs/performance.md, and beside the results for a quick run.
    #[arg(long)]
    page: Option<PathBuf>,
}

/// A part of the study, which can be measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Culvert beside its peers and the bare link.
    Peers,
    /// Which system calls a TUN descriptor takes.
    Calls,
    /// The plain tunnel by each way to wait, the engine, and the bare link.
    Models,
    /// What each mechanism is worth.
    Ablation,
    /// Where the time goes.
    Profile,
    /// Small writes, with batching and without.
    Corking,
    /// Links of a rate, with delay and loss.
    Links,
    /// Workers and flows.
    Workers,
    /// The product's gateway beside a plain tunnel that forwards.
    Gateway,
    /// How fast this machine copies and encrypts.
    Limits,
}

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Quick,
    Full,
}

/// What the parts share.
#[derive(Debug)]
pub(crate) struct Lab {
    scope: Scope,
    /// Which round this is, of how many.
    round: u32,
    rounds: u32,
    began: Instant,
    part: Part,
    results: PathBuf,
}

/// A part, and what the rounds so far have found.
struct Course {
    part: Part,
    sheet: Sheet,
    /// What targets are judged by, where the part has any.
    samples: Samples,
    /// It could not go on, and why.
    outcome: Result<()>,
}

/// Measures, and makes the page.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let docs = culvert_lab::workspace_dir().join("docs");
    let scope = if arguments.quick {
        Scope::Quick
    } else {
        Scope::Full
    };
    let results = arguments.results.unwrap_or_else(|| match scope {
        // What a full run has measured stays.
        Scope::Quick => culvert_lab::workspace_dir().join(QUICK_RESULTS),
        Scope::Full => docs.join("performance"),
    });
    fs::create_dir_all(&results).with_context(|| format!("cannot make {}", results.display()))?;
    let began = Instant::now();
    let parts = arguments.only.as_deref().unwrap_or(Part::value_variants());
    if !arguments.page_only {
        eprintln!(
            "{} parts; Ctrl-C ends it, removes what it set up, and leaves in {} what has been measured",
            parts.len(),
            results.display()
        );
    }
    let mut lab = Lab {
        scope,
        round: 1,
        rounds: arguments.rounds.unwrap_or(match scope {
            Scope::Quick => 1,
            Scope::Full => 3,
        }),
        began,
        part: Part::Peers,
        results: results.clone(),
    };
    let failures = match arguments.page_only {
        true => 0,
        false => measure(&mut lab, parts)?,
    };
    let page = arguments.page.unwrap_or_else(|| match scope {
        Scope::Quick => results.join("performance.md"),
        Scope::Full => docs.join("performance.md"),
    });
    let sheets = read(&results)?;
    page::print(&sheets)?;
    page::write(&page, &results, &sheets)?;
    eprintln!("the page is {}", page.display());
    eprintln!(
        "results in {}; {} s",
        results.display(),
        began.elapsed().as_secs()
    );
    anyhow::ensure!(
        failures == 0,
        "{failures} measurements failed; what failed and why is said above and in the results"
    );
    Ok(())
}

/// The results of all parts that a directory has.
fn read(results: &Path) -> Result<Vec<(Part, Sheet)>> {
    let sheets = Part::value_variants().iter().filter_map(|&part| {
        let sheet = Sheet::read(&part.path(results)).transpose()?;
        Some(sheet.map(|sheet| (part, sheet)))
    });
    sheets.collect()
}

/// The order of a round: there and back by turns, so that what a machine does in the course of a round, such as
/// getting warm, is not taken for a difference.
pub(crate) fn in_turn<T: Copy>(items: &[T], round: u32) -> Vec<T> {
    let mut order = items.to_vec();
    if round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

/// Measures `parts`, round by round, and says how much of it failed.
fn measure(lab: &mut Lab, parts: &[Part]) -> Result<usize> {
    let mut courses: Vec<_> = parts.iter().map(|&part| Course::new(lab, part)).collect();
    if lab.scope == Scope::Quick {
        machine::settle();
    }
    for round in 1..=lab.rounds {
        for course in &mut courses {
            (lab.round, lab.part) = (round, course.part);
            course.go_on(lab)?;
        }
    }
    let mut failures = 0;
    for course in courses {
        lab.part = course.part;
        failures += course.finish(lab)?;
    }
    Ok(failures)
}

impl Course {
    fn new(lab: &Lab, part: Part) -> Self {
        let quick = lab.scope == Scope::Quick;
        let command = format!(
            "make study STUDY=\"{}--rounds {} --only {}\"",
            if quick { "--quick " } else { "" },
            lab.rounds,
            part.name()
        );
        let mut sheet = Sheet::new(command, quick);
        sheet.rounds = lab.rounds;
        Self {
            part,
            sheet,
            samples: Samples::default(),
            outcome: Ok(()),
        }
    }

    /// Measures a round.
    fn go_on(&mut self, lab: &Lab) -> Result<()> {
        let is_once = matches!(self.part, Part::Calls | Part::Profile);
        if self.outcome.is_err() || (is_once && lab.round > 1) {
            return Ok(());
        }
        // What a part frees must not slow down the next one; a quick run has no time for that.
        if lab.scope == Scope::Full {
            machine::settle();
        }
        let (sheet, samples) = (&mut self.sheet, &mut self.samples);
        self.outcome = match self.part {
            Part::Peers => peers::run(lab, sheet, samples),
            Part::Models => models::run(lab, sheet),
            Part::Ablation => ablation::run(lab, sheet),
            Part::Corking => corking::run(lab, sheet),
            Part::Links => links::run(lab, sheet, samples),
            Part::Workers => workers::run(lab, sheet),
            Part::Gateway => gateway::run(lab, sheet, samples),
            Part::Limits => limits::run(lab, sheet),
            Part::Calls => calls(sheet),
            Part::Profile => profile::run(lab, sheet),
        };
        lab.keep(sheet)
    }

    /// Concludes from all rounds. Returns the number of failures.
    fn finish(mut self, lab: &Lab) -> Result<usize> {
        let (sheet, samples) = (&mut self.sheet, &self.samples);
        if self.outcome.is_ok() {
            match self.part {
                Part::Peers => peers::judge(sheet, samples),
                Part::Links => links::judge(sheet, samples),
                Part::Gateway => gateway::judge(sheet, samples),
                Part::Workers => self.outcome = workers::conclude(lab, sheet),
                Part::Limits => self.outcome = limits::compare(lab, sheet),
                Part::Calls | Part::Models | Part::Ablation | Part::Profile | Part::Corking => {}
            }
        }
        sheet.complete = self.outcome.is_ok() && !sheet.is_empty();
        sheet.note(self.part.name(), self.outcome);
        lab.keep(sheet)?;
        Ok(sheet.failures.len())
    }
}

fn calls(sheet: &mut Sheet) -> Result<()> {
    for call in crate::calls::try_calls()? {
        let at = At {
            table: "calls on a TUN descriptor",
            row: call.name,
            column: call.purpose.what(),
        };
        sheet.say(at, crate::calls::shown(&call.outcome));
    }
    Ok(())
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::Calls => "calls",
            Self::Models => "models",
            Self::Ablation => "ablation",
            Self::Profile => "profile",
            Self::Corking => "corking",
            Self::Links => "links",
            Self::Workers => "workers",
            Self::Gateway => "gateway",
            Self::Limits => "limits",
        }
    }

    fn path(self, results: &Path) -> PathBuf {
        results.join(format!("{}.json", self.name()))
    }
}

impl Lab {
    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    /// The round that is measured, from 1.
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(crate) fn effort(&self) -> Effort {
        let quick = self.scope == Scope::Quick;
        Effort {
            congestion_controls: &["cubic"],
            load_s: if quick { 2 } else { 4 },
            udp_steps: if quick { 5 } else { 8 },
            ..Effort::new(quick, Some(self.rounds))
        }
    }

    /// Where charts go.
    pub(crate) fn charts(&self) -> &Path {
        &self.results
    }

    /// Says what is measured now.
    pub(crate) fn progress(&self, what: &str) {
        eprintln!(
            "[{:4} s] {}, round {} of {}: {what}",
            self.began.elapsed().as_secs(),
            self.part.name(),
            self.round,
            self.rounds
        );
    }

    /// Keeps what has been measured so far; before there is anything, what an earlier run has measured.
    pub(crate) fn keep(&self, sheet: &mut Sheet) -> Result<()> {
        if sheet.is_empty() {
            return Ok(());
        }
        sheet.write(&self.part.path(&self.results))
    }

    /// What another part has measured, if it has.
    pub(crate) fn sheet_of(&self, part: Part) -> Result<Option<Sheet>> {
        Sheet::read(&part.path(&self.results))
    }

    /// Culvert at both ends.
    #[expect(clippy::unused_self, reason = "a subject of this study")]
    pub(crate) fn culvert(&self, arguments: &str) -> Subject {
        Subject {
            name: "culvert",
            kind: Kind::Product,
            means: Means::WireGuard(Implementation::culvert_with(arguments)),
        }
    }

    /// The bare link, Culvert with both suites, and the peers that are built; the sheet says which are not.
    pub(crate) fn tunnels_and_link(&self, sheet: &mut Sheet) -> Result<Vec<Subject>> {
        let (subjects, missing) = subject::choose(&self.effort(), None, "")?;
        // Every round finds the same.
        for line in missing {
            if !sheet.failures.contains(&line) {
                sheet.failures.push(line);
            }
        }
        Ok(subjects)
    }

    /// One round tells how far behind a peer is whose throughput others are always ahead of.
    #[expect(clippy::unused_self, reason = "a rule of this study")]
    pub(crate) fn measures_throughput_of(&self, subject: &Subject, round: u32) -> bool {
        round == 1 || !subject.is_slow_peer()
    }

    /// In bad weather it is the sender's TCP that suffers, whatever the tunnel: peers cross it once, and not at
    /// all where there is no time.
    pub(crate) fn crosses_weather(&self, subject: &Subject, round: u32) -> bool {
        subject.kind != Kind::Peer || (self.scope == Scope::Full && round == 1)
    }
}
