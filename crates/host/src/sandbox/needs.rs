//! The needs of a service, which its sandbox leaves open.

use crate::ResolverChoice;
use crate::resolver::Writes;
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

impl SandboxNeeds<'_> {
    /// True if the helper has to change `/etc/resolv.conf`.
    pub(crate) fn writes_resolv_conf(&self) -> bool {
        self.resolver_files().has_file
    }

    pub(super) fn resolver_files(&self) -> Writes {
        let choice = self.resolver;
        choice.map_or_else(Writes::default, |choice| choice.writes(self.state_dir))
    }
}
