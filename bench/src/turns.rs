//! Two builds of Culvert by turns: the cost of a change on the packet road.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use culvert_lab::{Implementation, culvert_program};

use crate::comparison::{Part, measure};
use crate::effort::Effort;
use crate::machine;
use crate::metric::{Better, Metric};
use crate::record::Record;
use crate::statistics::{Samples, digits};
use crate::subject::{Kind, Means, Subject};

/// A median of the new build may be so much worse than that of the old one. Five turns of one build against itself differ
/// by up to 3 % on a machine that others share.
const WORST_SHARE: f64 = 0.95;

/// The mean of all ratios may be so much below 1: chance is in one median, and hardly in all of them.
const MEAN_SHARE: f64 = 0.98;

const OLD: [&str; 2] = ["old", "old-aes"];
const NEW: [&str; 2] = ["new", "new-aes"];

/// Two builds of Culvert by turns; the order of the two changes with each turn.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The program of before the change. The other one is the release build, or the program in CULVERT_BIN.
    #[arg(long)]
    old: PathBuf,
    /// The number of turns of each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    turns: u32,
    /// Only these parts.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<Part>>,
    /// Fail if a median is over 5 % worse, or the mean of all over 2 %.
    #[arg(long)]
    check: bool,
    /// The file for the results; a new file in bench/results by default.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures both builds and prints what the new one has of the old one's speed.
///
/// # Errors
/// When a program is missing, nothing could be measured, or `--check` finds the new one slower.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        arguments.old.is_file(),
        "there is no program at {}: --old is the build of before the change",
        arguments.old.display()
    );
    let effort = Effort {
        // Of Culvert alone: all that a quick run measures of a product.
        rounds: arguments.turns,
        idle_pings: 200,
        ..Effort::new(true, None)
    };
    let (old, new) = (build(&arguments.old, OLD), build(&culvert_program()?, NEW));
    let link = Subject {
        name: "direct",
        kind: Kind::Direct,
        means: Means::Link,
    };
    let parts = arguments
        .only
        .as_deref()
        .unwrap_or(&[Part::Tcp, Part::Udp, Part::Ping]);
    let mut samples = Samples::default();
    for turn in 1..=arguments.turns {
        machine::wait_until_idle();
        // The first of a turn may find another machine than the last, so neither build always is.
        let order = if turn % 2 == 1 {
            [&old, &new]
        } else {
            [&new, &old]
        };
        for subject in std::iter::once(&link).chain(order.into_iter().flatten()) {
            eprintln!("turn {turn} of {}: {}", arguments.turns, subject.name);
            let result = measure(subject, &effort, turn, parts, &mut samples);
            samples.note(subject, result);
        }
    }
    let worse = print(&samples)?;
    let subjects: Vec<_> = std::iter::once(link).chain(old).chain(new).collect();
    let path = Record::new(&effort, &subjects, &samples, &[])
        .write(arguments.json.clone())
        .context("cannot write the results")?;
    eprintln!("results in {}", path.display());
    ensure!(
        !arguments.check || worse.is_empty(),
        "the new build is slower: {}",
        worse.join("; ")
    );
    Ok(())
}

fn build(program: &Path, names: [&'static str; 2]) -> [Subject; 2] {
    let [plain, aes] = names;
    [
        (plain, Kind::Product, ""),
        (aes, Kind::ProductAes, "--cipher aes256gcm"),
    ]
    .map(|(name, kind, arguments)| Subject {
        name,
        kind,
        means: Means::WireGuard(Implementation::culvert_at(program, arguments)),
    })
}

/// Prints a line for each metric and returns what is worse than it may be.
fn print(samples: &Samples) -> Result<Vec<String>> {
    let mut out = io::stdout().lock();
    let (mut worse, mut shares) = (Vec::new(), Vec::new());
    writeln!(
        out,
        "\n{:44}{:>10}{:>10}{:>10}",
        "median", "old", "new", "new/old"
    )?;
    for metric in samples.metrics().into_iter().filter(|&m| is_speed(m)) {
        let (unit, scale) = metric.shown_unit();
        if let Some(direct) = samples.median("direct", metric) {
            let direct = digits(direct / scale);
            writeln!(
                out,
                "{:44}{direct:>10}",
                format!("{metric} {unit}, the bare link")
            )?;
        }
        for (old, new) in OLD.into_iter().zip(NEW) {
            let medians = samples.median(old, metric).zip(samples.median(new, metric));
            let Some((before, now)) = medians else {
                continue;
            };
            let share = share(metric, before, now);
            shares.push(share);
            let name = format!(
                "{metric} {unit}{}",
                old.strip_prefix("old-").map_or("", |_| ", AES")
            );
            writeln!(
                out,
                "{name:44}{:>10}{:>10}{share:>10.3}",
                digits(before / scale),
                digits(now / scale)
            )?;
            if share < WORST_SHARE {
                worse.push(format!("{name} has {share:.3} of the old speed"));
            }
        }
    }
    ensure!(!shares.is_empty(), "nothing could be measured");
    #[expect(clippy::cast_precision_loss, reason = "a few dozen metrics")]
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    writeln!(out, "{:44}{mean:>30.3}", "mean of all")?;
    writeln!(
        out,
        "above 1 is better, for times and processor time as well"
    )?;
    if mean < MEAN_SHARE {
        worse.push(format!("the mean is {mean:.3}"));
    }
    Ok(worse)
}

/// The new build's share of the old one's speed; above 1 it is faster.
fn share(metric: Metric, before: f64, now: f64) -> f64 {
    match metric.better() {
        Better::Higher => now / before,
        Better::Lower => before / now,
    }
}

/// True for rates and medians. Maxima and counts of rare events are chance in a short turn. So are mean round trips: one
/// reply that the machine holds back for 4 ms makes a mean of 50 half as long again.
fn is_speed(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::Tcp(..)
            | Metric::UdpLossFree { .. }
            | Metric::IdlePingMedian
            | Metric::LoadedPingMedian
            | Metric::LoadedTcp
            | Metric::CpuPerGigabyte
            | Metric::LinkTcp { .. }
            | Metric::LinkPing { .. }
    )
}
