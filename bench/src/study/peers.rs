//! Culvert beside its peers and the bare link, as `make bench` measures them.

use anyhow::Result;

use super::sheet::{At, Sheet};
use super::{Lab, Scope};
use crate::Part as Compared;
use crate::effort::Effort;
use crate::statistics::Samples;
use crate::targets;

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let effort = Effort {
        congestion_controls: match lab.scope() {
            Scope::Quick => &["cubic"],
            Scope::Full => &["cubic", "bbr"],
        },
        ..lab.effort()
    };
    // Links have a part of their own.
    let parts = [Compared::Ping, Compared::Tcp, Compared::Udp];
    let subjects = lab.tunnels_and_link();
    let mut all = Samples::default();
    for round in 1..=lab.rounds() {
        for subject in &subjects {
            lab.progress(round, subject.name);
            let mut samples = Samples::default();
            let result = crate::measure(subject, &effort, round, &parts, &mut samples);
            sheet.note(subject.name, result);
            for failure in samples.failures() {
                sheet
                    .failures
                    .push(format!("{}: {}", failure.subject, failure.message));
            }
            for metric in samples.metrics() {
                let (unit, one) = metric.shown_unit();
                let row = format!("{metric}, {unit}");
                for &value in samples.values(subject.name, metric) {
                    let at = At {
                        table: "beside its peers",
                        row: row.trim_end_matches(", "),
                        column: subject.name,
                    };
                    sheet.add(at, value / one);
                    all.add(subject, metric, value);
                }
            }
            lab.keep(sheet)?;
        }
    }
    for verdict in targets::judge(&all) {
        let at = |column| At {
            table: "targets",
            row: &verdict.target,
            column,
        };
        sheet.add(at("measured"), verdict.value);
        sheet.add(at("target"), verdict.bound);
    }
    Ok(())
}
