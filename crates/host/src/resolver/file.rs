//! `/etc/resolv.conf` as a plain file: the earlier text is kept in the state directory, and put back.
//!
//! The file is exchanged if it can be, so that a reader finds one or the other; its mode stays. It
//! is overwritten if it is mounted by itself, as in containers, lies in a directory that may not be
//! written, or is not root's. That takes one write as long as the longer of the two texts, which a
//! killed process has made or not, and then a cut. The cut removes only line ends, so a crash
//! before it does no harm. The backup is written first and goes last, so a crash anywhere leaves a
//! file that the next start knows how to undo.

use super::resolv_conf::{ResolvConf, edited, had_none_before, has_header, is_ours, ours};
use super::wanted::ResolverWanted;
use crate::inotify::Inotify;
use crate::system_helper::SystemFile;
use crate::system_helper::access::SystemAccess;
use crate::{HostError, InterfaceName, StateDir};
use culvert_policy::DomainName;
use rustix::fs::inotify::WatchFlags;
use rustix::fs::{Access, AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// The interval at which the file is checked if no change is reported. A program that renews a DHCP
/// lease may write it, and names of resources should not be asked elsewhere for longer than a
/// resolver waits for an answer.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The backup in the state directory: there it can be written wherever the file itself can, and
/// belongs to one client.
pub(super) const BACKUP: &str = "resolv.conf.before";

/// The longest file, before and after: a page, so that no signal tears the write of it. The longest
/// that tools write, with half a page of comments, has 1 KiB.
const MAX_BYTES: usize = 4096;

/// Maximum number of attempts to take the file while others write it. A write by another program
/// during the last attempt is lost.
const TAKES_MAX: usize = 4;

/// The user and the group that a file of the system has.
const ROOT: (u32, u32) = (0, 0);

/// The file and who it is exchanged for.
#[derive(Debug)]
pub(super) struct FileControl {
    path: PathBuf,
    access: SystemAccess,
    /// The text that was written last.
    written: Option<Written>,
    changes: Changes,
}

/// The budget for changes by others: at most [`CHANGES_BURST`] in a row, and one in
/// [`CHANGE_EVERY`] after that, are undone at once. Others wait for their turn: a program that
/// undoes each change of ours at once as well would keep both busy for ever.
#[derive(Debug, Default)]
struct Changes {
    /// Those that are still counted, and since when fewer are.
    counted: u32,
    since: Option<Instant>,
}

/// Each of some interfaces that get a lease at once writes the file twice.
const CHANGES_BURST: u32 = 10;

/// A DHCP client that writes the file every three seconds is undone at once each time.
const CHANGE_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Written {
    server: IpAddr,
    search: Vec<DomainName>,
    text: String,
    upstreams: Vec<SocketAddr>,
}

/// One thing that either happens or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    WriteBackup(Vec<u8>),
    /// The file becomes another one.
    Exchange(Vec<u8>),
    /// The bytes take the place of as many from the beginning.
    Overwrite(Vec<u8>),
    Cut(u64),
    Remove,
    DropBackup,
}

impl FileControl {
    pub(super) fn new(path: PathBuf, access: SystemAccess) -> Self {
        Self {
            path,
            access,
            written: None,
            changes: Changes::default(),
        }
    }

    /// Checks that this way can be taken at all.
    pub(super) fn check(&self) -> Result<(), HostError> {
        self.read().map(drop)
    }

    /// Makes the file name `wanted.server`. `tell` hears who is to answer other names before anybody asks.
    pub(super) fn apply(
        &mut self,
        wanted: &ResolverWanted,
        state: &StateDir,
        tell: impl FnOnce(&[SocketAddr]),
    ) -> Result<(), HostError> {
        let ResolverWanted { server, search, .. } = wanted;
        if let Some(written) = &self.written
            && written.server == *server
            && written.search == *search
            && self.is_in_force()
        {
            tell(&written.upstreams);
            return Ok(());
        }
        self.restore(state)?;
        let mut before = self.read()?;
        for _ in 0..TAKES_MAX {
            let text = ours(before.as_deref(), *server, search);
            if text.len() > MAX_BYTES {
                return Err(self.too_long());
            }
            let known = String::from_utf8_lossy(before.as_deref().unwrap_or_default()).into_owned();
            let upstreams = ResolvConf::parse(&known).upstreams(InterfaceName::index_of);
            let mut replaced = None;
            for step in self.plan_taking(before.as_deref(), &text) {
                replaced = self.take(&step, state)?.or(replaced);
            }
            self.written = Some(Written {
                server: *server,
                search: search.clone(),
                text,
                upstreams,
            });
            // Another program may have written it in the meantime: that is the file from before.
            match replaced.filter(|it| before.as_deref() != Some(it.as_slice()) && !is_ours(it)) {
                None => break,
                Some(newer) => before = Some(newer),
            }
        }
        if let Some(written) = &self.written {
            tell(&written.upstreams);
        }
        Ok(())
    }

