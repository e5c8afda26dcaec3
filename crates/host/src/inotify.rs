//! Changes of files and directories, heard at once (inotify(7)).

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use tokio::io::unix::AsyncFd;

/// Room for many events; what does not fit is read by the next turn.
const RECEIVE_BYTES: usize = 4096;

/// A queue of events.
#[derive(Debug)]
pub(crate) struct Inotify(AsyncFd<OwnedFd>);

impl Inotify {
    /// Watches nothing yet. Must be called in a tokio runtime.
    pub(crate) fn open() -> io::Result<Self> {
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        register(events).map(Self)
    }

    /// Adds watches; present ones stay.
    pub(crate) fn watch(&self, path: &Path, what: WatchFlags) -> rustix::io::Result<()> {
        add_watch(self.0.get_ref(), path, what).map(drop)
    }

    /// Waits until something has happened to one of the files that `concerns` names; what is watched itself has no name.
    ///
    /// Dropping the future loses nothing.
    pub(crate) async fn heard(&self, concerns: impl Fn(Option<&CStr>) -> bool) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let has_happened = self.drain(&concerns)?;
            ready.clear_ready();
            if has_happened {
                return Ok(());
            }
        }
    }

    /// Reads everything that waits. If events were lost, anything may have happened.
    fn drain(&self, concerns: impl Fn(Option<&CStr>) -> bool) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::uninit(); RECEIVE_BYTES];
        let mut reader = Reader::new(self.0.get_ref(), &mut buffer);
        let mut has_happened = false;
        loop {
            match reader.next() {
                Ok(event) => has_happened |= concerns(event.file_name()),
                Err(Errno::AGAIN) => return Ok(has_happened),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "what took its place is unsafe, for types whose descriptor may change; this one's never does"
)]
fn register(events: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(events)
}
