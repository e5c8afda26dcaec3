//! What access costs: the product's client and gateway beside `culvert wg` that forwards the same traffic.

use anyhow::Result;

use super::Lab;
use super::sheet::Sheet;
use crate::gateway::SideBySide;
use crate::statistics::Samples;
use crate::targets;

/// Runs the part.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet) -> Result<()> {
    let effort = lab.effort();
    let side_by_side = SideBySide::set_up(1)?;
    let mut all = Samples::default();
    for round in 1..=lab.rounds() {
        for way in &side_by_side.ways {
            let name = way.subject.name;
            lab.progress(round, name);
            let mut samples = Samples::default();
            let result = side_by_side.measure(way, &effort, &mut samples);
            sheet.note(name, result);
            sheet.add_samples("through a gateway", &samples, &way.subject);
            all.append(&way.subject, &samples);
            lab.keep(sheet)?;
        }
    }
    for verdict in targets::judge_gateway(&all) {
        sheet.add_verdict(&verdict);
    }
    Ok(())
}
