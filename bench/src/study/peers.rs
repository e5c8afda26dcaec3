//! Culvert beside its peers and the bare link, as `make bench` measures them.

use anyhow::Result;

use super::sheet::Sheet;
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
        for subject in subjects
            .iter()
            .filter(|subject| lab.takes_part(subject, round))
        {
            lab.progress(round, subject.name);
            let mut samples = Samples::default();
            let result = crate::measure(subject, &effort, round, &parts, &mut samples);
            sheet.note(subject.name, result);
            for failure in samples.failures() {
                sheet
                    .failures
                    .push(format!("{}: {}", failure.subject, failure.message));
            }
            sheet.add_samples("beside its peers", &samples, subject);
            all.append(subject, &samples);
            lab.keep(sheet)?;
        }
    }
    for verdict in targets::judge(&all) {
        sheet.add_verdict(&verdict);
    }
    Ok(())
}
