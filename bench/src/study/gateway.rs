//! What access costs: the product's client and gateway beside `culvert wg` that forwards the same traffic.

use anyhow::Result;

use super::sheet::Sheet;
use super::{Lab, in_turn};
use crate::gateway::SideBySide;
use crate::statistics::Samples;
use crate::targets;

/// Measures a round.
pub(crate) fn run(lab: &Lab, sheet: &mut Sheet, all: &mut Samples) -> Result<()> {
    let effort = lab.effort();
    let side_by_side = SideBySide::set_up(1)?;
    for way in in_turn(&side_by_side.ways.iter().collect::<Vec<_>>(), lab.round()) {
        let name = way.subject.name;
        lab.progress(name);
        let mut samples = Samples::default();
        let result = side_by_side.measure(way, &effort, &mut samples);
        sheet.note(name, result);
        sheet.add_samples("through a gateway", &samples, &way.subject);
        all.append(&way.subject, &samples);
        lab.keep(sheet)?;
    }
    Ok(())
}

/// Says what was reached in all rounds.
pub(crate) fn judge(sheet: &mut Sheet, all: &Samples) {
    for verdict in targets::judge_gateway(all) {
        sheet.add_verdict(&verdict);
    }
}
