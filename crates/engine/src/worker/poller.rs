//! Which devices are ready, and whether to sleep until one is.

use crate::clock;
use crate::counters::WorkerCounters;
use culvert_session::Time;
use rustix::event::{Timespec, epoll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How long a worker looks again and again before it sleeps, while packets follow each other closely.
///
/// To wake a sleeping thread on another core takes tens of microseconds, longer than the next packet
/// of a busy flow: two ends that each sleep until the other has sent spend a quarter of the time
/// asleep. What it is worth: docs/performance.md, row *looking*.
const LOOK_FOR: Duration = Duration::from_micros(25);

/// A sleep that ended sooner than this would better have been a look.
const SHORT_SLEEP: Duration = Duration::from_micros(50);

/// Events taken at once; what finds no place is told by the next call.
const MAX_EVENTS: usize = 32;

const NO_WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// The devices that a worker waits for.
pub(super) struct Poller {
    epoll: OwnedFd,
    /// What the last call took in: the token of each device, and whether it has room to write.
    ready: Vec<(u64, bool)>,
    /// The last sleep was short, or the last look found something.
    is_watchful: bool,
}

impl Poller {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ready: Vec::with_capacity(MAX_EVENTS),
            is_watchful: false,
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

    /// Takes in which devices have become ready. Where there is nothing else to do (`is_busy` is
    /// false), waits until one has; `may_look` is whether to look for a while before sleeping.
    ///
    /// # Errors
    /// Those of `epoll`.
    pub(super) fn wait(
        &mut self,
        is_busy: bool,
        may_look: bool,
        counters: &WorkerCounters,
    ) -> io::Result<()> {
        if is_busy {
            return self.poll(Some(&NO_WAIT));
        }
        let began = clock::now();
        if self.is_watchful && may_look {
            self.look(began)?;
            if !self.ready.is_empty() {
                return Ok(());
            }
        }
        counters.sleeps.add(1);
        self.poll(None)?;
        self.is_watchful = clock::now().saturating_since(began) < SHORT_SLEEP;
        Ok(())
    }

    fn look(&mut self, began: Time) -> io::Result<()> {
        while clock::now().saturating_since(began) < LOOK_FOR {
            self.poll(Some(&NO_WAIT))?;
            if !self.ready.is_empty() {
                break;
            }
            std::hint::spin_loop();
        }
        Ok(())
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

    /// What [`Self::wait`] took in: the token of each device, and whether it has room to write.
    pub(super) fn ready(&self) -> impl Iterator<Item = (u64, bool)> {
        self.ready.iter().copied()
    }
}