    /// Returns once somebody has changed the written text.
    pub(super) async fn changed(&mut self) {
        let watch = match self.watch() {
            Ok(watch) => Some(watch),
            Err(error) => {
                let path = self.path.display();
                tracing::debug!(%error, "changes of {path} are looked for every few seconds");
                None
            }
        };
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        let is_it = |changed: Option<&CStr>| changed.is_none_or(|it| it.to_bytes() == name);
        while self.is_in_force() {
            let heard = async {
                match &watch {
                    Some(watch) => watch.heard(is_it).await,
                    None => std::future::pending().await,
                }
            };
            // The file decides, whatever the watch has reported.
            let _heard = timeout(CHECK_EVERY, heard).await;
        }
        sleep(self.changes.pause(Instant::now())).await;
    }

    /// Watches the directory, where files take each other's place, and the file itself, which may be mounted by itself.
    /// Programs are heard when they have written to the end.
    fn watch(&self) -> std::io::Result<Inotify> {
        let watch = Inotify::open()?;
        let ended = WatchFlags::CLOSE_WRITE | WatchFlags::DELETE | WatchFlags::MOVED_TO;
        watch.watch(
            self.directory(),
            ended | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR,
        )?;
        let own = WatchFlags::CLOSE_WRITE | WatchFlags::DONT_FOLLOW;
        match watch.watch(&self.path, own) {
            Ok(()) | Err(Errno::NOENT) => Ok(watch),
            Err(error) => Err(error.into()),
        }
    }

    /// True if the file still has the text that was written last.
    pub(super) fn is_in_force(&self) -> bool {
        let written = self.written.as_ref().map(|it| it.text.as_bytes());
        written.is_some() && matches!(self.read(), Ok(now) if now.as_deref() == written)
    }

    /// Puts the earlier text back. Text that others have written since stays.
    pub(super) fn restore(&mut self, state: &StateDir) -> Result<(), HostError> {
        let written = self.written.take();
        // A crash may have left it behind.
        let _left = self.access.remove_unfinished();
        let now = match self.read() {
            Ok(now) => now,
            // Another program has put a link, or something else, in the place of ours.
            Err(HostError::ResolvConfLink { .. } | HostError::ResolvConfTooLong { .. }) => None,
            Err(error) => return Err(error),
        };
        self.restore_from(now, state, written.as_ref())
    }

    /// As [`Self::restore`], where the file said `now` a moment ago.
    fn restore_from(
        &self,
        now: Option<Vec<u8>>,
        state: &StateDir,
        written: Option<&Written>,
    ) -> Result<(), HostError> {
        let backup = state.read_at_most(MAX_BYTES, BACKUP)?;
        let backup = backup.as_ref().map(crate::SecretBytes::expose);
        if backup.is_none() && now.as_deref().is_some_and(is_ours) {
            return Err(HostError::ResolvConfOfAnother {
                path: self.path.clone(),
                state: state.path().to_owned(),
            });
        }
        let steps = self.plan_restoring(now.as_deref(), backup, written);
        let mut said = now;
        for step in steps {
            let mut replaced = self.take(&step, state)?;
            if let Step::Exchange(mut content) = step {
                for _ in 1..TAKES_MAX {
                    // Another program may have written it in the meantime.
                    let Some(newer) = replaced.filter(|it| said.as_ref() != Some(it)) else {
                        break;
                    };
                    said = Some(content);
                    content = match edited_since(&newer, backup, written) {
                        Some(theirs) => theirs,
                        None if is_ours(&newer) => backup.unwrap_or_default().to_vec(),
                        None => newer,
                    };
                    replaced = self.take(&Step::Exchange(content.clone()), state)?;
                }
            }
        }
        Ok(())
    }

    fn plan_restoring(
        &self,
        now: Option<&[u8]>,
        backup: Option<&[u8]>,
        written: Option<&Written>,
    ) -> Vec<Step> {
        let theirs = now.and_then(|now| edited_since(now, backup, written));
        let mut steps = match (now, backup) {
            // Another program has edited the written text.
            (Some(now), Some(_)) if theirs.is_some() => {
                self.plan_writing(Some(now), &theirs.unwrap_or_default())
            }
            (_, None) => return Vec::new(),
            (Some(now), Some(_)) if had_none_before(now) && !self.is_overwritten() => {
                vec![Step::Remove]
            }
            (Some(now), Some(backup)) if is_ours(now) => self.plan_writing(Some(now), backup),
            (Some(now), Some(backup)) if is_uncut(now, backup) => {
                vec![Step::Cut(backup.len() as u64)]
            }
            (_, Some(_)) => Vec::new(),
        };
        steps.push(Step::DropBackup);
        steps
    }

