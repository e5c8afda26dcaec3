//! The parts of the machine that a service goes on needing; all others are closed to it, whichever
//! user it is by then.
//!
//! [`confine`](crate::confine) takes rights; this takes powers that a user without rights still has: files that
//! are no business of the service (Landlock), and system calls that no part of it makes (seccomp). Both
//! bind a thread and what it starts, so this too comes before there is a second thread. It holds until
//! the process ends, over every set-up of the host in between. `docs/adr/0014-sandbox.md` has the reasons.

mod calls;
mod files;

use crate::HostError;
use crate::ResolverChoice;
use crate::resolver::Writes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The parts of the machine that a service goes on needing.
#[derive(Clone, Copy, Debug)]
pub struct SandboxNeeds<'a> {
    /// The directory of its own files. It is made if it is missing.
    pub state_dir: &'a Path,
    /// The directory of its log files. It is there.
    pub log_dir: Option<&'a Path>,
    /// The socket on which it answers. The directory is made if it is missing.
    pub socket: &'a Path,
    /// The way in which it changes the system's resolver, if it does.
    pub resolver: Option<ResolverChoice>,
    /// True if it makes cgroups.
    pub has_cgroups: bool,
}

/// The result of entering the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Files that are none of its business.
    pub files: Barrier,
    /// System calls that it never makes.
    pub system_calls: Barrier,
}

/// The state of a barrier around this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "why", rename_all = "snake_case")]
pub enum Barrier {
    /// It is.
    Closed,
    /// As far as this kernel can; why not all of it.
    Partly(String),
    /// It is not, and why.
    Open(String),
}

impl SandboxNeeds<'_> {
    /// True if the helper has to change `/etc/resolv.conf`.
    pub(crate) fn writes_resolv_conf(&self) -> bool {
        self.resolver_files().has_file
    }

    fn resolver_files(&self) -> Writes {
        let choice = self.resolver;
        choice.map_or_else(Writes::default, |choice| choice.writes(self.state_dir))
    }
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

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed"),
            Self::Partly(why) => write!(f, "closed in part ({why})"),
            Self::Open(why) => write!(f, "open ({why})"),
        }
    }
}
