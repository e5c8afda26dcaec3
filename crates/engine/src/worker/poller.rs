//! Polls devices: those that are ready, and the sleep until one is.

use culvert_datapath::WorkerCounters;
use rustix::event::{Timespec, epoll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Events taken at once; what finds no place is told by the next call.
const MAX_EVENTS: usize = 32;

const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The devices that a worker waits for.
pub(super) struct Poller {
    epoll: OwnedFd,
    /// The result of the last call: the token of each device, and whether it has room to write.
    ready: Vec<(u64, bool)>,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(MAX_EVENTS),
        })
    }

    /// Watches a descriptor edge-triggered: it is reported when something arrives, not while something
    /// is there, so a device that is left alone for a while costs nothing.
    pub(super) fn add(&self, what: impl AsFd, token: u64) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        Ok(epoll::add(
            &self.epoll,
            what,
            epoll::EventData::new_u64(token),
            flags,
        )?)
    }

    /// Watches a descriptor that is watched already for room to write as well, or no longer.
    pub(super) fn watch_for_room(&self, what: impl AsFd, token: u64, on: bool) -> io::Result<()> {
        let mut flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        flags.set(epoll::EventFlags::OUT, on);
        Ok(epoll::modify(
            &self.epoll,
            what,
            epoll::EventData::new_u64(token),
            flags,
        )?)
    }

    /// Watches a descriptor no longer.
    pub(super) fn remove(&self, what: impl AsFd) {
        // The only failure is that it was not watched.
        let _not_watched = epoll::delete(&self.epoll, what);
    }

    /// Takes in which devices have become ready. If there is nothing else to do (`is_busy` is
    /// false), waits until one has, but not longer than `at_most`.
    ///
    /// # Errors
    /// Those of `epoll`.
    pub(super) fn wait(
        &mut self,
        is_busy: bool,
        at_most: Option<Duration>,
        counters: &WorkerCounters,
    ) -> io::Result<()> {
        if is_busy {
            return self.look();
        }
        counters.sleeps.add(1);
        let at_most = at_most.and_then(|time| Timespec::try_from(time).ok());
        self.poll(at_most.as_ref())
    }

    /// Takes in which devices have become ready by now.
    ///
    /// # Errors
    /// Those of `epoll`.
    pub(super) fn look(&mut self) -> io::Result<()> {
        self.poll(Some(&NO_WAIT))
    }

    fn poll(&mut self, timeout: Option<&Timespec>) -> io::Result<()> {
        self.ready.clear();
        let mut events = [const { MaybeUninit::uninit() }; MAX_EVENTS];
        let (events, _) = match epoll::wait(&self.epoll, &mut events, timeout) {
            Ok(events) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.ready.extend(events.iter().map(|event| {
            let flags = event.flags;
            (event.data.u64(), flags.contains(epoll::EventFlags::OUT))
        }));
        Ok(())
    }

    /// The result of [`Self::wait`]: the token of each device, and whether it has room to write.
    pub(super) fn ready(&self) -> impl Iterator<Item = (u64, bool)> {
        self.ready.iter().copied()
    }
}
