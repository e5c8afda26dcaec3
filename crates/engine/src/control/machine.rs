//! Noticing that this machine may be a copy: a clone, a restored snapshot, a machine that slept.
//! [`culvert_session::GenerationChange`] has the signs.

use crate::clock;
use culvert_base::BootTime;
use culvert_datapath::Counter;
use culvert_netlink::{Protocol, Socket};
use culvert_session::{ClockOffset, ClockWatch, GenerationChange, announces_new_generation};
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
    /// The number of times that all sessions began anew.
    changes: Counter,
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

    /// A socket that is readable when the kernel tells something.
    pub(super) fn uevents(&self) -> Option<&Socket> {
        self.uevents.as_ref().map(|uevents| &uevents.socket)
    }

    /// With what workers compare their clocks.
    pub(super) fn wall_offset(&self) -> ClockOffset {
        self.clocks.wall_offset()
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.read()
    }

    /// True if a copy that was noticed under snapshot `generation` is known by now.
    pub(super) const fn is_known(&self, generation: u64) -> bool {
        generation < self.first_generation
    }

    /// All sessions begin anew with snapshot `generation`.
    pub(super) const fn begin_generation(&mut self, generation: u64) {
        self.first_generation = generation;
    }

    /// Counts a change, and logs it unless another was logged within [`LOG_INTERVAL`].
    pub(super) fn note(&mut self, change: GenerationChange, now: BootTime) {
        self.changes.add(1);
        let is_logged = |at| !now.has_passed(at, LOG_INTERVAL);
        if !self.logged_at.is_some_and(is_logged) {
            self.logged_at = Some(now);
            tracing::warn!(
                "all WireGuard sessions begin anew, because {change}: a clone, a restored snapshot \
                 and a machine that slept may not use the keys of before"
            );
        }
    }

    /// The reason for which this machine may be a copy since the last time.
    pub(super) fn change(&mut self) -> Option<GenerationChange> {
        let announced = self.uevents.as_mut().and_then(Uevents::read);
        // Both are brought up to date: one restore is one change.
        let jumped = self.clocks.check(clock::clocks());
        announced.or(jumped)
    }
}

/// The kernel's events about devices.
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
