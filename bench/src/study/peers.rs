//! Culvert beside its peers and the bare link, as `make bench` measures them.

use anyhow::Result;

use super::lab::{Lab, Scope, in_turn};
use super::sheet::{At, Sheet};
use crate::comparison::{self, Part as Compared};
use crate::effort::Effort;
use crate::machine;
use crate::statistics::Samples;
use crate::targets;

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet, all: &mut Samples) -> Result<()> {
    let effort = Effort {
        congestion_controls: match lab.scope() {
            Scope::Quick => &["cubic"],
            Scope::Full => &["cubic", "bbr"],
        },
        ..lab.effort()
    };
    // Links have a part of their own.
    let all_parts = [Compared::Ping, Compared::Tcp, Compared::Udp];
    let subjects = lab.tunnels_and_link(sheet)?;
    let round = lab.round();
    for subject in in_turn(&subjects.iter().collect::<Vec<_>>(), round) {
        lab.progress(subject.name);
        let mut samples = Samples::default();
        let parts = match lab.measures_throughput_of(subject, round) {
            true => &all_parts[..],
            false => &all_parts[..1],
        };
        let result = comparison::measure(subject, &effort, round, parts, &mut samples);
        sheet.note(subject.name, result);
        for failure in samples.failures() {
            sheet
                .failures
                .push(format!("{}: {}", failure.subject, failure.message));
        }
        sheet.add_samples("beside its peers", &samples, subject);
        if let Some(version) = machine::version(subject).filter(|_| round == 1) {
            let at = At {
                table: "versions",
                row: subject.name,
                column: "version",
            };
            sheet.say(at, version);
        }
        all.append(subject, &samples);
        lab.keep(sheet)?;
    }
    Ok(())
}

/// Says what was reached in all rounds.
pub(crate) fn judge(sheet: &mut Sheet, all: &Samples) {
    for verdict in targets::judge(all) {
        sheet.add_verdict(&verdict);
    }
}
