//! The study: where a tunnel loses its speed, measured part by part, with a page of tables and charts.
//!
//! Each part writes its results to a file of its own as it goes, so that a run that is interrupted keeps
//! what it has, and says that it is not whole. The page is made from the files alone.
//!
//! A round measures every part once, so that the rounds of a figure lie as far apart as the run is long. A machine that
//! others share drifts by the hour, and the spread of a figure shows the drift.

mod ablation;
mod chart;
mod corking;
mod counted;
mod flame;
mod gateway;
mod lab;
mod limits;
mod links;
mod models;
mod page;
mod part;
mod peers;
mod profile;
mod sheet;
mod stacks;
mod wire;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use self::lab::{Lab, Scope};
use self::part::Part;
use self::sheet::{At, Sheet};
use crate::machine;
use crate::statistics::Samples;

/// The directory for the results of a quick run.
const QUICK_RESULTS: &str = "target/study-quick";

/// The places where a tunnel loses its speed: tables and charts in docs/performance.md, from results beside it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Short measurements, one round: under ten minutes, for a first impression.
    #[arg(long)]
    quick: bool,
    /// Only these parts; the others keep the results that they have.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Part>>,
    /// The number of rounds, instead of one (quick) or three.
    #[arg(long)]
    rounds: Option<u32>,
    /// Measure nothing: make the page and the charts anew from the results that are there.
    #[arg(long)]
    page_only: bool,
    /// The directory for results and charts; otherwise docs/performance, and target/study-quick for a quick run.
    #[arg(long)]
    results: Option<PathBuf>,
    /// The file for the page; otherwise docs/performance.md, and beside the results for a quick run.
    #[arg(long)]
    page: Option<PathBuf>,
}

/// A part, and what the rounds so far have found.
struct Course {
    part: Part,
    sheet: Sheet,
    /// Samples by which targets are judged, if the part has any.
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
        // The results of a full run stay.
        Scope::Quick => culvert_lab::workspace_dir().join(QUICK_RESULTS),
        Scope::Full => docs.join("performance"),
    });
    fs::create_dir_all(&results).with_context(|| format!("cannot make {}", results.display()))?;
    let mut lab = Lab::new(scope, arguments.rounds, results.clone());
    let parts = arguments.only.as_deref().unwrap_or(Part::value_variants());
    if !arguments.page_only {
        eprintln!(
            "{} parts; Ctrl-C ends it, removes what it set up, and leaves in {} what has been measured",
            parts.len(),
            results.display()
        );
    }
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
        lab.elapsed().as_secs()
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

/// Measures `parts`, round by round, and says how much of it failed.
fn measure(lab: &mut Lab, parts: &[Part]) -> Result<usize> {
    let mut courses: Vec<_> = parts.iter().map(|&part| Course::new(lab, part)).collect();
    if lab.scope() == Scope::Quick {
        machine::wait_until_idle();
    }
    for round in 1..=lab.rounds() {
        for course in &mut courses {
            lab.turn_to(course.part, round);
            course.go_on(lab)?;
        }
    }
    let mut failures = 0;
    for course in courses {
        lab.turn_to(course.part, lab.rounds());
        failures += course.finish(lab)?;
    }
    Ok(failures)
}

impl Course {
    fn new(lab: &Lab, part: Part) -> Self {
        let quick = lab.scope() == Scope::Quick;
        let command = format!(
            "make study STUDY=\"{}--rounds {} --only {}\"",
            if quick { "--quick " } else { "" },
            lab.rounds(),
            part.name()
        );
        let mut sheet = Sheet::new(command, quick);
        sheet.rounds = lab.rounds();
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
        if self.outcome.is_err() || (is_once && lab.round() > 1) {
            return Ok(());
        }
        // Memory that a part frees must not slow down the next one; a quick run has no time for that.
        if lab.scope() == Scope::Full {
            machine::wait_until_idle();
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
