//! Calls that tell of a packet: nothing before it came, and something after.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use culvert_tun::Queue;
use nix::sys::select::{FdSet, select};
use nix::sys::time::{TimeVal, TimeValLike};
use rustix::event::{PollFd, PollFlags, Timespec, epoll};

use super::outcome::Outcome;

/// The longest that a call which waits is given.
const WAIT: Duration = Duration::from_secs(1);

type Feed<'feed> = &'feed dyn Fn() -> io::Result<()>;
type Attempt = fn(&Queue, Feed<'_>) -> io::Result<Outcome>;

pub(super) const ATTEMPTS: [(&str, Attempt); 5] = [
    ("select", |queue, feed| {
        told(feed, |is_to_come| {
            let mut readable = FdSet::new();
            readable.insert(queue.as_fd());
            let mut timeout = TimeVal::milliseconds(time_limit(is_to_come).as_millis() as i64);
            let ready = select(None, &mut readable, None, None, &mut timeout)?;
            Ok(ready.unsigned_abs() as usize)
        })
    }),
    ("poll", |queue, feed| {
        told(feed, |is_to_come| {
            let mut both = [PollFd::new(queue, PollFlags::IN)];
            let timeout = Timespec {
                tv_sec: time_limit(is_to_come).as_secs() as i64,
                tv_nsec: 0,
            };
            Ok(rustix::event::poll(&mut both, Some(&timeout))?)
        })
    }),
    ("epoll, level-triggered", |queue, feed| {
        by_epoll(queue, feed, epoll::EventFlags::IN)
    }),
    ("epoll, edge-triggered", |queue, feed| {
        by_epoll(queue, feed, epoll::EventFlags::IN | epoll::EventFlags::ET)
    }),
    ("ioctl FIONREAD", |queue, feed| {
        told(feed, |_| {
            let bytes = rustix::io::ioctl_fionread(queue)?;
            Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
        })
    }),
];

fn time_limit(is_to_come: bool) -> Duration {
    match is_to_come {
        true => WAIT,
        false => Duration::ZERO,
    }
}

fn by_epoll(queue: &Queue, feed: Feed<'_>, flags: epoll::EventFlags) -> io::Result<Outcome> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    if let Err(error) = epoll::add(&set, queue, epoll::EventData::new_u64(0), flags) {
        return Ok(Outcome::of(Err::<usize, _>(error), None));
    }
    told(feed, |is_to_come| {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 1];
        let timeout = Timespec {
            tv_sec: time_limit(is_to_come).as_secs() as i64,
            tv_nsec: 0,
        };
        let (ready, _) = epoll::wait(&set, &mut events, Some(&timeout))?;
        Ok(ready.len())
    })
}

/// `ask` tells how much is ready; it may wait where something is to come.
fn told(feed: Feed<'_>, ask: impl Fn(bool) -> io::Result<usize>) -> io::Result<Outcome> {
    let before = ask(false);
    feed()?;
    let after = ask(true);
    Ok(match (before, after) {
        (Ok(0), Ok(ready)) if ready > 0 => Outcome::Works,
        (Ok(before), Ok(after)) => Outcome::Fails(format!("{before} before, {after} after")),
        (Err(error), _) | (_, Err(error)) => Outcome::of(Err::<usize, _>(error), None),
    })
}
