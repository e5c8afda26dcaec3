//! Hearing at once that cgroups of applications were removed or made, as systemd does with a slice
//! when its last service ends and when the next one starts.

use std::io;

use rustix::fs::inotify::WatchFlags;
use rustix::io::Errno;

use crate::inotify::Inotify;
use crate::{ApplicationCgroups, HostError};

/// Watches where the cgroups of applications are.
#[derive(Debug)]
pub struct CgroupWatch {
    events: Inotify,
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
        let events = Inotify::open().map_err(failed)?;
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
        let heard = self.events.heard(|_| true).await;
        heard
            .and_then(|()| self.renew())
            .map_err(|error| HostError::system("listen for changes of cgroups", error))
    }

    /// Watches the tree anew, which may be another one of that name; present watches stay.
    fn renew(&self) -> io::Result<()> {
        let changes = WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::ONLYDIR;
        let [root, tree] = self.cgroups.watched();
        self.events.watch(&root, changes)?;
        match self.events.watch(&tree, changes) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
