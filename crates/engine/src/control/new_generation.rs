//! Beginning anew where this machine may be a copy of another one.

use super::thread::Control;
use crate::entropy::random_seed;
use culvert_session::{Clock, GenerationChange};
use std::io;

impl Control {
    /// Begins anew where this machine may be a copy since the last turn.
    ///
    /// # Errors
    /// Those of the system's source of randomness.
    pub(super) fn check_machine(&mut self, clock: Clock) -> io::Result<()> {
        match self.machine.change() {
            Some(change) => self.begin_anew(change, clock),
            None => Ok(()),
        }
    }

    /// A worker with snapshot `generation` found that the machine may be a copy, which may be known
    /// by now.
    ///
    /// # Errors
    /// Those of the system's source of randomness.
    pub(super) fn hear_of_copy(
        &mut self,
        generation: u64,
        change: GenerationChange,
        clock: Clock,
    ) -> io::Result<()> {
        if self.machine.is_known(generation) {
            return Ok(());
        }
        self.begin_anew(change, clock)
    }

    /// Gives up all that a copy of this machine may have as well, and begins handshakes.
    fn begin_anew(&mut self, change: GenerationChange, clock: Clock) -> io::Result<()> {
        let seed = random_seed().map_err(io::Error::other)?;
        let generation = self.workers.shared().published.next_generation();
        self.machine.begin_generation(generation);
        self.handshakes.begin_anew(&seed, clock);
        self.workers.set_dirty();
        self.execute();
        self.machine.note(change, clock.now);
        Ok(())
    }
}
