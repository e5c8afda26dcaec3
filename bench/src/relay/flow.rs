//! A one-way flow that never has more on its way than its queues hold, so that nothing is lost.

use anyhow::Result;
use culvert_base::Destination;
use culvert_udp::{ReceiveBatch, SendError, Socket};
use std::time::{Duration, Instant};

/// Bytes on their way at most. The relay's receive buffer holds more.
const WINDOW: usize = 1 << 20;

/// Bytes on their way count as lost if nothing comes for this long.
const LOST_AFTER: Duration = Duration::from_millis(100);

/// The two ends of a flow, both in this thread.
pub(super) struct Flow<'a> {
    pub(super) from: &'a Socket,
    pub(super) to: Destination,
    /// A batch of datagrams, and the bytes of each.
    pub(super) batch: &'a [u8],
    pub(super) stride: usize,
    pub(super) into: &'a Socket,
    /// Bytes of each datagram when it arrives.
    pub(super) arriving: usize,
    /// The most that is sent, in bytes a second.
    pub(super) rate: Option<f64>,
}

/// The measurements of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    /// Bytes of records that arrived.
    pub(super) bytes: u64,
    /// Records that did not.
    pub(super) lost: u64,
    pub(super) elapsed: Duration,
}

impl Carried {
    pub(super) fn gigabits_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e9 / self.elapsed.as_secs_f64()
    }
}

impl Flow<'_> {
    /// Carries for a while.
    pub(super) fn carry(&self, span: Duration) -> Result<Carried> {
        let began = Instant::now();
        let records_of_batch = (self.batch.len() / self.stride) as u64;
        let most = (WINDOW / self.batch.len()).max(1) as u64 * records_of_batch;
        let mut batch = ReceiveBatch::new(4);
        let (mut sent, mut arrived, mut lost) = (0_u64, 0_u64, 0_u64);
        let mut heard = Instant::now();
        while began.elapsed() < span {
            let allowed = self.rate.map_or(f64::MAX, |rate| {
                rate * began.elapsed().as_secs_f64() / self.stride as f64
            });
            while sent - arrived - lost + records_of_batch <= most && (sent as f64) < allowed {
                match self.from.send(self.batch, self.stride, &self.to, 0) {
                    Ok(()) => sent += records_of_batch,
                    Err(SendError::WouldBlock) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            if self.into.receive_batch(&mut batch)? > 0 {
                heard = Instant::now();
                let records = batch
                    .iter_mut()
                    .map(|run| run.bytes.len().div_ceil(run.stride));
                arrived += records.sum::<usize>() as u64;
            } else if heard.elapsed() > LOST_AFTER {
                lost = sent - arrived;
                heard = Instant::now();
            }
        }
        Ok(Carried {
            bytes: arrived * self.arriving as u64,
            lost,
            elapsed: began.elapsed(),
        })
    }
}