    fn plan_taking(&self, before: Option<&[u8]>, text: &str) -> Vec<Step> {
        let mut steps = vec![Step::WriteBackup(before.unwrap_or_default().to_vec())];
        steps.extend(self.plan_writing(before, text.as_bytes()));
        steps
    }

    fn plan_writing(&self, before: Option<&[u8]>, content: &[u8]) -> Vec<Step> {
        match (before, self.is_overwritten()) {
            (Some(before), true) => plan_overwriting(before, content),
            _ => vec![Step::Exchange(content.to_vec())],
        }
    }

    /// True if the file can't be exchanged for another: it is mounted by itself, nothing may be made beside it, or it
    /// belongs to another user or group, whose another file would not be.
    fn is_overwritten(&self) -> bool {
        let (flags, wanted) = (
            AtFlags::SYMLINK_NOFOLLOW,
            StatxFlags::TYPE | StatxFlags::UID | StatxFlags::GID,
        );
        let found = rustix::fs::statx(CWD, &self.path, flags, wanted);
        let own = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let is_stored = found.is_ok_and(|found| {
            let owner = (found.stx_uid, found.stx_gid);
            let is_mounted = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
            is_mounted || (owner != ROOT && owner != own)
        });
        is_stored || rustix::fs::access(self.directory(), Access::WRITE_OK).is_err()
    }

    /// Returns the content of the file that gave way to another.
    fn take(&self, step: &Step, state: &StateDir) -> Result<Option<Vec<u8>>, HostError> {
        let failed = |source| HostError::ResolvConfNotWritten {
            path: self.path.clone(),
            source,
        };
        let done = match step {
            Step::WriteBackup(content) => return state.write(BACKUP, content).map(|()| None),
            Step::DropBackup => return state.remove(BACKUP).map(|()| None),
            Step::Exchange(content) => {
                return self.access.exchange_resolv_conf(content).map_err(failed);
            }
            Step::Overwrite(content) => self.access.open_resolv_conf().and_then(|mut file| {
                file.write_all(content)?;
                file.sync_all()
            }),
            Step::Cut(length) => self.access.open_resolv_conf().and_then(|file| {
                file.set_len(*length)?;
                file.sync_all()
            }),
            Step::Remove => self.access.remove_resolv_conf(),
        };
        done.map(|()| None).map_err(failed)
    }

    /// The text of the file; `None` if there is none.
    fn read(&self) -> Result<Option<Vec<u8>>, HostError> {
        let file = match self.access.open(SystemFile::ResolvConfUnlinked) {
            Ok(file) => file,
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT) => return Ok(None),
                Some(Errno::LOOP) => return Err(self.is_a_link()),
                _ => return Err(HostError::file("read", &self.path, error)),
            },
        };
        let mut content = Vec::new();
        let read = file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content);
        read.map_err(|error| HostError::file("read", &self.path, error))?;
        match content.len() > MAX_BYTES {
            true => Err(self.too_long()),
            false => Ok(Some(content)),
        }
    }

    fn is_a_link(&self) -> HostError {
        HostError::ResolvConfLink {
            path: self.path.clone(),
            target: std::fs::read_link(&self.path).unwrap_or_default(),
        }
    }

    fn too_long(&self) -> HostError {
        HostError::ResolvConfTooLong {
            path: self.path.clone(),
            max_bytes: MAX_BYTES,
        }
    }

    fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

impl Changes {
    /// Counts a change; how long its undoing waits.
    fn pause(&mut self, now: Instant) -> Duration {
        let since = *self.since.get_or_insert(now);
        let passed = (now - since).as_millis() / CHANGE_EVERY.as_millis();
        let passed = u32::try_from(passed).unwrap_or(u32::MAX);
        self.since = Some(since + CHANGE_EVERY * passed);
        self.counted = self.counted.saturating_sub(passed);
        if self.counted == 0 {
            self.since = Some(now);
        }
        self.counted += 1;
        CHANGE_EVERY * self.counted.saturating_sub(CHANGES_BURST)
    }
}

/// The rest of a longer old text is cut off; until then it is empty lines.
fn plan_overwriting(before: &[u8], content: &[u8]) -> Vec<Step> {
    let mut padded = content.to_vec();
    padded.resize(content.len().max(before.len()), b'\n');
    vec![Step::Overwrite(padded), Step::Cut(content.len() as u64)]
}

/// The file as it is to be, if another program has edited what was `written`.
fn edited_since(now: &[u8], backup: Option<&[u8]>, written: Option<&Written>) -> Option<Vec<u8>> {
    let (backup, written) = (backup?, written?);
    match has_header(now) {
        true => edited(now, &written.text, backup),
        false => None,
    }
}

/// True if this is the backup, written back but not yet cut.
fn is_uncut(now: &[u8], backup: &[u8]) -> bool {
    now.strip_prefix(backup)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == b'\n'))
}

#[cfg(test)]
mod tests;
