//! The cost of access: the product's client and gateway beside `culvert wg` that forwards the same
//! traffic.

use anyhow::Result;

use super::lab::Lab;
use super::sheet::Sheet;
use crate::gateway::SideBySide;
use crate::statistics::Samples;
use crate::targets;

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet, all: &mut Samples) -> Result<()> {
    let effort = lab.effort();
    let side_by_side = SideBySide::set_up(1)?;
    lab.progress("both ways by turns");
    let mut samples = Samples::default();
    for (way, result) in side_by_side.measure(&effort, &mut samples) {
        sheet.note(way.subject.name, result);
    }
    for way in &side_by_side.ways {
        sheet.add_samples("through a gateway", &samples, &way.subject);
        all.append(&way.subject, &samples);
    }
    lab.keep(sheet)?;
    Ok(())
}

/// Says what was reached in all rounds.
pub(crate) fn judge(sheet: &mut Sheet, all: &Samples) {
    for verdict in targets::judge_gateway(all) {
        sheet.add_verdict(&verdict);
    }
}
