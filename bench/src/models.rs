//! The plain tunnels beside the engine and the bare link: what each step from a loop around `select` to
//! the product is worth.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use culvert_io_models::Model;
use culvert_lab::Implementation;

use crate::bed::Bed;
use crate::effort::Effort;
use crate::record::Record;
use crate::statistics::Samples;
use crate::subject::{Kind, Means, Subject};
use crate::{report, tcp, udp};

/// The bare link, a plain tunnel by each way to wait for packets, and `culvert wg`, side by side.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// One short round.
    #[arg(long)]
    quick: bool,
    /// The number of rounds, instead of one (quick) or three.
    #[arg(long)]
    rounds: Option<u32>,
    /// Only these ways to wait.
    #[arg(long, value_delimiter = ',')]
    models: Option<Vec<Model>>,
    /// The file for the results; a new file in bench/results by default.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs the comparison and prints it.
pub(crate) fn run(arguments: Arguments) -> Result<()> {
    let effort = Effort {
        congestion_controls: &["cubic"],
        ..Effort::new(arguments.quick, arguments.rounds)
    };
    let models = arguments.models.as_deref();
    let subjects = subjects(models.unwrap_or(Model::value_variants()));
    let mut samples = Samples::default();
    for round in 1..=effort.rounds {
        for subject in &subjects {
            eprintln!("round {round} of {}: {}", effort.rounds, subject.name);
            let result = measure(subject, &effort, &mut samples);
            samples.note(subject, result);
        }
    }
    report::print(&subjects, &samples, &[])?;
    let record = Record::new(&effort, &subjects, &samples, &[]);
    let path = record
        .write(arguments.json)
        .context("cannot write the results")?;
    eprintln!("results in {}", path.display());
    Ok(())
}

fn subjects(models: &[Model]) -> Vec<Subject> {
    let subject = |name, kind, means| Subject { name, kind, means };
    let wg = |arguments| Means::WireGuard(Implementation::culvert_with(arguments));
    let mut subjects = vec![subject("direct", Kind::Direct, Means::Link)];
    // The baseline for the product takes the place of a peer.
    let plain = |model: &Model| subject(model.name(), Kind::Peer, Means::Plain(*model));
    subjects.extend(models.iter().map(plain));
    subjects.push(subject("culvert", Kind::Product, wg("")));
    let aes = "--cipher aes256gcm";
    subjects.push(subject("culvert-aes", Kind::ProductAes, wg(aes)));
    subjects
}

fn measure(subject: &Subject, effort: &Effort, samples: &mut Samples) -> Result<()> {
    let bed = Bed::new(subject)?;
    let result = tcp::idle_ping(&bed, effort, samples);
    samples.note(subject, result);
    let congestion_control = effort.congestion_controls[0];
    let result = tcp::throughput(&bed, effort, congestion_control, samples);
    samples.note(subject, result);
    udp::loss_free_rates(&bed, effort, samples);
    bed.record_peak_memory(samples)
}
