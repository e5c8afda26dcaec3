//! Links of a given rate.

use anyhow::Result;
use culvert_lab::LinkShape;

use crate::bed::Bed;
use crate::effort::Effort;
use crate::metric::Metric;
use crate::statistics::Samples;
use crate::tcp::loaded;

/// The rates in Gbit/s.
pub(crate) const RATES_GBIT: [u32; 3] = [1, 5, 10];

/// Shapes the link to each rate in turn and measures TCP and the ping beside it. The link stays
/// shaped: this comes last.
pub(crate) fn shaped(bed: &Bed<'_>, effort: &Effort, samples: &mut Samples) -> Result<()> {
    for gbit in RATES_GBIT {
        bed.link.shape(LinkShape {
            rate_mbit: Some(gbit * 1000),
            mtu_bytes: None,
        })?;
        let (tcp, ping) = loaded(bed, effort)?;
        samples.add(bed.subject, Metric::LinkTcp { gbit }, tcp.bits_per_second);
        samples.add(bed.subject, Metric::LinkPing { gbit }, ping.average_ms);
    }
    Ok(())
}
