//! Noticing that this machine may be a copy: a clone, a restored snapshot, a machine that slept.
//! [`culvert_session::GenerationChange`] has the signs.

use super::Control;
use crate::clock;
use culvert_base::BootTime;
use culvert_datapath::Counter;
use culvert_netlink::{Protocol, Socket};
use culvert_session::{Clock, ClockOffset, ClockWatch, GenerationChange, announces_new_generation};
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// At most one line per minute: a wall clock that is set all the time restarts sessions as often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The multicast group of what the kernel tells; udev's own are another.
const KERNEL_GROUP: u32 = 1;

/// The signs, and what has come of them.
pub(crate) struct Machine {
    clocks: ClockWatch,
    uevents: Option<Uevents>,
    /// How often all sessions began anew.
    pub(super) changes: Counter,
    /// Snapshots before this one have keys that a copy of this machine may have.
    first_generation: u64,
    logged_at: Option<BootTime>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let uevents = Uevents::open()
            .inspect_err(|error| {
                tracing::warn!(%error, "the kernel does not tell of device events: a clone of this machine is noticed by its clocks alone");
            })
            .ok();
        Self {
            clocks: ClockWatch::new(clock::clocks()),
            uevents,
            changes: Counter::default(),
            first_generation: 0,
            logged_at: None,
        }
    }

    /// What becomes readable when the kernel tells something.
    pub(super) fn uevents(&self) -> Option<&Socket> {
        self.uevents.as_ref().map(|uevents| &uevents.socket)
    }

    /// With what workers compare their clocks.
    pub(super) fn wall_offset(&self) -> ClockOffset {
        self.clocks.wall_offset()
    }

    /// Why this machine may be a copy since the last time.
    fn change(&mut self) -> Option<GenerationChange> {
        let announced = self.uevents.as_mut().and_then(Uevents::read);
        // Both are brought up to date: one restore is one change.
        let jumped = self.clocks.check(clock::clocks());
        announced.or(jumped)
    }
}

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
        if generation < self.machine.first_generation {
            return Ok(());
        }
        self.begin_anew(change, clock)
    }

    /// Gives up all that a copy of this machine may have as well, and begins handshakes.
    fn begin_anew(&mut self, change: GenerationChange, clock: Clock) -> io::Result<()> {
        let seed = crate::device::random_seed().map_err(io::Error::other)?;
        // Responses that were made before have keys that are gone.
        self.outgoing.clear();
        self.machine.first_generation = self.shared.published.next_generation();
        self.handshaker.handle_new_generation(&seed, clock);
        self.is_dirty = true;
        self.carry_out();
        self.machine.changes.add(1);
        let is_logged = |at| !clock.now.has_passed(at, LOG_INTERVAL);
        if !self.machine.logged_at.is_some_and(is_logged) {
            self.machine.logged_at = Some(clock.now);
            tracing::warn!(
                "all WireGuard sessions begin anew, because {change}: a clone, a restored snapshot \
                 and a machine that slept may not use the keys of before"
            );
        }
        Ok(())
    }
}

/// What the kernel tells of devices.
struct Uevents {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Uevents {
    /// Needs no privilege. In a network namespace of an unprivileged user the kernel tells nothing.
    fn open() -> io::Result<Self> {
        Ok(Self {
            socket: Socket::open(Protocol::Uevents, KERNEL_GROUP)?,
            buffer: Vec::new(),
        })
    }

    /// Reads all that waits.
    fn read(&mut self) -> Option<GenerationChange> {
        let mut change = None;
        loop {
            match self.socket.receive(&mut self.buffer) {
                Ok(()) if announces_new_generation(&self.buffer) => {
                    change = Some(GenerationChange::Announced);
                }
                Ok(()) => {}
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => {
                    change = change.or(Some(GenerationChange::EventsLost));
                }
                // Nothing waits, or nothing ever will: clocks are still compared.
                Err(_) => return change,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_devices_can_be_heard_without_privilege() {
        let mut uevents = Uevents::open().unwrap();
        assert_eq!(uevents.read(), None);
    }
}
