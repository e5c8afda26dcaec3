//! Hearing at once that cgroups of applications were removed or made, as systemd does with a slice
//! when its last service ends and when the next one starts.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::fs::inotify::{CreateFlags, Reader, WatchFlags, add_watch, init};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;

use crate::{ApplicationCgroups, HostError};

/// Room for many events; what does not fit is read by the next turn.
const RECEIVE_BYTES: usize = 4096;

/// Watches where the cgroups of applications are.
#[derive(Debug)]
pub struct CgroupWatch {
    events: AsyncFd<OwnedFd>,
    cgroups: ApplicationCgroups,
}

impl CgroupWatch {
    /// Begins to listen. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`HostError::NoApplications`] where there are no cgroups, and the system's.
    pub fn open() -> Result<Self, HostError> {
        let cgroups = ApplicationCgroups::find()?;
        let failed = |error| HostError::system("listen for changes of cgroups", error);
        let events = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(register)
            .map_err(failed)?;
        let watch = Self { events, cgroups };
        watch.renew().map_err(failed)?;
        Ok(watch)
    }

    /// Waits until cgroups were made or removed beside those of applications, or are those themselves.
    ///
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The system's; the watch is of no more use then.
    pub async fn changed(&mut self) -> Result<(), HostError> {
        let heard = async {
            let mut ready = self.events.readable().await?;
            drain(self.events.get_ref())?;
            ready.clear_ready();
            Ok(())
        };
        heard
            .await
            .and_then(|()| self.renew())
            .map_err(|error| HostError::system("listen for changes of cgroups", error))
    }

    /// Watches the tree anew, which may be another one of that name; what is watched already stays so.
    fn renew(&self) -> io::Result<()> {
        let changes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let [root, tree] = self.cgroups.watched();
        add_watch(self.events.get_ref(), root, changes)?;
        match add_watch(self.events.get_ref(), tree, changes) {
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
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

/// Reads everything that waits.
fn drain(events: &OwnedFd) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); RECEIVE_BYTES];
    let mut reader = Reader::new(events, &mut buffer);
    loop {
        match reader.next() {
            Ok(_) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
