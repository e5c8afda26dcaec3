//! The parts of the machine that a service goes on needing; all others are closed to it, whichever
//! user it is by then.
//!
//! [`confine`](crate::confine) takes rights; this takes powers that a user without rights still has: files that
//! are no business of the service (Landlock), and system calls that no part of it makes (seccomp). Both
//! bind a thread and what it starts, so this too comes before there is a second thread. It holds until
//! the process ends, over every set-up of the host in between. `docs/adr/0014-sandbox.md` has the reasons.

mod barrier;
mod calls;
mod files;
mod needs;

pub use barrier::Barrier;
pub use needs::SandboxNeeds;

use crate::HostError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The result of entering the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Files that are none of its business.
    pub files: Barrier,
    /// System calls that it never makes.
    pub system_calls: Barrier,
}

/// Closes to the helper what it does not need. It never fails, as [`Sandbox::enter`].
pub(crate) fn enter_helper(may_write: bool) {
    let _files = files::close_helper(may_write);
    let _system_calls = calls::close();
}

impl Sandbox {
    /// Closes what `needs` does not name, for good. Must be called before there is a second thread, and
    /// after [`confine`](crate::confine), which has given up to gain rights.
    ///
    /// It never fails: where the kernel or the container does not offer it, nothing is closed, and the
    /// result says so.
    #[must_use]
    pub fn enter(needs: &SandboxNeeds<'_>) -> Self {
        // Files first: the filter of system calls could close the way to it.
        let files = files::close(needs);
        Self {
            files,
            system_calls: calls::close(),
        }
    }

    /// None, because the helper could not be started: without it, a service in a sandbox finds no name.
    #[must_use]
    pub fn without_helper(why: &HostError) -> Self {
        Self {
            files: Barrier::Open(why.to_string()),
            system_calls: calls::close(),
        }
    }

    /// None, because the administrator wants it so.
    #[must_use]
    pub fn unwanted() -> Self {
        let open = Barrier::Open("switched off by no_sandbox".to_owned());
        Self {
            files: open.clone(),
            system_calls: open,
        }
    }

    /// True if all of it is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.files == Barrier::Closed && self.system_calls == Barrier::Closed
    }

    /// Logs the parts that are closed.
    pub fn log(&self) {
        tracing::info!("sandbox: {self}");
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            files,
            system_calls,
        } = self;
        write!(f, "files {files}; system calls {system_calls}")
    }
}
